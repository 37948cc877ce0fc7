//! The backend that runs CQL: converts values, rows and failures between server and CQL.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carnet::cluster::ForwardHandler;
use carnet::table_statistics::table_statistics;
use carnet::{Db, block_on};
use carnet_admission::diagnosis::Why;
use carnet_admission::{Admission, Class, Figures, LevelId, Permit};
use carnet_base::{Moment, WallTime};
use carnet_cql::{
    BatchItem as CqlItem, CqlError, CqlErrorKind, Executor, Found, Grant, Outline, Parameters,
    RequestTimes, RunningStatement, Session, StatementSource, Terms, Trace, Values,
};

use tracing::info;

use crate::backend::{Arrival, Backend, Client, StatementResult};
use crate::backup_figures;
use crate::cluster_figures;
use crate::commit_figures;
use crate::disk_figures;
use crate::duration_figures;
use crate::failure::{Failure, FailureKind};
use crate::hashing::hashing;
use crate::metrics::label_value as label;
use crate::open_figures;
use crate::others::Watch;
use crate::protocol::event::Event;
use crate::protocol::head::Peek;
use crate::protocol::response::Prepared;
use crate::protocol::statement::{Batch, BatchStatement, QueryParams, Statement};
use crate::storage_figures;
use crate::table_figures;
use crate::wait_figures;

/// Interval at which idle transactions are ended.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Option of STARTUP by which a client asks for refusals while the server is overloaded.
const THROW_ON_OVERLOAD: &str = "THROW_ON_OVERLOAD";

/// Backend that runs CQL for the connections of a server.
pub struct CqlBackend {
    executor: Executor,
    /// Checks of the database's other servers; `None` for a single server.
    others: Option<Watch>,
    /// Maximum number of tables in the metrics.
    table_metrics_max: usize,
}

/// Default of the maximum number of tables in the metrics.
const TABLE_METRICS: usize = 100;

impl CqlBackend {
    /// Creates the backend of an executor.
    #[must_use]
    pub fn new(executor: Executor) -> Self {
        executor.set_hashing(hashing());
        Self { executor, others: None, table_metrics_max: TABLE_METRICS }
    }

    /// Creates the backend of one of several servers of a database. Clients are notified of the
    /// other servers, once this one has [announced](Executor::announce) itself, and of their schema
    /// changes.
    pub async fn among_others(executor: Executor) -> Self {
        executor.set_hashing(hashing());
        let others = Watch::start(&executor).await;
        Self { executor, others: Some(others), table_metrics_max: TABLE_METRICS }
    }

    /// Sets the maximum number of tables in the metrics; 0 for none. Default: 100.
    #[must_use]
    pub const fn table_metrics_max(mut self, tables: usize) -> Self {
        self.table_metrics_max = tables;
        self
    }

    fn find(&self, id: &Bytes) -> Result<Arc<carnet_cql::Prepared>, Failure> {
        self.executor.prepared(id).ok_or_else(|| Failure::unprepared(id.clone()))
    }

    fn source(&self, statement: &Statement, found: &Found) -> StatementSource {
        match statement {
            Statement::Query { text, .. } => StatementSource::text(text),
            Statement::Prepare { text, .. } => StatementSource::text(text),
            Statement::Execute { .. } => {
                found.prepared.clone().map(StatementSource::Prepared).unwrap_or_default()
            }
            Statement::Batch(batch) => {
                let prepared = |id| self.executor.prepared(id).map(StatementSource::Prepared);
                let first = batch.items.first().map(|item| match &item.statement {
                    BatchStatement::Text(text) => StatementSource::text(text),
                    BatchStatement::Prepared(id) => prepared(id).unwrap_or_default(),
                });
                StatementSource::Batch(batch.items.len(), first.unwrap_or_default().into())
            }
        }
    }
}

impl Backend for CqlBackend {
    type Session = Session;

