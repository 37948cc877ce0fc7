//! Rows of a system table as the source of a `SELECT`.
//!
//! The rows are made for the statement, and are few. They have the keys of stored rows, so that
//! conditions, groups, limits and pages need no code of their own:
//!
//! ```text
//!   made rows ── rows that the plan reads ── in the order of its partitions ── behind the last page
//! ```
//!
//! Partitions come in the order of the bytes of their keys, where those of stored tables come in the order
//! of their tokens: people read these tables by name.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::ops::{Bound, RangeBounds};

use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, PartitionKey, Result, Value};
use carnet_base::Bytes;
use carnet_data::key::{self, Order};
use carnet_data::partition;

use super::comparison::Comparison;
use super::paging::PagingState;
use super::row::held_bytes;
use super::stored_row::StoredRow;
use crate::access::{Access, Clustering, Partitions};
use crate::compile::{RowOrder, SelectPlan};

/// Columns of a row, in the order of the table's columns.
pub(super) type Columns = Vec<Option<Bytes>>;

/// Rows of a system table, within what a plan reads.
pub(super) struct SystemRows {
    rows: VecDeque<(CellKey, Columns)>,
    /// Columns of the last returned row.
    columns: Columns,
    held_bytes: usize,
    /// Number of counted rows by partition, if the rows of several partitions are merged.
    merged: Option<HashMap<PartitionKey, u32>>,
}

impl SystemRows {
    /// Takes the rows that a plan reads, after the row `behind` if rows were returned before.
    pub(super) fn new(
        table: &TableSchema,
        rows: Vec<Columns>,
        access: &Access,
        order: RowOrder,
        behind: Option<&CellKey>,
    ) -> Result<Self> {
        let sequence = Sequence::new(access);
        let mut found = Vec::with_capacity(rows.len());
        for columns in rows {
            let key = key_of(table, &columns)?;
            if sequence.has(&key) {
                found.push((key, columns));
            }
        }
        found.sort_by(|(one, _), (other, _)| sequence.compare(one, other));
        if let Some(last) = behind {
            found.retain(|(key, _)| sequence.compare(key, last).is_gt());
        }
        let is_merged = matches!(&access.partitions, Partitions::Keys(keys) if keys.len() > 1);
        let merged = order.merged.filter(|_| is_merged);
        if let Some(columns) = merged {
            let comparison = Comparison::new(table, columns, order.reverse);
            let mut by_order = Vec::with_capacity(found.len());
            for (key, columns) in found {
                by_order.push((comparison.sort_key(&key)?, (key, columns)));
            }
            by_order.sort_by(|(one, _), (other, _)| directed(one.cmp(other), order.reverse));
            found = by_order.into_iter().map(|(_, row)| row).collect();
        }
        Ok(Self {
            held_bytes: found.iter().map(|(_, columns)| held_bytes(columns)).sum(),
            rows: found.into(),
            columns: Vec::new(),
            merged: merged.map(|_| HashMap::new()),
        })
    }

    /// Returns the next row, which has its columns in [`SystemRows::take_columns`].
    pub(super) fn next(&mut self) -> Option<StoredRow> {
        let (key, columns) = self.rows.pop_front()?;
        self.held_bytes -= held_bytes(&columns);
        self.columns = columns;
        Some(StoredRow { key, image: None, statics: None })
    }

    /// Takes the columns of the last returned row.
    pub(super) fn take_columns(&mut self) -> Columns {
        std::mem::take(&mut self.columns)
    }

    /// Returns the number of bytes of the rows not yet returned.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns `true` if the rows of several partitions are merged in one order.
    pub(super) const fn is_merged(&self) -> bool {
        self.merged.is_some()
    }

    /// Counts a returned row of merged partitions, and returns the number of counted rows of its
    /// partition; `None` if partitions are read one after the other.
    pub(super) fn count_row(&mut self, row: &CellKey) -> Option<u32> {
        let count = self.merged.as_mut()?.entry(row.partition()).or_default();
        *count = count.saturating_add(1);
        Some(*count)
    }

    /// Skips the other rows of the partition of the last row.
    pub(super) fn skip_partition(&mut self, last: &CellKey) {
        self.rows.retain(|(key, _)| !key.same_partition(last));
        self.held_bytes = self.rows.iter().map(|(_, columns)| held_bytes(columns)).sum();
    }

    /// Ends the read.
    pub(super) fn stop(&mut self) {
        self.rows.clear();
        self.held_bytes = 0;
    }
}

/// Rows that a plan reads, and their sequence.
struct Sequence<'a> {
    access: &'a Access,
    /// Places of the named partitions; `None` if partitions are not named.
    places: Option<HashMap<&'a PartitionKey, usize>>,
}

impl<'a> Sequence<'a> {
    fn new(access: &'a Access) -> Self {
        let places = match &access.partitions {
            Partitions::Keys(keys) => {
                Some(keys.iter().enumerate().map(|(place, key)| (key, place)).collect())
            }
            Partitions::Tokens(..) => None,
        };
        Self { access, places }
    }

    fn place(&self, key: &CellKey) -> usize {
        let places = self.places.as_ref();
        places.and_then(|places| places.get(&key.partition()).copied()).unwrap_or_default()
    }

