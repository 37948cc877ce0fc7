//! Collections: random changes beside a model, many clients, markers, and reopening.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carnet::{CellKey, DataType, Db, Durability, PartitionKey, Value, block_on, catalog};
use carnet_base::{Rng, SeededRng};
use carnet_cql::result::Response;
use carnet_cql::{Bound, CqlErrorKind, Parameters, Prepared, Values};
use carnet_data::{Column, Composite, Marker, RowImage};
use carnet_storage::disk::sim::{Kind, SimDisk};

use crate::support::client::Client;

const CREATE: &str = "CREATE TABLE ks.t (k int PRIMARY KEY, l list<int>, s set<text>, \
                      m map<int, frozen<tuple<text, int>>>, f frozen<set<int>>)";

fn open(disk: &SimDisk) -> Client {
    let db = Db::builder().durability(Durability::Always).open_on(Arc::new(disk.clone()));
    Client::on(db.unwrap())
}

/// The table of the tests.
trait Table {
    fn create_table(&self);
    fn show(&self, column: &str, key: i32) -> String;
}

impl Table for Client {
    fn create_table(&self) {
        self.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        self.run(CREATE);
    }

    /// Returns a column of the row with a key, as a literal; `null` if there is none.
    fn show(&self, column: &str, key: i32) -> String {
        let rows = self.rows(&format!("SELECT {column} FROM ks.t WHERE k = {key}"));
        let values = rows.values();
        let bytes = values.first().and_then(|row| row[0].as_ref());
        bytes.map_or_else(
            || "null".to_owned(),
            |bytes| rows.columns[0].data_type.deserialize(bytes).unwrap().to_literal(),
        )
    }
}

/// The collections of one row.
#[derive(Default)]
struct Model {
    list: Vec<i32>,
    set: BTreeSet<String>,
    map: BTreeMap<i32, (String, i32)>,
}

impl Model {
    /// Makes a random change, and returns the statement that makes it.
    fn change(&mut self, rng: &mut SeededRng) -> String {
        let number = |rng: &mut SeededRng| i32::try_from(rng.below(6)).unwrap() - 3;
        let text = |rng: &mut SeededRng| {
            ["", "a", "b", "it's", "é"][usize::try_from(rng.below(5)).unwrap()]
        };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let (a, b) = (number(rng), number(rng));
        let (t, u) = (text(rng), text(rng));
        let at = rng.below(self.list.len().max(1) as u64);
        let index = usize::try_from(at).unwrap();
        let set = |what: String| format!("UPDATE ks.t SET {what} WHERE k = 1");
        match rng.below(14) {
            0 => {
                self.list.extend([a, b]);
                set(format!("l = l + [{a}, {b}]"))
            }
            1 => {
                self.list.splice(0..0, [a, b]);
                set(format!("l = [{a}, {b}] + l"))
            }
            2 => {
                self.list.retain(|number| *number != a && *number != b);
                set(format!("l -= [{a}, {b}]"))
            }
            3 if !self.list.is_empty() => {
                self.list[index] = a;
                set(format!("l[{index}] = {a}"))
            }
            4 if !self.list.is_empty() => {
                self.list.remove(index);
                format!("DELETE l[{index}] FROM ks.t WHERE k = 1")
            }
            5 => {
                self.list = vec![a];
                set(format!("l = [{a}]"))
            }
            6 => {
                self.set.extend([t.to_owned(), u.to_owned()]);
                set(format!("s += {{{}, {}}}", quoted(t), quoted(u)))
            }
            7 => {
                self.set.remove(t);
                set(format!("s = s - {{{}}}", quoted(t)))
            }
            8 => {
                self.set.remove(t);
                format!("DELETE s[{}] FROM ks.t WHERE k = 1", quoted(t))
            }
            9 => {
                self.map.insert(a, (t.to_owned(), b));
                self.map.insert(b, (u.to_owned(), a));
                set(format!("m[{a}] = ({}, {b}), m[{b}] = ({}, {a})", quoted(t), quoted(u)))
            }
            10 => {
                self.map.insert(a, (t.to_owned(), b));
                set(format!("m += {{{a}: ({}, {b})}}", quoted(t)))
            }
            11 => {
                self.map.retain(|key, _| *key != a && *key != b);
                set(format!("m = m - {{{a}, {b}}}"))
            }
            12 => {
                self.map.remove(&a);
                set(format!("m[{a}] = null"))
            }
            _ => {
                *self = Self::default();
                "DELETE FROM ks.t WHERE k = 1".to_owned()
            }
        }
    }

