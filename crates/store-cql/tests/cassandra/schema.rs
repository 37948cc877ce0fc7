//! Keyspaces and tables are created once, also by concurrent processes.

use std::sync::Arc;
use std::thread;

use carnet_base::{
    CellKey, Clock, Error, ErrorKind, PartitionKey, SystemClock, TableId, Timestamp, block_on,
};
use carnet_store::Context;
use carnet_store::cluster::{ClusterCells, Statement, VersionWrite};
use carnet_store_cql::{CqlCluster, CqlOptions};

use crate::keyspace::keyspace;

#[test]
fn concurrent_processes_share_created_tables() {
    let Some(keyspace) = keyspace() else { return };
    let clusters: Vec<CqlCluster> = thread::scope(|scope| {
        let connecting: Vec<_> = (0..3).map(|_| scope.spawn(|| keyspace.connect())).collect();
        connecting.into_iter().map(|cluster| cluster.join().unwrap()).collect()
    });
    let start = Timestamp::new(5).unwrap();
    // A node lists a table in its schema shortly before it can execute statements about it.
    for table in (4_000_000_000..4_000_000_020).map(TableId) {
        let keys: Vec<CellKey> = (0..clusters.len())
            .map(|n| CellKey::new(table, &PartitionKey::new("p"), n.to_string()))
            .collect();
        thread::scope(|scope| {
            for (cluster, key) in clusters.iter().zip(&keys) {
                let (key, payload) = (key.clone(), Some("written".into()));
                let write = VersionWrite { key, start, statement: Statement(0), payload };
                scope.spawn(move || {
                    block_on(cluster.create_table(table)).unwrap();
                    block_on(cluster.write_versions(&Context::unbounded(), &[write])).unwrap();
                });
            }
        });
        for cluster in &clusters {
            for key in &keys {
                let read = block_on(cluster.read_version(&Context::unbounded(), key, start));
                assert!(read.unwrap().is_some());
            }
        }
    }
}

fn refusal(options: &CqlOptions) -> Error {
    block_on(CqlCluster::connect(options, Arc::new(SystemClock))).err().unwrap()
}

#[test]
fn unreachable_cluster_is_named() {
    let points = vec!["127.0.0.1:9".to_owned()];
    let clock = SystemClock;
    let begun = clock.now();
    let error = refusal(&CqlOptions::new(points, "carnet"));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
    assert!(clock.now().since(begun).as_secs() < 20);
    let error = refusal(&CqlOptions::new(vec!["127.0.0.1:9".into()], "no name"));
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
