//! `WHERE`: divides its relations into those used to find rows and those evaluated row by row.
//!
//! The partition key, if each of its columns is given, selects partitions; `token()` selects a
//! range of them. Within a partition a prefix of the clustering columns narrows the rows down:
//! columns with `=` or `IN`, then at most one compared by order:
//!
//! ```text
//!   PRIMARY KEY ((p), a, b, c)
//!   p = 1 AND a = 2 AND b > 3 AND c = 4     →  partition 1, rows from (2, 3) to (2, ∞); c is a filter
//! ```
//!
//! Every relation that does not find rows is a filter, and needs `ALLOW FILTERING`.

use std::ops::{Bound, RangeBounds};

use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{DataType, PartitionKey, Value};
use carnet_base::{Bytes, Token};
use carnet_data::key::{self, Order};
use carnet_data::partition;

use super::compiler::Compiler;
use super::environment::Environment;
use super::keys::{self, Choices, check_product, product, written_key};
use super::list::{List, Tuples};
use super::operand::{Operand, required};
use super::relation::{Filter, Resolved, TokenOperand};
use super::spans::spans;
use crate::access::{Access, Clustering, Partitions};
use crate::ast::{CompareOp, Relation};
use crate::cql_error::CqlError;

/// A compiled `WHERE`.
#[derive(Clone, Debug)]
pub(crate) struct Where {
    partitions: PartitionPlan,
    /// Comparisons of `token()` that the partitions have to satisfy, if their keys are given.
    tokens: Vec<(CompareOp, TokenOperand)>,
    clustering: Vec<Step>,
    pub(crate) filters: Vec<Filter>,
    orders: Vec<Order>,
    /// Whether the rows are written, so that the length of their keys is limited.
    is_written: bool,
    /// Whether a row may be named without the last clustering columns.
    takes_prefix: bool,
}

#[derive(Clone, Debug)]
enum PartitionPlan {
    /// Values of each column of the key.
    Keys(Vec<Each>),
    Tokens(Vec<(CompareOp, TokenOperand)>),
}

#[derive(Clone, Debug)]
enum Each {
    One(Operand),
    List(List),
}

/// Restriction of the rows by one or more clustering columns.
#[derive(Clone, Debug)]
enum Step {
    Each(Each),
    Tuples(usize, Tuples),
    /// Range of keys; the last step.
    Slice {
        lower: Option<(CompareOp, Vec<Operand>)>,
        upper: Option<(CompareOp, Vec<Operand>)>,
    },
}

/// Refuses to compare whole collections that are not frozen, and elements of lists.
fn check_collections(table: &TableSchema, relation: &Resolved) -> Result<(), CqlError> {
    let (position, op) = match relation {
        Resolved::Compare(position, op, _) => (*position, op.symbol()),
        Resolved::In(position, _) => (*position, "IN"),
        Resolved::Element(position, ..)
            if matches!(table.columns[*position].data_type, DataType::List(_)) =>
        {
            return Err(CqlError::unsupported("an element of a list in WHERE"));
        }
        Resolved::Part(..) => {
            return Err(CqlError::unsupported("such a part of a column in WHERE"));
        }
        _ => return Ok(()),
    };
    let column = &table.columns[position];
    if !column.is_multi_cell {
        return Ok(());
    }
    if column.data_type.is_record() {
        return Err(CqlError::invalid(format!(
            "Non-frozen UDT column '{}' ({}) cannot be restricted by any relation",
            column.name, column.data_type
        )));
    }
    Err(CqlError::invalid(format!(
        "Collection column '{}' ({}) cannot be restricted by a '{op}' relation",
        column.name, column.data_type
    )))
}

impl Compiler<'_> {
    pub(super) fn filter(
        &mut self,
        table: &TableSchema,
        relations: &[Relation],
    ) -> Result<Where, CqlError> {
        let mut resolved = Vec::with_capacity(relations.len());
        for relation in relations {
            let relation = self.relation(table, relation)?;
            check_collections(table, &relation)?;
            if matches!(
                relation,
                Resolved::Compare(_, CompareOp::NotEqual, _)
                    | Resolved::CompareTuple(_, CompareOp::NotEqual, _)
            ) {
                return Err(CqlError::unsupported("!= in WHERE"));
            }
            resolved.push(relation);
        }
        check_once(table, &resolved)?;
        let bounds = take_tokens(&mut resolved);
        let (partitions, tokens) = match plan_keys(table, &mut resolved) {
            Some(keys) => (PartitionPlan::Keys(keys), bounds),
            None => (PartitionPlan::Tokens(bounds), Vec::new()),
        };
        let clustering = match partitions {
            PartitionPlan::Keys(_) => plan_clustering(table, &mut resolved),
            PartitionPlan::Tokens(_) => Vec::new(),
        };
        Ok(Where {
            partitions,
            tokens,
            clustering,
            filters: resolved.into_iter().map(Filter).collect(),
            orders: table.clustering_orders(),
            is_written: false,
            takes_prefix: false,
        })
    }

    /// Like [`Compiler::filter`], but of the rows that a statement writes.
    pub(super) fn written_rows(
        &mut self,
        table: &TableSchema,
        relations: &[Relation],
    ) -> Result<Where, CqlError> {
        let filter = self.filter(table, relations)?;
        Ok(Where { is_written: true, ..filter })
    }
}

