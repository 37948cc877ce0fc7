//! Execution of `SELECT`.

use carnet::base::{BigInt, Bytes};
use carnet::catalog::ColumnKind;
use carnet::{CellKey, DataType, Tx, Value};

use super::answer_memory::AnswerMemory;
use super::merge::Source;
use super::paging::{self, PagingState};
use super::parameters::Parameters;
use super::row;
use super::scan::StoredRow;
use crate::access::Partitions;
use crate::ast::ArithmeticOp;
use crate::compile::{self, Aggregate, Environment, Evaluated, Output, RowFilter, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::Rows;

/// Maximum bytes of a page, whatever its number of rows.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a result without paging.
const UNPAGED_BYTES_MAX: usize = 64 << 20;

/// Cassandra's message. Drivers page by default, so it names the remedy.
const MERGE_NOT_PAGED: &str = "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must \
     either remove the ORDER BY or the IN and sort client side, or disable paging for this query";

/// Limits of the result of one request.
#[derive(Clone, Copy)]
struct PageBounds {
    rows: usize,
    bytes: usize,
    is_paged: bool,
}

impl PageBounds {
    const UNPAGED: Self = Self { rows: usize::MAX, bytes: UNPAGED_BYTES_MAX, is_paged: false };

    fn new(parameters: &Parameters) -> Self {
        match parameters.page_rows {
            Some(rows) => Self { rows: rows.max(1), bytes: PAGE_BYTES_MAX, is_paged: true },
            None => Self::UNPAGED,
        }
    }
}

/// Runs a `SELECT` in a transaction, from the row after `state` on.
pub(crate) async fn run(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
    state: Option<&PagingState>,
) -> Result<Rows, CqlError> {
    let memory = parameters.grant.memory.as_deref();
    let mut reader = SelectReader::new(tx, plan, environment, state, memory).await?;
    let columns = plan.columns.clone();
    if plan.aggregates {
        let row = aggregate(&mut reader, plan).await?;
        return Ok(Rows { columns, rows: vec![row], paging_state: None });
    }
    let mut bounds = PageBounds::new(parameters);
    if reader.is_merged() {
        let fits = |limit: u32| usize::try_from(limit).is_ok_and(|limit| limit <= bounds.rows);
        if bounds.is_paged && !reader.remaining.is_some_and(fits) {
            return Err(CqlError::invalid(MERGE_NOT_PAGED));
        }
        bounds = PageBounds::UNPAGED;
    }
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut paging_state = None;
    // The row after a page is read as well: it decides whether there is another page.
    while let Some((stored, found)) =
        reader.next(bounds.rows.saturating_add(1) - rows.len()).await?
    {
        let row = project(tx, plan, &stored, &found, environment)?;
        bytes += held_bytes(&row);
        rows.push(row);
        // The row is already in memory: a page that gets no more memory ends with it.
        let has_memory = match reader.charge(bytes) {
            Err(error) if !bounds.is_paged => return Err(of_table(plan, &error)),
            grown => grown.is_ok(),
        };
        let is_full = rows.len() >= bounds.rows || bytes >= bounds.bytes || !has_memory;
        if is_full && !bounds.is_paged {
            return Err(CqlError::invalid(format!(
                "the result is larger than {UNPAGED_BYTES_MAX} bytes; ask for it in pages, or \
                 restrict it with WHERE or LIMIT"
            )));
        }
        if is_full {
            let state = reader.state(&stored.key, tx);
            // A page that ends with the last row has no paging state.
            if reader.next(1).await?.is_some() {
                paging_state = Some(state.encode());
            }
            break;
        }
    }
    Ok(Rows { columns, rows, paging_state })
}

/// Adds the table's name to the error of a result that is too large.
fn of_table(plan: &SelectPlan, error: &CqlError) -> CqlError {
    let (keyspace, table) = (&plan.table.keyspace, &plan.table.name);
    let message = format!("{} (query of table {keyspace}.{table})", error.message());
    CqlError::new(error.kind().clone(), message)
}

/// Returns the memory of a result row.
fn held_bytes(row: &[Option<Bytes>]) -> usize {
    let values = row.iter().map(|value| value.as_ref().map_or(0, Bytes::len)).sum::<usize>();
    size_of::<Vec<Option<Bytes>>>() + size_of_val(row) + values
}

/// Reads the rows that satisfy a `SELECT`, within its limits.
struct SelectReader<'a> {
    source: Source<'a>,
    plan: &'a SelectPlan,
    filters: Vec<RowFilter>,
    snapshot: carnet::Timestamp,
    remaining: Option<u32>,
    per_partition: Option<u32>,
    last: Option<CellKey>,
    in_partition: u32,
    memory: Option<&'a AnswerMemory>,
}

