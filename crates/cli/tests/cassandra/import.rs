//! `carnet import` from a real Cassandra, judged by both sides' answers to CQL.
#![expect(clippy::cast_possible_truncation, reason = "any bits make a value")]

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use carnet_base::{Rng, SeededRng};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::value::{
    CqlDate, CqlDecimal, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, Row,
};
use tokio::runtime::Runtime;

use super::support::{Guard, Server, carnet, fail, pause, succeed};
use super::{LONG_LEASE, node, store};

const PARTITIONS: i32 = 250;
/// Rows of each partition except those with static columns only.
const ROWS: i64 = 14;

/// Every type that Carnet supports, as a column of its own.
const TYPES: [&str; 18] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

/// Session with a CQL server at an address.
pub(super) struct Cql {
    session: Session,
    runtime: Runtime,
}

impl Cql {
    pub(super) fn connect(address: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let session = runtime.block_on(SessionBuilder::new().known_node(address).build()).unwrap();
        Self { session, runtime }
    }

    pub(super) fn run(&self, text: &str) {
        self.run_with(text, Vec::new());
    }

    pub(super) fn run_with(&self, text: &str, values: Vec<Option<CqlValue>>) {
        let ran = self.runtime.block_on(self.session.query_unpaged(text, values));
        ran.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub(super) fn values(&self, text: &str) -> Vec<Vec<Option<CqlValue>>> {
        let result = self.runtime.block_on(self.session.query_unpaged(text, ()));
        let result = result.unwrap_or_else(|error| panic!("{text}: {error}"));
        let result = result.into_rows_result().unwrap();
        result.rows::<Row>().unwrap().map(|row| row.unwrap().columns).collect()
    }

    /// Returns rows as text, so that floats without an order can be compared, too.
    fn rows(&self, text: &str) -> Vec<String> {
        self.values(text).into_iter().map(|row| format!("{row:?}")).collect()
    }
}

/// Draws a value of a type; half of the time an edge case.
fn value(of: &str, rng: &mut SeededRng) -> CqlValue {
    let bits = rng.next_u64();
    let is_odd = rng.below(2) == 0;
    let pick = |odd: i64, usual: i64| if is_odd { odd } else { usual };
    let number = i64::from_ne_bytes(bits.to_ne_bytes());
    let text: String = (0..rng.below(20)).map(|n| char::from(b'a' + (n as u8 * 7) % 26)).collect();
    let mut id = u128::from(bits).to_be_bytes();
    id[6] = 0x10;
    id[8] = 0x80 | (id[8] & 0x3f);
    match of {
        "ascii" => CqlValue::Ascii(text),
        "bigint" => CqlValue::BigInt(pick(i64::MIN, number)),
        "blob" => CqlValue::Blob(if is_odd { Vec::new() } else { bits.to_be_bytes().repeat(9) }),
        "boolean" => CqlValue::Boolean(is_odd),
        "date" => CqlValue::Date(CqlDate((1 << 31) + (bits % 40_000) as u32)),
        "decimal" => {
            let digits = bits.to_be_bytes()[..1 + (bits % 8) as usize].to_vec();
            let scale = (bits % 31) as i32 - 15;
            CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(digits, scale))
        }
        "double" => CqlValue::Double(if is_odd { f64::NAN } else { number as f64 / 3.0 }),
        "float" => CqlValue::Float(if is_odd { -0.0 } else { number as f32 }),
        "inet" if is_odd => CqlValue::Inet(IpAddr::V6(Ipv6Addr::from(u128::from(bits)))),
        "inet" => CqlValue::Inet(IpAddr::V4(Ipv4Addr::from(bits as u32))),
        "int" => CqlValue::Int(bits as i32),
        "smallint" => CqlValue::SmallInt(bits as i16),
        "text" => CqlValue::Text(format!("{text} “é” \u{1f39f}")),
        "time" => CqlValue::Time(CqlTime((bits % 86_400_000_000_000) as i64)),
        "timestamp" => CqlValue::Timestamp(CqlTimestamp(pick(-1, number >> 16))),
        "timeuuid" => CqlValue::Timeuuid(CqlTimeuuid::from_bytes(id)),
        "tinyint" => CqlValue::TinyInt(bits as i8),
        "uuid" => CqlValue::Uuid(carnet::Uuid::from_u128(u128::from(bits) << 3)),
        "varint" => CqlValue::Varint(CqlVarint::from_signed_bytes_be(
            bits.to_be_bytes().repeat(1 + (bits % 3) as usize),
        )),
        other => panic!("{other}"),
    }
}

