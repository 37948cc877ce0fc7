//! Materialized views: a view agrees with the rows of its base table, whatever changes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::derived::{Differences, check_view};
use carnet::{Db, Durability, Key, block_on, catalog};
use carnet_base::{Clock, Rng, SeededRng, Spawn};
use carnet_cql::Session;
use carnet_storage::disk::sim::SimDisk;

use crate::support;
use crate::support::client::Client;
use crate::support::cluster;
use crate::support::derived::{COLUMNS, KeepsBuilder, Manual, at, below, change};

trait Checks {
    fn check(&self, table: &str);
    fn is_built(&self, table: &str, view: &str) -> bool;
    fn another(&self) -> Client;
}

impl Checks for Client {
    /// Compares the views of a table with its rows.
    fn check(&self, table: &str) {
        block_on(async {
            let tx = self.executor.db().snapshot_async().await.unwrap();
            let schema = catalog::table(&tx, "ks", table).await.unwrap().unwrap();
            for view in schema.views.iter().filter(|view| view.is_built) {
                let differences = check_view(&tx, &schema, view).await.unwrap();
                assert_eq!(differences, Differences::default(), "{}", view.name);
            }
        });
    }

    fn is_built(&self, table: &str, view: &str) -> bool {
        block_on(async {
            let tx = self.executor.db().snapshot_async().await.unwrap();
            let schema = catalog::table(&tx, "ks", table).await.unwrap().unwrap();
            schema.view(view).is_some_and(|view| view.is_built)
        })
    }

    /// Opens another session of the same server.
    fn another(&self) -> Client {
        let other = Client { executor: self.executor.clone(), session: Session::new() };
        other.run("USE ks");
        other
    }
}

/// A view of table `t`.
struct View {
    name: &'static str,
    columns: &'static str,
    /// `WHERE` beside the columns of the key that are only not null.
    filter: &'static str,
    key: &'static str,
    /// Condition of the base rows in the view. Columns that must not be null are compared with all
    /// values that statements write.
    base: &'static str,
}

/// A comparison that all values of `v` satisfy.
const SOME_V: &str = "v >= 0";

const VIEWS: [View; 5] = [
    View {
        name: "by_v",
        columns: "k, c, v, w, e, m",
        filter: "v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL",
        key: "(v, k, c) WITH CLUSTERING ORDER BY (k DESC, c ASC)",
        base: SOME_V,
    },
    // The base row lives by columns that the view lacks, too.
    View {
        name: "by_c",
        columns: "k, c, w",
        filter: "k IS NOT NULL AND c IS NOT NULL",
        key: "(c, k)",
        // A partition that has static columns only is no row of the view.
        base: "c >= 0",
    },
    View {
        name: "by_w",
        columns: "k, c, w, e",
        filter: "w IS NOT NULL AND k IN (1, 2, 3) AND c < 3",
        key: "((w, c), k)",
        base: "w >= '' AND k IN (1, 2, 3) AND c < 3",
    },
    View {
        name: "row_by_row",
        columns: "k, c, m, v",
        filter: "k >= 1 AND c = 2 AND v IS NOT NULL",
        key: "((c, k))",
        base: "k >= 1 AND c = 2 AND v >= 0",
    },
    View {
        name: "by_all",
        columns: "k, c, v, m",
        filter: "v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL",
        key: "((k, c, v))",
        base: SOME_V,
    },
];

impl View {
    fn create(&self) -> String {
        format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS {} AS SELECT {} FROM t WHERE {} PRIMARY KEY {}",
            self.name, self.columns, self.filter, self.key
        )
    }

    /// Compares a view with its base table, both read by statements.
    fn agrees(&self, client: &Client, condition: Option<&str>, page: Option<usize>) {
        // The write time of a column of the view's key is not readable.
        let columns = match self.name {
            "by_v" | "by_c" => format!("{}, WRITETIME(w)", self.columns),
            _ => self.columns.to_owned(),
        };
        let conditions = |own: &'static str| {
            // A column is restricted once.
            let is_free = |own: &&str| {
                !own.is_empty() && condition.is_none_or(|given| given[..1] != own[..1])
            };
            let all: Vec<&str> = [own].into_iter().filter(is_free).chain(condition).collect();
            match all.is_empty() {
                true => String::new(),
                false => format!(" WHERE {} ALLOW FILTERING", all.join(" AND ")),
            }
        };
        let base = format!("SELECT {columns} FROM t{}", conditions(self.base));
        let own = format!("SELECT {columns} FROM {}{}", self.name, conditions(""));
        let (mut wanted, mut found) = (client.all_rows(&base, None), client.all_rows(&own, page));
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{own}, pages of {page:?}");
    }
}

