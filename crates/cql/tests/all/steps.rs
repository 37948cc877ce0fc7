//! Steps of statements: they grow in proportion to the statement and its values, and end at the
//! deadline.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Bytes, DataType, Db, Value, block_on};
use carnet_base::MemoryBudget;
use carnet_cql::result::Response;
use carnet_cql::{
    AnswerMemory, BatchItem, Bound, CqlError, CqlErrorKind, Grant, Parameters, SECTION_STEPS_MAX,
    Timeouts, Values, ast,
};

use crate::support::client::Client;
use crate::support::slow_clock::SlowClock;

/// Ratio of the steps of a statement of twice the size.
const RATIO_MAX: f64 = 2.2;

fn client_of(db: Db) -> Client {
    let client = Client::new(db);
    client.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int, tx text, n varint, d decimal, l list<int>, \
         m map<text, int>, vec vector<float, 2>)",
    );
    client
}

fn in_memory() -> Client {
    client_of(Db::builder().in_memory())
}

/// A client whose steps are counted.
trait Counted {
    fn with_values(&self, text: &str, values: &[Value]) -> Result<Response, CqlError>;
    fn steps(&self, call: impl FnOnce(&Self)) -> u64;
    fn insert_list(&self, count: i32);
}

impl Counted for Client {
    fn with_values(&self, text: &str, values: &[Value]) -> Result<Response, CqlError> {
        let values = values.iter().map(|value| Bound::Bytes(value.serialize())).collect();
        let values = Values::Positional(values);
        self.query(text, &Parameters { values, ..Parameters::default() })
    }

    /// Returns the steps of a call.
    fn steps(&self, call: impl FnOnce(&Self)) -> u64 {
        let before = self.executor.steps_total();
        call(self);
        self.executor.steps_total() - before
    }

