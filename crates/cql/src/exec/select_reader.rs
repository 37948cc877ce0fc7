//! Rows that satisfy a `SELECT`, and the limits of its result.

use carnet::{CellKey, Tx};
use carnet_base::{Bytes, TimeSlice};

use super::answer_memory::{AnswerMemory, of_table};
use super::index_scan::IndexScan;
use super::merge::Source;
use super::paging::{self, PagingState};
use super::parameters::Parameters;
use super::row;
use super::stored_row::{LentRow, PlainImage, StoredRow};
use super::system_rows::{Columns, SystemRows};
use crate::access::Partitions;
use crate::compile::{self, Environment, RowFilter, SelectPlan};
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// Maximum bytes of a page, whatever its number of rows.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a result without paging.
const UNPAGED_BYTES_MAX: usize = 64 << 20;
/// Bytes of a row above which its memory is charged before the row is made.
pub(super) const ROW_BYTES: usize = 1 << 20;

/// Limits of the result of one request.
#[derive(Clone, Copy)]
pub(super) struct PageBounds {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) is_paged: bool,
}

impl PageBounds {
    pub(super) const UNPAGED: Self =
        Self { rows: usize::MAX, bytes: UNPAGED_BYTES_MAX, is_paged: false };

    pub(super) fn new(parameters: &Parameters) -> Self {
        match parameters.page_rows {
            Some(rows) => Self { rows: rows.max(1), bytes: PAGE_BYTES_MAX, is_paged: true },
            None => Self::UNPAGED,
        }
    }
}

/// Returns the error of a result without pages that is too large.
pub(super) fn too_large() -> CqlError {
    CqlError::invalid(format!(
        "the result is larger than {UNPAGED_BYTES_MAX} bytes; ask for it in pages, or restrict it \
         with WHERE or LIMIT"
    ))
}

/// Place of a row among those of a `SELECT`: all that a page needs to resume after it.
///
/// It is taken when the row is returned. The reader may be at a later row by then: the state of a page
/// must not mix the two.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) row: CellKey,
    /// Index entry that led to the row.
    entry: Option<CellKey>,
    /// Number of rows that the `LIMIT` still allows after it.
    remaining: Option<u32>,
    /// Number of rows returned from its partition, with it.
    in_partition: u32,
}

/// Reads the rows that satisfy a `SELECT`, within its limits.
pub(super) struct SelectReader<'a> {
    source: Source<'a>,
    plan: &'a SelectPlan,
    filters: Vec<RowFilter>,
    snapshot: carnet::Timestamp,
    /// Number of rows that the `LIMIT` still allows.
    pub(super) remaining: Option<u32>,
    per_partition: Option<u32>,
    last: Option<CellKey>,
    in_partition: u32,
    memory: Option<&'a AnswerMemory>,
    steps: &'a Steps<'a>,
    slice: Option<TimeSlice<'a>>,
}

