//! Work that no step counts stays short: lists that are searched for each of their items are limited, the rows
//! of a range are deleted in turns, and the rows of a schema are made in turns and page by page.

use std::cell::Cell;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use carnet::{Db, block_on};
use carnet_base::Bytes;
use carnet_cql::result::Response;
use carnet_cql::{BatchItem, CqlErrorKind, Grant, Parameters, Values, ast};

use crate::support::client::Client;
use crate::support::slow_clock::SlowClock;

fn list(count: usize, item: impl Fn(usize) -> String, separator: &str) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// Each of these compares every item with all items before it, which takes minutes without the limit.
#[test]
fn searched_lists_are_limited() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    let option = |at: usize| format!("o{at} = 1");
    let column = |at: usize| format!("c{at} int");
    let name = |at: usize| format!("c{at}");
    for (text, limit) in [
        (format!("ALTER TABLE t WITH {}", list(200_000, option, " AND ")), "100 options"),
        (format!("CREATE SERVICE LEVEL w WITH {}", list(200_000, option, " AND ")), "100 options"),
        (
            format!(
                "CREATE TABLE u ({}, PRIMARY KEY ({}))",
                list(150_000, column, ", "),
                list(60_000, |at| name(149_999 - at), ", ")
            ),
            "2000 columns",
        ),
        (format!("CREATE TYPE y ({})", list(150_000, column, ", ")), "2000 columns"),
        (format!("ALTER TABLE t ADD ({})", list(150_000, column, ", ")), "2000 columns"),
        (format!("ALTER TABLE t DROP ({})", list(150_000, name, ", ")), "2000 columns"),
        (
            format!(
                "ALTER TABLE t RENAME {}",
                list(100_000, |at| format!("a{at} TO b{at}"), " AND ")
            ),
            "2000 columns",
        ),
        (format!("INSERT INTO t ({}) VALUES (1)", list(200_000, name, ", ")), "2000 columns"),
        (
            format!(
                "BEGIN TRANSACTION {} SELECT r0.v; COMMIT TRANSACTION",
                list(20_000, |at| format!("LET r{at} = (SELECT v FROM t WHERE k = 1);"), " ")
            ),
            "256 LETs",
        ),
    ] {
        let error = client.query(&text, &Parameters::default()).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Invalid, "{error}");
        assert!(error.message().contains(limit), "{}…: {error}", &text[..40]);
    }
}

/// Each aggregate is looked up among all of them.
#[test]
fn one_term_has_many_aggregates() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    client.run("INSERT INTO t (k, v) VALUES (1, 1)");
    let sum = list(20_000, |at| format!("max(v - {at})"), " - ");
    let rows = client.rows(&format!("SELECT {sum} AS s FROM t"));
    let expected: i32 = 1 - (1..20_000).map(|at: i32| 1 - at).sum::<i32>();
    assert_eq!(rows.values()[0][0].as_deref(), Some(&expected.to_be_bytes()[..]));
}

/// Deletions of other rows do not divide the changes of a list; deletions of the same row do.
#[test]
fn deletions_of_other_rows_keep_changes_together() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k int, c int, l list<int>, s int static, PRIMARY KEY (k, c))");
    let steps = |count: i32, other: &str| {
        let items: Vec<String> = (0..4 * count).map(|number| number.to_string()).collect();
        client.run(&format!("INSERT INTO t (k, c, l) VALUES (1, 1, [{}])", items.join(", ")));
        let texts = ["DELETE l[0] FROM t WHERE k = 1 AND c = 1", other];
        let item = |at: i32| BatchItem::Text {
            text: texts[usize::try_from(at % 2).unwrap()].to_owned(),
            values: Values::default(),
        };
        let before = client.executor.steps_total();
        let (kind, parameters) = (ast::BatchKind::Logged, Parameters::default());
        let items = (0..2 * count).map(item).collect();
        block_on(client.executor.batch(&client.session, kind, items, &parameters)).unwrap();
        let steps = client.executor.steps_total() - before;
        let rows = client.rows("SELECT l[0] FROM t WHERE k = 1 AND c = 1");
        assert_eq!(rows.values()[0][0].as_deref(), Some(&count.to_be_bytes()[..]), "{other}");
        steps
    };
    for other in [
        "DELETE FROM t WHERE k = 1 AND c = 2",
        "DELETE FROM t WHERE k = 2",
        "DELETE FROM t WHERE k = 1 AND c > 1",
        "UPDATE t SET s = s + 1 WHERE k = 1",
    ] {
        let (once, twice) = (steps(250, other), steps(500, other));
        assert!(2 * twice <= 5 * once, "{other}: {once} steps, and {twice} for twice the size");
    }
    // Statements of a batch take effect in their order also where a deletion has the row.
    for (delete, left) in [
        ("DELETE FROM t WHERE k = 1 AND c = 1", false),
        ("DELETE FROM t WHERE k = 1", false),
        ("DELETE FROM t WHERE k = 1 AND c < 2", false),
        ("DELETE FROM t WHERE k = 1 AND c > 1", true),
    ] {
        client.run("INSERT INTO t (k, c, l) VALUES (1, 1, [1])");
        client.run(&format!(
            "BEGIN BATCH UPDATE t SET l = l + [2] WHERE k = 1 AND c = 1; {delete}; \
             UPDATE t SET l = l + [3] WHERE k = 1 AND c = 1; APPLY BATCH"
        ));
        let rows = client.rows("SELECT l FROM t WHERE k = 1 AND c = 1");
        let count = rows.values()[0][0].as_ref().map(|list| list[3]);
        assert_eq!(count, Some(if left { 3 } else { 1 }), "{delete}");
        client.run("DELETE FROM t WHERE k = 1");
    }
}

