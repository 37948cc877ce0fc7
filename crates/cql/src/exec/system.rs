//! Rows of system tables for a `SELECT`.

use std::sync::Arc;

use carnet::Tx;
use carnet::roles::{Permission, Resource, Rights};
use carnet_admission::Class;
use carnet_base::lock;

use super::authorize::check;
use super::executor::Executor;
use super::paging::PagingState;
use super::run::Run;
use super::select;
use super::system_rows::{Columns, Wanted};
use crate::ast::{Name, TableName};
use crate::compile::{Environment, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::{Response, Rows};
use crate::system::{self, SystemTable};
use crate::trace::Trace;

/// More than the number of columns of any table.
const ROWS_OF_TABLE_MAX: usize = 2_000;

impl Executor {
    pub(super) fn is_system(&self, table: &TableName, run: &Run<'_>) -> bool {
        let keyspace = table.keyspace.as_ref().map(Name::as_str).or(run.keyspace.as_deref());
        keyspace.is_some_and(system::is_system_keyspace)
    }

    /// Runs a `SELECT` on a system table, from the row after `state` on.
    pub(super) async fn system_select(
        &self,
        tx: &Tx,
        (plan, table): (&SelectPlan, &'static SystemTable),
        environment: &Environment<'_>,
        (run, state): (&Run<'_>, Option<&PagingState>),
    ) -> Result<Rows, CqlError> {
        let rights = run.rights.as_deref();
        let given = (state, run, rights);
        let mut rows = self.system_rows(tx, (plan, table), environment, given).await?;
        if let Some(rights) = own_rows_only(rights, table) {
            rows.retain(|row| table.is_of(row, rights.role()));
        }
        select::run_over(tx, plan, environment, run.parameters, state, Some(rows)).await
    }

    /// Returns the figures of the levels in a class that have had statements.
    fn level_figures(&self, class: Class) -> Vec<system::LevelFigures> {
        let db = &self.shared.db;
        let figures = db.admission().map(|admission| admission.figures_of_levels(class));
        let levels = db.levels();
        let of_level = |(name, figures): (Arc<str>, _)| {
            let shares = levels.get(&name).map(|level| level.level.limits.shares);
            system::LevelFigures { name, shares, figures }
        };
        figures.unwrap_or_default().into_iter().map(of_level).collect()
    }

    /// Makes the rows of the system table that a statement reads.
    async fn system_rows(
        &self,
        tx: &Tx,
        (plan, table): (&SelectPlan, &'static SystemTable),
        environment: &Environment<'_>,
        (state, run, rights): (Option<&PagingState>, &Run<'_>, Option<&Rights>),
    ) -> Result<Vec<Columns>, CqlError> {
        let access = plan.filter.access(&plan.table, plan.order.reverse, environment)?;
        let wanted = Wanted::new(&access, state);
        let elsewhere = if table.lists_open_transactions() {
            self.open_elsewhere(run.deadline).await
        } else {
            Vec::new()
        };
        let db = &self.shared.db;
        if table.shows_roles() {
            db.refresh_roles_by(tx).await?;
        }
        let roles = db.roles();
        let has_hashes = rights.is_none_or(Rights::is_superuser);
        let own = own_rows_only(rights, table).map(Rights::role);
        let is_shown =
            |trace: &Arc<Trace>| own.is_none_or(|role| trace.user.as_ref() == Some(role));
        let thresholds = self.warn_thresholds();
        let settings = Arc::clone(&lock(&self.shared.settings));
        let sources = system::Sources {
            wants: &|keyspace, name| wanted.table(keyspace, name),
            wants_keyspace: &|keyspace| wanted.keyspace(keyspace),
            rows_max: run
                .parameters
                .page_rows
                .filter(|_| wanted.is_a_prefix(plan))
                .map(rows_of_page),
            node: &self.shared.node,
            db,
            peers: &self.peers(),
            open: &|| self.open_list(),
            running: &|| self.running_rows(rights),
            row_waits: &|| self.row_waits(rights),
            hot_rows: &|| self.hot_rows(rights),
            statistics: &|| self.shared.statistics.rows(),
            conflicts: &|| self.conflict_rows(rights),
            open_elsewhere: &elsewhere,
            report: &|| db.admission().map(|admission| admission.diagnosis().report()),
            figures: &|class| db.admission().map(|admission| admission.figures(class)),
            levels: &|class| self.level_figures(class),
            settings: system::StatementSettings {
                statement: self.timeouts().map(|timeouts| timeouts.statement),
                scan: self.timeouts().map(|timeouts| timeouts.scan),
                batch_bytes: thresholds.batch_bytes,
                unlogged_partitions: thresholds.unlogged_partitions,
                tombstones: thresholds.tombstones,
            },
            own_settings: &settings,
            roles: system::RolesView { roles: &roles, has_hashes },
            traces: &|| {
                let mut traces = self.shared.traces.list(db.wall_time());
                traces.retain(is_shown);
                traces
            },
        };
        Ok(system::rows(table, tx, &sources).await?)
    }
}

/// Returns the number of rows, from the table of the last row on, that a page of `rows` rows needs. The rows of
/// that table are made again.
const fn rows_of_page(rows: usize) -> usize {
    rows.saturating_add(ROWS_OF_TABLE_MAX)
}

/// Returns the rights of a role that sees only its own rows of a table; `None` if it sees all.
fn own_rows_only<'r>(rights: Option<&'r Rights>, table: &SystemTable) -> Option<&'r Rights> {
    let sees_all =
        |rights: &&Rights| rights.allows_table(table.keyspace, table.name, Permission::Select);
    rights.filter(|rights| table.has_owned_rows() && !sees_all(rights))
}

impl Executor {
    /// Returns the result of `SHOW BOTTLENECK`.
    pub(super) fn show_bottleneck(&self, rights: Option<&Rights>) -> Result<Response, CqlError> {
        if let Some(rights) = rights {
            let (keyspace, table) = system::BOTTLENECK;
            check(rights, &Resource::table(keyspace, table), Permission::Select)?;
        }
        let Some(admission) = self.shared.db.admission() else {
            return Err(CqlError::invalid(
                "SHOW BOTTLENECK: this process has the database open without admission control, so that \
                 the waiting of statements is not measured; ask a server (carnet serve)",
            ));
        };
        Ok(Response::Rows(system::show_bottleneck(&admission.diagnosis().report())))
    }
}