    fn show(&self) -> [String; 3] {
        let quoted = |text: &String| format!("'{}'", text.replace('\'', "''"));
        let joined = |open: char, parts: Vec<String>, close: char| match parts.is_empty() {
            true => "null".to_owned(),
            false => format!("{open}{}{close}", parts.join(", ")),
        };
        let list = self.list.iter().map(i32::to_string).collect();
        let set = self.set.iter().map(quoted).collect();
        let pair = |(key, (text, number)): (&i32, &(String, i32))| {
            format!("{key}: ({}, {number})", quoted(text))
        };
        let map = self.map.iter().map(pair).collect();
        [joined('[', list, ']'), joined('{', set, '}'), joined('{', map, '}')]
    }
}

#[test]
fn random_changes_agree_with_a_model() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let mut client = open(&disk);
        client.create_table();
        let (mut rng, mut model) = (SeededRng::new(seed), Model::default());
        for step in 0..150 {
            let statement = model.change(&mut rng);
            client.run(&statement);
            match step % 50 {
                9 | 29 => client.executor.db().flush().unwrap(),
                39 => client.executor.db().compact().unwrap(),
                49 => {
                    drop(client);
                    client = open(&disk);
                }
                _ => {}
            }
            let shown = ["l", "s", "m"].map(|column| client.show(column, 1));
            assert_eq!(shown, model.show(), "seed {seed}, step {step}: {statement}");
        }
    }
}

#[test]
fn additions_of_many_clients_do_not_conflict() {
    add_by_many_clients(open(&SimDisk::new(1)), false);
}

#[test]
fn additions_in_memory_are_all_there() {
    add_by_many_clients(Client::on(Db::builder().in_memory()), true);
}

/// Each client adds once; with `retries`, until it succeeds.
fn add_by_many_clients(client: Client, retries: bool) {
    let client = Arc::new(client);
    client.create_table();
    client.run("INSERT INTO ks.t (k, s) VALUES (1, {'first'})");
    let add = |client: &Client, thread: u64, n: u64| loop {
        let number = thread * 100 + n;
        let statement = format!(
            "UPDATE ks.t SET s += {{'{number}'}}, l += [{number}], m[{number}] = ('', 1) WHERE k = 1"
        );
        match client.try_run(&statement) {
            Ok(_) => return,
            Err(error) => assert!(retries && *error.kind() == CqlErrorKind::Conflict, "{error}"),
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = Arc::clone(&client);
            scope.spawn(move || (0..25).for_each(|n| add(&client, thread, n)));
        }
    });
    let rows = client.rows("SELECT l, m, s FROM ks.t WHERE k = 1");
    let values = rows.values();
    let count = |at: usize| {
        let bytes = values[0][at].as_ref().unwrap();
        i32::from_be_bytes(bytes[..4].try_into().unwrap())
    };
    assert_eq!([count(0), count(1), count(2)], [100, 100, 101]);
}

