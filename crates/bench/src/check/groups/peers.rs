//! Carnet beside other engines, and beside other databases over a cluster.

use super::super::group::{Better, Group, Needs};
use super::super::take::{Take, json};
use super::programs::WORKLOADS;

pub(super) fn groups() -> Vec<Group> {
    let peers = [writes(), reads(), transactions()];
    let cluster = [transfers(), cassandra(), commit_rows()];
    let peers = peers.into_iter().map(|group| group.needs(Needs::Peers));
    peers.chain(cluster.into_iter().map(|group| group.needs(Needs::Cluster))).collect()
}

/// Carnet's subjects: part of the name, title, name in the output, and shape.
const SUBJECTS: [(&str, &str, &str, &str); 4] = [
    ("hashed", "Carnet, hashed", "carnet", "hashed"),
    ("raw", "Carnet, raw", "carnet", "raw"),
    ("engine-hashed", "engine, hashed", "carnet-engine", "hashed"),
    ("engine-raw", "engine, raw", "carnet-engine", "raw"),
];

/// Adds a row: the rate of RocksDB, Carnet's subjects to it, and the hashed table to other engines.
fn add_row(
    group: &mut Group,
    row: (&str, &str),
    command: &str,
    rocksdb: &str,
    others: &[(&str, &str)],
    fields: &[(&str, &str)],
) {
    let rate = |engine: &str, shape: Option<&str>| -> Take {
        let shape = shape.map(|shape| ("shape", shape));
        let of = [("engine", engine)].into_iter().chain(shape).chain(fields.iter().copied());
        json(&of.collect::<Vec<_>>(), "keys_per_second")
    };
    group.add(row, ("rocksdb", "RocksDB, a second"), command, rate(rocksdb, None));
    let has_engine = command.contains("carnet-engine");
    for (name, title, engine, shape) in SUBJECTS {
        if engine == "carnet" || has_engine {
            let column = (name, &*format!("{title}, to RocksDB"));
            let ratio = group.add(row, column, command, rate(engine, Some(shape)));
            ratio.over(rate(rocksdb, None)).better(Better::More);
        }
    }
    for (engine, title) in others {
        let column = (*engine, &*format!("hashed, to {title}"));
        let ratio = group.add(row, column, command, rate("carnet", Some("hashed")));
        ratio.over(rate(engine, None)).better(Better::More);
    }
}

/// Writes beside other engines.
fn writes() -> Group {
    const ENGINES: &str =
        "carnet,carnet-engine,rocksdb-prepared-unordered,fjall,surrealkv,redb,lmdb";
    const ROCKSDB: &str = "rocksdb-prepared-unordered";
    const OTHERS: [(&str, &str); 4] =
        [("fjall", "fjall"), ("surrealkv", "SurrealKV"), ("redb", "redb"), ("lmdb", "LMDB")];
    let mut group = Group::new("peers-write", "writes");
    let unsynced = format!(
        "bench/peers write --threads 1,8 --durability none --memtable 1g,64m --keys 1000000 \
         --seconds 2 --passes 3 --shape both --engines {ENGINES} --json"
    );
    for (name, title, bytes) in
        [("1g", "not synced, 1 GiB", "1073741824"), ("64m", "not synced, 64 MiB", "67108864")]
    {
        for threads in ["1", "8"] {
            let row = (&*format!("{name}.{threads}"), &*format!("{title}, {threads} threads"));
            let fields = [("memtable_bytes", bytes), ("threads", threads)];
            add_row(&mut group, row, &unsynced, ROCKSDB, &OTHERS, &fields);
        }
    }
    let synced = format!(
        "bench/peers write --threads 8,32 --durability always --seconds 2 --passes 3 --shape both \
         --engines carnet,{ROCKSDB},surrealkv --json"
    );
    for threads in ["8", "32"] {
        let row = (&*format!("synced.{threads}"), &*format!("synced, {threads} threads"));
        let fields = [("threads", threads)];
        add_row(&mut group, row, &synced, ROCKSDB, &OTHERS[1..2], &fields);
    }
    group
}

/// Reads and scans beside other engines.
fn reads() -> Group {
    const OPTIONS: &str = "--threads 1,8 --rows 500000 --seconds 0.5 --passes 3 --per-snapshot 1 \
        --shape both --engines carnet,carnet-engine,rocksdb,fjall,redb,lmdb --json";
    const OTHERS: [(&str, &str); 3] = [("fjall", "fjall"), ("redb", "redb"), ("lmdb", "LMDB")];
    let mut group = Group::new("peers-read", "reads");
    let [read, scan] = ["read", "scan"].map(|work| format!("bench/peers {work} {OPTIONS}"));
    for (name, title, field, command) in [
        ("memtable", "from a memtable", "where", &read),
        ("cache", "from the cache", "where", &read),
        ("disk", "from the disk", "where", &read),
        ("miss", "of keys never written", "where", &read),
        ("forward", "scans of 100 rows, forward", "direction", &scan),
        ("reversed", "scans of 100 rows, reversed", "direction", &scan),
    ] {
        for threads in ["1", "8"] {
            let row = (&*format!("{name}.{threads}"), &*format!("{title}, {threads} threads"));
            let fields = [(field, name), ("threads", threads)];
            add_row(&mut group, row, command, "rocksdb", &OTHERS, &fields);
        }
    }
    group
}

