//! A backend with a dozen fixed statements, enough for a stock driver to connect and for tests of
//! the server's guarantees. It shows the minimal implementation of a [`Backend`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carnet::Db;
use carnet_admission::{Admission, Class, Tenant, Workload};
use carnet_base::{Clock, SystemClock, TIME_SLICE, YieldNow, lock, murmur3};
use carnet_cql::result::{
    ChangeKind, ChangeTarget, ColumnSpec, Columns, Response as Outcome, Rows, SchemaChange,
};
use carnet_cql::{Bound, Found, Grant, RequestTimes, Terms, Values};
use carnet_data::DataType;
use carnet_server::protocol::head::Peek;
use carnet_server::{
    Arrival, Backend, Batch, BatchStatement, Client, Failure, FailureKind, Prepared, QueryParams,
    StatementResult,
};

/// One table `demo.kv (k int PRIMARY KEY, v text)`, and some system tables.
#[derive(Default)]
pub(crate) struct Toy {
    rows: Mutex<BTreeMap<i32, Option<Bytes>>>,
    prepared: Mutex<HashMap<Bytes, String>>,
    /// Number of bytes of blobs that statements have returned.
    pub(crate) blob_bytes: Arc<AtomicUsize>,
    /// Database whose gate admits statements, and their workload.
    admission: Option<(Db, Workload)>,
}

/// Keyspace and user of a connection.
pub(crate) struct Session {
    keyspace: Mutex<Option<String>>,
    user: Option<String>,
}

const INSERT: &str = "insert into demo.kv (k, v) values (?, ?)";
const SELECT_ONE: &str = "select v from demo.kv where k = ?";
const SELECT_ALL: &str = "select k, v from demo.kv";

fn kv(names: &[&str]) -> Columns {
    let spec = |name: &&str| {
        let data_type = if *name == "k" { DataType::Int } else { DataType::Text };
        ColumnSpec::new("demo", "kv", *name, data_type)
    };
    names.iter().map(spec).collect::<Vec<_>>().into()
}

fn rows(columns: Columns, rows: Vec<Vec<Option<Bytes>>>) -> Outcome {
    Outcome::Rows(Rows { columns, rows: rows.into(), paging_state: None })
}

