//! Choice of the index that a `SELECT` reads, and the ranges of its entries.
//!
//! Relations that do not find rows through the key are filters. An index *serves* a filter if the
//! rows that satisfy it lie in few ranges of its entries. One index is read, the one that serves the
//! most selective kind of relation; all filters are evaluated on its rows:
//!
//! ```text
//!   WHERE city = 'Lyon' AND age > 30      indexes on city and age
//!         └── ranges of entries   └── filter; no ALLOW FILTERING, because age has an index
//! ```
//!
//! Entries of one value are in the order of their rows. A relation of one value can therefore be
//! combined with a partition key, with slices of its rows, and with `token()`. For a relation of many
//! values the named partitions are read themselves, and filtered.
//!
//! An index that folds texts serves relations of one value only: the filter folds, too.

use std::ops::Bound;

use carnet::catalog::{ColumnKind, IndexSchema, IndexedPart, TableSchema};
use carnet::index::{IndexLayout, has_entries};
use carnet::{KeyRange, PartitionKey, Value};
use carnet_base::Bytes;
use carnet_data::key::{self, ByteBounds, Order};
use carnet_data::partition::LEN_MAX;

use super::environment::Environment;
use super::keys::bytes_at_most;
use super::like::Pattern;
use super::list::List;
use super::operand::Operand;
use super::relation::{Filter, Resolved};
use super::where_clause::Where;
use crate::access::{Access, Clustering, IndexAccess, Partitions};
use crate::ast::CompareOp;
use crate::cql_error::CqlError;

/// Use of an index by a statement.
#[derive(Clone, Debug)]
pub(crate) struct IndexPlan {
    /// Position of the index among those of the table.
    index: usize,
    wanted: Wanted,
}

/// Values whose entries are read. The variants are in the order of preference.
#[derive(Clone, Debug)]
enum Wanted {
    /// `column = value`, `CONTAINS value`, or `map[key] = value`.
    One(Vec<Operand>),
    /// `column IN …`.
    Each(List),
    /// `column LIKE 'prefix%'`.
    Like(Operand),
    /// Comparisons by order, behind the key of a map's entry if there is one.
    Between(Option<Operand>, Vec<(CompareOp, Operand)>),
}

impl Wanted {
    const fn rank(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Each(_) => 1,
            Self::Like(_) => 2,
            Self::Between(..) => 3,
        }
    }
}

/// Returns the index that serves a filter, and the values that it looks for.
fn served(table: &TableSchema, filter: &Filter) -> Option<(usize, Wanted)> {
    let find = |position: &usize, part| {
        let column = &table.columns[*position];
        let is_it = |index: &IndexSchema| (index.column, index.part) == (column.id, part);
        table.indexes.iter().position(is_it).filter(|_| has_entries(column))
    };
    let found = found(filter, find)?;
    let is_served = table.indexes[found.0].folding().is_none() || matches!(found.1, Wanted::One(_));
    is_served.then_some(found)
}

/// Like [`served`], whatever the index has as entries.
fn found(
    filter: &Filter,
    find: impl Fn(&usize, IndexedPart) -> Option<usize>,
) -> Option<(usize, Wanted)> {
    let by_order = |key: Option<&Operand>, op: &CompareOp, operand: &Operand| match (key, op) {
        (_, CompareOp::NotEqual) => None,
        (None, CompareOp::Equal) => Some(Wanted::One(vec![operand.clone()])),
        (Some(key), CompareOp::Equal) => Some(Wanted::One(vec![key.clone(), operand.clone()])),
        (key, op) => Some(Wanted::Between(key.cloned(), vec![(*op, operand.clone())])),
    };
    Some(match &filter.0 {
        Resolved::Compare(position, op, operand) => {
            (find(position, IndexedPart::Value)?, by_order(None, op, operand)?)
        }
        Resolved::In(position, list) => {
            (find(position, IndexedPart::Value)?, Wanted::Each(list.clone()))
        }
        Resolved::Contains(position, searched, operand) => {
            (find(position, searched.part())?, Wanted::One(vec![operand.clone()]))
        }
        Resolved::Element(position, key, op, operand) => {
            (find(position, IndexedPart::Entries)?, by_order(Some(key), op, operand)?)
        }
        Resolved::Like(position, operand) => {
            (find(position, IndexedPart::Value)?, Wanted::Like(operand.clone()))
        }
        _ => return None,
    })
}

/// Returns `true` if all rows of a relation have entries: an index on a column of the partition key
/// that an earlier version has created lacks those of partitions with static columns only.
fn is_complete(table: &TableSchema, index: &IndexSchema) -> bool {
    let column = table.column_by_id(index.column);
    let is_of_partition = column.is_some_and(|column| column.kind == ColumnKind::Partition);
    index.has_static_entries || !is_of_partition || table.statics().next().is_none()
}