/// Transactions that read a row and put it, beside other engines that detect conflicts.
fn transactions() -> Group {
    const COMMAND: &str = "bench/peers transaction --threads 1,4 --rows 300000 --seconds 0.5 \
        --passes 3 --access update,read --spread uniform --shape both \
        --engines carnet,rocksdb-prepared-unordered,rocksdb-optimistic,lmdb --json";
    let others = [("rocksdb-optimistic", "RocksDB's optimistic ones"), ("lmdb", "LMDB")];
    let mut group = Group::new("peers-transaction", "transactions");
    for (access, title) in [("update", "read a row and put it"), ("read", "read a row")] {
        for threads in ["1", "4"] {
            let row = (&*format!("{access}.{threads}"), &*format!("{title}, {threads} threads"));
            let fields = [("access", access), ("threads", threads)];
            let rocksdb = "rocksdb-prepared-unordered";
            add_row(&mut group, row, COMMAND, rocksdb, &others, &fields);
        }
    }
    group
}

/// Transfers over a Cassandra, beside ScalarDB.
fn transfers() -> Group {
    const COMMAND: &str = "CARNET_CASSANDRA_HEAP=4g bench/peers/scalardb/run --clients 1,16,64,256 \
        --seconds 3 --passes 3 --warm-up-turns 3";
    let mut group = Group::new("transfers", "clients");
    for clients in ["1", "16", "64", "256"] {
        let row = (clients, clients);
        let at = |engine, field| json(&[("engine", engine), ("clients", clients)], field);
        let rate = |engine| at(engine, "transactions_per_second");
        let [strict, snapshot] = ["carnet-strict-serializable", "carnet-snapshot"];
        group.add(row, ("strict", "Carnet, strict serializable, a second"), COMMAND, rate(strict));
        group.add(row, ("p50", "p50 µs"), COMMAND, at(strict, "p50_us"));
        group.add(row, ("p99", "p99 µs"), COMMAND, at(strict, "p99_us"));
        let peers = [
            ("serializable", "to ScalarDB's SERIALIZABLE", strict, "scalardb-serializable"),
            ("group", "to the same with group commit", strict, "scalardb-serializable-group"),
            ("snapshot", "snapshot, to ScalarDB's SNAPSHOT", snapshot, "scalardb-snapshot"),
        ];
        for (name, title, carnet, peer) in peers {
            let ratio = group.add(row, (name, title), COMMAND, rate(carnet));
            ratio.over(rate(peer)).better(Better::More);
        }
    }
    group
}

/// The server's processor time per operation, beside Cassandra.
fn cassandra() -> Group {
    const COMMAND: &str = "bench/peers/cassandra/run insert read slice-up page hot --in-flight 16 \
        --connections 8 --millis 500 --passes 3 --json";
    let mut group = Group::new("cassandra", "operation");
    for (name, title) in WORKLOADS {
        if !COMMAND.split(' ').any(|word| word == name) {
            continue;
        }
        let row = (name, title);
        let at = |server| json(&[("workload", name), ("server", server)], "processor_us");
        group.add(row, ("carnet", "Carnet, µs of processor"), COMMAND, at("carnet"));
        for (peer, title) in [
            ("cassandra-periodic", "Carnet, to Cassandra"),
            ("cassandra-batch", "Carnet, to Cassandra with synced writes"),
        ] {
            let ratio = group.add(row, (peer, title), COMMAND, at("carnet"));
            ratio.over(at(peer)).better(Better::Less);
        }
    }
    group
}

/// Entries into the commit table of a Cassandra, by the size of batches.
fn commit_rows() -> Group {
    const COMMAND: &str = "commit_rows --batches 1,256 --rows 1 --json";
    let mut group = Group::new("commit-rows", "batches to one row");
    let at =
        |batch| json(&[("batch", batch), ("rows", "1"), ("writers", "1")], "entries_per_second");
    for batch in ["1", "256"] {
        let row = (batch, &*format!("of {batch}"));
        group.add(row, ("rate", "entries/s"), COMMAND, at(batch));
        let ratio = group.add(row, ("ratio", "to batches of one"), COMMAND, at(batch));
        ratio.over(at("1")).better(Better::More);
    }
    group
}