/// Refuses a column that is restricted twice, like Cassandra.
fn check_once(table: &TableSchema, resolved: &[Resolved]) -> Result<(), CqlError> {
    /// Numbers of restrictions of a column.
    #[derive(Clone, Copy, Default)]
    struct Restricted {
        equal: usize,
        lower: usize,
        upper: usize,
    }
    let mut restricted = vec![Restricted::default(); table.columns.len()];
    for relation in resolved {
        match relation {
            Resolved::Compare(position, op, _) => match op {
                CompareOp::Less | CompareOp::LessOrEqual => restricted[*position].upper += 1,
                CompareOp::Greater | CompareOp::GreaterOrEqual => restricted[*position].lower += 1,
                _ => restricted[*position].equal += 1,
            },
            Resolved::In(position, _) => restricted[*position].equal += 1,
            _ => {}
        }
    }
    for (column, Restricted { equal, lower, upper }) in table.columns.iter().zip(restricted) {
        if equal > 1 || lower > 1 || upper > 1 || (equal == 1 && lower + upper > 0) {
            return Err(CqlError::invalid(format!("column {} is restricted twice", column.name)));
        }
    }
    Ok(())
}

fn positions(table: &TableSchema, wanted: impl Fn(ColumnKind) -> bool) -> Vec<usize> {
    (0..table.columns.len()).filter(|at| wanted(table.columns[*at].kind)).collect()
}

/// Removes the relation that gives a column's values from the list, and returns the values.
fn take_each(resolved: &mut Vec<Resolved>, position: usize) -> Option<Each> {
    let found = resolved.iter().position(|relation| match relation {
        Resolved::Compare(at, CompareOp::Equal, _) | Resolved::In(at, _) => *at == position,
        _ => false,
    })?;
    match resolved.remove(found) {
        Resolved::Compare(_, _, operand) => Some(Each::One(operand)),
        Resolved::In(_, list) => Some(match list.into_only() {
            Ok(operand) => Each::One(operand),
            Err(list) => Each::List(list),
        }),
        _ => None,
    }
}

/// Removes the comparisons of `token()` from the list, and returns them.
fn take_tokens(resolved: &mut Vec<Resolved>) -> Vec<(CompareOp, TokenOperand)> {
    let (tokens, rest): (Vec<_>, Vec<_>) =
        resolved.drain(..).partition(|relation| matches!(relation, Resolved::Token(..)));
    *resolved = rest;
    let bounds = tokens.into_iter().filter_map(|relation| match relation {
        Resolved::Token(op, operand) => Some((op, operand)),
        _ => None,
    });
    bounds.collect()
}

/// Removes the relations that give the partition key from the list, and returns the values of each of
/// its columns; `None` if one is not given.
fn plan_keys(table: &TableSchema, resolved: &mut Vec<Resolved>) -> Option<Vec<Each>> {
    let key = positions(table, |kind| kind == ColumnKind::Partition);
    let is_given = |position: &usize| {
        resolved.iter().any(|relation| match relation {
            Resolved::Compare(at, CompareOp::Equal, _) | Resolved::In(at, _) => at == position,
            _ => false,
        })
    };
    if !key.iter().all(is_given) {
        return None;
    }
    key.iter().map(|position| take_each(resolved, *position)).collect()
}

fn plan_clustering(table: &TableSchema, resolved: &mut Vec<Resolved>) -> Vec<Step> {
    let columns = positions(table, |kind| matches!(kind, ColumnKind::Clustering(_)));
    let mut steps = Vec::new();
    let mut next = 0;
    while let Some(&position) = columns.get(next) {
        if let Some(each) = take_each(resolved, position) {
            steps.push(Step::Each(each));
            next += 1;
        } else if let Some((count, tuples)) = take_tuples(resolved, position) {
            steps.push(Step::Tuples(count, tuples));
            next += count;
        } else {
            steps.extend(take_slice(resolved, position));
            break;
        }
    }
    steps
}

