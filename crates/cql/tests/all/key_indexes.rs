//! Indexes on columns of the partition key: queries agree with scans, also of partitions that have
//! static columns only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::derived::{Differences, check_index};
use carnet::{Db, block_on, catalog};
use carnet_base::{Clock, SeededRng};
use carnet_cql::Session;

use crate::support;
use crate::support::client::Client;
use crate::support::derived::{Manual, at, below};

const COLUMNS: &str =
    "(a int, b int, c int, s int STATIC, r int STATIC, v int, PRIMARY KEY ((a, b), c))";

fn change(rng: &mut SeededRng) -> String {
    let (a, b, c, x) = (below(rng, 3), below(rng, 3), below(rng, 2), 1 + below(rng, 3));
    let partition = format!("a = {a} AND b = {b}");
    match below(rng, 9) {
        0 | 1 => format!("INSERT INTO {{t}} (a, b, s) VALUES ({a}, {b}, {x})"),
        2 => format!("UPDATE {{t}} USING TTL {x} SET s = {x} WHERE {partition}"),
        3 => format!("INSERT INTO {{t}} (a, b, c, v, r) VALUES ({a}, {b}, {c}, {x}, {x})"),
        4 => format!("UPDATE {{t}} USING TTL {x} SET v = {x} WHERE {partition} AND c = {c}"),
        5 => format!("DELETE s FROM {{t}} WHERE {partition}"),
        6 => format!("DELETE r FROM {{t}} WHERE {partition}"),
        7 => format!("DELETE FROM {{t}} WHERE {partition} AND c = {c}"),
        _ => format!("DELETE FROM {{t}} WHERE {partition}"),
    }
}

fn condition(rng: &mut SeededRng) -> String {
    let x = below(rng, 3);
    match below(rng, 8) {
        0 | 1 => format!("a = {x}"),
        2 => format!("b = {x}"),
        3 => format!("a = {x} AND s > 1"),
        4 => format!("a = {x} AND c > 0"),
        5 => format!("a IN (0, {x})"),
        6 => format!("b = {x} AND token(a, b) > token(1, {x})"),
        _ => format!("a > {x}"),
    }
}

/// Compares the indexes of a table with its rows.
fn check(client: &Client) {
    block_on(async {
        let tx = client.executor.db().snapshot_async().await.unwrap();
        let schema = catalog::table(&tx, "ks", "indexed").await.unwrap().unwrap();
        for index in &schema.indexes {
            let differences = check_index(&tx, &schema, index).await.unwrap();
            assert_eq!(differences, Differences::default(), "{}", index.name);
        }
    });
}

#[test]
fn queries_by_part_of_the_key_agree_with_scans() {
    support::with_seeds(10, |rng| {
        let clock = Arc::new(Manual(AtomicI64::new(0)));
        let db = Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>).in_memory();
        let client = Client::new(db);
        client.run(&format!("CREATE TABLE indexed {COLUMNS}"));
        client.run(&format!("CREATE TABLE plain {COLUMNS}"));
        client.run("CREATE INDEX ON indexed (a)");
        let mut of_statics = 0;
        for step in 0..200 {
            if step == 50 {
                client.run(
                    "CREATE CUSTOM INDEX ON indexed (b) USING 'sai' \
                     WITH OPTIONS = {'partitions': '4'}",
                );
            }
            let change = change(rng);
            client.run(&change.replace("{t}", "plain"));
            client.run(&change.replace("{t}", "indexed"));
            if below(rng, 10) == 0 {
                clock.0.fetch_add(1, Ordering::SeqCst);
            }
            let condition = condition(rng);
            let limit = match below(rng, 4) {
                0 if condition.starts_with("a =") => " LIMIT 2",
                1 if condition.starts_with("a =") => " PER PARTITION LIMIT 1",
                _ => "",
            };
            let page = (below(rng, 2) == 0).then(|| 1 + at(rng, 3));
            let select = |table: &str| {
                format!(
                    "SELECT a, b, c, s, r, v FROM {table} WHERE {condition}{limit} ALLOW FILTERING"
                )
            };
            let mut wanted = client.all_rows(&select("plain"), None);
            let mut found = client.all_rows(&select("indexed"), page);
            if !condition.starts_with("a >") && !condition.starts_with("a IN") {
                assert_eq!(found, wanted, "step {step}: {condition}, pages of {page:?}");
            }
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted, "step {step}: {condition}, pages of {page:?}");
            of_statics += found.iter().filter(|row| row[2].is_none()).count();
            if step % 20 == 0 {
                check(&client);
            }
        }
        check(&client);
        assert!(of_statics > 20, "{of_statics}");
    });
}

