//! Pages: the rows of all pages of a random `SELECT` beside those of the same statement without pages.
//!
//! Statements of every form run over tables with static columns, over their indexes and views, and over
//! system tables, outside and inside of transactions. Outside, rows change between two pages: all pages
//! read one moment.

use std::collections::BTreeMap;

use carnet::{Bytes, Db, Uuid, block_on};
use carnet_base::{Rng, SeededRng};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Parameters, Session};

use crate::support::with_seeds;

type Row = Vec<Option<Bytes>>;

const SIZES: [usize; 4] = [1, 2, 3, 7];

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        let db = Db::builder().in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client.say("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.say("USE ks");
        client
    }

    fn run(&self, statement: &str, parameters: &Parameters) -> Result<Rows, CqlError> {
        match block_on(self.executor.query(&self.session, statement, parameters))? {
            Response::Rows(rows) => Ok(rows),
            _ => Ok(Rows::default()),
        }
    }

    fn say(&self, statement: &str) {
        let done = self.run(statement, &Parameters::default());
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn whole(&self, statement: &str) -> Result<Vec<Row>, CqlError> {
        Ok(self.run(statement, &Parameters::default())?.values())
    }

    /// Returns the rows of all pages, with `between` run after each.
    fn pages(
        &self,
        statement: &str,
        page_rows: usize,
        mut between: impl FnMut(&Self),
    ) -> Result<(Vec<Row>, usize), CqlError> {
        let mut parameters = Parameters { page_rows: Some(page_rows), ..Parameters::default() };
        let (mut all, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.run(statement, &parameters)?;
            assert!(page.rows.len() <= page_rows, "{statement}");
            assert!(
                !page.rows.is_empty() || page.paging_state.is_none(),
                "{statement}: empty page"
            );
            all.extend(page.values());
            pages += 1;
            assert!(pages < 2_000, "{statement}: endless pages");
            parameters.paging_state = page.paging_state;
            if parameters.paging_state.is_none() {
                return Ok((all, pages));
            }
            between(self);
        }
    }
}

fn pick<'a>(rng: &mut SeededRng, of: &[&'a str]) -> &'a str {
    of[usize::try_from(rng.below(of.len() as u64)).unwrap()]
}