fn take_tuples(resolved: &mut Vec<Resolved>, position: usize) -> Option<(usize, Tuples)> {
    let found = resolved.iter().position(|relation| match relation {
        Resolved::CompareTuple(at, CompareOp::Equal, operands) => {
            at[0] == position && at.len() == operands.len()
        }
        Resolved::InTuple(at, tuples) => at[0] == position && tuples.are_of(at.len()),
        _ => false,
    })?;
    match resolved.remove(found) {
        Resolved::CompareTuple(at, _, operands) => Some((at.len(), Tuples::Each(vec![operands]))),
        Resolved::InTuple(at, tuples) => Some((at.len(), tuples)),
        _ => None,
    }
}

fn take_slice(resolved: &mut Vec<Resolved>, position: usize) -> Option<Step> {
    let mut take = |wanted: [CompareOp; 2]| {
        let found = resolved.iter().position(|relation| match relation {
            Resolved::Compare(at, op, _) => *at == position && wanted.contains(op),
            Resolved::CompareTuple(at, op, _) => at[0] == position && wanted.contains(op),
            _ => false,
        })?;
        match resolved.remove(found) {
            Resolved::Compare(_, op, operand) => Some((op, vec![operand])),
            Resolved::CompareTuple(_, op, operands) => Some((op, operands)),
            _ => None,
        }
    };
    let lower = take([CompareOp::Greater, CompareOp::GreaterOrEqual]);
    let upper = take([CompareOp::Less, CompareOp::LessOrEqual]);
    (lower.is_some() || upper.is_some()).then_some(Step::Slice { lower, upper })
}

