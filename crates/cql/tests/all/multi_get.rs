//! Multi-gets: the number of reads of a statement with many keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Grant, Parameters, Session};

use crate::support::slow_clock::SlowClock;

const KEYS: usize = 256;

static TURNS: AtomicU64 = AtomicU64::new(0);

/// A scan checks its slice before each read, and after every sixteenth row that it returned.
#[test]
fn keys_of_single_rows_are_read_together() {
    let db = Db::builder().clock(Arc::new(SlowClock::default())).in_memory();
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
    let session = Session::new();
    let run = |text: &str, grant| {
        let parameters = Parameters { grant, ..Parameters::default() };
        block_on(executor.query(&session, text, &parameters)).unwrap()
    };
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&format!("CREATE KEYSPACE ks WITH replication = {replication}"), Grant::default());
    run("CREATE TABLE ks.t (k int PRIMARY KEY, v int)", Grant::default());
    for key in 0..KEYS {
        run(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 1)"), Grant::default());
    }
    let yields = Grant {
        yield_now: Some(|| {
            TURNS.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {})
        }),
        ..Grant::default()
    };
    let keys: Vec<String> = (0..KEYS).map(|key| key.to_string()).collect();
    let response = run(&format!("SELECT v FROM ks.t WHERE k IN ({})", keys.join(", ")), yields);
    let Response::Rows(rows) = response else { panic!("a query returns rows") };
    assert_eq!(rows.rows.len(), KEYS);
    // One read, and a turn for each sixteen rows: 17 turns. One key at a time would take more than
    // 256.
    let turns = TURNS.load(Ordering::Relaxed);
    assert!((16..=20).contains(&turns), "{turns} turns for {KEYS} keys");
}
