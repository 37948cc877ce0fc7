//! `EXPLAIN`: how a statement would find and change its rows, and why it would wait or be batch work.
//!
//! The statement is compiled as for its run, and its permissions are checked; nothing of it runs. The
//! sizes of tables are estimated from samples, answers of an index by counting its first entries.

use std::sync::LazyLock;

use carnet::catalog::TableSchema;
use carnet::{DataType, PageLimit, Tx};
use carnet_admission::Class;

use super::executor::Executor;
use super::outline::Outline;
use super::parameters::Session;
use super::prepared::Statements;
use super::run::Run;
use super::terms::{RequestTimes, Terms};
use crate::access::{Clustering, Partitions};
use crate::ast::Statement;
use crate::bound::Bound;
use crate::compile::{
    Change, Environment, GuardPlan, Plan, ResultPlan, SelectPlan, Where, WritePlan, WriteTarget,
};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Columns, Response, Rows};
use crate::system::{self, int, text};

/// Number of index entries up to which an answer is counted.
const ENTRIES_MAX: usize = 1_000;

/// Maximum number of pages of entries that are read for it.
const PAGES_MAX: usize = 64;

/// Columns of the result.
static COLUMNS: LazyLock<Columns> = LazyLock::new(|| {
    let column = |name: &str, data_type| ColumnSpec {
        keyspace: String::new(),
        table: String::new(),
        name: name.to_owned(),
        data_type,
    };
    let columns = [
        column("part", DataType::Int),
        column("property", DataType::Text),
        column("value", DataType::Text),
    ];
    columns.to_vec().into()
});

/// Returns the columns of `EXPLAIN`.
pub(super) fn columns() -> Columns {
    COLUMNS.clone()
}

/// Properties of a statement and its parts.
#[derive(Default)]
struct Explained {
    part: i32,
    rows: Vec<(i32, &'static str, String)>,
}

impl Explained {
    fn add(&mut self, property: &'static str, value: impl Into<String>) {
        self.rows.push((self.part, property, value.into()));
    }

    fn into_response(self) -> Response {
        let row = |(part, property, value): (i32, &str, String)| {
            vec![int(part), text(property), text(&value)]
        };
        let rows: Vec<_> = self.rows.into_iter().map(row).collect();
        Response::Rows(Rows { columns: columns(), rows: rows.into(), paging_state: None })
    }
}

impl Executor {
    /// Explains a statement.
    pub(super) async fn explain(
        &self,
        session: &Session,
        statement: &Statement,
        statements: &Statements,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let tx = run.transaction(&self.shared.db).snapshot_async(None).await?;
        let plan = self.plan(&tx, statements, run.given(), &run.steps).await?;
        let environment = self.environment(&run.bound, &run.steps);
        let mut explained = Explained::default();
        explained.add("statement", statement.kind());
        self.explain_terms(session, statement, run, &mut explained)?;
        match &*plan {
            Plan::Select(select) => {
                explained.part = 1;
                explain_select(&tx, select, &environment, &mut explained).await?;
            }
            Plan::Writes(writes) => {
                if writes.len() > 1 {
                    let partitions = "all of them in one transaction";
                    explained.add("changes", format!("{} statements, {partitions}", writes.len()));
                }
                for write in writes {
                    explained.part += 1;
                    explain_write(write, &environment, &mut explained)?;
                }
            }
            Plan::Transaction(plan) => {
                for select in &plan.lets {
                    explained.part += 1;
                    explain_select(&tx, select, &environment, &mut explained).await?;
                }
                if let ResultPlan::Select(select) = &plan.result {
                    explained.part += 1;
                    explain_select(&tx, select, &environment, &mut explained).await?;
                }
                for (branch, when) in [
                    (&plan.body.then, "if the condition holds"),
                    (&plan.body.otherwise, "otherwise"),
                ] {
                    for write in &branch.writes {
                        explained.part += 1;
                        if plan.body.condition.is_some() {
                            explained.add("runs", when);
                        }
                        explain_write(write, &environment, &mut explained)?;
                    }
                }
            }
        }
        Ok(explained.into_response())
    }

