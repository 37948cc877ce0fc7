//! Limits of `docs/limits.md` at their edge: the last value that is taken, and the first one that is refused, by
//! an error that names the limit.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use carnet::{Bytes, Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    Bound, Executor, IN_VALUES_MAX, Limits, MARKERS_MAX, NESTING_MAX, NUMBER_DIGITS_MAX,
    Parameters, SECTION_STEPS_MAX, STATEMENT_BYTES_MAX, Session, TERMS_MAX, Values, parse,
};

const PAGE: &str = include_str!("../../../../docs/limits.md");

struct Client(Executor, Session);

impl Client {
    fn new() -> Self {
        let executor =
            Executor::new(Db::builder().in_memory(), NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self(executor, Session::new());
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "USE ks",
            "CREATE TABLE t (k int PRIMARY KEY, v int, s text, n varint, f vector<float, 2>)",
            "INSERT INTO t (k, v, f) VALUES (1, 1, [1, 0])",
        ] {
            client.run(statement, &[]).unwrap();
        }
        client
    }

    fn run(&self, text: &str, values: &[Bytes]) -> Result<(), String> {
        let values = Values::Positional(values.iter().cloned().map(Bound::Bytes).collect());
        let parameters = Parameters { values, ..Parameters::default() };
        let result = block_on(self.0.query(&self.1, text, &parameters));
        result.map(drop).map_err(|error| error.to_string())
    }

    /// Runs a statement that is taken, and one that is refused with these words.
    fn edge(&self, taken: &str, refused: &str, words: &[&str]) {
        let shown = |text: &str| text.chars().take(60).collect::<String>();
        if let Err(error) = self.run(taken, &[]) {
            panic!("{}: {error}", shown(taken));
        }
        let error = self.run(refused, &[]).expect_err(&shown(refused));
        for word in words {
            assert!(error.contains(word), "{}: {word:?} in {error}", shown(refused));
        }
    }
}

fn repeated(count: usize, text: &str) -> String {
    text.repeat(count)
}

#[test]
fn depth_of_a_statement() {
    let client = Client::new();
    // The assigned term counts as a level.
    let nested = |levels: usize| {
        let inner = levels - 1;
        format!("UPDATE t SET v = {}1{} WHERE k = 1", repeated(inner, "("), repeated(inner, ")"))
    };
    client.edge(&nested(NESTING_MAX), &nested(NESTING_MAX + 1), &["more than 64 levels"]);
}

#[test]
fn markers_of_a_statement() {
    let text = |count: usize| {
        let pairs = vec!["(?, ?, ?)"; count / 3].join(", ");
        let more = vec!["?"; count % 3].join(", ");
        // Tuples keep the list below its own limit.
        format!("SELECT a FROM t WHERE (a, b, c) IN ({pairs}) AND d IN ({more})")
    };
    // Below the limit of lists, and with fewer markers than the limit of markers.
    assert_eq!(parse(&text(29_999), &Limits::default()).unwrap().markers.len(), 29_999);
    let inserts = |count: usize| {
        let one = "INSERT INTO t (k, v, s) VALUES (?, ?, ?); ";
        format!("BEGIN BATCH {} APPLY BATCH", repeated(count, one))
    };
    assert_eq!(MARKERS_MAX % 3, 0);
    let most = parse(&inserts(MARKERS_MAX / 3), &Limits::default()).unwrap();
    assert_eq!(most.markers.len(), MARKERS_MAX);
    let error = parse(&inserts(MARKERS_MAX / 3 + 1), &Limits::default()).unwrap_err();
    assert!(error.message().contains("more than 65535 bind markers"), "{error}");
}

