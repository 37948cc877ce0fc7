//! The statements that write a row of the source, and their values. Pure.
//!
//! Columns of a row whose values have the same times are written together:
//!
//! ```text
//!   source                         statements of the copy
//!   a = 1, b = 2   no TTL          INSERT … (k, a, b, c, d) VALUES (k, 1, 2, unset, unset) USING TTL 0
//!   c = 3          TTL 60 s        UPDATE … USING TTL 60 SET a = unset, b = unset, c = 3, d = unset WHERE k
//!   d = {4, 5}     5: TTL 60 s     d = {4} in the INSERT;  UPDATE … USING TTL 60 SET d = d + {5} WHERE k
//! ```
//!
//! The INSERT has the values that last longest, and sets every null: an earlier copy may hold values that were deleted
//! since. So the row marker lasts as long as the longest value: no query tells the source's.
//!
//! A counter is removed and then added to, in one transaction, so that a row that is written again counts once.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, bail};
use carnet::{Bytes, DataType};

use super::row::{Field, Row};
use super::shape::{Kind, Shape};
use super::table_name::TableName;
use super::target::{Statement, Write};
use super::times::{Times, parts};
use crate::copy::spelled;

/// Writer of a table's rows.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) shape: Shape,
    pub(super) table: TableName,
    /// Columns whose times follow the columns of a source row: a TTL and a write time for each.
    timed: Vec<usize>,
    /// Whether the target takes write times.
    records_times: bool,
}

/// Writes of a source row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Divided {
    /// The partition key.
    pub(super) partition: Row,
    /// Writes of the row; empty if the partition has no rows.
    pub(super) row: Vec<Write>,
    /// Writes of the partition's static columns.
    pub(super) statics: Vec<Write>,
}

/// Columns that one statement sets, and the times of their values.
#[derive(Default)]
struct Group {
    times: Times,
    values: BTreeMap<usize, Bytes>,
}

impl Writer {
    pub(super) const fn new(
        shape: Shape,
        table: TableName,
        timed: Vec<usize>,
        records_times: bool,
    ) -> Self {
        Self { shape, table, timed, records_times }
    }

    /// Returns the texts of the statements.
    pub(super) fn statements(&self) -> Vec<(Statement, String)> {
        let mut statements = self.statements_of(self.key(), self.regular(), false);
        if !self.statics().is_empty() {
            statements.extend(self.statements_of(self.partition(), self.statics(), true));
        }
        statements
    }

    fn statements_of(
        &self,
        key: Range<usize>,
        columns: Range<usize>,
        is_static: bool,
    ) -> Vec<(Statement, String)> {
        let table = &self.table;
        let key_names: Vec<String> = key.map(|at| self.name_of(at)).collect();
        let names: Vec<String> = columns.clone().map(|at| self.name_of(at)).collect();
        let set = |sets: Vec<String>| sets.join(", ");
        let equal = |name: &String| format!("{name} = ?");
        let is_key = key_names.iter().map(equal).collect::<Vec<_>>().join(" AND ");
        if self.is_counter() {
            let removed = if is_static { format!("{} ", names.join(", ")) } else { String::new() };
            let add = set(names.iter().map(|name| format!("{name} = {name} + ?")).collect());
            return vec![
                (clear(is_static), format!("DELETE {removed}FROM {table} WHERE {is_key}")),
                (count(is_static), format!("UPDATE {table} SET {add} WHERE {is_key}")),
            ];
        }
        let using = if self.records_times { "USING TTL ? AND TIMESTAMP ?" } else { "USING TTL ?" };
        let all = [key_names, names.clone()].concat();
        let markers = vec!["?"; all.len()].join(", ");
        let mut statements = vec![(
            if is_static { Statement::Statics } else { Statement::Row },
            format!("INSERT INTO {table} ({}) VALUES ({markers}) {using}", all.join(", ")),
        )];
        let update = |set: &str| format!("UPDATE {table} {using} SET {set} WHERE {is_key}");
        if !is_static && !names.is_empty() {
            let set = set(names.iter().map(equal).collect());
            statements.push((Statement::More, update(&set)));
        }
        for at in columns.filter(|at| self.is_divisible(*at)) {
            let name = self.name_of(at);
            statements.push((Statement::Append(at), update(&format!("{name} = {name} + ?"))));
        }
        statements
    }

    /// Divides a row of the source, whose columns are in the shape's order, into writes.
    ///
    /// # Errors
    ///
    /// A row of another number of columns, or times of another form.
    pub(super) fn divide(&self, row: &Row) -> Result<Divided> {
        let (columns, times) = (self.shape.columns.len(), 2 * self.timed.len());
        if row.len() != columns + times {
            bail!("a row has {} columns, and the table {columns} with {times} times", row.len());
        }
        let clustering = &row[self.partition().end..self.key().end];
        // A partition without rows comes as one row, with static columns and a null clustering key.
        let is_row = clustering.is_empty() || clustering.iter().any(Option::is_some);
        Ok(Divided {
            partition: row[self.partition()].to_vec(),
            row: if is_row { self.writes(row, self.key(), self.regular(), false)? } else { vec![] },
            statics: match self.statics() {
                none if none.is_empty() => vec![],
                statics => self.writes(row, self.partition(), statics, true)?,
            },
        })
    }

