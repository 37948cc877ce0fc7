//! `INSERT`, `UPDATE` and `DELETE`: the rows that change, and the changes.

use std::sync::Arc;

use carnet::DataType;
use carnet::catalog::{ColumnKind, ColumnSchema, TableSchema};
use carnet_base::WallTime;

use super::compiler::Compiler;
use super::counter::{self, Addition};
use super::elements::Assigned;
use super::environment::Environment;
use super::json_row::JsonPlan;
use super::operand::Operand;
use super::relation::{Filter, Resolved, find};
use super::time_to_live::TimeToLive;
use super::timestamp::WriteTime;
use super::where_clause::Where;
use crate::ast::{
    Assignment, Attribute, BatchKind, Delete, Deletion, Guard, Insert, Literal, Name, Relation,
    Term, Update, Using, Write,
};
use crate::cql_error::CqlError;
use crate::system::{Compact, default_time_to_live};

/// A compiled statement that changes rows.
#[derive(Clone, Debug)]
pub(crate) struct WritePlan {
    pub(crate) table: Arc<TableSchema>,
    pub(crate) target: WriteTarget,
    pub(crate) change: Change,
    pub(crate) guard: GuardPlan,
    /// Row of an `INSERT JSON`.
    pub(crate) json: Option<JsonPlan>,
    time_to_live: TimeToLive,
    write_time: WriteTime,
}

/// Rows that change.
#[derive(Clone, Debug)]
pub(crate) enum WriteTarget {
    /// One row, by the values of its key; without clustering values, only static columns.
    Key { partition: Vec<Operand>, clustering: Option<Vec<Operand>> },
    /// Rows selected by a `WHERE`.
    Where(Where),
}

/// Change of the rows.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Columns, by position, are set.
    Set {
        columns: Vec<(usize, Assigned)>,
        /// Whether the row exists from then on, whatever its columns.
        marker: bool,
    },
    /// Amounts are added to counters, by position.
    Add(Vec<(usize, Addition)>),
    /// Columns are set to null.
    Clear(Vec<usize>),
    /// Rows are deleted.
    Delete,
}

/// The statement's `IF`.
#[derive(Clone, Debug)]
pub(crate) enum GuardPlan {
    Always,
    NotExists,
    Exists,
    Columns(Vec<Filter>),
}

impl WritePlan {
    /// Returns `true` if one of its terms is calculated from the row.
    pub(crate) fn reads_row(&self) -> bool {
        match &self.change {
            Change::Set { columns, .. } => columns.iter().any(|(_, assigned)| assigned.reads_row()),
            Change::Add(_) | Change::Clear(_) | Change::Delete => false,
        }
    }

