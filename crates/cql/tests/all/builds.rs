//! Builds of indexes and views: a row that cannot be indexed stops no other build, and may be changed
//! and deleted.

use std::sync::Arc;

use carnet::derived::{Differences, check_index, check_view};
use carnet::{Db, Durability, block_on, catalog};
use carnet_base::{Clock, Moment, Spawn, SystemClock, WallTime};
use carnet_storage::disk::sim::SimDisk;

use crate::support::client::Client;
use crate::support::cluster;
use crate::support::derived::KeepsBuilder;

/// Rows of the table `t`: more than the statement that creates an index builds itself.
const ROWS: usize = 300;
/// A row behind the first 256 in the order of tokens.
const BAD: i32 = 103;
/// Maximum number of steps that builds of the tests need.
const STEPS_MAX: usize = 200;

/// Creates a table with a row, of key [`BAD`], whose value is too long for an index and for a view.
fn fill(client: &Client) {
    client.run("CREATE TABLE t (k int PRIMARY KEY, v text, w int)");
    for k in 0..ROWS {
        client.run(&format!("INSERT INTO t (k, v, w) VALUES ({k}, 'v{}', {})", k % 5, k % 7));
    }
    client.run(&format!("UPDATE t SET v = '{}' WHERE k = {BAD}", "x".repeat(70_000)));
    let keys = client.all_rows("SELECT k FROM t", None);
    let place = keys.iter().position(|row| row[0].as_deref() == Some(&BAD.to_be_bytes()[..]));
    assert!(place.unwrap() > 260, "the statement that creates an index would read the row");
}

/// Runs the builder until it ends.
fn build(spawn: &KeepsBuilder) {
    let steps = (0..STEPS_MAX).take_while(|_| spawn.step()).count();
    assert!(steps < STEPS_MAX, "the builder does not end");
}

/// Compares the indexes and views of `t` that are built with its rows.
fn check(db: &Db) {
    block_on(async {
        let tx = db.snapshot_async().await.unwrap();
        let schema = catalog::table(&tx, "ks", "t").await.unwrap().unwrap();
        for index in schema.indexes.iter().filter(|index| index.is_built) {
            let differences = check_index(&tx, &schema, index).await.unwrap();
            assert_eq!(differences, Differences::default(), "{}", index.name);
        }
        for view in schema.views.iter().filter(|view| view.is_built) {
            let differences = check_view(&tx, &schema, view).await.unwrap();
            assert_eq!(differences, Differences::default(), "{}", view.name);
        }
    });
}

const WIDE: &str = "CREATE MATERIALIZED VIEW wide AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT \
                    NULL PRIMARY KEY (v, k)";
const NARROW: &str = "CREATE MATERIALIZED VIEW narrow AS SELECT k, w FROM t WHERE k IS NOT NULL AND w \
                      IS NOT NULL PRIMARY KEY (w, k)";

fn text(client: &Client, select: &str) -> Vec<String> {
    let rows = client.all_rows(select, None).into_iter();
    let text = |value: Option<carnet::Bytes>| {
        value.map_or_else(String::new, |value| String::from_utf8(value.to_vec()).unwrap())
    };
    rows.flatten().map(text).collect()
}

#[test]
fn failed_build_stops_no_other() {
    let spawn = Arc::new(KeepsBuilder::default());
    let disk = SimDisk::new(1);
    let open = || {
        let builder = Db::builder().durability(Durability::None);
        let builder = builder.spawn(Arc::clone(&spawn) as Arc<dyn Spawn>);
        Client::new(builder.open_on(Arc::new(disk.clone())).unwrap())
    };
    let mut client = open();
    fill(&client);
    client.run("CREATE INDEX bad ON t (v)");
    client.run(WIDE);
    client.run("CREATE INDEX good ON t (w)");
    client.run(NARROW);
    build(&spawn);
    for _ in 0..2 {
        let states = "SELECT index_name, state FROM system_views.indexes";
        assert_eq!(text(&client, states), ["bad", "failed", "good", "built"]);
        let states = "SELECT view_name, state FROM system_views.materialized_views";
        assert_eq!(text(&client, states), ["narrow", "built", "wide", "failed"]);
        for (reason, expected) in [
            (
                "SELECT failure FROM system_views.indexes WHERE keyspace_name = 'ks' AND \
              index_name = 'bad'",
                "max allowed size is 8192",
            ),
            (
                "SELECT failure FROM system_views.materialized_views WHERE keyspace_name = 'ks' AND \
              view_name = 'wide'",
                "65535",
            ),
        ] {
            let failure = &text(&client, reason)[0];
            assert!(
                failure.contains(expected) && failure.contains(&format!("row k = {BAD}")),
                "{failure}"
            );
        }
        for query in ["SELECT k FROM t WHERE v = 'v1'", "SELECT k FROM wide WHERE v = 'v1'"] {
            let error = client.try_run(query).unwrap_err();
            let text = error.message();
            assert!(text.contains("failed") && text.contains("drop it"), "{text}");
        }
        assert_eq!(client.all_rows("SELECT k FROM t WHERE w = 3", None).len(), 43);
        assert_eq!(client.all_rows("SELECT k FROM narrow WHERE w = 3", None).len(), 43);
        check(client.executor.db());
        drop(client);
        client = open();
    }
    // Without the row, the index and the view can be created again.
    client.run(&format!("DELETE FROM t WHERE k = {BAD}"));
    client.run("DROP INDEX bad");
    client.run("DROP MATERIALIZED VIEW wide");
    client.run("CREATE INDEX bad ON t (v)");
    client.run(WIDE);
    build(&spawn);
    assert_eq!(client.all_rows("SELECT k FROM t WHERE v = 'v1'", None).len(), 60);
    assert_eq!(client.all_rows("SELECT k FROM wide WHERE v = 'v1'", None).len(), 60);
    check(client.executor.db());
}