    fn open(&self, client: Client) -> Session {
        let Client { address, user, options, is_watching, .. } = client;
        let session = match user {
            Some(user) => {
                let session = Session::with_name(format!("{}@{address}", user.name));
                match user.is_role {
                    true => session.with_role(user.name),
                    false => session.with_user(user.name),
                }
            }
            None => Session::with_name(address.to_string()),
        };
        let throws = options.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(THROW_ON_OVERLOAD)
                && (value == "1" || value.eq_ignore_ascii_case("true"))
        });
        let session = session.with_address(address.ip()).with_throw_on_overload(throws);
        if is_watching { session.uncounted() } else { session }
    }

    fn arrive(
        &self,
        session: &Session,
        statement: Peek<'_>,
        bytes: usize,
        times: RequestTimes,
    ) -> Result<Arrival, Failure> {
        let prepared = match statement {
            Peek::Execute { id, .. } => self.executor.prepared(id),
            _ => None,
        };
        let Some(admission) = self.executor.db().admission() else {
            let found = Found { prepared, ..Found::default() };
            return Ok(Arrival { found, ..Arrival::default() });
        };
        let (outline, is_known) = match (statement, &prepared) {
            (Peek::Query(text), _) => (Outline::of_text(text), false),
            (Peek::Execute { values, .. }, Some(prepared)) => {
                (prepared.outline(|marker| values.list_len(marker)), true)
            }
            // Mostly it is answered at once, with the request to prepare it.
            (Peek::Execute { .. }, None) => (Outline::of_class(Class::System), false),
            (Peek::Prepare, _) => (Outline::of_class(Class::System), false),
            (Peek::Batch, _) => (Outline::of_class(Class::Write), true),
        };
        let terms = self.executor.terms(session, &outline);
        let arrived = terms.arrive(admission, bytes, times)?;
        let level = is_known.then(|| Arc::clone(&terms.level));
        let timeout = terms.timeout.filter(|_| is_known);
        let found = Found { prepared, level, timeout };
        Ok(Arrival { admission: Some((arrived, terms)), found })
    }

    fn renewed(&self, session: &Session, terms: &Terms) -> Terms {
        self.executor.renewed(session, terms)
    }

    // Not an async function: its future would hold `params` beside the parameters made of them.
    fn query(
        &self,
        session: &Session,
        text: &str,
        params: QueryParams,
        grant: Grant,
    ) -> impl Future<Output = Result<StatementResult, Failure>> + Send {
        let parameters = parameters(params, grant);
        async move {
            let response = self.executor.query(session, text, &parameters).await;
            Ok(response.map_err(|error| failure(&error))?.into())
        }
    }

    async fn prepare(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Prepared, Failure> {
        let prepared = self
            .executor
            .prepare(session, text, keyspace)
            .await
            .map_err(|error| failure(&error))?;
        Ok(Prepared {
            id: Bytes::copy_from_slice(&prepared.id),
            markers: prepared.markers.clone().into(),
            partition_key: prepared.partition_key_indexes.clone(),
            result: prepared.result.clone().into(),
        })
    }

    fn execute(
        &self,
        session: &Session,
        id: &Bytes,
        params: QueryParams,
        mut grant: Grant,
    ) -> impl Future<Output = Result<StatementResult, Failure>> + Send {
        // It may have been prepared since its arrival. Not `find`: the future would have room for its failure.
        let prepared = grant.found.prepared.take().or_else(|| self.executor.prepared(id));
        let parameters = parameters(params, grant);
        async move {
            let prepared = prepared.ok_or_else(|| Failure::unprepared(id.clone()))?;
            let response = self.executor.execute(session, &prepared, &parameters).await;
            Ok(response.map_err(|error| failure(&error))?.into())
        }
    }

    async fn batch(
        &self,
        session: &Session,
        batch: Batch,
        grant: Grant,
    ) -> Result<StatementResult, Failure> {
        let mut items = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            let values = Values::Positional(item.values);
            items.push(match item.statement {
                BatchStatement::Text(text) => CqlItem::Text { text, values },
                BatchStatement::Prepared(id) => {
                    CqlItem::Prepared { prepared: self.find(&id)?, values }
                }
            });
        }
        let parameters = parameters(batch.params, grant);
        let response = self.executor.batch(session, batch.kind, items, &parameters).await;
        Ok(response.map_err(|error| failure(&error))?.into())
    }

    fn begin_trace(
        &self,
        session: &Session,
        (statement, found): (&Statement, &Found),
        arrived: Moment,
    ) -> Option<Arc<Trace>> {
        let (request, text, params) = match statement {
            Statement::Query { text, params } => {
                ("Execute CQL3 query", Some(text.clone()), Some(params))
            }
            Statement::Execute { params, .. } => {
                let text = found.prepared.as_ref().map(|prepared| prepared.text());
                ("Execute CQL3 prepared query", text, Some(params))
            }
            Statement::Batch(batch) => ("Execute batch of CQL3 queries", None, Some(&batch.params)),
            Statement::Prepare { text, .. } => ("Preparing CQL3 query", Some(text.clone()), None),
        };
        let consistency = params.map(|params| params.consistency.name().to_owned());
        let page_size = params.and_then(|params| params.page_size).map(|rows| rows.to_string());
        let parameters =
            [("query", text), ("consistency_level", consistency), ("page_size", page_size)];
        let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Some(self.executor.begin_trace(session, request, given.collect(), arrived))
    }

    fn enter(
        &self,
        session: &Session,
        statement: Option<(&Statement, &Found)>,
        began: Moment,
        admission: Option<(Class, LevelId)>,
        permit: Option<&Arc<Permit>>,
    ) -> Option<RunningStatement> {
        let source =
            statement.map(|(statement, found)| self.source(statement, found)).unwrap_or_default();
        Some(self.executor.enter(session, source, began, admission, permit))
    }

    fn end_trace(&self, trace: Arc<Trace>, permit: Option<&Permit>) {
        self.executor.end_trace(trace, permit);
    }

    fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        self.executor.db().serve_forwarded(handler);
    }

    async fn answer_forwarded(&self, request: Bytes, grant: Grant) -> Bytes {
        self.executor.answer_forwarded(request, grant).await
    }

    fn refuses(&self, session: &Session) -> bool {
        self.executor.refuses(session)
    }

    fn waited_unread(&self, session: &Session, why: Why, waited: Duration) {
        self.executor.waited_unread(session, why, waited);
    }

    #[expect(clippy::disallowed_methods, reason = "the server owns a runtime")]
    async fn news(&self) -> Vec<Event> {
        let events = match &self.others {
            Some(others) => others.next(&self.executor).await,
            None => {
                tokio::time::sleep(CHECK_INTERVAL).await;
                Vec::new()
            }
        };
        self.executor.expire_transactions();
        events
    }

    fn reports_change(&self) -> bool {
        self.others.as_ref().is_some_and(Watch::note_change)
    }

    fn drained(&self) {
        let ended = self.executor.end_transactions();
        if ended > 0 {
            info!(transactions = ended, "open transactions were rolled back");
        }
    }

    fn readiness(&self) -> Result<String, Failure> {
        let db = self.executor.db();
        let writable = db.check_writable();
        writable.map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
        let warnings = db.warnings();
        Ok(if warnings.is_empty() { "ok".to_owned() } else { warned(&warnings) })
    }

    fn memory(&self) -> Vec<(&'static str, usize)> {
        let mut memory = vec![
            ("prepared_statements", self.executor.prepared_size().1),
            ("transactions", self.executor.db().transaction_memory_bytes()),
        ];
        memory.extend(self.executor.db().cell_cache_bytes().map(|bytes| ("cell_cache", bytes)));
        if let Some(storage) = self.executor.db().metrics() {
            let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
            memory.extend([
                ("memtables", bytes(storage.memtable_bytes + storage.memtable_spare_bytes)),
                ("cache", bytes(storage.cache_bytes)),
                ("disk_reads", bytes(storage.read_bytes)),
                ("tables", bytes(storage.table_memory_bytes)),
            ]);
        }
        memory
    }

    fn admission(&self) -> Option<&Admission> {
        self.executor.db().admission()
    }

    fn append_metrics(&self, out: &mut String) {
        let db = self.executor.db();
        let (statements, bytes) = self.executor.prepared_size();
        let _ = writeln!(
            out,
            "# HELP carnet_prepared_statements Prepared statements that are kept.\n\
             # TYPE carnet_prepared_statements gauge\n\
             carnet_prepared_statements {statements}\n\
             # HELP carnet_prepared_bytes The memory of prepared statements, estimated.\n\
             # TYPE carnet_prepared_bytes gauge\n\
             carnet_prepared_bytes {bytes}"
        );
        let _ = writeln!(
            out,
            "# HELP carnet_published_timestamp The last commit that every reader can see.\n\
             # TYPE carnet_published_timestamp gauge\n\
             carnet_published_timestamp {}",
            db.published()
        );
        commit_figures::append(out, db);
        duration_figures::append(out, &self.executor, db);
        append_timeouts(out, &self.executor);
        open_figures::append(out, &self.executor);
        if let Some(admission) = db.admission() {
            append_admission(out, admission);
            wait_figures::append(out, &admission.diagnosis().totals());
        }
        if let Some(totals) = db.io_totals() {
            disk_figures::append(out, &totals);
        }
        if let Some(figures) = db.cluster_figures() {
            cluster_figures::append(out, &figures);
        }
        if let Some(metrics) = db.metrics() {
            storage_figures::append(out, &metrics);
            storage_figures::append_levels(out, &db.level_totals().unwrap_or_default());
            backup_figures::append(out, &db.backup_figures().unwrap_or_default());
        }
        if self.table_metrics_max > 0 {
            append_tables(out, db, self.table_metrics_max);
        }
    }
}