fn chance(rng: &mut SeededRng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// Returns a random change of a table.
fn change(rng: &mut SeededRng, table: &str) -> String {
    let mut draw = |below| rng.below(below);
    let (p, q, c, d) = (draw(6), draw(2), draw(5), draw(3));
    let (x, s, a, b) = (draw(3), draw(3), draw(3), draw(3));
    let row = format!("p = {p} AND q = {q} AND c = {c} AND d = {d}");
    let is_wide = table == "wide";
    let partition = if is_wide { format!("p = {p}") } else { format!("p = {p} AND q = {q}") };
    match draw(12) {
        0 => format!("DELETE FROM {table} WHERE {row}"),
        1 => format!("DELETE FROM {table} WHERE {partition}"),
        2 => format!("DELETE s FROM {table} WHERE {partition}"),
        // Most of these partitions have no other row.
        3 | 4 if is_wide => format!("INSERT INTO {table} (p, s) VALUES ({}, {s})", p + 3),
        3 | 4 => format!("INSERT INTO {table} (p, q, s) VALUES ({}, {q}, {s})", p + 3),
        5 => format!("UPDATE {table} SET s = {s} WHERE {partition}"),
        6 => format!("UPDATE {table} SET x = {x}, m[{a}] = {b} WHERE {row}"),
        _ => format!(
            "INSERT INTO {table} (p, q, c, d, x, m) VALUES \
             ({p}, {q}, {c}, {d}, {x}, {{{a}: {b}}})"
        ),
    }
}

/// Tables with their primary keys and the orders of the first clustering columns.
const TABLES: [(&str, &str, &str); 3] = [
    ("wide", "p, q, c, d", "q ASC"),
    ("back", "(p, q), c, d", "c DESC"),
    ("many", "(p, q), c, d", "c ASC"),
];

fn create(client: &Client) {
    for (name, key, order) in TABLES {
        client.say(&format!(
            "CREATE TABLE {name} (p int, q int, c int, d int, s int static, x int, m map<int, int>, \
             PRIMARY KEY ({key})) WITH CLUSTERING ORDER BY ({order})"
        ));
        for target in ["x", "s", "c", "q", "keys(m)", "entries(m)"] {
            client.say(&format!("CREATE INDEX ON {name} ({target})"));
        }
    }
    client.say(
        "CREATE MATERIALIZED VIEW by_x AS SELECT x, c, p, q, d, m FROM many WHERE x IS NOT NULL AND p IS NOT NULL \
         AND q IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL PRIMARY KEY (x, c, p, q, d)",
    );
}

/// Random statement over one of the tables. Some are refused.
fn select(rng: &mut SeededRng) -> String {
    let table = pick(rng, &["wide", "back", "many", "by_x"]);
    let key: &[&str] = match table {
        "by_x" => &["x", "c", "p", "q", "d"],
        _ => &["p", "q", "c", "d"],
    };
    let partition = match table {
        "wide" => "p",
        "by_x" => "x",
        _ => "p, q",
    };
    let grouped = usize::try_from(rng.below(4)).unwrap() + 1;
    let group = if chance(rng, 35) {
        format!(" GROUP BY {}", key[..grouped.min(key.len())].join(", "))
    } else {
        String::new()
    };
    let statics = if table == "by_x" { partition } else { "s" };
    let selection = match rng.below(8) {
        0 => "*".to_owned(),
        1 => format!("DISTINCT {partition}, {statics}"),
        2 => format!("DISTINCT {partition}"),
        3 => format!("{partition}, count(*), max(c)"),
        4 => format!("c, {statics}, m"),
        5 => "JSON c, x".to_owned(),
        6 => format!("token({partition}), c, x"),
        _ => format!("{partition}, c, d, x, {statics}"),
    };
    let mut filter: Vec<String> = Vec::new();
    let values =
        |rng: &mut SeededRng| format!("({}, {}, {})", rng.below(8), rng.below(8), rng.below(3));
    if chance(rng, 40) {
        for column in partition.split(", ") {
            filter.push(match rng.below(3) {
                0 => format!("{column} IN {}", values(rng)),
                _ => format!("{column} = {}", rng.below(4)),
            });
        }
        if chance(rng, 40) {
            let op = pick(rng, &[">", "<=", "=", ">="]);
            filter.push(match table {
                "wide" => format!("q = {} AND c {op} {}", rng.below(2), rng.below(5)),
                _ => format!("c {op} {}", rng.below(5)),
            });
        }
    } else if chance(rng, 30) {
        let op = pick(rng, &[">", "<="]);
        filter.push(format!("token({partition}) {op} {}", rng.next_u64().cast_signed() / 2));
    }
    if chance(rng, 60) {
        let n = rng.below(3);
        let relation = match rng.below(8) {
            0 => format!("s = {n}"),
            1 => format!("q = {}", rng.below(2)),
            2 => format!("m CONTAINS KEY {n}"),
            3 => format!("m[{n}] = {}", rng.below(3)),
            4 => format!("x > {n}"),
            5 => format!("x IN (0, {n})"),
            _ => format!("x = {n}"),
        };
        filter.push(relation);
    }
    let filter = match filter.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", filter.join(" AND ")),
    };
    let order = match (chance(rng, 30), table) {
        (false, _) => "",
        (true, "wide") => pick(rng, &[" ORDER BY q DESC", " ORDER BY q ASC"]),
        (true, _) => pick(rng, &[" ORDER BY c DESC", " ORDER BY c ASC"]),
    };
    let per = match chance(rng, 25) {
        true => format!(" PER PARTITION LIMIT {}", 1 + rng.below(3)),
        false => String::new(),
    };
    let limit = match chance(rng, 25) {
        true => format!(" LIMIT {}", 1 + rng.below(9)),
        false => String::new(),
    };
    let allow = if chance(rng, 50) { " ALLOW FILTERING" } else { "" };
    format!("SELECT {selection} FROM {table}{filter}{group}{order}{per}{limit}{allow}")
}

/// Random statement over a system table whose rows do not change by themselves.
fn select_of_system(rng: &mut SeededRng) -> String {
    let table = pick(rng, &["tables", "columns", "views", "indexes", "keyspaces"]);
    let selection = match rng.below(6) {
        0 => "*",
        1 => "DISTINCT keyspace_name",
        2 => "keyspace_name, count(*)",
        3 => "JSON *",
        4 => "token(keyspace_name), keyspace_name",
        _ => "keyspace_name",
    };
    let clustering = match table {
        "views" => "view_name",
        "indexes" => "index_name",
        _ => "table_name",
    };
    let filter = match rng.below(8) {
        0 => " WHERE keyspace_name = 'ks'".to_owned(),
        1 => " WHERE keyspace_name IN ('system_traces', 'ks', 'system')".to_owned(),
        2 => format!(" WHERE keyspace_name = 'ks' AND {clustering} > 'c'"),
        3 => format!(" WHERE token(keyspace_name) > {}", rng.next_u64().cast_signed()),
        4 => format!(" WHERE {clustering} = 'many'"),
        _ => String::new(),
    };
    let group = match rng.below(4) {
        0 => " GROUP BY keyspace_name".to_owned(),
        1 => format!(" GROUP BY keyspace_name, {clustering}"),
        _ => String::new(),
    };
    let order = match chance(rng, 30) {
        true => format!(" ORDER BY {clustering} DESC"),
        false => String::new(),
    };
    let per = if chance(rng, 25) { " PER PARTITION LIMIT 2" } else { "" };
    let limit = if chance(rng, 25) { " LIMIT 9" } else { "" };
    format!("SELECT {selection} FROM system_schema.{table}{filter}{group}{order}{per}{limit}")
}