#[test]
fn row_that_cannot_be_indexed_is_changed_and_deleted() {
    for is_built in [false, true] {
        for (change, is_refused) in [
            (format!("UPDATE t SET w = 100 WHERE k = {BAD}"), false),
            (format!("UPDATE t SET v = 'short' WHERE k = {BAD}"), false),
            (format!("UPDATE t SET v = null WHERE k = {BAD}"), false),
            (format!("DELETE FROM t WHERE k = {BAD}"), false),
            (format!("INSERT INTO t (k, w) VALUES ({BAD}, 8)"), false),
            (format!("UPDATE t SET v = '{}' WHERE k = {BAD}", "y".repeat(70_000)), true),
            (format!("INSERT INTO t (k, v) VALUES (800, '{}')", "x".repeat(70_000)), true),
        ] {
            let spawn = Arc::new(KeepsBuilder::default());
            let db = Db::builder().spawn(Arc::clone(&spawn) as Arc<dyn Spawn>).in_memory();
            let client = Client::new(db);
            fill(&client);
            client.run("CREATE INDEX bad ON t (v)");
            client.run("CREATE INDEX good ON t (w)");
            client.run(WIDE);
            if is_built {
                build(&spawn);
            }
            let shown = &change[..change.len().min(60)];
            match (client.try_run(&change), is_refused) {
                (Ok(_), false) => {}
                (Err(error), true) => {
                    let text = error.message();
                    assert!(text.contains("index bad") && text.len() < 300, "{text}");
                }
                (Err(error), false) => panic!("{shown}: {error}"),
                (Ok(_), true) => panic!("accepted: {shown}"),
            }
            check(client.executor.db());
        }
    }
}

#[test]
fn key_too_long_for_an_index_or_view_is_refused() {
    let long = |bytes: usize| format!("0x{}", "00".repeat(bytes));
    let insert = format!("INSERT INTO t (k, c, v) VALUES ({}, {}, 1)", long(65_535), long(65_535));
    let index = "CREATE INDEX i ON t (v)";
    let view = "CREATE MATERIALIZED VIEW j AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL AND \
                v IS NOT NULL PRIMARY KEY (v, k, c)";
    for (create, what) in [(index, "index i"), (view, "view j")] {
        let client = Client::new(Db::builder().in_memory());
        client.run("CREATE TABLE t (k blob, c blob, v int, PRIMARY KEY (k, c))");
        client.run(&insert);
        let check_text = |text: &str| {
            assert!(text.contains(what) && text.contains("at most 262140"), "{text}");
            assert!(text.len() < 600, "{text}");
        };
        let error = client.try_run(create).unwrap_err();
        check_text(error.message());
        client.run("TRUNCATE t");
        client.run(create);
        check_text(client.try_run(&insert).unwrap_err().message());
        check(client.executor.db());
    }
}

/// Clock whose wall time is ahead by some seconds.
struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> WallTime {
        WallTime(SystemClock.wall().0 + self.0 * 1_000_000)
    }
}

/// A server whose clock is ahead deletes a row whose values seem to have expired. A server whose clock
/// is behind must not find them in an index or view.
#[test]
fn deleted_row_leaves_no_entries_for_slower_clocks() {
    for change in ["DELETE FROM t WHERE k = 1", "INSERT INTO t (k, v) VALUES (1, 6)"] {
        let cluster = cluster::TestCluster::new();
        let client = Client::new(cluster.open("one"));
        let ahead = Client::new(cluster.open_at("ahead", Arc::new(Ahead(5_000))));
        client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
        client.run("CREATE INDEX ON t (v)");
        client.run(NARROW_OF_V);
        client.run("INSERT INTO t (k, v) VALUES (1, 5) USING TTL 1000");
        ahead.run(change);
        check(client.executor.db());
        assert!(client.all_rows("SELECT * FROM narrow WHERE v = 5", None).is_empty(), "{change}");
    }
}

/// The same for a server that builds the index and the view.
#[test]
fn build_by_a_faster_clock_has_all_entries() {
    let cluster = cluster::TestCluster::new();
    let client = Client::new(cluster.open("one"));
    let ahead = Client::new(cluster.open_at("ahead", Arc::new(Ahead(5_000))));
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    client.run("INSERT INTO t (k, v) VALUES (1, 5) USING TTL 1000");
    ahead.run("CREATE INDEX ON t (v)");
    ahead.run(NARROW_OF_V);
    check(client.executor.db());
    assert_eq!(client.all_rows("SELECT * FROM narrow WHERE v = 5", None).len(), 1);
}

const NARROW_OF_V: &str = "CREATE MATERIALIZED VIEW narrow AS SELECT * FROM t WHERE k IS NOT NULL AND v \
                           IS NOT NULL PRIMARY KEY (v, k)";
