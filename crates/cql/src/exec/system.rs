//! Execution of a `SELECT` on a system table.

use carnet::Value;
use carnet::base::Bytes;

use super::executor::Executor;
use super::paging;
use super::prepared::Described;
use super::run::Run;
use crate::ast::{Name, Select, TableName};
use crate::compile::{Compiler, SystemOutput, limit_value};
use crate::cql_error::CqlError;
use crate::json;
use crate::result::{Response, Rows};
use crate::steps::Steps;
use crate::system::{self, SystemTable};
use crate::timestamps::Timestamps;

impl Executor {
    pub(super) fn is_system(&self, table: &TableName, run: &Run<'_>) -> bool {
        let keyspace = table.keyspace.as_ref().map(Name::as_str).or(run.keyspace.as_deref());
        keyspace.is_some_and(system::is_system_keyspace)
    }

    pub(super) fn find_system(
        &self,
        table: &TableName,
        keyspace: Option<&str>,
    ) -> Option<&'static SystemTable> {
        let keyspace = table.keyspace.as_ref().map(Name::as_str).or(keyspace)?;
        system::find(keyspace, table.table.as_str())
    }

    pub(super) async fn system_select(
        &self,
        select: &Select,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let Some(table) = self.find_system(&select.from, run.keyspace.as_deref()) else {
            return Err(CqlError::invalid(format!("table {} does not exist", select.from)));
        };
        if run.parameters.paging_state.is_some() {
            return Err(paging::invalid("system tables are returned in one page"));
        }
        let mut compiler = Compiler::new(self.shared.timestamps, &run.steps);
        let plan = compiler.system_select(select, table)?;
        let environment = self.environment(&run.bound, &run.steps);
        let mut wanted = Vec::with_capacity(plan.filters.len());
        for (position, list) in &plan.filters {
            let values = list.values(&environment)?;
            let values: Vec<Bytes> = values.iter().map(Value::serialize).collect();
            wanted.push((*position, values));
        }
        let limit = limit_value(plan.limit.as_ref(), &environment)?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);

        let db = &self.shared.db;
        let tx = run.transaction(db).snapshot_async(None).await?;
        let wants = |name: &str, value: &str| {
            let column = table.column(name).map(|(position, _)| position);
            wanted.iter().all(|(position, values)| {
                Some(*position) != column || values.iter().any(|given| given == value.as_bytes())
            })
        };
        let elsewhere = if table.lists_open_transactions() {
            self.open_elsewhere(run.deadline).await
        } else {
            Vec::new()
        };
        let sources = system::Sources {
            wants: &|keyspace, name| wants("keyspace_name", keyspace) && wants("table_name", name),
            node: &self.shared.node,
            peers: &self.peers(),
            open: &|| self.open_list(),
            open_elsewhere: &elsewhere,
            report: &|| db.admission().map(|admission| admission.diagnosis().report()),
            timeouts: system::SettingTimeouts {
                statement: self.timeouts().map(|timeouts| timeouts.statement),
                scan: self.timeouts().map(|timeouts| timeouts.scan),
            },
            traces: &|| self.shared.traces.list(db.wall_time()),
        };
        let found = system::rows(table, &tx, &sources).await?;
        let satisfies = |row: &Vec<Option<Bytes>>| {
            wanted.iter().all(|(position, values)| {
                row[*position].as_ref().is_some_and(|value| values.contains(value))
            })
        };
        let found = found.into_iter().filter(satisfies);
        let rows = match &plan.outputs {
            None => {
                let count = i64::try_from(found.count()).unwrap_or(i64::MAX);
                vec![vec![Some(Value::Bigint(count).serialize())]].into()
            }
            Some(outputs) => {
                let value = |row: &[Option<Bytes>], output: &SystemOutput| match *output {
                    SystemOutput::Column(position) => Ok(row[position].clone()),
                    SystemOutput::Json(position) => {
                        let data_type = &table.columns[position].data_type;
                        let json = json::of_bytes(data_type, row[position].as_ref())?;
                        Ok(Some(Bytes::from(json)))
                    }
                };
                let project = |row: Vec<Option<Bytes>>| -> Result<Vec<_>, CqlError> {
                    outputs.iter().map(|output| value(&row, output)).collect()
                };
                found.take(limit).map(project).collect::<Result<_, _>>()?
            }
        };
        // The rows are few: the page size does not matter.
        Ok(Response::Rows(Rows { columns: plan.columns.into(), rows, paging_state: None }))
    }
}

impl Executor {
    /// Returns the result of `SHOW BOTTLENECK`.
    pub(super) fn show_bottleneck(&self) -> Result<Response, CqlError> {
        let Some(admission) = self.shared.db.admission() else {
            return Err(CqlError::invalid(
                "SHOW BOTTLENECK: this process has the database open without admission control, so that \
                 the waiting of statements is not measured; ask a server (carnet serve)",
            ));
        };
        Ok(Response::Rows(system::show_bottleneck(&admission.diagnosis().report())))
    }
}

/// Returns the markers and columns of a `SELECT` on a system table.
pub(super) fn describe(
    select: &Select,
    table: &'static SystemTable,
    markers: usize,
    steps: &Steps<'_>,
) -> Result<Described, CqlError> {
    let mut compiler = Compiler::new(Timestamps::default(), steps);
    let plan = compiler.system_select(select, table)?;
    let markers = compiler.finish(markers)?;
    Ok(Described { markers, result: plan.columns, ..Described::default() })
}