impl Where {
    /// Returns `true` if it has filters, which need `ALLOW FILTERING`.
    pub(crate) fn needs_filtering(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Returns `true` if the partition key is given by `=` or `IN`.
    pub(crate) const fn names_partitions(&self) -> bool {
        matches!(self.partitions, PartitionPlan::Keys(_))
    }

    /// Returns `true` if it compares tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        let bounds = match &self.partitions {
            PartitionPlan::Keys(_) => &self.tokens,
            PartitionPlan::Tokens(bounds) => bounds,
        };
        !bounds.is_empty()
    }

    /// Returns the markers of the partition key's columns, if each column has one.
    pub(crate) fn partition_markers(&self) -> Option<Vec<u16>> {
        let PartitionPlan::Keys(columns) = &self.partitions else { return None };
        let marker = |each: &Each| match each {
            Each::One(operand) => operand.marker(),
            Each::List(list) => list.last_marker(),
        };
        columns.iter().map(marker).collect()
    }

    /// Returns `true` if one partition is given, by `=` on each column of its key.
    pub(crate) fn names_one_partition(&self) -> bool {
        match &self.partitions {
            PartitionPlan::Keys(each) => each.iter().all(|each| matches!(each, Each::One(_))),
            PartitionPlan::Tokens(_) => false,
        }
    }

    /// Returns `true` if every clustering column is given by `=` or `IN`.
    pub(crate) fn names_rows(&self) -> bool {
        let given: usize = self
            .clustering
            .iter()
            .map(|step| match step {
                Step::Each(_) => 1,
                Step::Tuples(count, _) => *count,
                Step::Slice { .. } => 0,
            })
            .sum();
        self.names_partitions() && given == self.orders.len()
    }

    /// Lets the statement name rows without the last clustering columns.
    pub(super) fn taking_prefixes(self, takes_prefix: bool) -> Self {
        Self { takes_prefix, ..self }
    }

    /// Returns `true` if rows are named without the last clustering columns.
    pub(super) fn names_prefixes(&self) -> bool {
        let is_slice = |step: &Step| matches!(step, Step::Slice { .. });
        self.takes_prefix && !self.clustering.is_empty() && !self.clustering.iter().any(is_slice)
    }

    /// Returns `true` if one row is given, by `=` on each column of the primary key.
    pub(crate) fn names_one_row(&self) -> bool {
        let one = |step: &Step| match step {
            Step::Each(each) => matches!(each, Each::One(_)),
            Step::Tuples(_, tuples) => tuples.is_one(),
            Step::Slice { .. } => false,
        };
        self.names_one_partition() && self.names_rows() && self.clustering.iter().all(one)
    }

    /// Returns `true` if a column of the partition key, given by its position among them, has one
    /// value.
    pub(super) fn fixes_partition(&self, place: usize) -> bool {
        match &self.partitions {
            PartitionPlan::Keys(each) => matches!(each.get(place), Some(Each::One(_))),
            PartitionPlan::Tokens(_) => false,
        }
    }

    /// Returns `true` if a clustering column, given by its position among them, has one value in
    /// all rows of a partition.
    pub(super) fn fixes(&self, table: &TableSchema, place: usize) -> bool {
        let mut next = 0;
        for step in &self.clustering {
            let (count, is_fixed) = match step {
                Step::Each(each) => (1, matches!(each, Each::One(_))),
                Step::Tuples(count, tuples) => (*count, tuples.is_one()),
                Step::Slice { .. } => break,
            };
            next += count;
            if place < next {
                return is_fixed;
            }
        }
        let clustering = positions(table, |kind| matches!(kind, ColumnKind::Clustering(_)));
        let position = clustering.get(place);
        self.filters.iter().any(|filter| {
            matches!(&filter.0, Resolved::Compare(at, CompareOp::Equal, _) if Some(at) == position)
        })
    }

    /// Returns `true` if a clustering column is used to find rows.
    pub(crate) fn restricts_clustering(&self) -> bool {
        !self.clustering.is_empty()
    }

    /// Evaluates the plan to the rows to read.
    pub(crate) fn access(
        &self,
        table: &TableSchema,
        reverse: bool,
        environment: &Environment<'_>,
    ) -> Result<Access, CqlError> {
        let (partitions, clustering) = self.targets(environment)?;
        Ok(Access {
            table: table.id,
            partitions,
            clustering,
            reverse,
            has_clustering: !self.orders.is_empty(),
            has_statics: table.statics().next().is_some(),
            kept: table.kept_columns(),
        })
    }

    /// Evaluates the plan to the partitions, and the rows within each.
    pub(crate) fn targets(
        &self,
        environment: &Environment<'_>,
    ) -> Result<(Partitions, Clustering), CqlError> {
        let partition_lists = self.partition_lists(environment)?;
        let clustering_lists = self.clustering_lists(environment)?;
        check_product(partition_lists.iter().chain(&clustering_lists))?;
        let partitions = match &self.partitions {
            PartitionPlan::Keys(_) => {
                let keys = product(&partition_lists);
                let keys = keys.iter().map(|values| partition::encode(values));
                let mut keys: Vec<PartitionKey> = keys.collect::<Result<_, _>>()?;
                if !self.tokens.is_empty()
                    && let Partitions::Tokens(lower, upper) = tokens(&self.tokens, environment)?
                {
                    keys.retain(|key| (lower, upper).contains(&key.token()));
                }
                Partitions::Keys(keys)
            }
            PartitionPlan::Tokens(bounds) => tokens(bounds, environment)?,
        };
        Ok((partitions, self.clustering(&clustering_lists, environment)?))
    }

    /// Evaluates the values of each column of the partition key, in the order of their type.
    fn partition_lists(&self, environment: &Environment<'_>) -> Result<Vec<Choices>, CqlError> {
        let PartitionPlan::Keys(columns) = &self.partitions else { return Ok(Vec::new()) };
        let list = |each: &Each| -> Result<Choices, CqlError> {
            let mut values = each.values(environment)?;
            keys::sort(&mut values);
            Ok(values.into_iter().map(|value| vec![value]).collect())
        };
        columns.iter().map(list).collect()
    }

    /// Evaluates the values of the clustering columns that are given by `=` or `IN`.
    fn clustering_lists(&self, environment: &Environment<'_>) -> Result<Vec<Choices>, CqlError> {
        let list = |step: &Step| match step {
            Step::Each(each) => each
                .values(environment)
                .map(|values| values.into_iter().map(|value| vec![value]).collect())
                .map(Some),
            Step::Tuples(_, tuples) => tuples.values(environment).map(Some),
            Step::Slice { .. } => Ok(None),
        };
        self.clustering.iter().map(list).filter_map(Result::transpose).collect()
    }

    /// Evaluates the rows within each partition.
    fn clustering(
        &self,
        lists: &[Choices],
        environment: &Environment<'_>,
    ) -> Result<Clustering, CqlError> {
        if let Some(Step::Slice { lower, upper }) = self.clustering.last() {
            let lower = bound(lower.as_ref(), environment)?;
            let upper = bound(upper.as_ref(), environment)?;
            return self.spans(&product(lists), lower.as_ref(), upper.as_ref());
        }
        if self.names_rows() || self.names_prefixes() {
            let keys = product(lists);
            let cell = |values: &Vec<Value>| match self.is_written {
                true => written_key(values, &self.orders),
                false => Ok(key::encode(values, &self.orders)?),
            };
            let mut cells: Vec<Bytes> = keys.iter().map(cell).collect::<Result<_, _>>()?;
            cells.sort_unstable();
            cells.dedup();
            return Ok(Clustering::Cells(cells));
        }
        if self.clustering.is_empty() {
            return Ok(Clustering::All);
        }
        self.spans(&product(lists), Bound::Unbounded, Bound::Unbounded)
    }

    fn spans(
        &self,
        prefixes: &[Vec<Value>],
        lower: Bound<&Vec<Value>>,
        upper: Bound<&Vec<Value>>,
    ) -> Result<Clustering, CqlError> {
        let (lower, upper) = (lower.map(Vec::as_slice), upper.map(Vec::as_slice));
        let within = prefixes.iter().map(|prefix| spans(&self.orders, prefix, lower, upper));
        let mut spans = within.collect::<Result<Vec<_>, _>>()?.concat();
        let first = |bounds: &key::ByteBounds| match &bounds.0 {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.clone(),
            Bound::Unbounded => Bytes::new(),
        };
        spans.sort_by_cached_key(first);
        spans.dedup();
        Ok(Clustering::Spans(spans))
    }
}