impl<'a> SelectReader<'a> {
    pub(super) async fn new(
        tx: &'a Tx,
        plan: &'a SelectPlan,
        environment: &Environment<'a>,
        state: Option<&PagingState>,
        memory: Option<&'a AnswerMemory>,
        system: Option<Vec<Columns>>,
    ) -> Result<Self, CqlError> {
        let access = plan.filter.access(&plan.table, plan.order.reverse, environment)?;
        let limit = compile::limit_value(plan.limit.as_ref(), environment)?;
        // An aggregate covers all rows, a group all of its own, and the nearest rows are among all of
        // them; limits apply to the rows returned.
        let is_aggregated = plan.aggregates || plan.group.is_some() || plan.near.is_some();
        let per_partition = match plan.distinct {
            true => Some(1),
            false if is_aggregated => None,
            false => compile::limit_value(plan.per_partition_limit.as_ref(), environment)?,
        };
        let last =
            state.map(|state| CellKey::new(plan.table.id, &state.partition, &state.clustering));
        if let (Some(state), Partitions::Keys(keys)) = (state, &access.partitions)
            && !keys.contains(&state.partition)
        {
            return Err(paging::invalid("it belongs to a statement on other partitions"));
        }
        let filters = plan.filter.filters.iter();
        let filters = filters.map(|filter| RowFilter::new(&plan.table, filter, environment));
        let filters = filters.collect::<Result<Vec<_>, _>>()?;
        let is_filtered = !filters.is_empty();
        let behind = last.as_ref();
        let source = match (&plan.index, system) {
            (_, Some(rows)) => {
                let rows = SystemRows::new(&plan.table, rows, &access, plan.order, behind)?;
                Source::System(Box::new(rows))
            }
            (Some(index), None) => {
                let entries = index.access(&plan.table, &access, environment)?;
                let entry = state.and_then(|state| state.entry.clone());
                let behind = behind.zip(entry.as_ref());
                let scan = IndexScan::new(tx, &plan.table, access, entries, is_filtered, behind);
                Source::Index(Box::new(Box::pin(scan).await?))
            }
            (None, None) => {
                let given = (&*plan.table, memory);
                Source::new(tx, given, access, plan.order, is_filtered, behind).await?
            }
        };
        Ok(Self {
            source,
            plan,
            filters,
            snapshot: tx.read_timestamp(),
            remaining: match is_aggregated {
                true => None,
                false => state.map_or(limit, |state| state.remaining),
            },
            per_partition,
            last,
            in_partition: state.map_or(0, |state| state.in_partition),
            memory,
            steps: environment.steps,
            slice: tx.time_slice(),
        })
    }