/// A prepared statement is limited by its memory before it has as many markers.
#[test]
fn markers_of_a_prepared_statement() {
    let client = Client::new();
    let prepare = |text: &str| {
        let prepared = block_on(client.0.prepare(&client.1, text, None));
        prepared.map(|prepared| prepared.markers.len()).map_err(|error| error.to_string())
    };
    let markers = vec!["?"; IN_VALUES_MAX].join(", ");
    assert_eq!(prepare(&format!("SELECT v FROM t WHERE k IN ({markers})")), Ok(IN_VALUES_MAX));
    let batch = |count: usize| {
        let insert = "INSERT INTO t (k, v) VALUES (?, ?) ";
        format!("BEGIN BATCH {}APPLY BATCH", repeated(count, insert))
    };
    assert_eq!(prepare(&batch(3_000)), Ok(6_000));
    let error = prepare(&batch(3_750)).unwrap_err();
    assert!(error.contains("16777216 are allowed for one statement"), "{error}");
}

#[test]
fn length_of_a_statement() {
    let text = |bytes: usize| {
        let statement = "SELECT k FROM t";
        format!("{statement}{}", repeated(bytes - statement.len(), " "))
    };
    assert!(parse(&text(STATEMENT_BYTES_MAX), &Limits::default()).is_ok());
    let error = parse(&text(STATEMENT_BYTES_MAX + 1), &Limits::default()).unwrap_err();
    assert!(error.message().contains("has 16777217 bytes, more than the 16777216"), "{error}");
}

#[test]
fn length_of_json() {
    let client = Client::new();
    let json = |bytes: usize| {
        let object = "{\"k\": 1}";
        format!("INSERT INTO t JSON '{object}{}'", repeated(bytes - object.len(), " "))
    };
    client.edge(&json(1 << 20), &json((1 << 20) + 1), &["1048577 bytes", "at most 1048576"]);
}

#[test]
fn length_of_a_calculated_text() {
    let client = Client::new();
    let text = |bytes: usize| Bytes::from(vec![b'x'; bytes]);
    let sum = "SELECT (text) ? + ? FROM t WHERE k = 1";
    client.run(sum, &[text(32 << 20), text(0)]).unwrap();
    let error = client.run(sum, &[text(32 << 20), text(1)]).unwrap_err();
    assert!(error.contains("33554433 bytes, more than the 33554432"), "{error}");
}

#[test]
fn time_to_live() {
    let client = Client::new();
    let write = |seconds: u32| format!("INSERT INTO t (k) VALUES (2) USING TTL {seconds}");
    client.edge(&write(630_720_000), &write(630_720_001), &["(630720001)", "(630720000)"]);
    let table = |seconds: u32| format!("ALTER TABLE t WITH default_time_to_live = {seconds}");
    client.edge(&table(630_720_000), &table(630_720_001), &["630720001", "630720000"]);
}

#[test]
fn vectors() {
    let client = Client::new();
    let near = |rows: u32| {
        format!("SELECT k FROM t ORDER BY f ANN OF [1, 1] LIMIT {rows} ALLOW FILTERING")
    };
    client.edge(&near(1_000), &near(1_001), &["not greater than 1000", "LIMIT was 1001"]);
    let table = |name: &str, dimensions: u32| {
        format!("CREATE TABLE {name} (k int PRIMARY KEY, v vector<float, {dimensions}>)")
    };
    client.edge(&table("v1", 65_535), &table("v2", 65_536), &["at most 65535", "given 65536"]);
}

#[test]
fn partitions_of_an_index() {
    let client = Client::new();
    let index = |column: &str, count: u32| {
        format!(
            "CREATE CUSTOM INDEX ON t ({column}) USING 'sai' WITH OPTIONS = {{'partitions': '{count}'}}"
        )
    };
    client.edge(&index("v", 256), &index("s", 512), &["from 1 to 256", "'512'"]);
}

/// Returns the numbers of rows of the pages of a table, and whether each has a next one.
fn pages(client: &Client, table: &str, page_rows: usize) -> Vec<(usize, bool)> {
    let mut parameters = Parameters { page_rows: Some(page_rows), ..Parameters::default() };
    let mut pages = Vec::new();
    loop {
        let select = format!("SELECT k, v FROM {table}");
        let result = block_on(client.0.query(&client.1, &select, &parameters)).unwrap();
        let Response::Rows(rows) = result else { panic!("no rows") };
        pages.push((rows.rows.len(), rows.paging_state.is_some()));
        let Some(state) = rows.paging_state else { return pages };
        parameters.paging_state = Some(state);
    }
}