fn text(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

fn missing_values() -> Failure {
    Failure::invalid("the statement has markers, and no values came: prepare it first")
}

/// Returns the row of `system.local`, which drivers read first.
fn local() -> Outcome {
    let set = || DataType::set(DataType::Text);
    let tokens = [&[0, 0, 0, 1, 0, 0, 0, 1][..], b"0"].concat();
    let columns: [(&str, DataType, Option<Bytes>); 15] = [
        ("key", DataType::Text, text("local")),
        ("bootstrapped", DataType::Text, text("COMPLETED")),
        ("broadcast_address", DataType::Inet, Some(Bytes::from_static(&[127, 0, 0, 1]))),
        ("cluster_name", DataType::Text, text("toy")),
        ("cql_version", DataType::Text, text("3.4.7")),
        ("data_center", DataType::Text, text("dc1")),
        ("host_id", DataType::Uuid, Some(Bytes::from_static(&[7; 16]))),
        ("listen_address", DataType::Inet, Some(Bytes::from_static(&[127, 0, 0, 1]))),
        ("native_protocol_version", DataType::Text, text("5")),
        ("partitioner", DataType::Text, text("org.apache.cassandra.dht.Murmur3Partitioner")),
        ("rack", DataType::Text, text("rack1")),
        ("release_version", DataType::Text, text("5.0.0-toy")),
        ("rpc_address", DataType::Inet, Some(Bytes::from_static(&[127, 0, 0, 1]))),
        ("schema_version", DataType::Uuid, Some(Bytes::from_static(&[8; 16]))),
        ("tokens", set(), Some(Bytes::from(tokens))),
    ];
    let mut specs = Vec::new();
    let mut row = Vec::new();
    for (name, column_type, value) in columns {
        specs.push(ColumnSpec::new("system", "local", name, column_type));
        row.push(value);
    }
    rows(Columns::from(specs), vec![row])
}

impl Toy {
    /// Creates a backend that admits each statement by a database's gate, with this workload.
    #[allow(dead_code, reason = "a test uses it")]
    pub(crate) fn behind(db: Db, workload: Workload) -> Self {
        Self { admission: Some((db, workload)), ..Self::default() }
    }

    fn insert(&self, values: &[Bound]) -> Result<Outcome, Failure> {
        let [Bound::Bytes(key), value] = values else { return Err(missing_values()) };
        let key = key.as_ref().try_into().map_err(|_| Failure::invalid("k is an int"))?;
        let mut rows = lock(&self.rows);
        let old = rows.entry(i32::from_be_bytes(key)).or_default();
        match value {
            Bound::Bytes(value) => *old = Some(value.clone()),
            Bound::Null => *old = None,
            Bound::Unset => {}
        }
        Ok(Outcome::Void)
    }

    fn select_one(&self, values: &[Bound]) -> Result<Outcome, Failure> {
        let [Bound::Bytes(key)] = values else { return Err(missing_values()) };
        let key = key.as_ref().try_into().map_err(|_| Failure::invalid("k is an int"))?;
        let found = lock(&self.rows).get(&i32::from_be_bytes(key)).cloned();
        Ok(rows(kv(&["v"]), found.into_iter().map(|value| vec![value]).collect()))
    }

    /// A page begins after the key in the paging state.
    fn select_all(&self, params: &QueryParams) -> Result<Outcome, Failure> {
        let after = match &params.paging_state {
            None => i32::MIN,
            Some(state) => i32::from_be_bytes(
                state.as_ref().try_into().map_err(|_| Failure::invalid("a broken paging state"))?,
            ),
        };
        let page = params.page_size.map_or(usize::MAX, |size| size as usize);
        let all = lock(&self.rows);
        let mut left = all.range(after..).skip(usize::from(params.paging_state.is_some()));
        let taken: Vec<_> = left.by_ref().take(page).collect();
        let last = taken.last().map(|(key, _)| Bytes::copy_from_slice(&key.to_be_bytes()));
        let rows = taken
            .into_iter()
            .map(|(key, value)| {
                vec![Some(Bytes::copy_from_slice(&key.to_be_bytes())), value.clone()]
            })
            .collect();
        let paging_state = left.next().and(last);
        Ok(Outcome::Rows(Rows { columns: kv(&["k", "v"]), rows, paging_state }))
    }

    async fn run(
        &self,
        session: &Session,
        statement: &str,
        params: &QueryParams,
    ) -> Result<StatementResult, Failure> {
        let statement = normalize(statement);
        let (verb, rest) = statement.split_once(' ').unwrap_or((&statement, ""));
        let number = || rest.parse().map_err(|_| Failure::syntax("expected a number"));
        let values: &[Bound] = match &params.values {
            Values::Positional(values) => values,
            Values::Named(_) => return Err(Failure::invalid("not supported yet: names")),
        };
        let outcome = match (verb, statement.as_str()) {
            (_, INSERT) => self.insert(values)?,
            (_, SELECT_ONE) => self.select_one(values)?,
            (_, SELECT_ALL) => self.select_all(params)?,
            ("select", s) if s.contains(" from system.local") => local(),
            ("select", s) if s.contains(" from system") => rows(
                Columns::from(vec![ColumnSpec::new("system", "x", "x", DataType::Text)]),
                vec![],
            ),
            ("use", _) => {
                *lock(&session.keyspace) = Some(rest.to_owned());
                Outcome::SetKeyspace(rest.to_owned())
            }
            ("create", _) => Outcome::SchemaChange(SchemaChange {
                kind: ChangeKind::Created,
                keyspace: "demo".into(),
                target: ChangeTarget::Table("kv".into()),
            }),
            ("whoami", _) => {
                let keyspace = lock(&session.keyspace).clone();
                let column = |name| ColumnSpec::new("toy", "session", name, DataType::Text);
                let columns = Columns::from(vec![column("user"), column("keyspace")]);
                let value = |value: Option<&str>| value.and_then(text);
                rows(
                    columns,
                    vec![vec![value(session.user.as_deref()), value(keyspace.as_deref())]],
                )
            }
            ("sleep", _) => {
                sleep(Duration::from_millis(number()?)).await;
                Outcome::Void
            }
            ("hog", _) => {
                hog(Duration::from_millis(number()?));
                Outcome::Void
            }
            ("task", _) => {
                if number()? > 0 {
                    sleep(Duration::from_millis(number()?)).await;
                }
                let columns =
                    Columns::from(vec![ColumnSpec::new("toy", "t", "id", DataType::Text)]);
                rows(columns, vec![vec![text(&tokio::task::id().to_string())]])
            }
            ("blob", _) => {
                let len = usize::try_from(number()?).unwrap_or(0);
                self.blob_bytes.fetch_add(len, Ordering::Relaxed);
                let columns = Columns::from(vec![ColumnSpec::new("toy", "t", "b", DataType::Blob)]);
                rows(columns, vec![vec![Some(Bytes::from(vec![b'b'; len]))]])
            }
            ("warn", _) => {
                return Ok(StatementResult {
                    response: Outcome::Void,
                    warnings: vec!["careful".into()],
                });
            }
            ("conflict", _) => return Err(Failure::new(FailureKind::Conflict, "row 7")),
            ("unknown", _) => return Err(Failure::new(FailureKind::Unknown, "ask outcome(7)")),
            ("panic", _) => panic!("as asked"),
            _ => return Err(Failure::syntax(format!("no such statement: {statement}"))),
        };
        Ok(outcome.into())
    }
}

fn normalize(statement: &str) -> String {
    let words: Vec<&str> = statement.trim().trim_end_matches(';').split_whitespace().collect();
    words.join(" ").to_lowercase()
}

#[expect(clippy::disallowed_methods, reason = "a statement that lets nothing else run")]
fn hog(time: Duration) {
    std::thread::sleep(time);
}

/// Keeps a processor busy like a scan of rows in memory: it yields after each slice.
async fn spin(time: Duration, yield_now: YieldNow) {
    let ends = SystemClock.now().after(time);
    while SystemClock.now() < ends {
        let slice = SystemClock.now().after(TIME_SLICE);
        while SystemClock.now() < slice {}
        yield_now().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a statement that takes its time")]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

impl Backend for Toy {
    type Session = Session;

    fn open(&self, client: Client) -> Session {
        Session { keyspace: Mutex::new(None), user: client.user.map(|user| user.name) }
    }

    fn arrive(
        &self,
        _session: &Session,
        _statement: Peek<'_>,
        bytes: usize,
        times: RequestTimes,
    ) -> Result<Arrival, Failure> {
        let Some((db, workload)) = &self.admission else { return Ok(Arrival::default()) };
        let Some(admission) = db.admission() else { return Ok(Arrival::default()) };
        let (level, class, workload) = (db.levels().effective(&[]), Class::Read, *workload);
        let (timeout, tenant) = (None, Tenant::default());
        let terms = Terms { class, level, workload, timeout, tenant };
        let arrived = terms.arrive(admission, bytes, times)?;
        Ok(Arrival { admission: Some((arrived, terms)), found: Found::default() })
    }

    fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref().and_then(|(db, _)| db.admission())
    }

    async fn query(
        &self,
        session: &Session,
        text: &str,
        params: QueryParams,
        grant: Grant,
    ) -> Result<StatementResult, Failure> {
        if let Some(("spin", millis)) = text.split_once(' ')
            && let (Ok(millis), Some(yield_now)) = (millis.parse(), grant.yield_now)
        {
            spin(Duration::from_millis(millis), yield_now).await;
            return Ok(Outcome::Void.into());
        }
        self.run(session, text, &params).await
    }

    async fn prepare(
        &self,
        _session: &Session,
        text: &str,
        _keyspace: Option<&str>,
    ) -> Result<Prepared, Failure> {
        let statement = normalize(text);
        let (markers, partition_key, result) = match statement.as_str() {
            INSERT => (kv(&["k", "v"]), vec![0], Columns::default()),
            SELECT_ONE => (kv(&["k"]), vec![0], kv(&["v"])),
            SELECT_ALL => (Columns::default(), Vec::new(), kv(&["k", "v"])),
            _ => return Err(Failure::syntax(format!("no such statement: {statement}"))),
        };
        let id = Bytes::copy_from_slice(&murmur3::token(statement.as_bytes()).0.to_be_bytes());
        lock(&self.prepared).insert(id.clone(), statement);
        Ok(Prepared { id, markers, partition_key, result })
    }

    async fn execute(
        &self,
        session: &Session,
        id: &Bytes,
        params: QueryParams,
        _grant: Grant,
    ) -> Result<StatementResult, Failure> {
        let statement = lock(&self.prepared).get(id).cloned();
        let statement = statement.ok_or_else(|| Failure::unprepared(id.clone()))?;
        self.run(session, &statement, &params).await
    }

    async fn batch(
        &self,
        session: &Session,
        batch: Batch,
        grant: Grant,
    ) -> Result<StatementResult, Failure> {
        for item in batch.items {
            let values = Values::Positional(item.values);
            let params = QueryParams { values, ..batch.params.clone() };
            match item.statement {
                BatchStatement::Text(text) => {
                    self.query(session, &text, params, grant.clone()).await?
                }
                BatchStatement::Prepared(id) => {
                    self.execute(session, &id, params, grant.clone()).await?
                }
            };
        }
        Ok(Outcome::Void.into())
    }

    fn append_metrics(&self, out: &mut String) {
        out.push_str("# HELP toy_rows Rows.\n# TYPE toy_rows gauge\ntoy_rows ");
        out.push_str(&lock(&self.rows).len().to_string());
        out.push('\n');
    }
}