    /// Explains how the server would admit the statement.
    fn explain_terms(
        &self,
        session: &Session,
        statement: &Statement,
        run: &Run<'_>,
        explained: &mut Explained,
    ) -> Result<(), CqlError> {
        let outline = Outline::of_statement(statement, run.keyspace.as_deref(), |_| None);
        // A level that does not exist is reported as when the statement runs.
        self.level_of(session, &outline)?;
        if let (Some(rights), Some(level)) = (&run.rights, outline.level) {
            self.check_level(rights, level)?;
        }
        let now = self.shared.db.now();
        let terms = self.terms(session, &outline);
        let deadline = terms.deadline(RequestTimes::at(now));
        let Terms { level, workload, .. } = terms;
        explained.add("class", outline.class.name());
        explained.add("service level", &*level.level.name);
        let why = match (level.options.workload_type, outline.why_large) {
            (Some(_), _) => Some("set by the service level"),
            (None, Some(why)) if outline.class != Class::System => Some(why),
            (None, _) if session.throws_on_overload() => Some("set by the client"),
            (None, _) => None,
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        explained.add("workload", format!("{}{why}", workload.name()));
        if let Some(deadline) = deadline {
            explained.add("timeout", format!("{:?}", deadline.since(now)));
        }
        Ok(())
    }
}

async fn explain_select(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    explained: &mut Explained,
) -> Result<(), CqlError> {
    let table = &plan.table;
    explained.add("table", name(table));
    if plan.system.is_some() {
        explained.add("access", "a system table: its rows are made for the read");
        return Ok(());
    }
    let wanted = known(plan.filter.access(table, plan.order.reverse, environment), environment)?;
    let found = wanted.as_ref().map(|access| (&access.partitions, &access.clustering));
    match &plan.index {
        Some(index) => {
            let schema = index.schema(table);
            let column = table.column_by_id(schema.column).map_or("", |column| &column.name);
            let within = plan.filter.names_partitions() || plan.filter.has_tokens();
            let within = within.then(|| format!(", within {}", described(&plan.filter, found)));
            let within = within.unwrap_or_default();
            explained.add("access", format!("entries of an index, then the row of each{within}"));
            explained.add("index", format!("{} on {column}", schema.name));
            let entries = match &wanted {
                Some(access) => known(index.access(table, access, environment), environment)?,
                None => None,
            };
            if let Some(entries) = entries {
                let (count, is_all) = count(tx, &entries.ranges).await?;
                let more = if is_all { "" } else { " or more" };
                explained.add("estimate", format!("{count}{more} entries"));
            }
        }
        None => {
            explained.add("access", described(&plan.filter, found));
            if let Some(estimate) = estimate(tx, plan, found).await? {
                explained.add("estimate", estimate);
            }
        }
    }
    if !plan.filter.filters.is_empty() {
        let count = plan.filter.filters.len();
        let relations = if count == 1 { "1 relation" } else { &*format!("{count} relations") };
        explained.add("filter", format!("{relations} evaluated on each row that is read"));
    }
    if plan.near.is_some() {
        explained.add("order", "by similarity: the vector of each row that is read is compared");
    } else if plan.order.merged.is_some() {
        explained.add("order", "the rows of several partitions are merged");
    } else if plan.order.reverse {
        explained.add("order", "from the last row of a partition to the first");
    }
    if plan.aggregates {
        explained.add("result", "one row, aggregated from all rows that are read");
    } else if plan.group.is_some() {
        explained.add("result", "a row for each group");
    }
    if let Some(warning) = plan.warning() {
        explained.add("warning", warning);
    }
    Ok(())
}

fn explain_write(
    plan: &WritePlan,
    environment: &Environment<'_>,
    explained: &mut Explained,
) -> Result<(), CqlError> {
    let table = &plan.table;
    explained.add("table", name(table));
    let change = match (&plan.change, &plan.target) {
        (Change::Delete, _) => "rows are deleted",
        (Change::Clear(_), _) => "columns are deleted",
        (Change::Add(_), _) => "amounts are added to counters",
        (Change::Set { .. }, _) => "columns are set",
    };
    explained.add("change", change);
    let mut is_range = false;
    let access = match &plan.target {
        WriteTarget::Key { clustering: Some(_), .. } => "one row by its primary key".to_owned(),
        WriteTarget::Key { clustering: None, .. } => {
            "the static columns of one partition".to_owned()
        }
        WriteTarget::Where(filter) => {
            let targets = known(filter.targets(environment), environment)?;
            is_range = !filter.names_rows() && matches!(plan.change, Change::Delete);
            described(filter, targets.as_ref().map(|(one, other)| (one, other)))
        }
    };
    explained.add("access", access);
    let indexes = table.indexes.iter().map(|index| index.name.as_str());
    let derived: Vec<&str> = indexes.chain(table.views.iter().map(|view| &*view.name)).collect();
    let mut reads = Vec::new();
    if !matches!(plan.guard, GuardPlan::Always) {
        reads.push("the row, for the condition of IF");
    }
    if plan.reads_row() {
        reads.push("the row, from which values are calculated");
    }
    if is_range {
        reads.push("the rows of the range, which are deleted one by one");
    }
    if !derived.is_empty() {
        reads.push("the row, where an index or a view depends on what changes");
    }
    if !reads.is_empty() {
        explained.add("reads before", reads.join("; "));
    }
    if !derived.is_empty() {
        explained.add("may also write", derived.join(", "));
    }
    Ok(())
}

/// Evaluates a term with the bound values; `None` if a bound value is missing.
fn known<T>(
    value: Result<T, CqlError>,
    environment: &Environment<'_>,
) -> Result<Option<T>, CqlError> {
    match value {
        Err(_) if environment.bound.contains(&Bound::Unset) => Ok(None),
        value => value.map(Some),
    }
}

/// Describes the rows that a `WHERE` finds, with their number if the values are known.
fn described(filter: &Where, found: Option<(&Partitions, &Clustering)>) -> String {
    let partitions = match found {
        Some((Partitions::Keys(keys), _)) => Some(keys.len()),
        _ => None,
    };
    let rows = match found {
        Some((_, Clustering::Cells(cells))) => Some(cells.len()),
        _ => None,
    };
    let number = |number: Option<usize>| number.map_or("several".to_owned(), |n| n.to_string());
    if filter.names_one_row() {
        return "one row by its primary key".to_owned();
    }
    if filter.names_rows() {
        let product = partitions.zip(rows).map(|(partitions, rows)| partitions * rows.max(1));
        return format!("{} rows by their primary keys", number(product));
    }
    let rows = if filter.restricts_clustering() { "a range of rows" } else { "all rows" };
    if filter.names_one_partition() {
        return format!("{rows} of one partition");
    }
    if filter.names_partitions() {
        return format!("{rows} of {} partitions", number(partitions));
    }
    if filter.has_tokens() {
        return "the partitions in a range of tokens, in the order of their tokens".to_owned();
    }
    "the whole table, in the order of tokens".to_owned()
}

/// Estimates how much a statement reads without an index; `None` if it depends on values that are not
/// given.
async fn estimate(
    tx: &Tx,
    plan: &SelectPlan,
    found: Option<(&Partitions, &Clustering)>,
) -> Result<Option<String>, CqlError> {
    if plan.filter.names_one_row() {
        return Ok(Some("1 row".to_owned()));
    }
    if plan.filter.names_partitions() && found.is_none() {
        return Ok(None);
    }
    if let (true, Some((Partitions::Keys(keys), Clustering::Cells(cells)))) =
        (plan.filter.names_rows(), found)
    {
        return Ok(Some(format!("up to {} rows", keys.len() * cells.len().max(1))));
    }
    let (partitions, bytes) = system::estimate_table(tx, plan.table.id).await?;
    let mean = if partitions > 0.0 { bytes / partitions } else { 0.0 };
    Ok(Some(match found {
        Some((Partitions::Keys(keys), _)) => {
            let table =
                format!("the table has about {partitions:.0}, of about {mean:.0} bytes each");
            let partitions = if keys.len() == 1 { "partition" } else { "partitions" };
            format!("up to {} {partitions}; {table}", keys.len())
        }
        _ => format!("up to about {partitions:.0} partitions with {bytes:.0} bytes"),
    }))
}

/// Counts the first entries of ranges. Returns `false` with the number if there may be more.
async fn count(tx: &Tx, ranges: &[carnet::KeyRange]) -> Result<(usize, bool), CqlError> {
    let (mut count, mut pages) = (0, 0);
    let mut slice = tx.time_slice();
    for range in ranges {
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            // Pages of deleted entries are empty.
            if count >= ENTRIES_MAX || pages >= PAGES_MAX {
                return Ok((count, false));
            }
            if let Some(slice) = &mut slice {
                slice.check().await;
            }
            let page = tx.range_cells(&range, false, PageLimit::cells(ENTRIES_MAX - count)).await?;
            (count, pages) = (count + page.cells.len(), pages + 1);
            rest = page.resume;
        }
    }
    Ok((count, true))
}

fn name(table: &TableSchema) -> String {
    format!("{}.{}", table.keyspace, table.name)
}