    fn has(&self, key: &CellKey) -> bool {
        let is_in = match (&self.access.partitions, &self.places) {
            (Partitions::Tokens(lower, upper), _) => (*lower, *upper).contains(&key.token()),
            (_, Some(places)) => places.contains_key(&key.partition()),
            (_, None) => false,
        };
        is_in
            && match &self.access.clustering {
                Clustering::All => true,
                Clustering::Cells(cells) => cells.iter().any(|cell| *key.clustering() == cell[..]),
                Clustering::Spans(spans) => {
                    let clustering = key.clustering_bytes();
                    spans.iter().any(|span| contains(span, &clustering))
                }
            }
    }

    fn compare(&self, one: &CellKey, other: &CellKey) -> Ordering {
        let (a, b) = (one.as_key_ref(), other.as_key_ref());
        let by_row = || directed(a.clustering().cmp(b.clustering()), self.access.reverse);
        self.place(one)
            .cmp(&self.place(other))
            .then_with(|| a.partition().cmp(b.partition()))
            .then_with(by_row)
    }
}

fn contains((lower, upper): &(Bound<Bytes>, Bound<Bytes>), clustering: &Bytes) -> bool {
    RangeBounds::<Bytes>::contains(&(lower.as_ref(), upper.as_ref()), clustering)
}

const fn directed(order: Ordering, reverse: bool) -> Ordering {
    if reverse { order.reverse() } else { order }
}

/// Returns the key that a row would have in the store.
fn key_of(table: &TableSchema, columns: &[Option<Bytes>]) -> Result<CellKey> {
    let values = |is_it: fn(&ColumnKind) -> bool| -> Result<Vec<Value>> {
        let all = table.columns.iter().zip(columns).filter(|(column, _)| is_it(&column.kind));
        all.map(|(column, bytes)| {
            column.data_type.deserialize(bytes.as_ref().unwrap_or(&Bytes::new()))
        })
        .collect()
    };
    let partition = partition::encode(&values(|kind| *kind == ColumnKind::Partition)?)?;
    let clustering = values(|kind| matches!(kind, ColumnKind::Clustering(_)))?;
    if clustering.is_empty() {
        return Ok(CellKey::new(table.id, &partition, ""));
    }
    let clustering = key::encode(&clustering, &table.clustering_orders())?;
    Ok(CellKey::new(table.id, &partition, clustering))
}

/// Part of a system table that a statement reads, by keyspaces and tables: rows of others need not be made.
pub(super) struct Wanted<'a> {
    access: &'a Access,
    /// State of the last row that was returned before.
    behind: Option<&'a PagingState>,
}

impl<'a> Wanted<'a> {
    pub(super) const fn new(access: &'a Access, behind: Option<&'a PagingState>) -> Self {
        Self { access, behind }
    }

    /// Returns `true` if a page of a plan has the first rows of the whole table by its key.
    pub(super) fn is_a_prefix(&self, plan: &SelectPlan) -> bool {
        let has_own_order = plan.order.reverse || plan.aggregates || plan.distinct;
        let is_whole = match &self.access.partitions {
            Partitions::Tokens(lower, upper) => {
                matches!((lower, upper), (Bound::Unbounded, Bound::Unbounded))
            }
            Partitions::Keys(keys) => keys.len() == 1,
        };
        is_whole
            && matches!(self.access.clustering, Clustering::All)
            && !has_own_order
            && plan.filter.filters.is_empty()
            && plan.group.is_none()
            && plan.near.is_none()
            && plan.per_partition_limit.is_none()
    }

    /// Returns `true` if the rows of a keyspace may be read, in a table with this partition key.
    pub(super) fn keyspace(&self, keyspace: &str) -> bool {
        match &self.access.partitions {
            Partitions::Keys(keys) => {
                keys.iter().any(|key| key.bytes()[..] == *keyspace.as_bytes())
            }
            Partitions::Tokens(..) => self
                .behind
                .is_none_or(|behind| *keyspace.as_bytes() >= behind.partition.bytes()[..]),
        }
    }

    /// Returns `true` if the rows of a table may be read, where its name is the first clustering column.
    pub(super) fn table(&self, keyspace: &str, table: &str) -> bool {
        let Ok(prefix) = key::encode(&[Value::Text(table.to_owned())], &[Order::Asc]) else {
            return true;
        };
        self.keyspace(keyspace)
            && self.is_ahead(keyspace, &prefix)
            && match &self.access.clustering {
                Clustering::All => true,
                Clustering::Cells(cells) => cells.iter().any(|cell| cell.starts_with(&prefix)),
                Clustering::Spans(spans) => spans.iter().any(|span| overlaps(span, &prefix)),
            }
    }
}

impl Wanted<'_> {
    /// Returns `true` unless all rows whose key begins with a prefix were returned before.
    fn is_ahead(&self, keyspace: &str, prefix: &Bytes) -> bool {
        let Some(behind) = self.behind else { return true };
        let last = &behind.clustering;
        *keyspace.as_bytes() != behind.partition.bytes()[..]
            || last.starts_with(prefix)
            || directed(prefix.cmp(last), self.access.reverse).is_gt()
    }
}

/// Returns `true` if a span may hold keys that begin with a prefix.
fn overlaps((lower, upper): &(Bound<Bytes>, Bound<Bytes>), prefix: &Bytes) -> bool {
    let begins = match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) | Bound::Excluded(upper) => upper >= prefix,
    };
    let ends = match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) | Bound::Excluded(lower) => {
            lower <= prefix || lower.starts_with(prefix)
        }
    };
    begins && ends
}