impl<'a> SelectReader<'a> {
    async fn new(
        tx: &'a Tx,
        plan: &'a SelectPlan,
        environment: &Environment<'_>,
        state: Option<&PagingState>,
        memory: Option<&'a AnswerMemory>,
    ) -> Result<Self, CqlError> {
        let access = plan.filter.access(&plan.table, plan.order.reverse, environment)?;
        let limit = compile::limit_value(plan.limit.as_ref(), environment)?;
        let per_partition = if plan.distinct {
            Some(1)
        } else {
            compile::limit_value(plan.per_partition_limit.as_ref(), environment)?
        };
        let last =
            state.map(|state| CellKey::new(plan.table.id, &state.partition, &state.clustering));
        if let (Some(state), Partitions::Keys(keys)) = (state, &access.partitions)
            && !keys.contains(&state.partition)
        {
            return Err(paging::invalid("it belongs to a statement on other partitions"));
        }
        let filters = plan.filter.filters.iter().map(|filter| RowFilter::new(filter, environment));
        let filters = filters.collect::<Result<Vec<_>, _>>()?;
        let is_filtered = !filters.is_empty();
        let behind = last.as_ref();
        let source = Source::new(tx, &plan.table, access, plan.order, is_filtered, behind).await?;
        Ok(Self {
            source,
            plan,
            filters,
            snapshot: tx.read_timestamp(),
            // An aggregate covers all rows; LIMIT applies to the rows returned.
            remaining: if plan.aggregates {
                None
            } else {
                state.map_or(limit, |state| state.remaining)
            },
            per_partition,
            last,
            in_partition: state.map_or(0, |state| state.in_partition),
            memory,
        })
    }

    /// Charges memory for `bytes` bytes of result rows, and for the fetched cells.
    fn charge(&self, bytes: usize) -> Result<(), CqlError> {
        self.memory.map_or(Ok(()), |memory| memory.grow_to(bytes, self.source.held_bytes()))
    }

    /// Returns the next row that satisfies the statement. The caller can use `wanted` rows,
    /// including this one.
    async fn next(
        &mut self,
        wanted: usize,
    ) -> Result<Option<(StoredRow, Vec<Option<Bytes>>)>, CqlError> {
        if self.remaining == Some(0) {
            return Ok(None);
        }
        let wanted = self.remaining.map_or(wanted, |remaining| wanted.min(remaining as usize));
        if let Some(last) = self.last.as_ref().filter(|_| self.is_partition_full()) {
            self.source.skip_partition(last);
        }
        while let Some(stored) = self.source.next(wanted).await? {
            let columns = row::columns(&self.plan.table, &stored)?;
            if !self.satisfies(&columns)? {
                continue;
            }
            self.in_partition = self.count_in_partition(&stored.key);
            self.last = Some(stored.key.clone());
            self.remaining = self.remaining.map(|remaining| remaining - 1);
            if self.remaining == Some(0) {
                self.source.stop(&stored)?;
            }
            return Ok(Some((stored, columns)));
        }
        Ok(None)
    }

    /// Returns `true` if the rows of several partitions are merged in one order.
    const fn is_merged(&self) -> bool {
        matches!(self.source, Source::Merge(_))
    }

    /// Returns the number of rows returned from the partition of `row`, including `row`.
    fn count_in_partition(&mut self, row: &CellKey) -> u32 {
        match &mut self.source {
            Source::Merge(merge) => merge.count_row(),
            Source::Scan(_) => {
                let same = self.last.as_ref().is_some_and(|last| last.same_partition(row));
                if same { self.in_partition.saturating_add(1) } else { 1 }
            }
        }
    }

    /// Returns `true` if the partition of the last row has returned its maximum number of rows.
    fn is_partition_full(&self) -> bool {
        self.per_partition.is_some_and(|limit| self.in_partition >= limit)
    }

