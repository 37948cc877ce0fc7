//! Statements that start, join and end transactions.

use std::sync::Arc;

use carnet::roles::{Permission, Resource};
use carnet::{
    AsOf, DataType, Holder, Isolation, Label, Timestamp, TransactionOptions, Tx, Uuid, Value,
};
use carnet::{ErrorKind, Outcome};
use carnet_admission::diagnosis::Named;
use carnet_base::Bytes;

use super::forward::{Absence, Step};
use crate::ast::{IsolationLevel, OpenStatement, StartTransaction};
use crate::compile::{Compiler, NamedTransaction};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::exec::authorize::check;
use crate::exec::executor::Executor;
use crate::exec::grant::Grant;
use crate::exec::moment::as_of;
use crate::exec::open::{
    Binding, End, OpenLimits, OpenTotals, Owner, Parts, Refusal, aborted, after, ended, id, refused,
};
use crate::exec::parameters::Session;
use crate::exec::prepared::{Described, Statements};
use crate::exec::run::Run;
use crate::result::{ColumnSpec, Response, Rows};
use crate::steps::Steps;
use crate::system::{OpenTransaction, Peer, TRANSACTIONS};
use crate::timestamps::Timestamps;

/// Label of open transactions in the list of transactions that block garbage collection.
const LABEL: &str = "START TRANSACTION";

impl Executor {
    /// Sets the limits of transactions that stay open between statements.
    pub fn set_open_limits(&self, limits: OpenLimits) {
        self.shared.open.set_limits(limits);
    }

    /// Returns the number of open transactions, and the totals since the start of
    /// the executor.
    #[must_use]
    pub fn open_transactions(&self) -> (usize, OpenTotals) {
        self.shared.open.totals()
    }

    /// Rolls back the transactions that have been idle for too long. A server calls it once a second.
    pub fn expire_transactions(&self) {
        self.shared.open.expire();
    }

    /// Rolls back all open transactions whose commit is not in progress, and returns their number: a
    /// server calls it after its last statement.
    pub fn end_transactions(&self) -> usize {
        self.shared.open.close()
    }