/// Returns `true` if an index serves each filter of a `WHERE`.
pub(super) fn serves_all(table: &TableSchema, filter: &Where) -> bool {
    filter.filters.iter().all(|filter| served(table, filter).is_some())
}

/// Chooses the index that finds the rows of a `WHERE`; `None` if they are found without one.
/// `is_grouped` means that the rows of a partition have to follow each other.
pub(super) fn choose(table: &TableSchema, filter: &Where, is_grouped: bool) -> Option<IndexPlan> {
    if filter.names_rows() {
        return None;
    }
    let names_partitions = filter.names_partitions();
    let mut best: Option<IndexPlan> = None;
    for relation in &filter.filters {
        let Some((index, wanted)) = served(table, relation) else { continue };
        if !is_complete(table, &table.indexes[index]) {
            continue;
        }
        let needs_one_value = names_partitions || is_grouped;
        if needs_one_value && !matches!(wanted, Wanted::One(_)) {
            continue;
        }
        // Entries of static columns name partitions, not rows.
        if names_partitions && is_static(table, index) {
            continue;
        }
        match &mut best {
            Some(IndexPlan { index: known, wanted: Wanted::Between(_, bounds) })
                if *known == index =>
            {
                if let Wanted::Between(_, more) = wanted {
                    bounds.extend(more);
                    continue;
                }
                best = Some(IndexPlan { index, wanted });
            }
            Some(known) if known.wanted.rank() <= wanted.rank() => {}
            _ => best = Some(IndexPlan { index, wanted }),
        }
    }
    best
}

fn is_static(table: &TableSchema, index: usize) -> bool {
    IndexLayout::new(table, &table.indexes[index]).is_ok_and(|layout| layout.is_static())
}

/// Entries of the index in every partition of entries: with one value, or between bounds.
enum Span {
    One(Vec<Value>),
    Between(ByteBounds),
}

impl IndexPlan {
    /// Returns the index.
    pub(crate) fn schema<'t>(&self, table: &'t TableSchema) -> &'t IndexSchema {
        &table.indexes[self.index]
    }

    /// Evaluates the entries to read for an access to the rows of a table.
    pub(crate) fn access(
        &self,
        table: &TableSchema,
        access: &Access,
        environment: &Environment<'_>,
    ) -> Result<IndexAccess, CqlError> {
        let layout = IndexLayout::new(table, self.schema(table))?;
        let spans = self.spans(&layout, environment)?;
        let tokens = match &access.partitions {
            Partitions::Tokens(lower, upper) => (*lower, *upper),
            Partitions::Keys(_) => (Bound::Unbounded, Bound::Unbounded),
        };
        let entries = layout.entries_table();
        let mut ranges = Vec::new();
        match &access.partitions {
            Partitions::Keys(keys) => {
                for row in keys {
                    let token = Bound::Included(row.token());
                    let within = layout.partitions(token, token);
                    for span in &spans {
                        let Span::One(values) = span else { continue };
                        let prefix = layout.prefix(values, Some(row))?;
                        let bounds = rows_within(&prefix, &access.clustering);
                        ranges.extend(ranges_of(entries, &within, &bounds));
                    }
                }
            }
            Partitions::Tokens(lower, upper) => {
                for partition in layout.partitions(*lower, *upper) {
                    for span in &spans {
                        let bounds = match span {
                            Span::One(values) => tokens_within(&layout, values, tokens)?,
                            Span::Between(bounds) => bounds.clone(),
                        };
                        ranges.extend(ranges_of(
                            entries,
                            std::slice::from_ref(&partition),
                            &[bounds],
                        ));
                    }
                }
            }
        }
        if access.reverse {
            ranges.reverse();
        }
        Ok(IndexAccess { index: self.index, ranges, tokens })
    }

    fn spans(
        &self,
        layout: &IndexLayout<'_>,
        environment: &Environment<'_>,
    ) -> Result<Vec<Span>, CqlError> {
        match &self.wanted {
            Wanted::One(operands) => {
                let folding = layout.folding();
                let value = |operand: &Operand| {
                    Ok(folding.value(searched(operand.required(environment)?)?))
                };
                let values = operands.iter().map(value).collect::<Result<_, CqlError>>()?;
                Ok(vec![Span::One(values)])
            }
            Wanted::Each(list) => {
                let values = list.values(environment)?.into_iter().map(searched);
                let mut values = values.collect::<Result<Vec<_>, _>>()?;
                values.sort_by(Value::compare);
                values.dedup_by(|one, other| Value::compare(one, other).is_eq());
                Ok(values.into_iter().map(|value| Span::One(vec![value])).collect())
            }
            Wanted::Like(operand) => like_spans(&operand.required(environment)?),
            Wanted::Between(key, bounds) => {
                let equal = key.iter().map(|key| searched(key.required(environment)?));
                let equal = equal.collect::<Result<Vec<_>, _>>()?;
                let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
                for (op, operand) in bounds {
                    let value = [searched(operand.required(environment)?)?];
                    match op {
                        CompareOp::Greater => lower = Bound::Excluded(value),
                        CompareOp::GreaterOrEqual => lower = Bound::Included(value),
                        CompareOp::Less => upper = Bound::Excluded(value),
                        CompareOp::LessOrEqual => upper = Bound::Included(value),
                        CompareOp::Equal | CompareOp::NotEqual => {}
                    }
                }
                let orders = vec![Order::Asc; layout.types().len()];
                let (lower, upper) = (lower.as_ref(), upper.as_ref());
                let (lower, upper) = (lower.map(<[_; 1]>::as_slice), upper.map(<[_; 1]>::as_slice));
                Ok(vec![Span::Between(key::slice(&orders, &equal, lower, upper)?)])
            }
        }
    }
}