    fn writes(
        &self,
        row: &Row,
        key: Range<usize>,
        columns: Range<usize>,
        is_static: bool,
    ) -> Result<Vec<Write>> {
        let key: Vec<Field> = row[key].iter().cloned().map(Field::from).collect();
        if self.is_counter() {
            let amount = |at: usize| row[at].clone().map_or(Field::Unset, Field::Value);
            let amounts = columns.map(amount).chain(key.clone()).collect();
            return Ok(vec![
                Write { statement: clear(is_static), values: key },
                Write { statement: count(is_static), values: amounts },
            ]);
        }
        let (groups, appended) = self.groups(row, columns.clone())?;
        let mut writes = Vec::new();
        for (number, Group { times, values }) in groups.into_iter().enumerate() {
            let is_first = number == 0;
            let fields = columns.clone().map(|at| match values.get(&at) {
                Some(value) => Field::Value(value.clone()),
                None if is_first && row[at].is_none() => Field::Null,
                None => Field::Unset,
            });
            let times = times.fields(self.records_times);
            writes.push(if is_static || is_first {
                let statement = if is_static { Statement::Statics } else { Statement::Row };
                let values = key.iter().cloned().chain(fields).chain(times).collect();
                Write { statement, values }
            } else {
                let values = times.into_iter().chain(fields).chain(key.clone()).collect();
                Write { statement: Statement::More, values }
            });
        }
        for (at, times, part) in appended {
            let times = times.fields(self.records_times).into_iter();
            let values = times.chain([Field::Value(part)]).chain(key.clone()).collect();
            writes.push(Write { statement: Statement::Append(at), values });
        }
        Ok(writes)
    }

    /// Groups values by their times, the longest-lasting first, and returns the further parts of collections.
    #[expect(clippy::type_complexity, reason = "both results are taken apart at once")]
    fn groups(
        &self,
        row: &Row,
        columns: Range<usize>,
    ) -> Result<(Vec<Group>, Vec<(usize, Times, Bytes)>)> {
        let (mut groups, mut appended): (BTreeMap<_, Group>, _) = (BTreeMap::new(), Vec::new());
        for at in columns {
            let Some(value) = &row[at] else { continue };
            let mut parts = self.parts(row, at, value)?.into_iter();
            let (times, first) = parts.next().unwrap_or_else(|| (Times::default(), value.clone()));
            let group = groups.entry(times.rank()).or_default();
            group.times = times;
            group.values.insert(at, first);
            appended.extend(parts.map(|(times, part)| (at, times, part)));
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        if groups.is_empty() {
            groups.push(Group::default());
        }
        Ok((groups, appended))
    }

    fn parts(&self, row: &Row, at: usize, value: &Bytes) -> Result<Vec<super::times::Part>> {
        let column = &self.shape.columns[at];
        let (Some(timed), Some(data_type)) =
            (self.timed.iter().position(|timed| *timed == at), column.data_type())
        else {
            return Ok(vec![(Times::default(), value.clone())]);
        };
        let times = self.shape.columns.len() + 2 * timed;
        let (ttl, written) = (row[times].as_ref(), row[times + 1].as_ref());
        parts(&data_type, column.is_multi_cell(), value, ttl, written)
    }

    /// Returns the key of written values, for display: of a row, or of a partition's static columns.
    pub(super) fn key_of(&self, write: &Write) -> String {
        use Statement::{
            Append, Clear, ClearStatics, Count, CountStatics, Job, More, Range, Row, Statics,
        };
        let key = match write.statement {
            Statics | ClearStatics | CountStatics => self.partition(),
            Append(at) if self.statics().contains(&at) => self.partition(),
            Row | More | Append(_) | Clear | Count | Range | Job => self.key(),
        };
        let skipped = match write.statement {
            More | Append(_) | Count | CountStatics => write.values.len().saturating_sub(key.len()),
            _ => 0,
        };
        let values = write.values.iter().skip(skipped);
        let named = key.zip(values).map(|(at, value)| self.shape.shown(at, value));
        named.collect::<Vec<_>>().join(", ")
    }

    /// Returns `true` for a collection whose elements may have different times.
    fn is_divisible(&self, at: usize) -> bool {
        let column = &self.shape.columns[at];
        let data_type = column.data_type();
        let is_collection =
            matches!(data_type, Some(DataType::Map(_) | DataType::List(_) | DataType::Set(_)));
        is_collection && column.is_multi_cell()
    }

    fn is_counter(&self) -> bool {
        let columns = &self.shape.columns;
        columns.iter().any(|column| column.data_type() == Some(DataType::Counter))
    }

    fn name_of(&self, at: usize) -> String {
        spelled(&self.shape.columns[at].name)
    }

    fn partition(&self) -> Range<usize> {
        0..self.shape.count(|kind| kind == Kind::Partition)
    }

    fn key(&self) -> Range<usize> {
        0..self.shape.count(|kind| matches!(kind, Kind::Partition | Kind::Clustering(_)))
    }

    fn statics(&self) -> Range<usize> {
        let begin = self.key().end;
        begin..begin + self.shape.count(|kind| kind == Kind::Static)
    }

    fn regular(&self) -> Range<usize> {
        self.statics().end..self.shape.columns.len()
    }
}

const fn clear(is_static: bool) -> Statement {
    if is_static { Statement::ClearStatics } else { Statement::Clear }
}

const fn count(is_static: bool) -> Statement {
    if is_static { Statement::CountStatics } else { Statement::Count }
}

#[cfg(test)]
mod tests;
