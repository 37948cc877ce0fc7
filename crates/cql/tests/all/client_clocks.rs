//! Clients that send times of their own: what their statements store does not depend on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::derived::{Differences, check_index, check_view};
use carnet::{Db, Durability, block_on, catalog};
use carnet_base::{Clock, Moment, SeededRng, SystemClock, WallTime};
use carnet_cql::result::Response;
use carnet_cql::{CqlError, Parameters};
use carnet_storage::disk::sim::SimDisk;

use crate::support::client::Client;
use crate::support::cluster::TestCluster;
use crate::support::derived::{COLUMNS, Manual, below, change};
use crate::support::{derived, with_seeds};

/// Differences between the clocks of clients and the database's, in seconds.
const SKEWS: [i64; 4] = [1_000, -1_000, 3, -3];

fn client(clock: &Arc<Manual>, disk: Option<SimDisk>) -> Client {
    let builder = Db::builder().durability(Durability::None);
    let builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
    let db = match disk {
        Some(disk) => builder.open_on(Arc::new(disk)).unwrap(),
        None => builder.in_memory(),
    };
    Client::new(db)
}

/// Runs a statement of a client whose clock differs from the database's.
fn run_at(client: &Client, clock: &Manual, skew: i64, text: &str) -> Result<Response, CqlError> {
    let now = Some(WallTime(clock.wall().0 + skew * 1_000_000));
    let parameters = Parameters { now, ..Parameters::default() };
    block_on(client.executor.query(&client.session, text, &parameters))
}

fn check_derived(client: &Client) {
    block_on(async {
        let tx = client.executor.db().snapshot_async().await.unwrap();
        let schema = catalog::table(&tx, "ks", "t").await.unwrap().unwrap();
        for index in &schema.indexes {
            let found = check_index(&tx, &schema, index).await.unwrap();
            assert_eq!(found, Differences::default(), "{}", index.name);
        }
        for view in &schema.views {
            let found = check_view(&tx, &schema, view).await.unwrap();
            assert_eq!(found, Differences::default(), "{}", view.name);
        }
    });
}

/// Two databases get the same statements, one of them from clients with clocks of their own.
#[test]
fn stored_values_do_not_depend_on_clients_clocks() {
    with_seeds(12, |rng| {
        let clock = Arc::new(Manual(AtomicI64::new(0)));
        let disk = || (below(rng, 2) == 0).then(|| SimDisk::new(1));
        let mut disks = disk;
        let (skewed, plain) = (client(&clock, disks()), client(&clock, disks()));
        for client in [&skewed, &plain] {
            client.run(&format!("CREATE TABLE t {COLUMNS}"));
            client.run("CREATE INDEX ON t (w)");
            client.run("CREATE INDEX ON t (values(m))");
            client.run(
                "CREATE MATERIALIZED VIEW by_v AS SELECT k, c, v, w, e, m FROM t WHERE v IS NOT NULL AND k IS NOT \
                 NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)",
            );
            client.run(
                "CREATE MATERIALIZED VIEW by_c AS SELECT k, c, w FROM t WHERE k IS NOT NULL AND c \
                 IS NOT NULL PRIMARY KEY (c, k)",
            );
        }
        for _ in 0..150 {
            // Conditions are reads, for which the client's clock counts.
            let statement = other_than_conditional(rng).replace("{t}", "t");
            // A client's time to live counts by the client's clock.
            let is_skewed = !statement.contains("TTL");
            let skew = if is_skewed { SKEWS[derived::at(rng, SKEWS.len())] } else { 0 };
            run_at(&skewed, &clock, skew, &statement).unwrap();
            plain.run(&statement);
            clock.0.fetch_add(i64::from(below(rng, 3) == 0), Ordering::SeqCst);
            for table in ["t", "by_v", "by_c"] {
                let all = format!("SELECT * FROM {table}");
                assert_eq!(
                    skewed.all_rows(&all, None),
                    plain.all_rows(&all, None),
                    "{statement}: {table}"
                );
            }
            check_derived(&skewed);
        }
    });
}

fn other_than_conditional(rng: &mut SeededRng) -> String {
    loop {
        let statement = change(rng);
        if !statement.contains(" IF ") {
            return statement;
        }
    }
}

/// The client sees the elements that have not expired by its clock, and changes them only.
#[test]
fn elements_of_lists_that_a_client_does_not_see_stay() {
    let clock = Arc::new(Manual(AtomicI64::new(0)));
    let client = client(&clock, Some(SimDisk::new(1)));
    client.run("CREATE TABLE t (k int PRIMARY KEY, l list<int>)");
    client.run("UPDATE t USING TTL 100 SET l = l + [1, 2] WHERE k = 1");
    client.run("UPDATE t SET l = l + [3, 4] WHERE k = 1");
    client.run("UPDATE t USING TTL 100 SET l = l + [5] WHERE k = 1");
    let ahead = |statement| run_at(&client, &clock, 1_000, statement).unwrap();
    ahead("UPDATE t SET l[0] = 30 WHERE k = 1");
    ahead("DELETE l[1] FROM t WHERE k = 1");
    ahead("UPDATE t SET l = l - [5] WHERE k = 1");
    let rows = client.all_rows("SELECT to_json(l) FROM t WHERE k = 1", None);
    assert_eq!(rows[0][0].as_deref(), Some(&b"[1, 2, 30, 5]"[..]));
}

/// A server's clock that is ahead, in seconds.
struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> WallTime {
        WallTime(SystemClock.wall().0 + self.0 * 1_000_000)
    }
}

/// An element has expired by the clock of one of two servers only.
#[test]
fn server_whose_clock_is_ahead_removes_no_elements_of_others() {
    let cluster = TestCluster::new();
    let one = Client::new(cluster.open("one"));
    one.run("CREATE TABLE t (k int PRIMARY KEY, v int, e set<int>)");
    // A write of an indexed column reads its row, and writes all of it.
    one.run("CREATE INDEX ON t (v)");
    let ahead = Client::new(cluster.open_at("ahead", Arc::new(Ahead(50))));
    one.run("UPDATE t USING TTL 40 SET e = e + {1} WHERE k = 1");
    let elements = |client: &Client| client.all_rows("SELECT to_json(e) FROM t WHERE k = 1", None);
    ahead.run("UPDATE t SET v = 7, e = e + {2} WHERE k = 1");
    assert_eq!(elements(&ahead)[0][0].as_deref(), Some(&b"[2]"[..]));
    assert_eq!(elements(&one)[0][0].as_deref(), Some(&b"[1, 2]"[..]));
}