#[test]
fn rows_after_a_static_entry_are_phantoms() {
    // What another client writes after the read, and whether the transaction may still commit.
    let writes = [
        ("INSERT INTO t (a, b, c) VALUES (1, 2, 3)", false),
        ("INSERT INTO t (a, b, s) VALUES (1, 9, 3)", false),
        ("DELETE s FROM t WHERE a = 1 AND b = 2", false),
        ("INSERT INTO t (a, b, s) VALUES (2, 2, 3)", true),
    ];
    for limit in ["", " LIMIT 1"] {
        for (write, commits) in writes {
            // Whether the other partition comes first depends on its token.
            if write.contains("(1, 9") && !limit.is_empty() {
                continue;
            }
            let client = Client::new(Db::builder().in_memory());
            client
                .run("CREATE TABLE t (a int, b int, c int, s int STATIC, PRIMARY KEY ((a, b), c))");
            client.run("CREATE TABLE sums (k int PRIMARY KEY, n int)");
            client.run("CREATE INDEX ON t (a)");
            client.run("INSERT INTO t (a, b, s) VALUES (1, 2, 5)");
            let other = Client { executor: client.executor.clone(), session: Session::new() };
            other.run("USE ks");
            client.run("START TRANSACTION");
            let select = format!("SELECT b, c FROM t WHERE a = 1{limit}");
            assert_eq!(client.all_rows(&select, None).len(), 1);
            client.run("INSERT INTO sums (k, n) VALUES (1, 1)");
            other.run(write);
            let committed = client.try_run("COMMIT");
            assert_eq!(committed.is_ok(), commits, "{write}{limit}: {committed:?}");
        }
    }
}

/// An index of a version that wrote no entries of static cells.
#[test]
fn index_without_static_entries_is_left_aside() {
    let client = Client::new(Db::builder().in_memory());
    client.run(&format!("CREATE TABLE t {COLUMNS}"));
    client.run("CREATE INDEX ON t (a)");
    block_on(client.executor.db().run(async |tx| {
        let mut schema = (*catalog::table(&tx, "ks", "t").await?.unwrap()).clone();
        schema.indexes[0].has_static_entries = false;
        catalog::alter_table(&tx, &schema).await
    }))
    .unwrap();
    client.run("INSERT INTO t (a, b, s) VALUES (1, 2, 3)");
    client.run("INSERT INTO t (a, b, c) VALUES (1, 1, 1)");
    assert_eq!(client.all_rows("SELECT * FROM t WHERE a = 1", None).len(), 2);
    client.run("DROP INDEX t_a_idx");
    client.run("CREATE INDEX ON t (a)");
    assert_eq!(client.all_rows("SELECT * FROM t WHERE a = 1", Some(1)).len(), 2);
}

#[test]
fn distinct_needs_the_whole_partition_key() {
    let client = Client::new(Db::builder().in_memory());
    client.run(&format!("CREATE TABLE t {COLUMNS}"));
    for b in 0..3 {
        client.run(&format!("INSERT INTO t (a, b, s) VALUES (1, {b}, 3)"));
    }
    for (select, missing) in [("a", "b"), ("b", "a"), ("s", "a"), ("a, s", "b"), ("count(a)", "b")]
    {
        let error = client.try_run(&format!("SELECT DISTINCT {select} FROM t")).unwrap_err();
        let expected = format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {missing})"
        );
        assert_eq!(error.message(), expected);
    }
    for (statement, count) in [
        ("SELECT DISTINCT a, b FROM t", 3),
        ("SELECT DISTINCT s, b, a FROM t", 3),
        ("SELECT DISTINCT token(a, b) FROM t", 3),
        ("SELECT DISTINCT a FROM t WHERE a = 1 AND b IN (0, 1)", 2),
        ("SELECT DISTINCT s FROM t WHERE a = 1 AND b = 1", 1),
    ] {
        assert_eq!(client.all_rows(statement, None).len(), count, "{statement}");
    }
}