/// Runs statements on a table with views, and compares the views with the table. Without a clock that
/// the test moves, nothing expires.
fn agree(rng: &mut SeededRng, db: &Db, clock: Option<&Manual>, steps: usize) {
    let client = Client::new(db.clone());
    client.run(&format!("CREATE TABLE t {COLUMNS}"));
    for _ in 0..steps {
        match below(rng, 20) {
            0..10 => {
                let mut change = change(rng).replace("{t}", "t");
                if clock.is_none() {
                    change = change.replace("USING TTL ", "USING TTL 1000");
                }
                client.run(&change);
            }
            10..15 => {
                let view = &VIEWS[at(rng, VIEWS.len())];
                if !client.is_built("t", view.name) {
                    continue;
                }
                let conditions = ["k = 1", "c = 2", "k > 1", "k IN (1, 3)"];
                let condition = (below(rng, 2) == 0).then(|| conditions[at(rng, conditions.len())]);
                // An equality twice would be refused.
                let condition = condition.filter(|_| matches!(view.name, "by_v" | "by_c"));
                view.agrees(&client, condition, (below(rng, 2) == 0).then(|| 1 + at(rng, 3)));
            }
            15 => drop(client.run(&VIEWS[at(rng, VIEWS.len())].create())),
            16 => {
                if let Some(clock) = clock {
                    clock.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            17 => db.flush().unwrap(),
            18 if below(rng, 4) == 0 => db.compact().unwrap(),
            18 if below(rng, 4) == 0 => {
                client.run("TRUNCATE t");
            }
            18 if below(rng, 4) == 0 => {
                let view = &VIEWS[at(rng, VIEWS.len())];
                client.run(&format!("DROP MATERIALIZED VIEW IF EXISTS {}", view.name));
            }
            _ => client.check("t"),
        }
    }
    client.check("t");
}

#[test]
fn views_agree_with_base_table() {
    support::with_seeds(12, |rng| {
        let clock = Arc::new(Manual(AtomicI64::new(0)));
        let builder = || Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
        agree(rng, &builder().in_memory(), Some(&clock), 250);
        let disk = SimDisk::new(rng.next_u64());
        let embedded = builder().durability(Durability::None).flush_bytes(4_000);
        agree(rng, &embedded.open_on(Arc::new(disk)).unwrap(), Some(&clock), 250);
    });
}

#[test]
fn views_over_a_cluster_agree_with_base_table() {
    support::with_seeds(2, |rng| {
        agree(rng, &cluster::TestCluster::new().open("one"), None, 150);
    });
}

#[test]
fn view_is_built_while_rows_change() {
    support::with_seeds(4, |rng| {
        let disk = SimDisk::new(rng.next_u64());
        let spawn = Arc::new(KeepsBuilder::default());
        let open = || {
            let builder = Db::builder().durability(Durability::None).flush_bytes(20_000);
            let builder = builder.spawn(Arc::clone(&spawn) as Arc<dyn Spawn>);
            builder.open_on(Arc::new(disk.clone())).unwrap()
        };
        let mut client = Client::new(open());
        client.run("CREATE TABLE t (k text PRIMARY KEY, v text)");
        for k in 0..1000 {
            client.run(&format!("INSERT INTO t (k, v) VALUES ('{k}', 'v{}')", k % 7));
        }
        // Partitions with the name of the partition of the progress.
        client.run("INSERT INTO t (k, v) VALUES ('progress', 'progress')");
        let not_null = "WHERE v IS NOT NULL AND k IS NOT NULL";
        client.run(&format!(
            "CREATE MATERIALIZED VIEW i AS SELECT * FROM t {not_null} PRIMARY KEY (v, k)"
        ));
        client.run(
            "CREATE MATERIALIZED VIEW j AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
        );
        let error = client.try_run("SELECT k FROM i WHERE v = 'v3'").unwrap_err();
        assert!(error.message().contains("building"), "{error}");
        let error = client.executor.db().table::<Key<(String,), (String,)>, Nothing>("ks.i");
        assert!(error.err().unwrap().message().contains("building"));
        let state = "SELECT is_building, rows_read FROM system_views.materialized_views";
        assert_eq!(client.all_rows(state, None)[0][0].as_deref(), Some(&[1][..]));
        let mut reopened = false;
        while !client.is_built("t", "i") || !client.is_built("t", "j") {
            assert!(spawn.step(), "the builder ended before the view was built");
            for _ in 0..5 {
                let (k, v) = (below(rng, 1100), below(rng, 7));
                match below(rng, 3) {
                    0 => client.run(&format!("DELETE FROM t WHERE k = '{k}'")),
                    _ => client.run(&format!("UPDATE t SET v = 'v{v}' WHERE k = '{k}'")),
                };
            }
            if !reopened && below(rng, 3) == 0 {
                reopened = true;
                spawn.0.lock().unwrap().clear();
                drop(client);
                client = Client::new(open());
            }
        }
        client.check("t");
        let found = client.all_rows("SELECT k FROM i WHERE v = 'v3'", Some(50)).len();
        let filtered = "SELECT k FROM t WHERE v = 'v3' ALLOW FILTERING";
        assert_eq!(found, client.all_rows(filtered, None).len());
        assert_eq!(client.all_rows("SELECT k FROM i WHERE v = 'progress'", None).len(), 1);
        assert_eq!(client.all_rows("SELECT k FROM j WHERE k = 'progress'", None).len(), 1);
    });
}

#[test]
fn builder_survives_dropped_views() {
    let spawn = Arc::new(KeepsBuilder::default());
    let db = Db::builder().spawn(Arc::clone(&spawn) as Arc<dyn Spawn>).in_memory();
    let client = Client::new(db);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    for k in 0..600 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, 1)"));
    }
    let create = |name: &str| {
        client.run(&format!(
            "CREATE MATERIALIZED VIEW {name} AS SELECT * FROM t WHERE v IS NOT NULL AND \
             k IS NOT NULL PRIMARY KEY (v, k)"
        ));
    };
    create("i");
    client.run("DROP MATERIALIZED VIEW i");
    create("j");
    while spawn.step() {}
    assert!(client.is_built("t", "j"), "a view that was dropped must not stop the builder");
    client.check("t");
}

