//! Secondary indexes: queries through an index agree with scans, and entries agree with the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::derived::{Differences, check_index};
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
    fn is_built(&self, table: &str, index: &str) -> bool;
}

impl Checks for Client {
    /// Compares the indexes of a table with its rows.
    fn check(&self, table: &str) {
        block_on(async {
            let tx = self.executor.db().snapshot_async().await.unwrap();
            let schema = catalog::table(&tx, "ks", table).await.unwrap().unwrap();
            for index in schema.indexes.iter().filter(|index| index.is_built) {
                let differences = check_index(&tx, &schema, index).await.unwrap();
                assert_eq!(differences, Differences::default(), "{}", index.name);
            }
        });
    }

    fn is_built(&self, table: &str, index: &str) -> bool {
        block_on(async {
            let tx = self.executor.db().snapshot_async().await.unwrap();
            let schema = catalog::table(&tx, "ks", table).await.unwrap().unwrap();
            schema.index(index).is_some_and(|index| index.is_built)
        })
    }
}

const INDEXES: [&str; 8] = [
    "CREATE INDEX IF NOT EXISTS ON indexed (v)",
    "CREATE INDEX IF NOT EXISTS ON indexed (w)",
    "CREATE INDEX IF NOT EXISTS ON indexed (s)",
    "CREATE INDEX IF NOT EXISTS ON indexed (c)",
    "CREATE INDEX IF NOT EXISTS ON indexed (e)",
    "CREATE INDEX IF NOT EXISTS ON indexed (KEYS(m))",
    "CREATE INDEX IF NOT EXISTS ON indexed (VALUES(m))",
    "CREATE CUSTOM INDEX IF NOT EXISTS ON indexed (ENTRIES(m)) USING 'sai' \
     WITH OPTIONS = {'partitions': '4'}",
];

/// Returns the condition of a query.
fn condition(rng: &mut SeededRng) -> String {
    let mut small = || below(rng, 5);
    let (x, y, k) = (small(), small(), small());
    let indexed = match below(rng, 14) {
        0 | 1 => format!("v = {x}"),
        2 => format!("v > {x}"),
        3 => format!("v >= {x} AND v < {y}"),
        4 => format!("v IN ({x}, {y})"),
        5 => format!("w = 'w{x}'"),
        6 => "w LIKE 'w%'".to_owned(),
        7 => format!("s = {x}"),
        8 => format!("s > {x}"),
        9 => format!("c = {x}"),
        10 => format!("e CONTAINS {x}"),
        11 => format!("m CONTAINS KEY {x}"),
        12 => format!("m CONTAINS {x}"),
        _ => format!("m[{x}] = {y}"),
    };
    match below(rng, 8) {
        0 => format!("k = {k} AND {indexed}"),
        1 => format!("k IN (0, {k}) AND {indexed}"),
        2 => format!("token(k) > token({k}) AND {indexed}"),
        3 => format!("token(k) <= token({k}) AND {indexed}"),
        4 if !indexed.starts_with('v') => format!("{indexed} AND v = {y}"),
        5 if !indexed.starts_with('c') => format!("k = {k} AND c > {y} AND {indexed}"),
        _ => indexed,
    }
}