    pub(in crate::exec) async fn open_statement(
        &self,
        session: &Session,
        statement: &OpenStatement,
        (statements, run): (&Statements, &Run<'_>),
    ) -> Result<Response, CqlError> {
        let mut compiler = Compiler::new(self.shared.timestamps, &run.steps);
        let plan = compiler.open_statement(statement)?;
        let environment = self.environment(&run.bound, &run.steps);
        let named = plan.named(&environment)?;
        let step = Step::of(&statements.parsed.statement);
        let id = match (step, &named) {
            (Step::Inside, _)
            | (Step::Outcome, Some(NamedTransaction::Start(_)) | None)
            | (Step::Kill, Some(NamedTransaction::Start(_))) => None,
            _ => Some(self.id_of(session, named)?),
        };
        if let Some(id) = id
            && let Some(holders) = self.holders(session, id)
        {
            return self.forward(session, id, &holders, statements, run).await;
        }
        if let Some(id) = id
            && step != Step::Outcome
            && self.is_of_earlier_process(id)
        {
            session.unbind(id);
            return self.lost(id, Absence::Unknown, step).await;
        }
        match statement {
            OpenStatement::Start(start) => {
                let as_of =
                    start.as_of.as_ref().map(|term| as_of(term, &environment)).transpose()?;
                self.start(session, start, as_of, run).await
            }
            OpenStatement::Commit(_) => {
                self.commit(session, self.id_of(session, named)?, run).await
            }
            OpenStatement::Rollback(_) => self.roll_back(session, self.id_of(session, named)?),
            OpenStatement::Kill(_) => match named {
                Some(NamedTransaction::Start(start)) => self.abort_start(start, run).await,
                named => self.kill(session, self.id_of(session, named)?, run),
            },
            OpenStatement::Outcome(_) => self.outcome(session, named).await,
            OpenStatement::Outcomes(_) => {
                self.outcomes(session, plan.all_named(&environment)?).await
            }
        }
    }

    /// Returns a row for each of several transactions, in their order.
    async fn outcomes(
        &self,
        session: &Session,
        named: Vec<NamedTransaction>,
    ) -> Result<Response, CqlError> {
        let mut rows = Vec::with_capacity(named.len());
        for one in named {
            let name = match one {
                NamedTransaction::Id(id) => id.to_string(),
                NamedTransaction::Start(start) => start.to_string(),
            };
            if let Response::Rows(found) = Box::pin(self.outcome(session, Some(one))).await? {
                let own = found.rows.to_vec().into_iter().flatten();
                rows.push(std::iter::once(Some(Bytes::from(name))).chain(own).collect());
            }
        }
        let columns = outcomes_columns().into();
        Ok(Response::Rows(Rows { columns, rows: Vec::into(rows), paging_state: None }))
    }

    async fn start(
        &self,
        session: &Session,
        start: &StartTransaction,
        as_of: Option<AsOf>,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        if !start.detached && session.transaction().is_some() {
            return Err(CqlError::invalid(
                "a transaction is open on this connection: end it by COMMIT or ROLLBACK first, or use \
                 START DETACHED TRANSACTION",
            ));
        }
        let owner = Owner {
            client: session.client(),
            user: session.user().map(Arc::from),
            name: session.name(),
        };
        let label = Label::new(Arc::clone(&owner.name), LABEL);
        let place = self.shared.open.reserve(owner);
        let place = place.map_err(|refusal| refused(Uuid::nil(), refusal, String::new))?;
        let db = &self.shared.db;
        let options = run.transaction(db).label(label).interactive(true);
        let options = match start.isolation {
            Some(IsolationLevel::StrictSerializable) => {
                options.isolation(Isolation::StrictSerializable)
            }
            Some(IsolationLevel::Serializable) => options.isolation(Isolation::Serializable),
            Some(IsolationLevel::Snapshot) => options.isolation(Isolation::Snapshot),
            None => options,
        };
        let tx = match as_of {
            Some(at) => options.snapshot_as_of_async(at).await.map_err(CqlError::of_moment)?,
            None if start.read_only == Some(true) => options.snapshot_async(None).await?,
            None => options.begin_async().await?,
        };
        // Permit and deadline are those of this statement, and end with it.
        let id = place.fill(db.transaction().join(&tx));
        if !start.detached {
            let binding = Binding::new(Arc::clone(&self.shared.open), id);
            // Dropping the binding of a second one that was started at once ends it.
            if session.bind(binding).is_err() {
                return Err(CqlError::invalid(
                    "two transactions were started at once on this connection; use START DETACHED \
                     TRANSACTION",
                ));
            }
        }
        let row = vec![Some(Value::Uuid(id).serialize())];
        Ok(Response::Rows(Rows {
            columns: started_columns().into(),
            rows: vec![row].into(),
            paging_state: None,
        }))
    }

    async fn commit(
        &self,
        session: &Session,
        id: Uuid,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let committing = match self.shared.open.commit(id, session.user()) {
            Ok(committing) => committing,
            // A driver may send a commit again whose answer it did not receive.
            Err(Refusal::NotOpen(Some(End::Committed(_) | End::OnlyRead(_)))) => {
                session.unbind(id);
                return Ok(Response::Void);
            }
            Err(refusal) => {
                if matches!(refusal, Refusal::NotOpen(_)) {
                    session.unbind(id);
                }
                return Err(self.refused(id, refusal));
            }
        };
        let tx = run.transaction(&self.shared.db).join(&committing.tx);
        let has_written = tx.changes() > 0;
        let result = tx.commit().await;
        let (end, answer) = match result {
            Ok(at) if !has_written => (End::OnlyRead(at), Ok(Response::Void)),
            Ok(at) => (End::Committed(at), Ok(Response::Void)),
            Err(error) => {
                let (end, error) = not_committed(id, error);
                (end, Err(error))
            }
        };
        committing.end(end);
        session.unbind(id);
        self.name_lost_row(answer)
    }

    fn roll_back(&self, session: &Session, id: Uuid) -> Result<Response, CqlError> {
        let checked = self.shared.open.check(id, session.user());
        let done = checked.and_then(|()| self.shared.open.roll_back(id, End::RolledBack));
        match done {
            Err(refusal @ (Refusal::OtherUser | Refusal::Committing)) => {
                return Err(self.refused(id, refusal));
            }
            Err(Refusal::NotOpen(Some(
                end @ (End::Committed(_) | End::OnlyRead(_) | End::Unknown),
            ))) => {
                session.unbind(id);
                return Err(ended(id, end));
            }
            Err(refusal @ Refusal::NotOpen(None)) if !session.unbind(id) => {
                return Err(self.refused(id, refusal));
            }
            // It has no effect, as the client wants.
            _ => {}
        }
        session.unbind(id);
        Ok(Response::Void)
    }

    fn kill(&self, session: &Session, id: Uuid, run: &Run<'_>) -> Result<Response, CqlError> {
        let open = &self.shared.open;
        if let Some(rights) = &run.rights
            && open.check(id, session.user()) == Err(Refusal::OtherUser)
        {
            let (keyspace, table) = TRANSACTIONS;
            check(rights, &Resource::table(keyspace, table), Permission::Modify)?;
        }
        match open.find(id).and_then(|()| open.roll_back(id, End::Killed)) {
            Ok(()) => Ok(Response::Void),
            Err(refusal) => Err(CqlError::invalid(self.refused(id, refusal).message())),
        }
    }

    /// Aborts a transaction of any server by its start timestamp. Its owner is not known, so this needs
    /// the permission to end transactions of others.
    async fn abort_start(&self, start: Timestamp, run: &Run<'_>) -> Result<Response, CqlError> {
        if let Some(rights) = &run.rights {
            let (keyspace, table) = TRANSACTIONS;
            check(rights, &Resource::table(keyspace, table), Permission::Modify)?;
        }
        match self.shared.db.abort_start(start).await? {
            Outcome::Aborted => Ok(Response::Void),
            Outcome::Committed(at) => {
                Err(CqlError::invalid(format!("the transaction {start} was committed at {at}")))
            }
            Outcome::Pending => Err(CqlError::invalid(format!(
                "the commit of transaction {start} is being written; SELECT outcome({start}) tells \
                 what becomes of it"
            ))),
        }
    }

    async fn outcome(
        &self,
        session: &Session,
        named: Option<NamedTransaction>,
    ) -> Result<Response, CqlError> {
        let start = match named {
            Some(NamedTransaction::Id(id)) => {
                let Parts { start, .. } = self.parts(id)?;
                match self.shared.open.check(id, session.user()) {
                    // The commit table is asked also for one that is open here: it was aborted if
                    // this server was silent for long, or if the leader has changed.
                    Ok(()) if start.is_none() => return Ok(outcome_rows("open", None)),
                    Ok(()) => start,
                    Err(refusal @ Refusal::OtherUser) => return Err(self.refused(id, refusal)),
                    Err(Refusal::NotOpen(Some(End::Committed(at)))) => {
                        return Ok(outcome_rows("committed", Some(at)));
                    }
                    Err(Refusal::NotOpen(Some(End::OnlyRead(at)))) => {
                        return Ok(outcome_rows("read only", Some(at)));
                    }
                    Err(Refusal::NotOpen(Some(end))) if end != End::Unknown => {
                        return Ok(outcome_rows("aborted", None));
                    }
                    Err(_) => start,
                }
            }
            Some(NamedTransaction::Start(start)) => Some(start),
            None => None,
        };
        self.outcome_of(start).await
    }

    /// Returns the outcome of a transaction by its start timestamp, as the commit table has it.
    pub(in crate::exec) async fn outcome_of(
        &self,
        start: Option<Timestamp>,
    ) -> Result<Response, CqlError> {
        // A read-only transaction has no start, and leaves no trace.
        let Some(start) = start else { return Ok(outcome_rows("read only", None)) };
        match self.shared.db.outcome_async(start).await {
            Ok(Outcome::Committed(at)) => Ok(outcome_rows("committed", Some(at))),
            Ok(Outcome::Aborted) => Ok(outcome_rows("aborted", None)),
            Ok(Outcome::Pending) => Ok(outcome_rows("open", None)),
            Err(error) if matches!(error.kind(), ErrorKind::Unknown { .. }) => {
                Ok(outcome_rows("unknown", None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lists all open transactions, also the ones of running statements.
    pub(in crate::exec) fn open_list(&self) -> Vec<OpenTransaction> {
        let mut open = self.shared.open.list();
        let is_listed =
            |holder: &Holder| holder.label.as_ref().is_some_and(|label| label.what == LABEL);
        let holders = self.shared.db.holders().into_iter();
        let now = self.shared.db.wall_time();
        let running = holders.filter(|holder| !is_listed(holder));
        open.extend(running.map(|holder| OpenTransaction::of_holder(holder, now)));
        open
    }

    /// Runs a statement in an open transaction.
    pub(in crate::exec) async fn inside<F>(
        &self,
        session: &Session,
        id: Uuid,
        statement: Arc<Named>,
        (options, grant): (TransactionOptions<'_>, &Grant),
        body: impl FnOnce(Tx) -> F,
    ) -> Result<Response, CqlError>
    where
        F: Future<Output = Result<Response, CqlError>>,
    {
        let user = session.user();
        if self.is_of_earlier_process(id) {
            return self.lost(id, Absence::Unknown, Step::Inside).await;
        }
        let joined = self.shared.open.enter(id, user, statement).map_err(|refusal| {
            let error = self.refused(id, refusal);
            match (refusal, session.transaction()) {
                (Refusal::NotOpen(_), Some(bound)) if bound == id => CqlError::new(
                    error.kind().clone(),
                    format!("{}; send ROLLBACK before other statements", error.message()),
                ),
                _ => error,
            }
        })?;
        if let Some(permit) = &grant.permit {
            permit.progress().join();
        }
        let result = match options.wait_for_set_memory(&joined.tx).await {
            Ok(()) => body(options.join(&joined.tx)).await,
            Err(killed) => Err(killed.into()),
        };
        let Err(error) = result else {
            joined.succeed();
            return result;
        };
        let is_too_old = matches!(error.kind(), CqlErrorKind::Conflict | CqlErrorKind::Aborted);
        let end = joined.fail(user, is_too_old);
        Err(after(error, id, end))
    }

    /// Returns the error of a statement that an open transaction does not take.
    pub(in crate::exec) fn still_open(
        &self,
        session: &Session,
        id: Uuid,
        error: CqlError,
    ) -> CqlError {
        match self.shared.open.check(id, session.user()) {
            Ok(()) => after(error, id, None),
            Err(refusal) => self.refused(id, refusal),
        }
    }

    /// Says that a table of a statement has changed since its transaction began, if that is why the
    /// statement does not fit: preparing it again would not help.
    pub(in crate::exec) async fn unless_changed(
        &self,
        error: CqlError,
        statements: &Statements,
        keyspace: Option<&str>,
    ) -> CqlError {
        if !matches!(error.kind(), CqlErrorKind::Unprepared { .. }) {
            return error;
        }
        let Ok(newest) = self.shared.db.snapshot_async().await else { return error };
        match self.plan(&newest, statements, (keyspace, None), &self.count_steps(None)).await {
            Ok(_) => CqlError::new(
                CqlErrorKind::Aborted,
                "a table of the statement has changed since the transaction began",
            ),
            Err(_) => error,
        }
    }

    /// Returns the transaction that a statement names, or that of the connection.
    fn id_of(&self, session: &Session, named: Option<NamedTransaction>) -> Result<Uuid, CqlError> {
        if let Some(NamedTransaction::Id(id)) = named {
            self.parts(id)?;
            return Ok(id);
        }
        session.transaction().ok_or_else(|| {
            CqlError::invalid(
                "no transaction is open on this connection: name one, as in COMMIT TRANSACTION id, or \
                 begin with START TRANSACTION",
            )
        })
    }

    fn parts(&self, id: Uuid) -> Result<Parts, CqlError> {
        id::parts(id).ok_or_else(|| {
            CqlError::invalid(format!("{id} is no id that START TRANSACTION has returned"))
        })
    }

    /// Returns the other servers that may hold a transaction; `None` if it has no tag.
    pub(in crate::exec) fn peers_with_tag(&self, id: Uuid) -> Option<Vec<Peer>> {
        let Parts { tag, .. } = id::parts(id)?;
        let peers = self.shared.node.peers(&self.shared.db.announced());
        Some(peers.into_iter().filter(|peer| id::tag(peer.host_id) == tag).collect())
    }

    /// Returns `true` if this server started a transaction before a restart, or has forgotten its end.
    fn is_of_earlier_process(&self, id: Uuid) -> bool {
        let open = &self.shared.open;
        !open.is_known(id) && id::parts(id).is_some_and(|parts| open.has_tag(parts.tag))
    }

    fn refused(&self, id: Uuid, refusal: Refusal) -> CqlError {
        refused(id, refusal, || self.elsewhere(id))
    }

    /// Says where a transaction may be that is not known here.
    fn elsewhere(&self, id: Uuid) -> String {
        let Some(Parts { tag, .. }) = id::parts(id) else {
            return format!("{id} is no id that START TRANSACTION has returned");
        };
        let peers = self.peers();
        let holder = peers.iter().find(|peer| id::tag(peer.host_id) == tag);
        match holder {
            Some(peer) => format!(
                "transaction {id} is held by the server {}: send its statements there",
                peer.address
            ),
            None => format!(
                "transaction {id} is held by another server, which is not connected to this one now: \
                 send its statements to the server that started it"
            ),
        }
    }
}

/// Returns how a commit that failed ends its transaction, and the error for its client.
fn not_committed(id: Uuid, error: carnet::Error) -> (End, CqlError) {
    let kind = error.kind();
    let message = error.to_string();
    match kind {
        ErrorKind::Conflict | ErrorKind::TooOld => {
            (End::Conflict, aborted(&message).losing_like(&error))
        }
        ErrorKind::Overloaded { .. } | ErrorKind::Timeout => (End::NotCommitted, aborted(&message)),
        ErrorKind::Unknown { .. } => {
            let message = format!("{message}; SELECT outcome({id}) finds it out");
            (End::Unknown, CqlError::new(CqlError::from(error).kind().clone(), message))
        }
        _ => {
            let message = format!("{message}; transaction {id} was not committed");
            (End::NotCommitted, CqlError::new(CqlError::from(error).kind().clone(), message))
        }
    }
}

fn column(name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec { keyspace: String::new(), table: String::new(), name: name.to_owned(), data_type }
}

fn started_columns() -> Vec<ColumnSpec> {
    vec![column("transaction", DataType::Uuid)]
}

fn outcome_columns() -> Vec<ColumnSpec> {
    vec![column("outcome", DataType::Text), column("committed_at", DataType::Bigint)]
}

fn outcomes_columns() -> Vec<ColumnSpec> {
    let name = column("transaction", DataType::Text);
    std::iter::once(name).chain(outcome_columns()).collect()
}

fn outcome_rows(outcome: &'static str, committed_at: Option<Timestamp>) -> Response {
    let at = committed_at.map(|at| Value::Bigint(at.get().cast_signed()).serialize());
    let rows = vec![vec![Some(Bytes::from_static(outcome.as_bytes())), at]];
    Response::Rows(Rows {
        columns: outcome_columns().into(),
        rows: rows.into(),
        paging_state: None,
    })
}

/// Returns the markers and columns of a statement about open transactions.
pub(in crate::exec) fn describe(
    statement: &OpenStatement,
    markers: usize,
    steps: &Steps<'_>,
) -> Result<Described, CqlError> {
    let mut compiler = Compiler::new(Timestamps::default(), steps);
    compiler.open_statement(statement)?;
    let markers = compiler.finish(markers)?;
    let result = match statement {
        OpenStatement::Start(_) => started_columns(),
        OpenStatement::Outcome(_) => outcome_columns(),
        OpenStatement::Outcomes(_) => outcomes_columns(),
        _ => Vec::new(),
    };
    Ok(Described { markers, result, ..Described::default() })
}