/// Refuses a value that is longer than Cassandra permits behind an index. No entry has such a value.
fn searched(value: Value) -> Result<Value, CqlError> {
    match bytes_at_most(&value) {
        0..=LEN_MAX => Ok(value),
        _ => Err(CqlError::invalid("Index expression values may not be larger than 64K")),
    }
}

fn ranges_of<'r>(
    entries: carnet_base::TableId,
    partitions: &'r [PartitionKey],
    bounds: &'r [ByteBounds],
) -> impl Iterator<Item = KeyRange> + 'r {
    let range = move |partition, (lower, upper): &ByteBounds| {
        KeyRange::clustering(entries, partition, lower.clone(), upper.clone())
    };
    let all = partitions
        .iter()
        .flat_map(move |partition| bounds.iter().map(move |bounds| range(partition, bounds)));
    all.filter(|range| !range.is_empty())
}

/// Returns the bounds of the entries whose rows lie within a partition's rows that are read.
fn rows_within(prefix: &Bytes, clustering: &Clustering) -> Vec<ByteBounds> {
    let behind = |bytes: &Bytes| Bytes::from([prefix, bytes].map(|part| &part[..]).concat());
    match clustering {
        Clustering::All => vec![key::prefix_range(prefix)],
        Clustering::Cells(cells) => cells
            .iter()
            .map(behind)
            .map(|key| (Bound::Included(key.clone()), Bound::Included(key)))
            .collect(),
        Clustering::Spans(spans) => {
            let (first, last) = key::prefix_range(prefix);
            let bounds = |(lower, upper): &ByteBounds| {
                let lower = match lower.as_ref().map(behind) {
                    Bound::Unbounded => first.clone(),
                    bound => bound,
                };
                let upper = match upper.as_ref().map(behind) {
                    Bound::Unbounded => last.clone(),
                    bound => bound,
                };
                (lower, upper)
            };
            spans.iter().map(bounds).collect()
        }
    }
}

/// Returns the bounds of the entries of a value whose rows lie between tokens.
fn tokens_within(
    layout: &IndexLayout<'_>,
    values: &[Value],
    (lower, upper): (Bound<carnet::Token>, Bound<carnet::Token>),
) -> Result<ByteBounds, CqlError> {
    let (first, last) = key::prefix_range(&layout.prefix(values, None)?);
    let of = |token| layout.prefix_of_token(values, token).map(|prefix| key::prefix_range(&prefix));
    let lower = match lower {
        Bound::Unbounded => first,
        Bound::Included(token) => of(token)?.0,
        Bound::Excluded(token) => match of(token)?.1 {
            Bound::Excluded(next) => Bound::Included(next),
            unbounded => unbounded,
        },
    };
    let upper = match upper {
        Bound::Unbounded => last,
        Bound::Included(token) => of(token)?.1,
        Bound::Excluded(token) => match of(token)?.0 {
            Bound::Included(first) => Bound::Excluded(first),
            other => other,
        },
    };
    Ok((lower, upper))
}

/// Returns the entries of texts that may match a pattern.
fn like_spans(pattern: &Value) -> Result<Vec<Span>, CqlError> {
    let (text, is_ascii) = match pattern {
        Value::Text(text) => (text, false),
        Value::Ascii(text) => (text, true),
        other => {
            return Err(CqlError::invalid(format!(
                "LIKE of a value of type {}",
                other.data_type()
            )));
        }
    };
    let value = |text: String| if is_ascii { Value::Ascii(text) } else { Value::Text(text) };
    Ok(match Pattern::parse(text)? {
        Pattern::Whole(whole) => vec![Span::One(vec![value(whole)])],
        Pattern::Prefix(prefix) => {
            let encoded = key::encode(&[value(prefix)], &[Order::Asc])?;
            // Two bytes end the text.
            let open = encoded.slice(..encoded.len().saturating_sub(2));
            vec![Span::Between(key::prefix_range(&open))]
        }
        Pattern::Suffix(_) | Pattern::Within(_) => {
            vec![Span::Between((Bound::Unbounded, Bound::Unbounded))]
        }
    })
}