    /// Returns the time to live of written values in seconds; `None` if they do not expire.
    pub(crate) fn time_to_live(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Option<i64>, CqlError> {
        self.time_to_live.seconds(environment)
    }

    /// Returns the write time of written values.
    pub(crate) fn written(&self, environment: &Environment<'_>) -> Result<WallTime, CqlError> {
        self.write_time.wall_time(environment)
    }

    /// Returns the write time with which the statement competes with stored values; `None` if it
    /// replaces them.
    pub(crate) fn competing(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Option<WallTime>, CqlError> {
        self.write_time.competing(environment)
    }

    /// Returns `true` if timestamps decide between the changes of a batch.
    pub(crate) const fn decides_by_time(&self) -> bool {
        self.write_time.decides()
    }

    /// Returns `true` if the write time may differ from that of the transaction's other statements.
    pub(crate) const fn has_write_time(&self) -> bool {
        self.write_time.is_given()
    }

    /// Returns the markers of the partition key's columns, if each column has one.
    pub(crate) fn partition_markers(&self) -> Option<Vec<u16>> {
        match &self.target {
            WriteTarget::Key { partition, .. } => partition.iter().map(Operand::marker).collect(),
            WriteTarget::Where(filter) => filter.partition_markers(),
        }
    }

    /// Returns `true` if a column, by position, is static.
    pub(crate) fn is_static(&self, position: usize) -> bool {
        self.table.columns[position].kind == ColumnKind::Static
    }

    /// Returns the positions of the columns that are set or cleared.
    fn changed(&self) -> Vec<usize> {
        match &self.change {
            Change::Set { columns, .. } => columns.iter().map(|(position, _)| *position).collect(),
            Change::Add(columns) => columns.iter().map(|(position, _)| *position).collect(),
            Change::Clear(columns) => columns.clone(),
            Change::Delete => Vec::new(),
        }
    }

    /// Returns `true` if a static column is set or cleared.
    pub(crate) fn changes_statics(&self) -> bool {
        self.changed().into_iter().any(|position| self.is_static(position))
    }

    /// Returns `true` if the `IF` names a column that is not static.
    fn judges_regulars(&self) -> bool {
        match &self.guard {
            GuardPlan::Always | GuardPlan::NotExists | GuardPlan::Exists => false,
            GuardPlan::Columns(filters) => {
                let mut named = filters.iter().flat_map(Filter::positions);
                named.any(|position| !self.is_static(*position))
            }
        }
    }

    /// Returns `true` if only static columns change.
    pub(crate) fn is_static_only(&self) -> bool {
        let is_static = |position: &usize| self.is_static(*position);
        match &self.change {
            Change::Set { columns, marker } => {
                let statics = columns.iter().all(|(position, _)| is_static(position));
                match &self.target {
                    WriteTarget::Key { clustering, .. } => clustering.is_none(),
                    WriteTarget::Where(filter) => {
                        statics && !marker && !filter.restricts_clustering()
                    }
                }
            }
            Change::Add(_) | Change::Clear(_) => {
                self.changed().iter().all(is_static)
                    && !matches!(&self.target, WriteTarget::Where(filter) if filter.restricts_clustering())
            }
            Change::Delete => false,
        }
    }
}

impl<'a> Compiler<'a> {
    /// Compiles a statement that changes rows.
    pub(crate) fn write(
        &mut self,
        write: &Write,
        table: &'a Arc<TableSchema>,
    ) -> Result<WritePlan, CqlError> {
        if table.base.is_some() {
            return Err(CqlError::invalid("Cannot directly modify a materialized view"));
        }
        self.enter(table);
        let write_time = self.using(write.using())?;
        if table.has_counters() {
            counter::check(write)?;
        }
        if write_time.is_given() && write.is_conditional() {
            return Err(CqlError::invalid(
                "Cannot provide custom timestamp for conditional updates",
            ));
        }
        let plan = match write {
            Write::Insert(insert) => self.insert(insert, table),
            Write::Update(update) => self.update(update, table),
            Write::Delete(delete) => self.delete(delete, table),
        };
        Ok(WritePlan { write_time, ..plan? })
    }

    /// Determines the types of the markers of a timeout and a transaction.
    pub(super) fn using_markers(&mut self, using: &Using) {
        if let Some(Term::Marker(marker)) = using.get(Attribute::Timeout) {
            self.type_marker(marker, "[timeout]", DataType::Duration);
        }
        if let Some(Term::Marker(marker)) = using.get(Attribute::Transaction) {
            self.type_marker(marker, "[transaction]", DataType::Uuid);
        }
    }

    fn insert(&mut self, insert: &Insert, table: &Arc<TableSchema>) -> Result<WritePlan, CqlError> {
        if insert.columns.len() != insert.values.len() {
            return Err(CqlError::invalid(format!(
                "{} columns and {} values",
                insert.columns.len(),
                insert.values.len()
            )));
        }
        let mut given: Vec<Option<Operand>> = vec![None; table.columns.len()];
        let mut plan = None;
        if let Some(json) = &insert.json {
            let (row, columns) = self.json_row(json, table)?;
            (plan, given) = (Some(row), columns);
        }
        for (name, term) in insert.columns.iter().zip(&insert.values) {
            let (position, column) = find(table, name)?;
            let operand = self.operand(term, &column.data_type, &column.name)?;
            if given[position].replace(operand).is_some() {
                return Err(CqlError::invalid(format!("column {} is given twice", column.name)));
            }
        }
        let mut key = |kind: fn(ColumnKind) -> bool| -> Vec<(String, Option<Operand>)> {
            let columns = table.columns.iter().enumerate().filter(|(_, column)| kind(column.kind));
            columns.map(|(at, column)| (column.name.clone(), given[at].take())).collect()
        };
        let partition = whole(key(|kind| kind == ColumnKind::Partition))?;
        let clustering = key(|kind| matches!(kind, ColumnKind::Clustering(_)));
        let columns: Vec<(usize, Assigned)> = given
            .into_iter()
            .enumerate()
            .filter_map(|(at, operand)| operand.map(|operand| (at, Assigned::Value(operand))))
            .collect();
        let is_given = |name: &str| columns.iter().any(|(at, _)| table.columns[*at].name == name);
        Compact::check_insert(table, is_given)?;
        let statics_only = !columns.is_empty()
            && columns.iter().all(|(at, _)| table.columns[*at].kind == ColumnKind::Static);
        let names_no_row =
            !clustering.is_empty() && clustering.iter().all(|(_, operand)| operand.is_none());
        let clustering = match names_no_row && statics_only {
            true => None,
            false if Compact::takes_prefix(table) => Some(prefix(clustering)?),
            false => Some(whole(clustering)?),
        };
        let time_to_live = self.using_ttl(&insert.using, table)?;
        let guard = if insert.if_not_exists { GuardPlan::NotExists } else { GuardPlan::Always };
        Ok(WritePlan {
            table: Arc::clone(table),
            change: Change::Set {
                columns,
                marker: clustering.is_some() && Compact::has_markers(table),
            },
            target: WriteTarget::Key { partition, clustering },
            guard,
            time_to_live,
            json: plan,
            write_time: WriteTime::default(),
        })
    }

    fn update(&mut self, update: &Update, table: &Arc<TableSchema>) -> Result<WritePlan, CqlError> {
        let mut columns: Vec<(usize, Assigned)> = Vec::new();
        let mut additions: Vec<(usize, Addition)> = Vec::new();
        for assignment in &update.assignments {
            let (name, term) = match assignment {
                Assignment::Column(name, term) => (name, term),
                Assignment::Element(name, element, value) => {
                    let (position, column) = settable(table, name)?;
                    let change = self.set_element(column, element, value)?;
                    assign(&mut columns, position, column, change)?;
                    continue;
                }
                Assignment::Field(name, field, value) => {
                    let (position, column) = settable(table, name)?;
                    let change = self.set_field(column, field, value)?;
                    assign(&mut columns, position, column, change)?;
                    continue;
                }
            };
            let (position, column) = settable(table, name)?;
            if column.data_type == DataType::Counter {
                additions.push((position, self.addition(term, &column.name)?));
                continue;
            }
            let assigned = if column.is_multi_cell {
                self.collection(column, term)?
            } else {
                let operand =
                    |compiler: &mut Self| compiler.operand(term, &column.data_type, &column.name);
                Assigned::Value(self.within_row(operand)?)
            };
            assign(&mut columns, position, column, assigned)?;
        }
        let filter = self.written_rows(table, &update.filter)?;
        let filter = filter.taking_prefixes(Compact::takes_prefix(table));
        let change = match additions.is_empty() {
            true => Change::Set { columns, marker: false },
            false => Change::Add(additions),
        };
        let guard = self.guard(&update.guard, table)?;
        let time_to_live = self.using_ttl(&update.using, table)?;
        let plan = WritePlan {
            table: Arc::clone(table),
            target: WriteTarget::Where(filter),
            change,
            guard,
            time_to_live,
            json: None,
            write_time: WriteTime::default(),
        };
        plan.check_names_rows("UPDATE")?;
        plan.check_static_only("UPDATE")?;
        Ok(plan)
    }

    fn delete(&mut self, delete: &Delete, table: &Arc<TableSchema>) -> Result<WritePlan, CqlError> {
        let change = self.deletions(&delete.deletions, table)?;
        let filter = self.written_rows(table, &delete.filter)?;
        let guard = self.guard(&delete.guard, table)?;
        let is_range = matches!(change, Change::Delete);
        let plan = WritePlan {
            table: Arc::clone(table),
            target: WriteTarget::Where(filter),
            change,
            guard,
            time_to_live: TimeToLive::default(),
            json: None,
            write_time: WriteTime::default(),
        };
        if is_range && matches!(plan.guard, GuardPlan::Always) {
            plan.check_names_partitions("DELETE")?;
        } else {
            plan.check_names_rows("DELETE")?;
        }
        plan.check_static_only("DELETE")?;
        Ok(plan)
    }

    fn deletions(
        &mut self,
        deletions: &[Deletion],
        table: &TableSchema,
    ) -> Result<Change, CqlError> {
        let (mut cleared, mut elements) = (Vec::new(), Vec::new());
        for deletion in deletions {
            match deletion {
                Deletion::Column(name) => cleared.push(settable(table, name)?.0),
                Deletion::Field(name, field) => {
                    let (position, column) = settable(table, name)?;
                    let null = Term::Literal(Literal::Null);
                    let change = self.set_field(column, field, &null)?;
                    assign(&mut elements, position, column, change)?;
                }
                Deletion::Element(name, element) => {
                    let (position, column) = settable(table, name)?;
                    let change = self.remove_element(column, element)?;
                    assign(&mut elements, position, column, change)?;
                }
            }
        }
        if elements.is_empty() {
            return Ok(if cleared.is_empty() { Change::Delete } else { Change::Clear(cleared) });
        }
        for position in cleared {
            let column = &table.columns[position];
            let null =
                self.operand(&Term::Literal(Literal::Null), &column.data_type, &column.name)?;
            assign(&mut elements, position, column, Assigned::Value(null))?;
        }
        Ok(Change::Set { columns: elements, marker: false })
    }

    fn using_ttl(&mut self, using: &Using, table: &TableSchema) -> Result<TimeToLive, CqlError> {
        self.time_to_live(using.get(Attribute::Ttl), default_time_to_live(table))
    }

    fn guard(&mut self, guard: &Guard, table: &TableSchema) -> Result<GuardPlan, CqlError> {
        Ok(match guard {
            Guard::Always => GuardPlan::Always,
            Guard::Exists => GuardPlan::Exists,
            Guard::Columns(relations) => {
                let filters = relations.iter().map(|relation| self.condition(relation, table));
                GuardPlan::Columns(filters.collect::<Result<_, _>>()?)
            }
        })
    }

    fn condition(&mut self, relation: &Relation, table: &TableSchema) -> Result<Filter, CqlError> {
        let resolved = self.relation(table, relation)?;
        match &resolved {
            Resolved::Compare(position, ..)
            | Resolved::In(position, _)
            | Resolved::Contains(position, ..)
            | Resolved::Part(position, ..)
            | Resolved::Element(position, ..) => {
                let column = &table.columns[*position];
                if matches!(column.kind, ColumnKind::Partition | ColumnKind::Clustering(_)) {
                    return Err(CqlError::invalid(format!(
                        "PRIMARY KEY column '{}' cannot have IF conditions",
                        column.name
                    )));
                }
            }
            _ => return Err(CqlError::unsupported("LIKE in IF")),
        }
        Ok(Filter(resolved))
    }
}

impl WritePlan {
    fn check_names_partitions(&self, statement: &str) -> Result<(), CqlError> {
        let WriteTarget::Where(filter) = &self.target else { return Ok(()) };
        if filter.has_tokens() {
            return Err(CqlError::invalid(format!(
                "The token function cannot be used in WHERE clauses for {statement} statements"
            )));
        }
        if !filter.names_partitions() {
            let missing: Vec<&str> =
                self.table.partition_key().map(|column| column.name.as_str()).collect();
            return Err(CqlError::invalid(format!(
                "{statement} needs each column of the partition key ({}) with = or IN",
                missing.join(", ")
            )));
        }
        if filter.needs_filtering() {
            return Err(CqlError::invalid(format!(
                "{statement}: WHERE restricts columns that do not lead to rows; only the primary \
                 key, from its first column on, does"
            )));
        }
        Ok(())
    }

    fn check_names_rows(&self, statement: &str) -> Result<(), CqlError> {
        self.check_names_partitions(statement)?;
        let WriteTarget::Where(filter) = &self.target else { return Ok(()) };
        if filter.names_rows()
            || filter.names_prefixes()
            || (self.is_static_only() && !self.judges_regulars())
        {
            return Ok(());
        }
        let missing: Vec<&str> =
            self.table.clustering_key().map(|column| column.name.as_str()).collect();
        Err(CqlError::invalid(format!(
            "{statement} needs each clustering column ({}) with = or IN",
            missing.join(", ")
        )))
    }
}

impl WritePlan {
    /// Refuses clustering columns in a statement that neither changes nor evaluates a row.
    fn check_static_only(&self, statement: &str) -> Result<(), CqlError> {
        let WriteTarget::Where(filter) = &self.target else { return Ok(()) };
        let changed = self.changed();
        let changes_rows =
            changed.is_empty() || changed.into_iter().any(|position| !self.is_static(position));
        if changes_rows || self.judges_regulars() || !filter.restricts_clustering() {
            return Ok(());
        }
        Err(CqlError::invalid(format!(
            "Invalid restrictions on clustering columns since the {statement} statement modifies \
             only static columns"
        )))
    }
}

fn whole(columns: Vec<(String, Option<Operand>)>) -> Result<Vec<Operand>, CqlError> {
    let given = columns.into_iter().map(|(name, operand)| {
        operand.ok_or_else(|| {
            CqlError::invalid(format!("column {name} of the primary key is missing"))
        })
    });
    given.collect()
}

/// Returns the values of the first clustering columns, at least one.
fn prefix(mut columns: Vec<(String, Option<Operand>)>) -> Result<Vec<Operand>, CqlError> {
    let given = columns.iter().take_while(|(_, operand)| operand.is_some()).count();
    let is_prefix = given > 0 && columns[given..].iter().all(|(_, operand)| operand.is_none());
    if is_prefix {
        columns.truncate(given);
    }
    whole(columns)
}

/// Adds the new value of a column. Changes of several elements of one column are made in turn.
fn assign(
    columns: &mut Vec<(usize, Assigned)>,
    position: usize,
    column: &ColumnSchema,
    assigned: Assigned,
) -> Result<(), CqlError> {
    let known = columns.iter_mut().find(|(known, _)| *known == position);
    match (known, assigned) {
        (None, assigned) => columns.push((position, assigned)),
        (Some((_, Assigned::Elements(.., changes))), Assigned::Elements(.., more)) => {
            changes.extend(more);
        }
        (Some(_), _) => {
            return Err(CqlError::invalid(format!("column {} is set twice", column.name)));
        }
    }
    Ok(())
}

fn settable<'t>(
    table: &'t TableSchema,
    name: &Name,
) -> Result<(usize, &'t ColumnSchema), CqlError> {
    let (position, column) = find(table, name)?;
    if matches!(column.kind, ColumnKind::Partition | ColumnKind::Clustering(_)) {
        return Err(CqlError::invalid(format!(
            "column {} is part of the primary key: it names the row, and cannot be changed",
            column.name
        )));
    }
    Ok((position, column))
}

/// Sets the write time of a batch in its statements.
///
/// # Errors
///
/// `Invalid` where Cassandra refuses a timestamp, too.
pub(crate) fn set_batch_time(
    writes: &mut [WritePlan],
    write_time: &WriteTime,
) -> Result<(), CqlError> {
    if !write_time.is_given() {
        return Ok(());
    }
    for plan in writes {
        let message = if !matches!(plan.guard, GuardPlan::Always) {
            "Cannot provide custom timestamp for conditional BATCH"
        } else if plan.table.has_counters() {
            "Cannot provide custom timestamp for counter BATCH"
        } else if plan.write_time.is_given() {
            "Timestamp must be set either on BATCH or individual statements"
        } else {
            plan.write_time = write_time.clone();
            continue;
        };
        return Err(CqlError::invalid(message));
    }
    Ok(())
}

/// Refuses a batch whose kind does not fit its statements.
///
/// Carnet applies each kind of batch as one transaction. The rules are those of Cassandra, so that a
/// statement means the same on both.
pub(crate) fn check_batch<'p>(
    kind: BatchKind,
    writes: impl Iterator<Item = &'p WritePlan>,
) -> Result<(), CqlError> {
    let (counters, others): (Vec<_>, Vec<_>) = writes.partition(|plan| plan.table.has_counters());
    let (has_counters, has_others) = (!counters.is_empty(), !others.is_empty());
    let message = match kind {
        BatchKind::Counter if has_others => {
            "Cannot include non-counter statement in a counter batch"
        }
        BatchKind::Logged if has_counters => "Cannot include a counter statement in a logged batch",
        _ if has_counters && has_others => {
            "Counter and non-counter mutations cannot exist in the same batch"
        }
        _ => return Ok(()),
    };
    Err(CqlError::invalid(message))
}
