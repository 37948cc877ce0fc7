//! `DESCRIBE KEYSPACE` of random schemas: its statements create the same keyspace again.

use carnet::Db;
use carnet_base::{Bytes, Rng, SeededRng};
use carnet_cql::ast::Name;
use carnet_cql::result::Response;

use crate::support::client::Client;
use crate::support::with_seeds;

/// Names that CQL quotes, beside plain ones.
const NAMES: [&str; 12] = [
    "zz",
    "aa",
    "Mixed",
    "select",
    "with space",
    "quo\"te",
    "1st",
    "ünï",
    "a.b",
    "m",
    "frozen",
    "int",
];
/// Names of keyspaces, tables and types, which have letters, digits and underscores only.
const OBJECTS: [&str; 8] = ["zz", "aa", "Mixed", "select", "m", "T_1", "1st", "table"];
const SCALARS: [&str; 8] =
    ["int", "text", "decimal", "timeuuid", "inet", "varint", "date", "duration"];
const KEYS: [&str; 5] = ["int", "text", "decimal", "timeuuid", "inet"];

/// Asks for the statements that make a schema.
trait Describes {
    fn describe(&self, keyspace: &str) -> Vec<String>;
}

impl Describes for Client {
    /// Returns the statements of a keyspace.
    fn describe(&self, keyspace: &str) -> Vec<String> {
        let Response::Rows(rows) = self.run(&format!("DESCRIBE KEYSPACE {keyspace}")) else {
            panic!("DESCRIBE returns rows")
        };
        let text = |cell: &Option<Bytes>| -> String {
            String::from_utf8(cell.as_ref().unwrap().to_vec()).unwrap()
        };
        rows.values().iter().map(|row| text(&row[3])).collect()
    }
}

/// Columns that were dropped have their names, types and times in the new table.
#[test]
fn internals_of_dropped_columns_make_the_same_table() {
    let described = |client: &Client| {
        let Response::Rows(rows) = client.run("DESCRIBE TABLE ks.t WITH INTERNALS") else {
            panic!("DESCRIBE returns rows")
        };
        String::from_utf8(rows.values()[0][3].as_ref().unwrap().to_vec()).unwrap()
    };
    let client = Client::new(Db::builder().in_memory());
    for statement in [
        "CREATE TABLE ks.t (p int, c int, a int, \"B\" text, s text static, l list<int>, PRIMARY KEY (p, c))",
        "ALTER TABLE ks.t DROP (a, s) USING TIMESTAMP 1000",
        "ALTER TABLE ks.t DROP \"B\" USING TIMESTAMP 2000",
        "ALTER TABLE ks.t DROP l USING TIMESTAMP 3000",
        "ALTER TABLE ks.t ADD s text static",
    ] {
        client.run(statement);
    }
    let text = described(&client);
    assert_eq!(text.matches(" DROP ").count(), 4, "{text}");
    let again = Client::new(Db::builder().in_memory());
    for statement in carnet_cql::split(&text) {
        again.run(statement.text);
    }
    assert_eq!(described(&again), text);
    let dropped = "SELECT column_name, type, kind, dropped_time FROM system_schema.dropped_columns";
    let rows = client.rows(dropped).values();
    assert_eq!((rows.len(), again.rows(dropped).values()), (4, rows));
}

fn pick<'a>(rng: &mut SeededRng, from: &[&'a str]) -> &'a str {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

/// Returns some names in random order, quoted where needed.
fn names(rng: &mut SeededRng, from: &[&str], count: u64) -> Vec<String> {
    let mut left = from.to_vec();
    let take = |_| {
        let place = usize::try_from(rng.below(left.len() as u64)).unwrap();
        Name::new(left.swap_remove(place)).to_string()
    };
    (0..count).map(take).collect()
}

/// Returns the type of a column or field, which may use user-defined types.
fn data_type(rng: &mut SeededRng, types: &[String], depth: u32) -> String {
    if depth == 0 || rng.chance(300) {
        return pick(rng, &SCALARS).to_owned();
    }
    let inner = |rng: &mut SeededRng| data_type(rng, types, depth - 1);
    match rng.below(5) {
        0 => format!("frozen<list<{}>>", inner(rng)),
        1 => format!("frozen<map<{}, {}>>", pick(rng, &KEYS), inner(rng)),
        2 => format!("frozen<tuple<{}, {}>>", inner(rng), inner(rng)),
        _ if types.is_empty() => inner(rng),
        _ => {
            let names: Vec<&str> = types.iter().map(String::as_str).collect();
            format!("frozen<{}>", pick(rng, &names))
        }
    }
}