    /// Inserts a row with a list of numbers from 0 on.
    fn insert_list(&self, count: i32) {
        let items: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        self.run(&format!("INSERT INTO t (id, l) VALUES (1, [{}])", items.join(", ")));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn assert_linear(what: &str, once: u64, twice: u64) {
    let ratio = twice as f64 / once as f64;
    assert!(once > 0 && ratio <= RATIO_MAX, "{what}: {once} steps, and {twice} for twice the size");
}

fn nested(depth: usize, open: &str, close: &str) -> String {
    format!("SELECT {}id{} FROM t WHERE id = 1", open.repeat(depth), close.repeat(depth))
}

/// An operand that is compiled twice takes 2⁶⁰ steps at this depth.
#[test]
fn nested_terms_take_steps_in_proportion() {
    let client = in_memory();
    client.run("INSERT INTO t (id, v, vec) VALUES (1, 0, [1, 1])");
    for (open, close) in [
        ("abs(id+", ")"),
        ("-(id+", ")"),
        ("round(CAST(", " AS int))"),
        ("(int)(id-", ")"),
        ("mask_replace(id*1+", ", 7)"),
    ] {
        let steps = |depth: usize| {
            let text = nested(depth, open, close);
            let steps = client.steps(|client| drop(client.rows(&text)));
            assert!(steps <= 12 * text.len() as u64, "{steps} steps for {} bytes", text.len());
            steps
        };
        assert_linear(open, steps(14), steps(28));
    }
    let deep = nested(60, "abs(id+", ")");
    assert!(client.steps(|client| drop(client.rows(&deep))) <= 12 * deep.len() as u64);
}

#[test]
fn nested_arguments_of_one_type_take_steps_in_proportion() {
    let client = in_memory();
    let steps = |depth: usize| {
        let open = "similarity_cosine(".repeat(depth);
        let text = format!("SELECT {open}vec{} FROM t", ", vec)".repeat(depth));
        client.steps(|client| {
            // The similarity is a float, and no vector.
            assert!(client.query(&text, &Parameters::default()).is_err());
        })
    };
    assert_linear("similarity", steps(20), steps(40));
}

#[test]
fn named_values_take_steps_in_proportion() {
    let client = in_memory();
    let steps = |count: usize| {
        let markers: Vec<String> = (0..count).map(|at| format!(":n{at}")).collect();
        let text = format!("UPDATE t SET l = [{}] WHERE id = 1", markers.join(", "));
        let value = Bound::Bytes(Value::Int(7).serialize());
        let values = (0..count).rev().map(|at| (format!("n{at}"), value.clone())).collect();
        let parameters = Parameters { values: Values::Named(values), ..Parameters::default() };
        client.steps(|client| drop(client.query(&text, &parameters).unwrap()))
    };
    assert_linear("named values", steps(15_000), steps(30_000));
}

#[test]
fn joined_texts_take_steps_in_proportion() {
    let client = in_memory();
    let text = Value::Text("x".repeat(64 << 10));
    client.with_values("INSERT INTO t (id, tx) VALUES (1, ?)", &[text]).unwrap();
    let statement =
        |count: usize| format!("SELECT {} FROM t WHERE id = 1", vec!["tx"; count].join(" + "));
    let steps = |count: usize| {
        client.steps(|client| {
            let rows = client.rows(&statement(count));
            assert_eq!(rows.values()[0][0].as_ref().unwrap().len(), count * (64 << 10));
        })
    };
    assert_linear("joined texts", steps(30), steps(60));
    let error = client.query(&statement(1_000), &Parameters::default()).unwrap_err();
    assert!(error.message().contains("more than the 33554432"), "{error}");
}

/// A sum of decimals of different scales writes the zeros between them.
#[test]
fn averages_of_decimals_take_steps_for_their_scales() {
    let client = in_memory();
    client.run("CREATE TABLE e (id int PRIMARY KEY, l list<decimal>)");
    let steps = |id: i32, small: &str| {
        let items: Vec<&str> = (0..40).map(|at| if at % 2 == 0 { small } else { "1" }).collect();
        client.run(&format!("INSERT INTO e (id, l) VALUES ({id}, [{}])", items.join(", ")));
        let text = format!("SELECT collection_avg(l) FROM e WHERE id = {id}");
        client.steps(|client| drop(client.query(&text, &Parameters::default())))
    };
    let (alike, different) = (steps(1, "2"), steps(2, "1E-20000"));
    assert!(different > 100 * alike, "{different} steps beside {alike}");
}

/// Twice the statements on a list of twice the length.
#[test]
fn removals_in_a_batch_take_steps_in_proportion() {
    let client = in_memory();
    let remove = |count: usize| {
        let delete = || BatchItem::Text {
            text: "DELETE l[0] FROM t WHERE id = 1".to_owned(),
            values: Values::default(),
        };
        let items = std::iter::repeat_with(delete).take(count).collect();
        let (kind, parameters) = (ast::BatchKind::Logged, Parameters::default());
        let batch = client.executor.batch(&client.session, kind, items, &parameters);
        drop(block_on(batch).unwrap());
    };
    let steps = |count: usize| {
        client.insert_list(i32::try_from(4 * count).unwrap());
        let steps = client.steps(|_| remove(count));
        let rows = client.rows("SELECT l[0], collection_count(l) FROM t WHERE id = 1");
        let expected = [count, 3 * count].map(|it| Value::Int(i32::try_from(it).unwrap()));
        assert_eq!(rows.values()[0], expected.map(|value| Some(value.serialize())));
        steps
    };
    assert_linear("DELETE l[0]", steps(500), steps(1_000));
}

#[test]
fn assigned_elements_take_steps_in_proportion() {
    let client = in_memory();
    let steps = |count: usize, place: fn(usize) -> String| {
        let sets: Vec<String> = (0..count).map(|at| format!("{} = {at}", place(at))).collect();
        let text = format!("UPDATE t SET {} WHERE id = 1", sets.join(", "));
        client.steps(|client| drop(client.run(&text)))
    };
    client.insert_list(100);
    for (what, place) in [
        ("m['k']", (|_| "m['k']".to_owned()) as fn(usize) -> String),
        ("m[…]", |at| format!("m['{at}']")),
        ("l[…]", |at| format!("l[{}]", at % 100)),
    ] {
        assert_linear(what, steps(4_000, place), steps(8_000, place));
    }
}

#[test]
fn relations_take_steps_in_proportion() {
    let client = in_memory();
    client.run("INSERT INTO t (id, v) VALUES (1, 1)");
    let steps = |count: usize| {
        let conditions = vec!["v = 1"; count].join(" AND ");
        let text = format!("UPDATE t SET v = 1 WHERE id = 1 IF {conditions}");
        client.steps(|client| drop(client.run(&text)))
    };
    assert_linear("IF", steps(4_000), steps(8_000));
}

#[test]
fn long_numbers_are_not_calculated() {
    let client = in_memory();
    let number = carnet_data::BigInt::from(1) << 8_000_000_u32;
    let decimal = Value::Decimal { unscaled: number.clone(), scale: 3 };
    let insert = "INSERT INTO t (id, n, d) VALUES (1, ?, ?)";
    client.with_values(insert, &[Value::Varint(number), decimal]).unwrap();
    for (term, word) in [
        ("n + n", "262144 bits"),
        ("n * 2", "262144 bits"),
        ("n % 7", "262144 bits"),
        ("d + 1", "262144 bits"),
        ("d / 3", "262144 bits"),
        ("n + 1.5", "262144 bits"),
        ("n + d", "262144 bits"),
        ("-n", "262144 bits"),
        ("round(d)", "digits"),
        ("CAST(n AS text)", "digits"),
        ("CAST(d AS double)", "digits"),
        ("to_json(n)", "digits"),
    ] {
        let error = client
            .query(&format!("SELECT {term} FROM t WHERE id = 1"), &Parameters::default())
            .expect_err(term);
        assert_eq!(error.kind(), &CqlErrorKind::Invalid, "{term}: {error}");
        assert!(error.message().contains(word), "{term}: {error}");
        assert!(error.message().len() < 300, "{term}: {error}");
    }
}

#[test]
fn messages_show_little_of_a_term() {
    let client = in_memory();
    let long = vec!["id"; 30_000].join(" + ");
    let text = "x".repeat(500_000);
    for statement in [
        format!("SELECT ({long}) + 'a' FROM t"),
        format!("SELECT ? + ?, {long} FROM t"),
        format!("SELECT [{long}] FROM t"),
        format!("UPDATE t SET l = l + [1] + ({long}) WHERE id = 1"),
        format!("UPDATE t SET v = '{text}' WHERE id = 1"),
        format!("UPDATE t SET l = '{text}' WHERE id = 1"),
        format!("SELECT id FROM t WHERE id = '{text}'"),
        format!("SELECT v FROM t WHERE v = {long} ALLOW FILTERING"),
        format!("INSERT INTO t JSON '{{\"id\": 1, \"v\": \"{text}\"}}'"),
        format!("SELECT from_json('{{\"id\": \"{text}\"}}') FROM t"),
        format!("SELECT blob_as_int(text_as_blob('{text}')) FROM t WHERE id = 1"),
        format!("UPDATE t SET v = from_json('\"{text}\"') WHERE id = 1"),
    ] {
        let error = client.query(&statement, &Parameters::default());
        if let Err(error) = error {
            let shown = &statement[..60];
            assert!(error.message().len() < 600, "{shown}: {} bytes", error.message().len());
        }
    }
}

/// Lists of the times of all elements would take 480 MB.
#[test]
fn memory_of_a_row_is_charged_as_it_is_produced() {
    let client = in_memory();
    client.insert_list(20_000);
    let budget = MemoryBudget::new(16 << 20);
    let memory = Arc::new(AnswerMemory::new(&budget, 8 << 20));
    let times = vec!["writetime(l)"; 200].join(", ");
    let grant = Grant { memory: Some(Arc::clone(&memory)), ..Grant::default() };
    for page_rows in [None, Some(5_000)] {
        let parameters = Parameters { grant: grant.clone(), page_rows, ..Parameters::default() };
        let before = client.executor.steps_total();
        let result = client.query(&format!("SELECT {times} FROM t WHERE id = 1"), &parameters);
        let error = result.unwrap_err();
        assert!(error.message().contains("memory"), "{error}");
        // Each output takes 20,000 steps.
        let steps = client.executor.steps_total() - before;
        assert!(steps < 80 * 20_000, "{steps} steps before the limit of the memory was seen");
    }
}

/// The first row of each partition is read before the first one is returned, with its key.
#[test]
fn first_rows_of_merged_partitions_are_charged() {
    for (key_bytes, value_bytes, few, many) in [(1, 300_000, 10, 60), (30_000, 1, 50, 300)] {
        let client = Client::new(Db::builder().in_memory());
        client.run("CREATE TABLE m (k int, c blob, b blob, PRIMARY KEY (k, c))");
        let keys: Vec<String> = (0..many).map(|key| key.to_string()).collect();
        for key in &keys {
            let blob = |bytes| Bound::Bytes(vec![7; bytes].into());
            let values = Values::Positional(vec![blob(key_bytes), blob(value_bytes)]);
            let text = format!("INSERT INTO m (k, c, b) VALUES ({key}, ?, ?)");
            client.query(&text, &Parameters { values, ..Parameters::default() }).unwrap();
        }
        let budget = MemoryBudget::new(8 << 20);
        let query = |count: usize| {
            let memory = Some(Arc::new(AnswerMemory::new(&budget, 4 << 20)));
            let grant = Grant { memory, ..Grant::default() };
            let keys = keys[..count].join(", ");
            let text = format!("SELECT b FROM m WHERE k IN ({keys}) ORDER BY c LIMIT 1");
            client.query(&text, &Parameters { grant, ..Parameters::default() })
        };
        query(few).unwrap();
        let error = query(many).unwrap_err();
        let names_both = ["server.answer_memory", "(query of table"];
        assert!(names_both.iter().all(|part| error.message().contains(part)), "{error}");
    }
}

#[test]
fn statement_ends_at_its_deadline() {
    let client = client_of(Db::builder().clock(Arc::new(SlowClock::default())).in_memory());
    client.run("INSERT INTO t (id, v) VALUES (1, 1)");
    let statement = Duration::from_millis(20);
    client.executor.set_timeouts(Timeouts { statement, scan: statement, schema: statement });
    let sets: Vec<String> = (0..40_000).map(|at| format!("m['{at}'] = {at}")).collect();
    let long = vec!["id"; 90_000].join(" + ");
    for text in [
        format!("UPDATE t SET {} WHERE id = 1", sets.join(", ")),
        format!("SELECT {long} FROM t WHERE id = 1"),
    ] {
        let arrived = Some(client.executor.db().now());
        let grant = Grant { arrived, ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        let before = client.executor.steps_total();
        let error = client.query(&text, &parameters).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Timeout, "{error}");
        // The parser runs before the deadline is checked.
        let steps = client.executor.steps_total() - before;
        let whole = 20 * text.len() as u64;
        assert!(steps < whole, "{steps} steps");
    }
    let short = Parameters {
        grant: Grant { arrived: Some(client.executor.db().now()), ..Grant::default() },
        ..Parameters::default()
    };
    client.query("SELECT v FROM t WHERE id = 1", &short).unwrap();
}

#[test]
fn value_of_a_marker_is_counted_by_its_bytes() {
    let client = in_memory();
    let insert = |bytes: usize| {
        client.steps(|client| {
            let text = Value::Text("x".repeat(bytes));
            client.with_values("INSERT INTO t (id, tx) VALUES (1, ?)", &[text]).unwrap();
        })
    };
    assert!(insert(1 << 20) - insert(1) >= (1 << 20) / 64);
    assert_eq!(DataType::Text.deserialize(&Bytes::from("x")).unwrap(), Value::Text("x".into()));
}

/// Statements at the limits of the parser take fewer steps than a section may have.
#[test]
fn longest_statements_are_run() {
    let client = in_memory();
    let many = |count: usize, one: fn(usize) -> String, between: &str| {
        (0..count).map(one).collect::<Vec<_>>().join(between)
    };
    let list = many(99_990, |at| (at % 10).to_string(), ",");
    let map = many(49_990, |at| format!("'{at}':1"), ",");
    let conditions = many(20_000, |_| "v=1".to_owned(), " AND ");
    let inserts = many(30_000, |at| format!("INSERT INTO t(id,v)VALUES({at},1)"), ";");
    for text in [
        format!("INSERT INTO t (id, l) VALUES (1, [{list}])"),
        format!("INSERT INTO t (id, m) VALUES (1, {{{map}}})"),
        "INSERT INTO t (id, v) VALUES (1, 1)".to_owned(),
        format!("UPDATE t SET v = 1 WHERE id = 1 IF {conditions}"),
        format!("BEGIN UNLOGGED BATCH {}; APPLY BATCH", &inserts[..inserts.len().min(1 << 20)]),
    ] {
        if text.len() <= 1 << 20 {
            let steps = client.steps(|client| drop(client.run(&text)));
            assert!(steps < SECTION_STEPS_MAX, "{steps} steps for {} bytes", text.len());
        }
    }
}