/// Parts of statements, to count the forms that were compared.
const FORMS: [&str; 17] = [
    "FROM system_schema",
    "DISTINCT",
    "GROUP BY",
    "count(",
    "JSON",
    "PER PARTITION LIMIT",
    " LIMIT",
    "ORDER BY",
    " IN ",
    "token(",
    "FROM by_x",
    " s = ",
    "x = ",
    "CONTAINS",
    "DESC",
    "c >",
    "FROM back",
];

fn forms(statement: &str) -> Vec<&'static str> {
    FORMS.into_iter().filter(|form| statement.contains(form)).collect()
}

/// Compares a statement in pages with the statement as a whole, unless it is refused.
fn compare(client: &Client, statement: &str, mut between: impl FnMut(&Client), seen: &mut Seen) {
    if client.whole(statement).is_err() {
        return;
    }
    for size in SIZES {
        // The rows change in between: each sequence of pages has a whole answer of its own.
        let whole = client.whole(statement).unwrap();
        let (paged, pages) = match client.pages(statement, size, &mut between) {
            Ok(found) => found,
            Err(error) if error.message().starts_with("Cannot page queries with both") => return,
            Err(error) => panic!("{statement}, pages of {size}: {error}"),
        };
        assert_eq!(paged, whole, "{statement}, pages of {size}");
        assert_eq!(pages, whole.len().div_ceil(size).max(1), "{statement}, pages of {size}");
        if pages > 1 {
            forms(statement).into_iter().for_each(|form| *seen.entry(form).or_default() += 1);
        }
    }
}

type Seen = BTreeMap<&'static str, usize>;

fn fill(client: &Client, rng: &mut SeededRng) {
    for _ in 0..150 {
        let (table, ..) = TABLES[usize::try_from(rng.below(3)).unwrap()];
        client.say(&change(rng, table));
    }
}

#[test]
fn pages_of_any_size_give_the_whole_answer() {
    let seen = std::cell::RefCell::new(Seen::new());
    with_seeds(6, |rng| {
        let client = Client::new();
        create(&client);
        fill(&client, rng);
        for _ in 0..100 {
            let statement = if chance(rng, 15) { select_of_system(rng) } else { select(rng) };
            let mut changes = SeededRng::new(rng.next_u64());
            let between = |client: &Client| {
                if chance(&mut changes, 20) {
                    let (table, ..) = TABLES[usize::try_from(changes.below(3)).unwrap()];
                    client.say(&change(&mut changes, table));
                }
            };
            compare(&client, &statement, between, &mut seen.borrow_mut());
        }
    });
    let seen = seen.into_inner();
    assert!(std::env::var("CARNET_SEED").is_ok() || seen.len() == FORMS.len(), "{seen:?}");
}

#[test]
fn pages_in_a_transaction_give_the_whole_answer() {
    with_seeds(4, |rng| {
        let client = Client::new();
        create(&client);
        fill(&client, rng);
        let mut seen = Seen::new();
        client.say("START TRANSACTION");
        for _ in 0..60 {
            let (table, ..) = TABLES[usize::try_from(rng.below(3)).unwrap()];
            client.say(&change(rng, table));
            compare(&client, &select(rng), |_| {}, &mut seen);
        }
        client.say("COMMIT");
        assert!(seen.len() > 8, "{seen:?}");
    });
}

/// Rows of 200 KiB: a page ends by its bytes.
#[test]
fn pages_that_end_by_bytes_give_the_whole_answer() {
    let client = Client::new();
    client
        .say("CREATE TABLE large (p int, c int, x int, s blob static, b blob, PRIMARY KEY (p, c))");
    client.say("CREATE INDEX ON large (x)");
    let blob = format!("0x{}", "ab".repeat(200 << 10));
    for p in 0..4 {
        client.say(&format!("INSERT INTO large (p, s) VALUES ({p}, {blob})"));
        for c in 0..5 {
            let x = (p + c) % 2;
            client.say(&format!("INSERT INTO large (p, c, x, b) VALUES ({p}, {c}, {x}, {blob})"));
        }
    }
    for statement in [
        "SELECT p, c, b FROM large",
        "SELECT p, c, b, s FROM large",
        "SELECT * FROM large WHERE x = 1",
        "SELECT p, c, b FROM large WHERE x = 1",
        "SELECT p, c, max(b) FROM large WHERE x = 1 GROUP BY p, c",
        "SELECT p, c, max(b) FROM large GROUP BY p, c",
        "SELECT DISTINCT p, s FROM large",
        "SELECT p, c, b FROM large PER PARTITION LIMIT 3",
        "SELECT p, c, b FROM large WHERE x = 0 PER PARTITION LIMIT 2 LIMIT 7",
        "SELECT p, c, b FROM large WHERE p IN (0, 1, 3)",
        "SELECT p, c, b FROM large WHERE p = 1 ORDER BY c DESC",
        "SELECT JSON p, c, b FROM large WHERE p IN (0, 1)",
    ] {
        let whole = client.whole(statement).unwrap();
        let (paged, pages) = client.pages(statement, 1000, |_| {}).unwrap();
        assert!(paged == whole, "{statement}: {} of {} rows", paged.len(), whole.len());
        assert!(pages > 1 || whole.len() < 6, "{statement}: {pages} pages");
    }
}