/// The read sets of changes are empty: two transactions that are open at the same time both commit.
#[test]
fn changes_of_elements_read_nothing() {
    let disk = SimDisk::new(2);
    let client = open(&disk);
    client.create_table();
    client.run(
        "INSERT INTO ks.t (k, l, s, m) VALUES (1, [1], {'a'}, {1: ('x', 1), 2: ('y', 2), -3: ('', 3)})",
    );
    client.executor.db().flush().unwrap();
    drop(client);
    let client = open(&disk);
    client.run("UPDATE ks.t SET s += {'z'} WHERE k = 2"); // It reads the schema.
    let before = disk.count(Kind::Read);
    for statement in [
        "UPDATE ks.t SET s = s + {'b', 'c'}, l = l + [2], l = [0] + l WHERE k = 1",
        "UPDATE ks.t SET s = s - {'a'}, m[2] = ('new', 0), m[-1] = ('', -1) WHERE k = 1",
        "UPDATE ks.t SET m = m - {1}, m[-3] = null WHERE k = 1",
        "DELETE s['c'] FROM ks.t WHERE k = 1",
    ] {
        client.run(statement);
    }
    assert_eq!(disk.count(Kind::Read), before, "no statement has read its row");
    let check = |client: &Client| {
        let shown = ["l", "s", "m"].map(|column| client.show(column, 1));
        assert_eq!(shown, ["[0, 1, 2]", "{'b'}", "{-1: ('', -1), 2: ('new', 0)}"]);
    };
    check(&client);
    for _ in 0..2 {
        client.executor.db().flush().unwrap();
        client.executor.db().compact().unwrap();
        check(&client);
    }
}

#[test]
fn many_elements_are_removed_at_once() {
    let client = Client::on(Db::builder().in_memory());
    client.create_table();
    let numbers = |range: std::ops::Range<i32>| {
        range.rev().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
    };
    client.run(&format!("INSERT INTO ks.t (k, l) VALUES (1, [{}, 7])", numbers(0..20_000)));
    client.run(&format!("UPDATE ks.t SET l = l - [{}] WHERE k = 1", numbers(3..30_000)));
    assert_eq!(client.show("l", 1), "[2, 1, 0]");
}

#[test]
fn markers_of_elements_have_their_types() {
    let client = Client::on(Db::builder().in_memory());
    client.create_table();
    let text = "UPDATE ks.t SET m[?] = ?, l = l + ?, s = s - ?, f = {?} WHERE k = ? IF l[?] = ?";
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    let markers: Vec<String> =
        prepared.markers.iter().map(|spec| format!("{} {}", spec.name, spec.data_type)).collect();
    assert_eq!(
        markers,
        [
            "key(m) int",
            "value(m) tuple<text, int>",
            "l list<int>",
            "s set<text>",
            "value(f) int",
            "k int",
            "idx(l) int",
            "value(l) int",
        ]
    );
    client.run("INSERT INTO ks.t (k, l, s) VALUES (7, [1], {'a', 'b'})");
    let tuple = DataType::tuple([DataType::Text, DataType::Int]);
    let composite = |data_type, parts| Value::Composite(Composite::new(data_type, parts).unwrap());
    let numbers = |numbers: &[i32]| numbers.iter().map(|n| Some(Value::Int(*n))).collect();
    let values = [
        Value::Int(3),
        composite(tuple, vec![Some(Value::Text("x".into())), None]),
        composite(DataType::list(DataType::Int), numbers(&[2, 3])),
        composite(DataType::set(DataType::Text), vec![Some(Value::Text("a".into()))]),
        Value::Int(9),
        Value::Int(7),
        Value::Int(0),
        Value::Int(1),
    ];
    let bound = values.iter().map(|value| Bound::Bytes(value.serialize())).collect();
    let parameters = Parameters { values: Values::Positional(bound), ..Parameters::default() };
    block_on(client.executor.execute(&client.session, &prepared, &parameters)).unwrap();
    let shown = ["l", "s", "m", "f"].map(|column| client.show(column, 7));
    assert_eq!(shown, ["[1, 2, 3]", "{'b'}", "{3: ('x', null)}", "{9}"]);
}

#[test]
fn prepared_statements_follow_a_changed_type() {
    let client = Client::on(Db::builder().in_memory());
    client.create_table();
    client.run("CREATE TYPE ks.point (x int)");
    client.run("CREATE TABLE ks.u (k int PRIMARY KEY, p frozen<point>)");
    client.run("INSERT INTO ks.u (k, p) VALUES (1, {x: 1})");
    let text = "SELECT p FROM ks.u WHERE k = 1";
    let prepare = || block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    let execute = |prepared: &Prepared| {
        let parameters = Parameters::default();
        block_on(client.executor.execute(&client.session, prepared, &parameters))
    };
    let before = prepare();
    execute(&before).unwrap();
    client.run("ALTER TYPE ks.point ADD y int");
    // The columns that the client was promised have changed: drivers prepare it again.
    let error = execute(&before).unwrap_err();
    assert!(matches!(error.kind(), CqlErrorKind::Unprepared { .. }), "{error}");
    let Ok(Response::Rows(rows)) = execute(&prepare()) else { panic!("rows") };
    let value =
        rows.columns[0].data_type.deserialize(rows.values()[0][0].as_ref().unwrap()).unwrap();
    assert_eq!(value.to_literal(), "{x: 1, y: null}");
}