    fn satisfies(&self, columns: &[Option<Bytes>]) -> Result<bool, CqlError> {
        for filter in &self.filters {
            if !filter.holds(&self.plan.table, columns)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn state(&self, last: &CellKey, tx: &Tx) -> PagingState {
        PagingState {
            table: self.plan.table.id,
            snapshot: self.snapshot,
            wall: tx.wall_time(),
            remaining: self.remaining,
            in_partition: self.in_partition,
            partition: last.partition(),
            clustering: last.clustering_bytes(),
        }
    }
}

fn project(
    tx: &Tx,
    plan: &SelectPlan,
    stored: &StoredRow,
    columns: &[Option<Bytes>],
    environment: &Environment<'_>,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let environment = environment.with_row(columns);
    let value = |output: &Output| {
        Ok(match output {
            Output::Column(position) => columns[*position].clone(),
            Output::Operand(operand) => match operand.evaluate(&environment)? {
                Evaluated::Bytes(bytes) => Some(bytes),
                Evaluated::Null | Evaluated::Unset => None,
            },
            Output::Token => Some(Value::Bigint(stored.key.token().0).serialize()),
            Output::TimeToLive(position) => time_to_live(tx, plan, stored, *position),
            Output::Aggregate(_) => None,
        })
    };
    plan.outputs.iter().map(value).collect()
}

/// Returns the seconds until a column expires; `None` for a column that is null or does not expire.
fn time_to_live(tx: &Tx, plan: &SelectPlan, row: &StoredRow, position: usize) -> Option<Bytes> {
    let column = &plan.table.columns[position];
    let image = match column.kind {
        ColumnKind::Static => row.statics.as_deref(),
        _ => row.image.as_ref(),
    };
    let expiry = image?.column(column.id)?.expiry?;
    let seconds = i32::try_from(expiry.saturating_sub(tx.wall_seconds())).unwrap_or(i32::MAX);
    Some(Value::Int(seconds).serialize())
}

/// Aggregated state of one output.
#[derive(Default)]
struct Gathered {
    count: i64,
    value: Option<Value>,
}

async fn aggregate(
    reader: &mut SelectReader<'_>,
    plan: &SelectPlan,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let mut gathered: Vec<Gathered> = plan.outputs.iter().map(|_| Gathered::default()).collect();
    let mut is_first = true;
    while let Some((_, columns)) = reader.next(usize::MAX).await? {
        reader.charge(0).map_err(|error| of_table(plan, &error))?;
        for (output, slot) in plan.outputs.iter().zip(&mut gathered) {
            if let Output::Aggregate(aggregate) = output {
                gather(aggregate, slot, plan, &columns, is_first)?;
            }
        }
        is_first = false;
    }
    plan.outputs.iter().zip(gathered).map(|(output, slot)| conclude(output, slot)).collect()
}

fn gather(
    aggregate: &Aggregate,
    slot: &mut Gathered,
    plan: &SelectPlan,
    columns: &[Option<Bytes>],
    is_first: bool,
) -> Result<(), CqlError> {
    let (Aggregate::Count(Some(position))
    | Aggregate::Min(position)
    | Aggregate::Max(position)
    | Aggregate::First(position)
    | Aggregate::Sum(position, _)
    | Aggregate::Avg(position, _)) = aggregate
    else {
        slot.count += 1;
        return Ok(());
    };
    let Some(bytes) = &columns[*position] else { return Ok(()) };
    let value = plan.table.columns[*position].data_type.deserialize(bytes)?;
    slot.count += 1;
    let keep = |keep_new: bool, old: Value, new: Value| if keep_new { new } else { old };
    slot.value = match (slot.value.take(), aggregate) {
        (old, Aggregate::First(_)) => old.or_else(|| is_first.then_some(value)),
        (None, Aggregate::Avg(..)) => Some(widen(value)),
        (None, _) => Some(value),
        (Some(old), Aggregate::Min(_)) => Some(keep(value.compare(&old).is_lt(), old, value)),
        (Some(old), Aggregate::Max(_)) => Some(keep(value.compare(&old).is_gt(), old, value)),
        (Some(old), Aggregate::Avg(..)) => {
            Some(compile::calculate(&old, ArithmeticOp::Add, &widen(value))?)
        }
        (Some(old), Aggregate::Sum(..)) => {
            Some(compile::calculate(&old, ArithmeticOp::Add, &value)?)
        }
        (old, Aggregate::Count(_)) => old,
    };
    Ok(())
}

/// Converts an integer to a `varint`, so that no sum overflows.
fn widen(value: Value) -> Value {
    let integer = match value {
        Value::Tinyint(n) => BigInt::from(n),
        Value::Smallint(n) => BigInt::from(n),
        Value::Int(n) => BigInt::from(n),
        Value::Bigint(n) | Value::Counter(n) => BigInt::from(n),
        other => return other,
    };
    Value::Varint(integer)
}

fn conclude(output: &Output, slot: Gathered) -> Result<Option<Bytes>, CqlError> {
    let Output::Aggregate(aggregate) = output else { return Ok(None) };
    let value = match aggregate {
        Aggregate::Count(_) => Some(Value::Bigint(slot.count)),
        Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::First(_) => slot.value,
        Aggregate::Sum(_, data_type) => Some(slot.value.map_or_else(|| zero(data_type), Ok)?),
        Aggregate::Avg(_, data_type) => match slot.value {
            None => Some(zero(data_type)?),
            Some(sum) => Some(average(&sum, slot.count, data_type)?),
        },
    };
    Ok(value.map(|value| value.serialize()))
}

fn zero(data_type: &DataType) -> Result<Value, CqlError> {
    Ok(data_type.parse_text("0")?)
}

fn average(sum: &Value, count: i64, data_type: &DataType) -> Result<Value, CqlError> {
    let count = sum.data_type().parse_text(&count.to_string())?;
    let average = compile::calculate(sum, ArithmeticOp::Divide, &count)?;
    Ok(data_type.parse_text(&average.to_string())?)
}