impl Each {
    fn values(&self, environment: &Environment<'_>) -> Result<Vec<Value>, CqlError> {
        match self {
            Self::One(operand) => Ok(vec![operand.required(environment)?]),
            Self::List(list) => list.values(environment),
        }
    }
}

impl TokenOperand {
    fn token(&self, environment: &Environment<'_>) -> Result<Token, CqlError> {
        match self {
            Self::Number(operand) => match operand.required(environment)? {
                Value::Bigint(token) => Ok(Token(token)),
                other => Err(CqlError::invalid(format!(
                    "a token is of type bigint, not {}",
                    other.data_type()
                ))),
            },
            Self::Of(parts) => {
                let values = required(parts, environment)?;
                match &values[..] {
                    // No row has the empty key, but its token is the begin of the ring.
                    [value] if value.serialize().is_empty() => Ok(Token::MIN),
                    _ => Ok(partition::encode(&values)?.token()),
                }
            }
        }
    }
}

fn bound(
    bound: Option<&(CompareOp, Vec<Operand>)>,
    environment: &Environment<'_>,
) -> Result<Bound<Vec<Value>>, CqlError> {
    let Some((op, operands)) = bound else { return Ok(Bound::Unbounded) };
    let values = required(operands, environment)?;
    Ok(match op {
        CompareOp::GreaterOrEqual | CompareOp::LessOrEqual => Bound::Included(values),
        _ => Bound::Excluded(values),
    })
}

/// Evaluates the partitions between tokens.
fn tokens(
    bounds: &[(CompareOp, TokenOperand)],
    environment: &Environment<'_>,
) -> Result<Partitions, CqlError> {
    let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
    for (op, operand) in bounds {
        let token = operand.token(environment)?;
        match op {
            CompareOp::Greater => lower = later(lower, Bound::Excluded(token)),
            CompareOp::GreaterOrEqual => lower = later(lower, Bound::Included(token)),
            // The smallest token as an upper bound means the end of the ring.
            CompareOp::Less | CompareOp::LessOrEqual if token == Token::MIN => {}
            CompareOp::Less => upper = earlier(upper, Bound::Excluded(token)),
            CompareOp::LessOrEqual => upper = earlier(upper, Bound::Included(token)),
            CompareOp::Equal | CompareOp::NotEqual => {
                lower = later(lower, Bound::Included(token));
                upper = earlier(upper, Bound::Included(token));
            }
        }
    }
    Ok(Partitions::Tokens(lower, upper))
}

fn later(a: Bound<Token>, b: Bound<Token>) -> Bound<Token> {
    match (a, b) {
        (Bound::Unbounded, bound) | (bound, Bound::Unbounded) => bound,
        (Bound::Excluded(x), Bound::Included(y)) if y > x => b,
        (Bound::Excluded(_), Bound::Included(_)) => a,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            if y >= x { b } else { a }
        }
    }
}

fn earlier(a: Bound<Token>, b: Bound<Token>) -> Bound<Token> {
    match (a, b) {
        (Bound::Unbounded, bound) | (bound, Bound::Unbounded) => bound,
        (Bound::Excluded(x), Bound::Included(y)) if y < x => b,
        (Bound::Excluded(_), Bound::Included(_)) => a,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            if y <= x { b } else { a }
        }
    }
}

/// Type of a limit's marker.
pub(super) const LIMIT_TYPE: DataType = DataType::Int;