/// Runs statements on a table with indexes and on one without, and compares queries of both. Without
/// a clock that the test moves, nothing expires.
fn agree(rng: &mut SeededRng, db: &Db, clock: Option<&Manual>) {
    let client = Client::new(db.clone());
    client.run(&format!("CREATE TABLE indexed {COLUMNS}"));
    client.run(&format!("CREATE TABLE plain {COLUMNS}"));
    for step in 0..250 {
        match below(rng, 20) {
            0..10 => {
                let mut change = change(rng);
                if clock.is_none() {
                    change = change.replace("USING TTL ", "USING TTL 1000");
                }
                client.run(&change.replace("{t}", "plain"));
                client.run(&change.replace("{t}", "indexed"));
            }
            10..15 => {
                let condition = condition(rng);
                let columns = "k, c, s, v, w, e, m";
                let page = (below(rng, 2) == 0).then(|| 1 + at(rng, 3));
                let select = |table: &str| {
                    format!("SELECT {columns} FROM {table} WHERE {condition} ALLOW FILTERING")
                };
                let mut wanted = client.all_rows(&select("plain"), None);
                let mut found = client.all_rows(&select("indexed"), page);
                if condition.starts_with("v = ") {
                    // Entries of one value are in the order of the table.
                    assert_eq!(found, wanted, "step {step}: {condition}, pages of {page:?}");
                }
                wanted.sort();
                found.sort();
                assert_eq!(found, wanted, "step {step}: {condition}, pages of {page:?}");
            }
            15 => drop(client.run(INDEXES[at(rng, INDEXES.len())])),
            16 => {
                if let Some(clock) = clock {
                    clock.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            17 => db.flush().unwrap(),
            18 if below(rng, 4) == 0 => db.compact().unwrap(),
            _ => client.check("indexed"),
        }
    }
    client.check("indexed");
}

#[test]
fn queries_through_indexes_agree_with_scans() {
    support::with_seeds(12, |rng| {
        let clock = Arc::new(Manual(AtomicI64::new(0)));
        let builder = || Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
        agree(rng, &builder().in_memory(), Some(&clock));
        let disk = SimDisk::new(rng.next_u64());
        let embedded = builder().durability(Durability::None).flush_bytes(4_000);
        agree(rng, &embedded.open_on(Arc::new(disk)).unwrap(), Some(&clock));
    });
}

#[test]
fn queries_over_a_cluster_agree_with_scans() {
    support::with_seeds(2, |rng| {
        agree(rng, &cluster::TestCluster::new().open("one"), None);
    });
}

#[test]
fn index_is_built_while_rows_change() {
    support::with_seeds(4, |rng| {
        let disk = SimDisk::new(rng.next_u64());
        let spawn = Arc::new(KeepsBuilder::default());
        let open = || {
            let builder = Db::builder().durability(Durability::None).flush_bytes(20_000);
            let builder = builder.spawn(Arc::clone(&spawn) as Arc<dyn Spawn>);
            builder.open_on(Arc::new(disk.clone())).unwrap()
        };
        let mut client = Client::new(open());
        client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
        for k in 0..1000 {
            client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, {})", k % 7));
        }
        client.run("CREATE INDEX i ON t (v)");
        let error = client.try_run("SELECT k FROM t WHERE v = 3").unwrap_err();
        assert!(error.message().contains("building"), "{error}");
        let filtered = "SELECT k FROM t WHERE v = 3 ALLOW FILTERING";
        assert_eq!(client.all_rows(filtered, None).len(), 143);
        let state = "SELECT is_building, rows_read FROM system_views.indexes";
        assert_eq!(client.all_rows(state, None)[0][0].as_deref(), Some(&[1][..]));
        let (mut reopened, mut part) = (false, 0.0);
        while !client.is_built("t", "i") {
            let found = client.all_rows("SELECT part_read FROM system_views.indexes", None);
            let now = f64::from_be_bytes(found[0][0].as_deref().unwrap().try_into().unwrap());
            assert!((part..1.0).contains(&now), "{part} of the table was read, and now {now}");
            part = now;
            assert!(spawn.step(), "the builder ended before the index was built");
            for _ in 0..5 {
                let (k, v) = (below(rng, 1100), below(rng, 7));
                match below(rng, 3) {
                    0 => client.run(&format!("DELETE FROM t WHERE k = {k}")),
                    _ => client.run(&format!("UPDATE t SET v = {v} WHERE k = {k}")),
                };
            }
            if !reopened && below(rng, 3) == 0 {
                reopened = true;
                spawn.0.lock().unwrap().clear();
                drop(client);
                client = Client::new(open());
            }
        }
        assert!(part > 0.0, "the progress was seen");
        client.check("t");
        let found = client.all_rows("SELECT k FROM t WHERE v = 3", Some(50)).len();
        assert_eq!(found, client.all_rows(filtered, None).len());
    });
}

#[test]
fn builder_yields_to_writers_of_the_same_rows() {
    let spawn = Arc::new(KeepsBuilder::default());
    let db = Db::builder().spawn(Arc::clone(&spawn) as Arc<dyn Spawn>).in_memory();
    let client = Client::new(db);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    for k in 0..600 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, 1)"));
    }
    client.run("CREATE INDEX i ON t (v)");
    client.run("DROP INDEX i");
    client.run("CREATE INDEX j ON t (v)");
    while spawn.step() {}
    assert!(client.is_built("t", "j"), "an index that was dropped must not stop the builder");
    client.check("t");
}

#[test]
fn index_reads_are_protected_from_phantoms() {
    // What another client writes after the read, and whether the transaction may still commit.
    let writes = [
        ("INSERT INTO t (k, v) VALUES (9, 5)", false),
        ("UPDATE t SET v = 5 WHERE k = 2", false),
        ("DELETE FROM t WHERE k = 1", false),
        ("UPDATE t SET v = 7 WHERE k = 2", true),
        ("INSERT INTO t (k, v) VALUES (9, 6)", true),
    ];
    for (write, commits) in writes {
        let client = Client::new(Db::builder().in_memory());
        client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
        client.run("CREATE TABLE sums (k int PRIMARY KEY, n int)");
        client.run("CREATE INDEX ON t (v)");
        client.run("INSERT INTO t (k, v) VALUES (1, 5)");
        client.run("INSERT INTO t (k, v) VALUES (2, 6)");
        let other = Client { executor: client.executor.clone(), session: Session::new() };
        other.run("USE ks");
        client.run("START TRANSACTION");
        assert_eq!(client.all_rows("SELECT k FROM t WHERE v = 5", None).len(), 1);
        client.run("INSERT INTO sums (k, n) VALUES (1, 1)");
        other.run(write);
        let committed = client.try_run("COMMIT");
        assert_eq!(committed.is_ok(), commits, "{write}: {committed:?}");
    }
}