/// Appends the metrics of tables. The caller may block: it is the thread of the HTTP port.
fn append_tables(out: &mut String, db: &Db, tables_max: usize) {
    let statistics =
        db.snapshot().and_then(|snapshot| block_on(table_statistics(db, snapshot.as_async())));
    match statistics {
        Ok(all) if all.is_empty() => {}
        Ok(all) => table_figures::append(out, all, tables_max),
        Err(error) => tracing::warn!(%error, "the metrics of tables cannot be made"),
    }
}

/// Appends the numbers of statements that timed out, by level.
fn append_timeouts(out: &mut String, executor: &Executor) {
    let name = "carnet_statement_timeouts_total";
    let _ = writeln!(
        out,
        "# HELP {name} Statements that ended at their timeout.\n# TYPE {name} counter"
    );
    for (level, count) in executor.timeouts_of_levels() {
        let _ = writeln!(out, "{name}{{level=\"{}\"}} {count}", label(&level));
    }
}

/// Appends the admission metrics, by class and level.
#[expect(clippy::cast_precision_loss, reason = "figures of a monitor are floats")]
fn append_admission(out: &mut String, admission: &Admission) {
    type Figure = fn(&Figures) -> f64;
    let figures: [(&str, &str, &str, Figure); 5] = [
        ("running", "gauge", "Statements that run.", |of| of.running as f64),
        ("waiting", "gauge", "Statements that wait for their admission.", |of| of.waiting as f64),
        ("admitted_total", "counter", "Statements that were admitted.", |of| of.admitted as f64),
        (
            "throttled_total",
            "counter",
            "Statements that joined a full or slow queue, so that their connection was not read from.",
            |of| of.throttled as f64,
        ),
        (
            "waited_seconds_total",
            "counter",
            "Time that statements have waited for their admission or refusal.",
            |of| of.waited.as_secs_f64(),
        ),
    ];
    for (name, kind, help, figure) in figures {
        let name = format!("carnet_admission_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for class in Class::ALL {
            for (level, figures) in admission.figures_of_levels(class) {
                let (class, level, value) = (class.name(), label(&level), figure(&figures));
                let _ = writeln!(out, "{name}{{class=\"{class}\",level=\"{level}\"}} {value}");
            }
        }
    }
}