#[test]
fn two_processes_of_a_cluster_build_one_view() {
    let cluster = cluster::TestCluster::new();
    let (one, other) = (cluster.open("one"), cluster.open("other"));
    let client = Client::new(one);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    for k in 0..600 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, {})", k % 7));
    }
    client.run(
        "CREATE MATERIALIZED VIEW i AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL \
         PRIMARY KEY (v, k)",
    );
    other.build_derived();
    while !client.is_built("t", "i") {
        std::thread::yield_now();
    }
    client.check("t");
}

/// Creates a table `t` with views by `v` and by `k`, and some rows.
fn with_views(db: Db) -> Client {
    let client = Client::new(db);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int, w int, x int)");
    client.run(
        "CREATE MATERIALIZED VIEW by_v AS SELECT k, v, w FROM t WHERE v IS NOT NULL AND \
         k IS NOT NULL PRIMARY KEY (v, k)",
    );
    client.run("INSERT INTO t (k, v, w) VALUES (1, 5, 1)");
    client.run("INSERT INTO t (k, v, w) VALUES (2, 6, 1)");
    client
}

#[test]
fn view_reads_are_protected_from_phantoms() {
    // What another client writes after the read, and whether the transaction may still commit.
    let writes = [
        ("INSERT INTO t (k, v) VALUES (9, 5)", false),
        ("UPDATE t SET v = 5 WHERE k = 2", false),
        ("DELETE FROM t WHERE k = 1", false),
        ("UPDATE t SET w = 5 WHERE k = 1", false),
        ("UPDATE t SET x = 5 WHERE k = 1", true),
        ("UPDATE t SET v = 7 WHERE k = 2", true),
        ("INSERT INTO t (k, v) VALUES (9, 6)", true),
    ];
    for (write, commits) in writes {
        let client = with_views(Db::builder().in_memory());
        client.run("CREATE TABLE sums (k int PRIMARY KEY, n int)");
        let other = client.another();
        client.run("START TRANSACTION");
        assert_eq!(client.all_rows("SELECT k, w FROM by_v WHERE v = 5", None).len(), 1);
        client.run("INSERT INTO sums (k, n) VALUES (1, 1)");
        other.run(write);
        let committed = client.try_run("COMMIT");
        assert_eq!(committed.is_ok(), commits, "{write}: {committed:?}");
    }
}

#[test]
fn only_changes_of_viewed_columns_conflict() {
    for (column, commits) in [("x", true), ("w", false), ("v", false)] {
        let disk = SimDisk::new(1);
        let db = Db::builder().durability(Durability::None).open_on(Arc::new(disk)).unwrap();
        let client = with_views(db);
        let other = client.another();
        client.run("START TRANSACTION");
        client.run(&format!("UPDATE t SET {column} = 2 WHERE k = 1"));
        other.run(&format!("UPDATE t SET {column} = 3 WHERE k = 1"));
        let committed = client.try_run("COMMIT");
        assert_eq!(committed.is_ok(), commits, "{column}: {committed:?}");
        client.check("t");
    }
}