thread_local! {
    static YIELDS: Cell<usize> = const { Cell::new(0) };
}

fn counted() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    YIELDS.set(YIELDS.get() + 1);
    Box::pin(std::future::ready(()))
}

/// Returns how often a statement yielded.
fn yields(client: &Client, text: &str) -> usize {
    let grant = Grant { yield_now: Some(counted), ..Grant::default() };
    let before = YIELDS.get();
    client.query(text, &Parameters { grant, ..Parameters::default() }).unwrap();
    YIELDS.get() - before
}

/// The record of a table is decoded, resolved, described and turned into rows, with a check of the slice after each.
#[test]
fn reads_of_the_schema_yield_four_times_for_each_table() {
    let client = Client::new(Db::builder().clock(Arc::new(SlowClock::default())).in_memory());
    let columns = || yields(&client, "SELECT column_name FROM system_schema.columns");
    let create = |tables: Range<usize>| {
        for at in tables {
            client.run(&format!("CREATE TABLE t{at} (k int PRIMARY KEY, v int)"));
        }
    };
    create(0..10);
    let few = columns();
    create(10..40);
    assert_eq!(columns() - few, 4 * 30);
}

#[test]
fn deletion_of_a_range_yields() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))");
    for first in (0..10_000).step_by(1_000) {
        let rows =
            list(1_000, |at| format!("INSERT INTO t (k, c) VALUES (1, {})", first + at), "; ");
        client.run(&format!("BEGIN BATCH {rows} APPLY BATCH"));
    }
    let of_deletion = yields(&client, "DELETE FROM t WHERE k = 1");
    assert!(of_deletion > 10, "{of_deletion} yields");
}

/// Reads all pages of a statement.
fn paged(client: &Client, text: &str, rows: usize) -> (Vec<Vec<Option<Bytes>>>, usize) {
    let (mut all, mut pages, mut state) = (Vec::new(), 0, None);
    loop {
        let parameters =
            Parameters { page_rows: Some(rows), paging_state: state, ..Parameters::default() };
        let Response::Rows(page) = client.query(text, &parameters).unwrap() else {
            panic!("{text}")
        };
        all.extend(page.values().iter().cloned());
        pages += 1;
        state = page.paging_state.clone();
        if state.is_none() {
            return (all, pages);
        }
    }
}

#[test]
fn pages_of_the_schema_join_to_the_whole() {
    let client = Client::new(Db::builder().in_memory());
    for keyspace in ["a", "b"] {
        client.run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        for at in 0..5 {
            client.run(&format!(
                "CREATE TABLE {keyspace}.t{at} (k int PRIMARY KEY, {})",
                list(50, |at| format!("c{at} int"), ", ")
            ));
        }
    }
    for text in [
        "SELECT keyspace_name, table_name, column_name FROM system_schema.columns",
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = 'b'",
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = 'b' ORDER BY table_name DESC",
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'b' AND table_name > 't3'",
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name IN ('b', 'a')",
        "SELECT column_name FROM system_schema.columns WHERE type = 'int' ALLOW FILTERING",
        "SELECT DISTINCT keyspace_name FROM system_schema.columns",
        "SELECT table_name FROM system_schema.tables",
        "SELECT table_name, count(*) FROM system_schema.columns GROUP BY keyspace_name, table_name",
        "SELECT column_name FROM system_schema.columns PER PARTITION LIMIT 3",
        "SELECT column_name FROM system_schema.columns LIMIT 300",
    ] {
        let whole = client.rows(text);
        for rows in [7, 100] {
            let (joined, pages) = paged(&client, text, rows);
            assert_eq!(joined.len(), whole.values().len(), "{text}: {pages} pages of {rows} rows");
            assert!(joined == whole.values(), "{text}: {pages} pages of {rows} rows");
        }
    }
}