#[test]
fn only_changes_of_indexed_columns_conflict() {
    for isolation in ["STRICT SERIALIZABLE", "SNAPSHOT"] {
        // At the snapshot level, the row that the statement reads is protected as a written one.
        for (column, commits) in [("w", true), ("v", false)] {
            let disk = SimDisk::new(1);
            let db = Db::builder().durability(Durability::None).open_on(Arc::new(disk)).unwrap();
            let client = Client::new(db);
            client.run("CREATE TABLE t (k int PRIMARY KEY, v int, w int)");
            client.run("CREATE INDEX ON t (v)");
            client.run("INSERT INTO t (k, v, w) VALUES (1, 1, 1)");
            let other = Client { executor: client.executor.clone(), session: Session::new() };
            other.run("USE ks");
            client.run(&format!("START TRANSACTION ISOLATION LEVEL {isolation}"));
            client.run(&format!("UPDATE t SET {column} = 2 WHERE k = 1"));
            other.run(&format!("UPDATE t SET {column} = 3 WHERE k = 1"));
            let committed = client.try_run("COMMIT");
            assert_eq!(committed.is_ok(), commits, "{isolation}, {column}: {committed:?}");
            client.check("t");
        }
    }
}

#[test]
fn two_processes_of_a_cluster_build_one_index() {
    let cluster = cluster::TestCluster::new();
    let (one, other) = (cluster.open("one"), cluster.open("other"));
    let client = Client::new(one);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    for k in 0..600 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, {})", k % 7));
    }
    client.run("CREATE INDEX i ON t (v)");
    other.build_derived();
    while !client.is_built("t", "i") {
        std::thread::yield_now();
    }
    client.check("t");
}

/// A query reads the partitions of an index ahead, but not all of them if it needs one row.
#[test]
fn limited_query_reads_a_part_of_the_index() {
    let cluster = cluster::TestCluster::new();
    let client = Client::new(cluster.open("one"));
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    client.run("CREATE INDEX ON t (v)");
    for k in 0..200 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, {})", k % 2));
    }
    let reads = |select: &str| {
        let before = cluster.cell_reads();
        let rows = client.all_rows(select, None).len();
        (rows, cluster.cell_reads() - before)
    };
    reads("SELECT k FROM t WHERE v = 1");
    let (all, all_reads) = reads("SELECT k FROM t WHERE v = 1");
    let (one, one_reads) = reads("SELECT k FROM t WHERE v = 1 LIMIT 1");
    assert_eq!((all, one), (100, 1));
    assert!(all_reads >= 16, "{all_reads} reads");
    assert!((1..8).contains(&one_reads), "{one_reads} reads");
}

#[test]
fn index_shows_own_writes_and_the_past() {
    let client = Client::new(Db::builder().in_memory());
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    client.run("CREATE INDEX ON t (v)");
    client.run("INSERT INTO t (k, v) VALUES (1, 5)");
    client.run("START TRANSACTION");
    client.run("UPDATE t SET v = 6 WHERE k = 1");
    client.run("INSERT INTO t (k, v) VALUES (2, 6)");
    assert_eq!(client.all_rows("SELECT k FROM t WHERE v = 6", None).len(), 2);
    assert!(client.all_rows("SELECT k FROM t WHERE v = 5", None).is_empty());
    client.run("ROLLBACK");
    assert_eq!(client.all_rows("SELECT k FROM t WHERE v = 5", None).len(), 1);
    let before = client.executor.db().published().get();
    client.run("UPDATE t SET v = 7 WHERE k = 1");
    let past = format!("SELECT k FROM t WHERE v = 5 AS OF {before}");
    assert_eq!(client.all_rows(&past, None).len(), 1);
    client.check("t");
}

carnet::record! {
    struct Account { v: i32, w: Option<String> }
}

#[test]
fn typed_tables_maintain_indexes() {
    let db = Db::builder().in_memory();
    let client = Client::new(db.clone());
    client.run("CREATE TABLE t (k int, c int, v int, w text, other int, PRIMARY KEY (k, c))");
    client.run("CREATE INDEX ON t (v)");
    client.run("CREATE INDEX ON t (c)");
    let table = db.table::<Key<(i32,), (i32,)>, Account>("ks.t").unwrap();
    let key = |c| Key((1,), (c,));
    db.transact(|tx| {
        table.put(tx, &key(1), &Account { v: 5, w: None })?;
        table.put(tx, &key(2), &Account { v: 5, w: None })?;
        table.put(tx, &key(3), &Account { v: 6, w: None })
    })
    .unwrap();
    client.check("t");
    let with = |v: i32| client.all_rows(&format!("SELECT c FROM t WHERE v = {v}"), None).len();
    assert_eq!((with(5), with(6)), (2, 1));
    let six = Some(carnet::Value::Int(6));
    db.transact(|tx| table.update(tx, &key(1), &[("v", six.clone())])).unwrap();
    db.transact(|tx| table.delete(tx, &key(3))).unwrap();
    client.check("t");
    assert_eq!((with(5), with(6)), (1, 1));
}