#[test]
fn concurrent_writers_keep_the_view() {
    let client = with_views(Db::builder().in_memory());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let other = client.another();
            scope.spawn(move || {
                let mut rng = SeededRng::new(thread);
                for _ in 0..150 {
                    let (k, v) = (below(&mut rng, 4), below(&mut rng, 4));
                    // A conflict that its retries do not settle is an answer, too.
                    let _ = match below(&mut rng, 3) {
                        0 => other.try_run(&format!("DELETE FROM t WHERE k = {k}")),
                        1 => other.try_run(&format!("UPDATE t SET w = {v} WHERE k = {k}")),
                        _ => other.try_run(&format!("UPDATE t SET v = {v} WHERE k = {k}")),
                    };
                }
            });
        }
        client.check("t");
    });
    client.check("t");
}

#[test]
fn view_shows_own_writes_and_the_past() {
    let client = with_views(Db::builder().in_memory());
    client.run("START TRANSACTION");
    client.run("UPDATE t SET v = 6 WHERE k = 1");
    client.run("INSERT INTO t (k, v) VALUES (3, 6)");
    assert_eq!(client.all_rows("SELECT k FROM by_v WHERE v = 6", None).len(), 3);
    assert!(client.all_rows("SELECT k FROM by_v WHERE v = 5", None).is_empty());
    client.run("ROLLBACK");
    assert_eq!(client.all_rows("SELECT k FROM by_v WHERE v = 5", None).len(), 1);
    let before = client.executor.db().published().get();
    client.run("UPDATE t SET v = 7 WHERE k = 1");
    let past = format!("SELECT k FROM by_v WHERE v = 5 AS OF {before}");
    assert_eq!(client.all_rows(&past, None).len(), 1);
    client.run(
        "BEGIN TRANSACTION LET row = (SELECT k FROM by_v WHERE v = 7 AND k = 1); \
         UPDATE t SET v = 8 WHERE k = 1; COMMIT TRANSACTION",
    );
    assert_eq!(client.all_rows("SELECT k FROM by_v WHERE v = 8", None).len(), 1);
    client.check("t");
}

carnet::record! {
    struct Account { v: i32, w: Option<String> }
}

carnet::record! {
    struct Nothing {}
}

#[test]
fn typed_tables_maintain_views() {
    let db = Db::builder().in_memory();
    let client = Client::new(db.clone());
    client.run("CREATE TABLE t (k int, c int, v int, w text, other int, PRIMARY KEY (k, c))");
    client.run(
        "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL \
         AND c IS NOT NULL PRIMARY KEY (v, k, c)",
    );
    let table = db.table::<Key<(i32,), (i32,)>, Account>("ks.t").unwrap();
    let key = |c| Key((1,), (c,));
    db.transact(|tx| {
        table.put(tx, &key(1), &Account { v: 5, w: None })?;
        table.put(tx, &key(2), &Account { v: 5, w: None })?;
        table.put(tx, &key(3), &Account { v: 6, w: None })
    })
    .unwrap();
    client.check("t");
    let with = |v: i32| client.all_rows(&format!("SELECT c FROM by_v WHERE v = {v}"), None).len();
    assert_eq!((with(5), with(6)), (2, 1));
    let six = Some(carnet::Value::Int(6));
    db.transact(|tx| table.update(tx, &key(1), &[("v", six.clone())])).unwrap();
    db.transact(|tx| table.delete(tx, &key(3))).unwrap();
    client.check("t");
    assert_eq!((with(5), with(6)), (1, 1));
    typed_view_is_read_only(&db);
}

carnet::record! {
    struct Other { w: Option<String>, other: Option<i32> }
}

fn typed_view_is_read_only(db: &Db) {
    let view = db.table::<Key<(i32,), (i32, i32)>, Other>("ks.by_v").unwrap();
    let key = Key((6,), (1, 1));
    assert!(view.get(db, &key).unwrap().is_some());
    let record = || Other { w: None, other: None };
    let refused = [
        db.transact(|tx| view.put(tx, &key, &record())),
        db.transact(|tx| view.update(tx, &key, &[("w", None)])),
        db.transact(|tx| view.delete(tx, &key)),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.message().contains("Cannot directly modify"), "{error}");
    }
}