/// Creates a random table, with indexes and a view.
fn create_table(rng: &mut SeededRng, client: &Client, name: &str, types: &[String], number: usize) {
    let columns = names(rng, &NAMES, 7);
    let [p, c, s, v, w, x, l] = &columns[..] else { panic!("seven names") };
    let (first, second) = (data_type(rng, types, 3), data_type(rng, types, 3));
    let order = pick(rng, &["ASC", "DESC"]);
    let option = pick(
        rng,
        &[
            "comment = 'it''s; -- a comment'",
            "default_time_to_live = 77 AND gc_grace_seconds = 5",
            "compaction = {'class': 'LeveledCompactionStrategy'}",
            "compression = {'enabled': 'false'}",
            "caching = {'keys': 'NONE', 'rows_per_partition': '7'}",
            "speculative_retry = '50p' AND min_index_interval = 64",
        ],
    );
    client.run(&format!(
        "CREATE TABLE {name} ({p} {}, {c} {}, {s} int static, {v} {first}, {w} {second}, {x} int, \
         {l} map<text, int>, PRIMARY KEY ({p}, {c})) WITH CLUSTERING ORDER BY ({c} {order}) \
         AND {option}",
        pick(rng, &KEYS),
        pick(rng, &KEYS)
    ));
    for target in [x.clone(), format!("KEYS({l})"), format!("ENTRIES({l})")] {
        if rng.chance(400) {
            client.run(&format!("CREATE INDEX ON {name} ({target})"));
        }
    }
    if rng.chance(500) && !option.contains("default_time_to_live") {
        let view = Name::new(format!("View_{number}")).to_string();
        let value = if rng.chance(500) { v } else { l };
        let selected = format!("{p}, {c}, {x}, {value}");
        client.run(&format!(
            "CREATE MATERIALIZED VIEW {view} AS SELECT {selected} FROM {name} \
             WHERE {x} IS NOT NULL AND {p} IS NOT NULL AND {c} IS NOT NULL \
             PRIMARY KEY ({x}, {c}, {p}) WITH CLUSTERING ORDER BY ({c} DESC, {p} ASC)"
        ));
    }
}

#[test]
fn described_keyspace_loads_again() {
    with_seeds(60, |rng| {
        let client = Client::on(Db::builder().in_memory());
        let keyspace = Name::new(pick(rng, &["ks", "Odd", "table", "1k"])).to_string();
        let class = "{'class': 'NetworkTopologyStrategy', 'datacenter1': '1'}";
        client.run(&format!("CREATE KEYSPACE {keyspace} WITH replication = {class}"));
        client.run(&format!("USE {keyspace}"));
        let count = 1 + rng.below(5);
        let types = names(rng, &OBJECTS, count);
        for (place, name) in types.iter().enumerate() {
            let fields = names(rng, &NAMES, 2);
            let of_fields = [0, 1].map(|_| data_type(rng, &types[..place], 3));
            client.run(&format!(
                "CREATE TYPE {name} ({} {}, {} {})",
                fields[0], of_fields[0], fields[1], of_fields[1]
            ));
        }
        let tables = 1 + rng.below(3);
        for (number, name) in names(rng, &OBJECTS, tables).iter().enumerate() {
            create_table(rng, &client, name, &types, number);
        }
        let described = client.describe(&keyspace);
        let loaded = Client::on(Db::builder().in_memory());
        for statement in &described {
            loaded.run(statement);
        }
        assert_eq!(loaded.describe(&keyspace), described);
    });
}

#[test]
fn types_follow_the_types_they_use() {
    let client = Client::on(Db::builder().in_memory());
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    client.run("USE ks");
    client.run("CREATE TYPE zz (c int)");
    client.run("CREATE TYPE mm (c int)");
    client.run("CREATE TYPE aa (c frozen<map<int, frozen<zz>>>)");
    client.run("CREATE TYPE a0 (a frozen<aa>, z frozen<zz>)");
    let order: Vec<String> = client.describe("ks")[1..]
        .iter()
        .map(|text| text["CREATE TYPE ks.".len()..][..2].to_owned())
        .collect();
    assert_eq!(order, ["zz", "aa", "a0", "mm"]);
}