#[test]
fn json_rows_are_bound_to_one_marker() {
    let client = Client::on(Db::builder().in_memory());
    client.create_table();
    for (text, missing) in
        [("INSERT INTO ks.t JSON ?", "null"), ("INSERT INTO ks.t JSON :row DEFAULT UNSET", "{'a'}")]
    {
        client.run("INSERT INTO ks.t (k, s) VALUES (1, {'a'})");
        let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
        let [marker] = prepared.markers.as_slice() else { panic!("{:?}", prepared.markers) };
        assert_eq!(marker.data_type, DataType::Text);
        let execute = |json: &str| {
            let bound = vec![Bound::Bytes(json.to_owned().into())];
            let values = Values::Positional(bound);
            let parameters = Parameters { values, ..Parameters::default() };
            block_on(client.executor.execute(&client.session, &prepared, &parameters))
        };
        execute(r#"{"k": 1, "l": [1, 2], "m": {"3": ["x", null]}}"#).unwrap();
        let shown = ["l", "s", "m"].map(|column| client.show(column, 1));
        assert_eq!(shown, ["[1, 2]", missing, "{3: ('x', null)}"]);
        assert!(execute("[]").is_err());
    }
}

/// A collection is as long as its row may be.
#[test]
fn long_collections_are_whole() {
    let client = open(&SimDisk::new(3));
    client.create_table();
    let list = |count: usize| vec!["1"; count].join(", ");
    client.run(&format!("INSERT INTO ks.t (k, l) VALUES (1, [{}])", list(70_000)));
    client.run(&format!("UPDATE ks.t SET l = l + [{}] WHERE k = 1", list(70_000)));
    let rows = client.rows("SELECT l FROM ks.t WHERE k = 1");
    let values = rows.values();
    let bytes = values[0][0].as_ref().unwrap();
    assert_eq!(bytes[..4], 140_000_i32.to_be_bytes());
}

/// Older programs stored collections as plain values.
#[test]
fn plain_values_are_collections() {
    let client = open(&SimDisk::new(4));
    client.create_table();
    let db = client.executor.db();
    let tx = block_on(db.transaction().begin_async()).unwrap();
    let table = block_on(catalog::table(&tx, "ks", "t")).unwrap().unwrap();
    let mut image = RowImage::new(table.version);
    image.marker = Some(Marker::default());
    for (name, text) in [("l", "[1, 2]"), ("s", "{'a', 'b'}"), ("m", "{-1: ('', 1), 1: ('', 2)}")] {
        let column = table.column(name).unwrap();
        let value = column.data_type.parse_text(text).unwrap().serialize();
        image.set(column.id, Column::new(value));
    }
    let key = CellKey::new(table.id, &PartitionKey::new(1_i32.to_be_bytes().to_vec()), "");
    tx.put_cell(key, image.encode()).unwrap();
    block_on(tx.commit()).unwrap();
    let shown = || ["l", "s", "m"].map(|column| client.show(column, 1));
    assert_eq!(shown(), ["[1, 2]", "{'a', 'b'}", "{-1: ('', 1), 1: ('', 2)}"]);
    client.run("UPDATE ks.t SET l = l + [3], s = s - {'a'}, m[0] = ('', 0) WHERE k = 1");
    assert_eq!(shown(), ["[1, 2, 3]", "{'b'}", "{-1: ('', 1), 0: ('', 0), 1: ('', 2)}"]);
    client.run("UPDATE ks.t SET l[0] = 7, m = m - {1} WHERE k = 1");
    assert_eq!(shown(), ["[7, 2, 3]", "{'b'}", "{-1: ('', 1), 0: ('', 0)}"]);
}