/// Creates a table with all cases: types, static columns, nulls, deletes, rows without a row
/// marker, and partitions without rows.
fn fill(source: &Cql, table: &str, seed: u64) {
    let columns: Vec<String> = TYPES.iter().map(|of| format!("\"C {of}\" {of}")).collect();
    source.run(&format!(
        "CREATE TABLE {table} (id int, \"Day\" date, at timestamp, tag text, owner text static, \
         total varint static, {}, PRIMARY KEY ((id, \"Day\"), at, tag)) \
         WITH CLUSTERING ORDER BY (at DESC, tag ASC)",
        columns.join(", ")
    ));
    let mut rng = SeededRng::new(seed);
    let names: Vec<String> = TYPES.iter().map(|of| format!("\"C {of}\"")).collect();
    let insert = format!(
        "INSERT INTO {table} (id, \"Day\", at, tag, {}) VALUES (?, ?, ?, ?{})",
        names.join(", "),
        ", ?".repeat(TYPES.len())
    );
    let statics = format!("INSERT INTO {table} (id, \"Day\", owner, total) VALUES (?, ?, ?, ?)");
    let prepare = |text: &str| source.runtime.block_on(source.session.prepare(text)).unwrap();
    let (insert, statics) = (prepare(&insert), prepare(&statics));
    for id in 0..PARTITIONS {
        let day = CqlValue::Date(CqlDate((1 << 31) + rng.below(3) as u32));
        let key = [Some(CqlValue::Int(id)), Some(day)];
        let mut batch = Batch::new(BatchType::Unlogged);
        let mut values: Vec<Vec<Option<CqlValue>>> = Vec::new();
        let mut maybe = |of: &str| (rng.below(4) > 0).then(|| value(of, &mut rng));
        // Every fifth partition has rows only, every seventh static columns only.
        if id % 5 != 0 {
            batch.append_statement(BatchStatement::PreparedStatement(statics.clone()));
            let owner = Some(CqlValue::Text(format!("owner {id}")));
            values.push([&key[..], &[owner, maybe("varint")]].concat());
        }
        for at in 0..if id % 7 == 1 && id % 5 != 0 { 0 } else { ROWS } {
            batch.append_statement(BatchStatement::PreparedStatement(insert.clone()));
            let tag = Some(CqlValue::Text(format!("tag {}", at % 2)));
            let at = Some(CqlValue::Timestamp(CqlTimestamp(at / 2 * 1_000 - 3_000)));
            let row: Vec<Option<CqlValue>> = TYPES.iter().map(|of| maybe(of)).collect();
            values.push([&key[..], &[at, tag], &row].concat());
        }
        source.runtime.block_on(source.session.batch(&batch, values)).unwrap();
    }
    let key = "id = 2 AND \"Day\" IN ('1970-01-01', '1970-01-02', '1970-01-03')";
    source.run(&format!("DELETE owner FROM {table} WHERE {key}"));
    source.run(&format!("DELETE FROM {table} WHERE {key} AND at = 0"));
    source.run(&format!(
        "DELETE \"C text\" FROM {table} WHERE {key} AND at = 1000 AND tag = 'tag 0'"
    ));
    let key = "id = -1 AND \"Day\" = '1970-01-01' AND at = 0 AND tag = ''";
    source.run(&format!("UPDATE {table} SET \"C int\" = 7 WHERE {key}"));
}

fn import(from: &str, into: &[&str]) -> std::process::Command {
    let mut command = carnet();
    command.args(["import", "--from", from]).args(into);
    command
}