/// A page ends with the row that takes it to 1 MiB, whatever number of rows was asked for.
#[test]
fn size_of_a_page() {
    let client = Client::new();
    client.run("CREATE TABLE short (k int PRIMARY KEY, v blob)", &[]).unwrap();
    client.run("CREATE TABLE long (k int PRIMARY KEY, v blob)", &[]).unwrap();
    for (table, rows, bytes) in [("short", 120, 10_000), ("long", 3, 2 << 20)] {
        for k in 0..rows {
            let insert = format!("INSERT INTO {table} (k, v) VALUES ({k}, ?)");
            client.run(&insert, &[Bytes::from(vec![7; bytes])]).unwrap();
        }
    }
    // A row has 10,000 bytes, an int and two lengths: 105 rows are the first beyond 1,048,576 bytes.
    assert_eq!(pages(&client, "short", 5_000), [(105, true), (15, false)]);
    assert_eq!(pages(&client, "short", 60), [(60, true), (60, false)]);
    assert_eq!(pages(&client, "long", 5_000), [(1, true), (1, true), (1, false)]);
}

#[test]
fn size_of_a_result_without_pages() {
    let client = Client::new();
    client.run("CREATE TABLE long (k int PRIMARY KEY, v blob)", &[]).unwrap();
    let insert = |k: u32| {
        let insert = format!("INSERT INTO long (k, v) VALUES ({k}, ?)");
        client.run(&insert, &[Bytes::from(vec![7; 16 << 20])]).unwrap();
    };
    (0..3).for_each(insert);
    client.run("SELECT k, v FROM long", &[]).unwrap();
    insert(3);
    let error = client.run("SELECT k, v FROM long", &[]).unwrap_err();
    assert!(error.contains("larger than 67108864 bytes; ask for it in pages"), "{error}");
}

#[test]
fn bits_of_calculated_numbers() {
    let client = Client::new();
    let number = |bits: usize| {
        let mut bytes = vec![0xff; bits / 8];
        bytes[0] = 0x7f;
        Bytes::from(bytes)
    };
    // The operand beside it has one bit, the sign is not counted.
    let sum = "SELECT (varint) ? + (varint) ? FROM t WHERE k = 1";
    client.run(sum, &[number(262_144), Bytes::from_static(&[1])]).unwrap();
    let error = client.run(sum, &[number(262_152), Bytes::from_static(&[1])]).unwrap_err();
    assert!(error.contains("more than 262144 bits together"), "{error}");
}

/// The page has the code's numbers.
#[test]
fn page_has_these_numbers() {
    let thousands = |number: u64| {
        let digits = number.to_string();
        let mut shown = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                shown.push(',');
            }
            shown.push(digit);
        }
        shown
    };
    let row = |begin: &str| {
        let mut found = PAGE.lines().filter(|line| line.starts_with(&format!("| {begin}")));
        let row = found.next().unwrap_or_else(|| panic!("the page has no row: {begin}"));
        assert!(found.next().is_none(), "several rows begin: {begin}");
        row
    };
    for (begin, number) in [
        ("a CQL statement |", TERMS_MAX as u64),
        ("a CQL statement |", MARKERS_MAX as u64),
        ("a CQL statement |", NESTING_MAX as u64),
        ("a batch of statements that are sent as text |", TERMS_MAX as u64),
        ("steps of a statement between", SECTION_STEPS_MAX),
        ("a number in a CQL statement |", NUMBER_DIGITS_MAX as u64),
        ("a number that `toJson`", NUMBER_DIGITS_MAX as u64),
        ("integer part of a decimal", NUMBER_DIGITS_MAX as u64),
        ("values of the list behind one `IN`", IN_VALUES_MAX as u64),
    ] {
        let shown = thousands(number);
        assert!(row(begin).contains(&shown), "{shown} in {}", row(begin));
    }
    let shown = format!("{} MiB of text", STATEMENT_BYTES_MAX >> 20);
    assert!(row("a CQL statement |").contains(&shown), "{shown}");
}