    /// Charges memory for `bytes` bytes of result rows, and for the fetched cells.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), CqlError> {
        self.memory.map_or(Ok(()), |memory| memory.grow_to(bytes, self.source.held_bytes()))
    }

    /// Charges memory for a row of `row` bytes, if it is long, before it is copied to a result of
    /// `rows` bytes.
    pub(super) fn charge_row(&self, rows: usize, row: usize) -> Result<(), CqlError> {
        match self.memory {
            Some(memory) if row > ROW_BYTES => {
                memory.grow_by_row(rows, row).map_err(|error| of_table(&self.plan.table, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the next row that satisfies the statement. The caller can use `wanted` rows,
    /// including this one.
    pub(super) async fn next(
        &mut self,
        wanted: usize,
    ) -> Result<Option<(StoredRow, Vec<Option<Bytes>>)>, CqlError> {
        let Some(wanted) = self.begin_row(wanted) else { return Ok(None) };
        while let Some(stored) = self.source.next(wanted).await? {
            let columns = match &mut self.source {
                Source::System(rows) => rows.take_columns(),
                _ => row::columns(&self.plan.table, &stored)?,
            };
            self.pace().await?;
            if self.filters.is_empty() || Box::pin(self.satisfies(&columns)).await? {
                self.end_row(&stored)?;
                return Ok(Some((stored, columns)));
            }
        }
        Ok(None)
    }

    /// Like [`SelectReader::next`], for a statement without filters whose result copies columns.
    pub(super) async fn next_plain(
        &mut self,
        wanted: usize,
    ) -> Result<Option<StoredRow<PlainImage>>, CqlError> {
        let Some(wanted) = self.begin_row(wanted) else { return Ok(None) };
        let Some(stored) = self.source.next(wanted).await? else { return Ok(None) };
        self.end_row(&stored)?;
        Ok(Some(stored))
    }

    /// Lends the rows that follow the last row and are in memory to `take`, as long as it returns `true`.
    /// Returns the key of the last of them.
    pub(super) fn lend(
        &mut self,
        wanted: usize,
        mut take: impl FnMut(&LentRow<'_>) -> bool,
    ) -> Result<Option<CellKey>, CqlError> {
        let Source::Scan(scan) = &mut self.source else { return Ok(None) };
        if self.per_partition.is_some() {
            return Ok(None);
        }
        // The last row that a limit allows also ends the scan.
        let rows_max =
            self.remaining.map_or(wanted, |left| wanted.min(left.saturating_sub(1) as usize));
        let mut rows = 0;
        let last = scan.lend(rows_max, |row| {
            rows += 1;
            take(row)
        })?;
        if last.is_some() {
            self.last.clone_from(&last);
            self.remaining = self.remaining.map(|remaining| remaining - rows);
        }
        Ok(last)
    }

    /// Returns the number of rows that can be used; `None` if the limit is reached.
    fn begin_row(&mut self, wanted: usize) -> Option<usize> {
        if self.remaining == Some(0) {
            return None;
        }
        if let Some(last) = self.last.as_ref().filter(|_| self.is_partition_full()) {
            self.source.skip_partition(last);
        }
        Some(self.remaining.map_or(wanted, |remaining| wanted.min(remaining as usize)))
    }

    /// Counts a row that is returned.
    fn end_row<I>(&mut self, stored: &StoredRow<I>) -> Result<(), CqlError> {
        self.in_partition = self.count_in_partition(&stored.key);
        self.last = Some(stored.key.clone());
        self.remaining = self.remaining.map(|remaining| remaining - 1);
        if self.remaining == Some(0) {
            self.source.stop(stored)?;
        }
        Ok(())
    }

    /// Continues behind the partition of the last row.
    pub(super) fn skip_partition(&mut self) {
        if let Some(last) = &self.last {
            self.source.skip_partition(last);
        }
    }

    /// Ends the read with the last row.
    pub(super) fn stop(&mut self, last: &StoredRow) -> Result<(), CqlError> {
        Ok(self.source.stop(last)?)
    }

    /// Returns `true` if the rows of several partitions are merged in one order.
    pub(super) const fn is_merged(&self) -> bool {
        match &self.source {
            Source::Merge(_) => true,
            Source::System(rows) => rows.is_merged(),
            Source::Scan(_) | Source::Index(_) => false,
        }
    }

    /// Returns the number of rows returned from the partition of `row`, including `row`.
    fn count_in_partition(&mut self, row: &CellKey) -> u32 {
        let merged = match &mut self.source {
            Source::Merge(merge) => Some(merge.count_row()),
            Source::System(rows) => rows.count_row(row),
            Source::Scan(_) | Source::Index(_) => None,
        };
        merged.unwrap_or_else(|| {
            let same = self.last.as_ref().is_some_and(|last| last.same_partition(row));
            if same { self.in_partition.saturating_add(1) } else { 1 }
        })
    }

    /// Returns `true` if the partition of the last row has returned its maximum number of rows.
    fn is_partition_full(&self) -> bool {
        self.per_partition.is_some_and(|limit| self.in_partition >= limit)
    }

    /// Returns the counter of the statement's steps.
    pub(super) const fn steps(&self) -> &'a Steps<'a> {
        self.steps
    }

    /// Yields where the statement has taken enough steps.
    ///
    /// # Errors
    ///
    /// `Timeout` past the deadline.
    pub(super) async fn pace(&mut self) -> Result<(), CqlError> {
        self.steps.take(1)?;
        if self.steps.are_many() {
            // In memory of its own, which short statements do not need.
            Box::pin(self.steps.pace(&mut self.slice)).await?;
        }
        Ok(())
    }

    async fn satisfies(&mut self, columns: &[Option<Bytes>]) -> Result<bool, CqlError> {
        for (filter, relation) in self.filters.iter().zip(&self.plan.filter.filters) {
            relation.count(columns, self.steps)?;
            self.steps.pace(&mut self.slice).await?;
            if !filter.holds(&self.plan.table, columns)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the position of the last returned row, whose key is `row`.
    pub(super) fn position(&self, row: CellKey) -> Position {
        debug_assert!(self.last.as_ref() == Some(&row), "the row is the last one");
        let entry = match &self.source {
            Source::Index(scan) => scan.last_entry(),
            Source::Scan(_) | Source::Merge(_) | Source::System(_) => None,
        };
        Position { row, entry, remaining: self.remaining, in_partition: self.in_partition }
    }

    /// Returns the state of a page that ends with the row of a position.
    pub(super) fn state(&self, last: &Position, tx: &Tx) -> PagingState {
        PagingState {
            table: self.plan.table.id,
            snapshot: self.snapshot,
            wall: tx.wall_time(),
            start: tx.start_timestamp(),
            remaining: last.remaining,
            in_partition: last.in_partition,
            partition: last.row.partition(),
            clustering: last.row.clustering_bytes(),
            entry: last.entry.clone(),
        }
    }
}