/// Returns the number of rows of a table in a database directory; 0 without the table.
fn count(directory: &Path, table: &str) -> u64 {
    let mut shell = carnet();
    shell.arg("shell").arg(directory).args(["--json", "-e"]);
    let output = shell.arg(format!("SELECT count(*) FROM {table}")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let digits: String = said.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Time after which a killed import no longer keeps others out, and a little more.
const HOLD: Duration = Duration::from_millis(5_500);

#[test]
fn killed_import_resumes_and_completes() {
    let Some(point) = node::node().map(|node| &node.contact_point) else { return };
    let source = Cql::connect(point);
    let keyspace = format!("Import{}", std::process::id());
    let table = format!("\"{keyspace}\".\"Things\"");
    let seed = SeededRng::from_entropy().next_u64();
    println!("seed {seed}");
    source.run(&format!(
        "CREATE KEYSPACE \"{keyspace}\" WITH replication = \
         {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
    ));
    fill(&source, &table, seed);
    let all = format!("SELECT id, \"Day\", at, tag, owner, total, {} FROM {table}", {
        let names: Vec<String> = TYPES.iter().map(|of| format!("\"C {of}\"")).collect();
        names.join(", ")
    });
    let expected = source.rows(&all);
    assert!(expected.len() > 2_500, "{}", expected.len());

    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("data");
    let dir = directory.to_str().unwrap();
    let url = format!("cassandra://{point}/{keyspace}.Things");
    let mut found = 0;
    // A later one begins when the right of the one before has run out.
    for wait in [1_500, 8_000, 9_500] {
        let mut slowly = import(&url, &["--dir", dir, "--rows-per-second", "400"]);
        let mut process = Guard::new(slowly.stderr(Stdio::null()).spawn().unwrap());
        pause(Duration::from_millis(wait));
        process.kill();
        found = count(&directory, &table);
        if found > 0 {
            break;
        }
    }
    assert!(found > 0 && found < 2_500, "killed with {found} rows");

    // Progress is stored in the database, so an import through a server resumes, also after the
    // server's death.
    let mut server = Server::start(&directory, &[]);
    let address = server.cql.to_string();
    pause(HOLD);
    let mut slowly = import(&url, &["--server", &address, "--rows-per-second", "700"]);
    let mut process = Guard::new(slowly.stdout(Stdio::piped()).spawn().unwrap());
    pause(Duration::from_millis(1_200));
    server.process.kill();
    let _server = Server::start_at(&directory, &address, &[]);
    let mut said = String::new();
    process.stdout().read_to_string(&mut said).unwrap();
    assert!(process.wait().success() && said.contains("rows were copied before"), "{said}");
    let copy = Cql::connect(&address);
    let rows = copy.rows(&all);
    let differs = expected.iter().zip(&rows).find(|(expected, row)| expected != row);
    assert_eq!((differs, rows.len()), (None, expected.len()));
    let said = succeed(&mut import(&url, &["--server", &address]));
    assert!(said.starts_with("0 rows of 0 partitions"), "{said}");

    // Again over existing rows, with static columns that were deleted since.
    let key = "\"Day\" IN ('1970-01-01', '1970-01-02', '1970-01-03')";
    source.run(&format!("UPDATE {table} SET total = 77 WHERE id = 3 AND \"Day\" = '1970-01-01'"));
    source.run(&format!("DELETE owner, total FROM {table} WHERE id = 4 AND {key}"));
    let said = succeed(&mut import(&url, &["--server", &address, "--restart"]));
    assert!(!said.contains("before"), "{said}");
    assert_eq!(copy.rows(&all), source.rows(&all));

    copy.run(&format!("DROP TABLE {table}"));
    copy.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY)"));
    let error = fail(&mut import(&url, &["--server", &address]));
    assert!(error.contains("column Day is missing there"), "{error}");
}

#[test]
fn table_is_imported_into_the_same_cluster() {
    let Some(url) = store(LONG_LEASE) else { return };
    let point = &node::node().unwrap().contact_point;
    let source = Cql::connect(point);
    let keyspace = format!("imported{}", std::process::id());
    source.run(&format!(
        "CREATE KEYSPACE {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
    ));
    let expiring = "WITH default_time_to_live = 86400";
    source.run(&format!("CREATE TABLE {keyspace}.t (k text PRIMARY KEY, n int) {expiring}"));
    for n in 0..40 {
        source.run(&format!("INSERT INTO {keyspace}.t (k, n) VALUES ('key {n}', {n})"));
    }
    let from = format!("cassandra://{point}/{keyspace}.t?request_timeout=20s");
    let said = succeed(&mut import(&from, &["--store", &url, "--into", "mine.copy"]));
    assert!(said.starts_with("40 rows of 40 partitions"), "{said}");
    let csv = |select: &str| {
        let mut shell = carnet();
        shell.args(["shell", "--store", &url, "--csv", "-e", select]);
        succeed(&mut shell)
    };
    let said = csv("SELECT sum(n), count(*) FROM mine.copy");
    assert!(said.ends_with("780,40\n"), "{said}");
    let said = csv("SELECT ttl(n) FROM mine.copy LIMIT 1");
    let ttl = said.lines().last().and_then(|ttl| ttl.parse::<i32>().ok());
    assert!(ttl.is_some_and(|ttl| (80_000..=86_400).contains(&ttl)), "{said}");

    source.run(&format!(
        "CREATE TABLE {keyspace}.c (k int PRIMARY KEY, took duration, tags frozen<set<text>>, \
         pair tuple<int, text>, counts frozen<map<text, frozen<list<int>>>>, words set<text>, \
         steps list<int>, marks map<int, text>, gone set<int>, near vector<float, 2>)"
    ));
    source.run(&format!(
        "INSERT INTO {keyspace}.c (k, took, tags, pair, counts, words, steps, marks, near) \
         VALUES (1, 1h30m, {{'b', 'a'}}, (7, null), {{'x': [2, 1]}}, {{'d', 'c'}}, [3, 1], \
         {{2: 'two', -1: 'one'}}, [0.5, 1])"
    ));
    source.run(&format!("UPDATE {keyspace}.c SET words = words + {{'e'}} WHERE k = 1"));
    let from = format!("cassandra://{point}/{keyspace}.c?request_timeout=20s");
    let said = succeed(&mut import(&from, &["--store", &url, "--into", "mine.composite"]));
    assert!(said.starts_with("1 rows of 1 partitions"), "{said}");
    let said =
        csv("SELECT took, tags, pair, counts, words, steps, marks, gone, near FROM mine.composite");
    let row = "1h30m,\"{'a', 'b'}\",\"(7, null)\",\"{'x': [2, 1]}\",\"{'c', 'd', 'e'}\",\
               \"[3, 1]\",\"{-1: 'one', 2: 'two'}\",,\"[0.5, 1]\"\n";
    assert!(said.ends_with(row), "{said}");

    // A mask looks like a value. A node that was started elsewhere may not support masks.
    let masked =
        format!("CREATE TABLE {keyspace}.m (k int PRIMARY KEY, name text MASKED WITH DEFAULT)");
    if source.runtime.block_on(source.session.query_unpaged(masked, ())).is_ok() {
        let from = format!("cassandra://{point}/{keyspace}.m");
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("data");
        let error = fail(&mut import(&from, &["--dir", directory.to_str().unwrap()]));
        assert!(error.contains("column name is masked"), "{error}");
        assert!(!directory.exists(), "the table is refused before anything is created");
    } else {
        let is_others = std::env::var("CARNET_CASSANDRA").is_ok();
        assert!(is_others || !node::has_masks(), "a node of the tests' own has masks");
    }
    let from = format!("cassandra://{point}/{keyspace}.nothing");
    let error = fail(&mut import(&from, &["--store", &url]));
    assert!(error.contains("there is no table"), "{error}");
}

#[test]
fn times_counters_and_user_types_are_imported() {
    let Some(_) = store(LONG_LEASE) else { return };
    let point = &node::node().unwrap().contact_point;
    let source = Cql::connect(point);
    let keyspace = format!("timed{}", std::process::id());
    let run = |text: &str| source.run(&text.replace("ks.", &format!("{keyspace}.")));
    run(&format!(
        "CREATE KEYSPACE {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
    ));
    run("CREATE TYPE ks.point (x int, y int)");
    run("CREATE TYPE ks.address (town text, at frozen<point>)");
    run(
        "CREATE TABLE ks.t (k int, c int, s int STATIC, a int, b int, l list<int>, w set<int>, home address, \
         past frozen<list<frozen<address>>>, PRIMARY KEY (k, c))",
    );
    run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TIMESTAMP 1000");
    run("UPDATE ks.t USING TTL 5000 AND TIMESTAMP 2000 SET b = 2, s = 3 WHERE k = 1 AND c = 1");
    run("UPDATE ks.t USING TIMESTAMP 3000 SET l = [1, 2], w = {1, 2} WHERE k = 1 AND c = 1");
    run("UPDATE ks.t USING TTL 6000 SET l = l + [3], w = w + {3} WHERE k = 1 AND c = 1");
    run("UPDATE ks.t SET l = l + [4], w = w + {4} WHERE k = 1 AND c = 1");
    run("UPDATE ks.t SET home = {town: 'Rome', at: {x: 1, y: 2}}, past = [{town: 'Oslo'}] \
         WHERE k = 1 AND c = 1");
    run("INSERT INTO ks.t (k, c, a) VALUES (1, 2, 1) USING TTL 3");
    run(
        "CREATE TABLE ks.n (k int, c int, s counter STATIC, n counter, m counter, PRIMARY KEY (k, c))",
    );
    for _ in 0..3 {
        run("UPDATE ks.n SET n = n + 7, s = s + 1 WHERE k = 1 AND c = 1");
    }
    run("UPDATE ks.n SET m = m - 5 WHERE k = 2 AND c = 1");

    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("data").to_str().unwrap().to_owned();
    let copied = |table: &str, more: &[&str]| {
        let from = format!("cassandra://{point}/{keyspace}.{table}?request_timeout=20s");
        succeed(&mut import(&from, &[&["--dir", &*directory], more].concat()))
    };
    copied("t", &[]);
    let csv = |select: &str| {
        let select = select.replace("ks.", &format!("{keyspace}."));
        let mut shell = carnet();
        shell.args(["shell", "--csv", "-e", &select, &directory]);
        let said = succeed(&mut shell);
        said.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let row = csv("SELECT a, b, s, l, w, home, past FROM ks.t WHERE k = 1 AND c = 1");
    let wanted = "1,2,3,\"[1, 2, 3, 4]\",\"{1, 2, 3, 4}\",\"{town: 'Rome', at: {x: 1, y: 2}}\",\
                  \"[{town: 'Oslo', at: null}]\"";
    assert_eq!(row, [wanted]);
    let times = "SELECT writetime(a), writetime(b), writetime(s), ttl(a), ttl(l), ttl(w) FROM ks.t \
                 WHERE k = 1 AND c = 1";
    let row = csv(times).join("");
    assert!(row.starts_with("1000,2000,2000,,\"[null, null, "), "{row}");
    assert!(row.ends_with(", null]\""), "{row}");
    let left = |column: &str| -> i32 {
        let row = csv(&format!("SELECT ttl({column}) FROM ks.t WHERE k = 1 AND c = 1")).join("");
        row.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(0)
    };
    assert!((4_000..=5_000).contains(&left("b")) && (4_000..=5_000).contains(&left("s")));
    let elements = csv("SELECT ttl(w) FROM ks.t WHERE k = 1 AND c = 1").join("");
    let seconds = elements.split(", ").nth(2).and_then(|ttl| ttl.parse::<i32>().ok());
    assert!(seconds.is_some_and(|ttl| (5_000..=6_000).contains(&ttl)), "{elements}");
    pause(Duration::from_secs(4));
    assert_eq!(csv("SELECT c FROM ks.t WHERE k = 1"), ["1"], "the row with a TTL is gone");

    // To copy counters again does not count them twice.
    copied("n", &[]);
    copied("n", &["--restart"]);
    let mut rows = csv("SELECT k, c, s, n, m FROM ks.n");
    rows.sort();
    assert_eq!(rows, ["1,1,3,21,", "2,1,,,-5"]);

    // A type that exists has to be the same.
    run("ALTER TYPE ks.address ADD zip text");
    let from = format!("cassandra://{point}/{keyspace}.t?request_timeout=20s");
    let error = fail(&mut import(&from, &["--dir", &directory, "--restart"]));
    assert!(error.contains("type address is (town text, at frozen<point>) there"), "{error}");
}