/// Returns the text of `/readyz` for a database that works despite damage.
fn warned(warnings: &[String]) -> String {
    format!("ok, but {}", warnings.join("\nand "))
}

fn parameters(params: QueryParams, grant: Grant) -> Parameters {
    Parameters {
        values: params.values,
        page_rows: params
            .page_size
            .and_then(|rows| usize::try_from(rows).ok())
            .filter(|rows| *rows > 0),
        paging_state: params.paging_state,
        keyspace: params.keyspace,
        now: params.now_in_seconds.map(|seconds| WallTime(i64::from(seconds) * 1_000_000)),
        grant,
    }
}

/// Returns the failure that a client gets for an error.
pub(crate) fn failure(error: &CqlError) -> Failure {
    let kind = match error.kind() {
        CqlErrorKind::Syntax { .. } => FailureKind::Syntax,
        CqlErrorKind::Unprepared { id } => {
            FailureKind::Unprepared { id: Bytes::copy_from_slice(id) }
        }
        CqlErrorKind::AlreadyExists { keyspace, table } => FailureKind::AlreadyExists {
            keyspace: keyspace.clone(),
            table: table.clone().unwrap_or_default(),
        },
        CqlErrorKind::Protocol => FailureKind::Protocol,
        CqlErrorKind::Unauthorized => FailureKind::Unauthorized,
        CqlErrorKind::Config => FailureKind::Config,
        CqlErrorKind::FunctionFailure { keyspace, function, argument_types } => {
            FailureKind::FunctionFailure {
                keyspace: keyspace.clone(),
                function: function.clone(),
                argument_types: argument_types.clone(),
            }
        }
        CqlErrorKind::Conflict => FailureKind::Conflict,
        CqlErrorKind::Aborted => FailureKind::Aborted,
        CqlErrorKind::Raised => FailureKind::Raised,
        CqlErrorKind::Overloaded { retry_after } => {
            FailureKind::Overloaded { retry_after: *retry_after }
        }
        CqlErrorKind::Unknown { .. } => FailureKind::Unknown,
        CqlErrorKind::Timeout => FailureKind::Timeout,
        CqlErrorKind::Killed => FailureKind::Killed,
        CqlErrorKind::Unavailable => FailureKind::Unavailable,
        CqlErrorKind::Corrupted => FailureKind::Server,
        _ => FailureKind::Invalid,
    };
    let lost_row = error.lost_row().map(|row| Box::new((row.table.clone(), row.key.clone())));
    Failure { lost_row, ..Failure::new(kind, error.message()) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use carnet::Uuid;
    use carnet_admission::AdmissionLimits;
    use carnet_cql::system::NodeInfo;

    use super::*;
    use crate::protocol::head::StatementHead;
    use crate::protocol::reader::BodyReader;
    use crate::protocol::{Opcode, Version};

    /// A server's backend with a table and a session.
    fn backend() -> (CqlBackend, Session) {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let backend =
            CqlBackend::new(Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 1))));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9_042));
        let (user, version, options) = (None, Version::V4, Vec::new());
        let session = backend.open(Client { address, user, version, options, is_watching: false });
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY)",
            "CREATE SERVICE LEVEL patient WITH timeout = 1h",
        ] {
            query(&backend, &session, text);
        }
        (backend, session)
    }

    fn query(backend: &CqlBackend, session: &Session, text: &str) {
        block_on(backend.query(session, text, QueryParams::default(), Grant::default())).unwrap();
    }

    /// A prepared statement between its arrival and its run.
    fn arrived(backend: &CqlBackend, session: &Session, text: &str) -> (Bytes, Grant) {
        let prepared = block_on(backend.prepare(session, text, None)).unwrap();
        let (found, arrived) =
            (arrival(backend, session, &prepared.id), Some(backend.executor.db().now()));
        (prepared.id, Grant { found, arrived, ..Grant::default() })
    }

    /// Lets a request to execute a statement arrive.
    fn arrival(backend: &CqlBackend, session: &Session, id: &Bytes) -> Found {
        let len = u16::try_from(id.len()).unwrap();
        let body = [&len.to_be_bytes()[..], id, b"\0\x01\0"].concat();
        let reader = BodyReader::new(body.into());
        let head = StatementHead::read(reader, Version::V4, Opcode::Execute).unwrap();
        let times = RequestTimes::at(backend.executor.db().now());
        backend.arrive(session, head.peek(), 1, times).unwrap().found
    }

    fn execute(
        backend: &CqlBackend,
        session: &Session,
        (id, grant): (Bytes, Grant),
    ) -> Result<StatementResult, Failure> {
        block_on(backend.execute(session, &id, QueryParams::default(), grant))
    }

    #[test]
    fn prepared_statement_is_found_once() {
        let (backend, session) = backend();
        let statement = arrived(&backend, &session, "SELECT * FROM ks.t WHERE k = 1");
        backend.executor.set_prepared_bytes_max(0);
        assert_eq!(backend.executor.prepared_size().0, 0, "it was evicted after its arrival");
        execute(&backend, &session, statement).unwrap();
    }

    /// Its arrival did not know that it is no statement of a driver.
    #[test]
    fn statement_that_is_prepared_after_its_arrival_has_its_own_level() {
        let (backend, session) = backend();
        let select = "SELECT * FROM ks.t WHERE k = 1";
        let (id, _) = arrived(&backend, &session, select);
        backend.executor.set_prepared_bytes_max(0);
        backend.executor.set_prepared_bytes_max(1 << 20);
        let unknown = arrival(&backend, &session, &id);
        assert!(unknown.prepared.is_none() && unknown.level.is_none(), "{unknown:?}");
        block_on(backend.prepare(&session, select, None)).unwrap();
        let grant = Grant { found: unknown, ..Grant::default() };
        execute(&backend, &session, (id, grant)).unwrap();
    }

    #[test]
    fn statement_that_was_prepared_again_is_not_forgotten_with_its_predecessor() {
        let (backend, session) = backend();
        let select = "SELECT * FROM ks.t WHERE k = 1";
        let waiting = arrived(&backend, &session, select);
        query(&backend, &session, "ALTER TABLE ks.t ADD v int");
        backend.executor.set_prepared_bytes_max(0);
        backend.executor.set_prepared_bytes_max(1 << 20);
        let fresh = arrived(&backend, &session, select);
        let stale = execute(&backend, &session, waiting).unwrap_err();
        assert!(matches!(stale.kind, FailureKind::Unprepared { .. }), "{stale:?}");
        assert_eq!(backend.executor.prepared_size().0, 1);
        execute(&backend, &session, fresh).unwrap();
    }

    #[test]
    fn statement_that_arrives_again_has_the_present_limits_of_its_level() {
        let (backend, session) = backend();
        let outline = Outline { level: Some("patient"), ..Outline::of_class(Class::Read) };
        let terms = backend.executor.terms(&session, &outline);
        query(&backend, &session, "ALTER SERVICE LEVEL patient WITH shares = 17");
        assert_ne!(terms.level.level.limits.shares, 17);
        assert_eq!(backend.renewed(&session, &terms).level.level.limits.shares, 17);
        query(&backend, &session, "DROP SERVICE LEVEL patient");
        let own = backend.executor.terms(&session, &Outline::of_class(Class::Read));
        let renewed = backend.renewed(&session, &terms);
        assert_eq!(renewed.level.level.id, own.level.level.id);
    }

    #[test]
    fn level_and_timeout_are_those_of_the_arrival() {
        let (backend, session) = backend();
        let select = "SELECT * FROM ks.t WHERE k = 1 USING SERVICE LEVEL patient";
        let waiting = arrived(&backend, &session, select);
        assert_eq!(waiting.1.found.timeout, Some(Duration::from_secs(3_600)));
        let late = Some(Moment(Duration::ZERO));
        let grant = Grant { arrived: late, ..waiting.1.clone() };
        query(&backend, &session, "ALTER SERVICE LEVEL patient WITH timeout = 0s");
        execute(&backend, &session, (waiting.0.clone(), grant)).unwrap();
        query(&backend, &session, "DROP SERVICE LEVEL patient");
        execute(&backend, &session, waiting).unwrap();
        let missing = arrived(&backend, &session, select);
        let failure = execute(&backend, &session, missing).unwrap_err();
        assert!(failure.message.contains("patient"), "it is looked up when it runs: {failure:?}");
    }

    #[test]
    fn refusals_keep_their_kind() {
        for (kind, expected) in [
            (CqlErrorKind::Protocol, FailureKind::Protocol),
            (CqlErrorKind::Unauthorized, FailureKind::Unauthorized),
            (CqlErrorKind::Config, FailureKind::Config),
        ] {
            assert_eq!(failure(&CqlError::new(kind, "why")).kind, expected);
        }
    }

    #[test]
    fn failed_function_keeps_its_code() {
        let kind = CqlErrorKind::FunctionFailure {
            keyspace: "system".to_owned(),
            function: "_divide".to_owned(),
            argument_types: vec!["int".to_owned(); 2],
        };
        let failure = failure(&CqlError::new(kind, "/ by zero"));
        assert!(matches!(failure.kind, FailureKind::FunctionFailure { .. }));
    }
}
