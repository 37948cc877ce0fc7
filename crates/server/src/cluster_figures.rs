//! Metrics of the use of a cluster on `/metrics`.

use std::fmt::{Display, Write as _};

use carnet::cluster::{ClusterFigures, Requests};

/// Appends the figures of a database over a cluster.
pub(crate) fn append(out: &mut String, figures: &ClusterFigures) {
    let ClusterFigures { status, .. } = figures;
    let help = "Requests sent to the cluster, whatever their results.";
    append_kinds(out, "carnet_cluster_requests_total", help, &figures.requests);
    let help = "Requests that no node of the cluster answered.";
    append_kinds(out, "carnet_cluster_requests_failed_total", help, &figures.failed);
    let flag = |value: bool| u64::from(value);
    let mut gauges = vec![
        ("leader", "1 if this process leads the database.", flag(status.is_leading)),
        (
            "term",
            "Term of the leader that this process knows; 0 if it knows none.",
            status.term.map_or(0, |term| term.0),
        ),
        ("failing", "1 if the last request to the cluster failed.", flag(figures.is_failing)),
        (
            "syncs_later",
            "1 if a node acknowledges writes before they are on its disk (commitlog_sync: periodic).",
            flag(figures.syncs_later),
        ),
    ];
    if let Some(nodes) = figures.nodes {
        gauges.extend([
            ("nodes", "Nodes of the cluster.", nodes.known as u64),
            (
                "nodes_connected",
                "Nodes to which this process has a connection.",
                nodes.connected as u64,
            ),
        ]);
    }
    if let Some(cells) = status.cached_cells {
        gauges.push(("cached_cells", "Cells in the cell cache of this process.", cells as u64));
    }
    let sweep = status.sweep.unwrap_or_default();
    gauges.extend([
        ("sweep_running", "1 while this process sweeps old versions.", flag(sweep.is_running)),
        (
            "swept_timestamp",
            "Commit up to which the last whole sweep of this term went; 0 before, and if this process does not lead.",
            sweep.mark.get(),
        ),
    ]);
    for (name, help, value) in gauges {
        append_one(out, &format!("carnet_cluster_{name}"), "gauge", help, value);
    }
    for (name, help, value) in [
        ("swept_cells", "Cells that the whole sweeps of this term scanned.", sweep.cells),
        ("sweeps_failed", "Sweeps of this term that failed and were continued.", sweep.failed),
    ] {
        append_one(out, &format!("carnet_cluster_{name}_total"), "counter", help, value);
    }
}

fn append_kinds(out: &mut String, name: &str, help: &str, requests: &Requests) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
    for (kind, count) in [
        ("read", requests.reads),
        ("serial_read", requests.serial_reads),
        ("write", requests.blind_writes),
        ("conditional_write", requests.conditional_writes),
    ] {
        let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
    }
}

fn append_one(out: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use carnet::Db;
    use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
    use carnet_base::{ThreadSpawn, WorkerTasks};

    use super::*;

    #[test]
    fn process_over_a_cluster_shows_its_part() {
        let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
        let (cluster, address) = (Arc::new(MemoryCluster::new()), Address::new("one").unwrap());
        let options = SequencerOptions { cell_cache_bytes: 1 << 20, ..SequencerOptions::default() };
        let db = Db::builder().open_cluster(cluster, network, address, options, |_| ()).unwrap();
        let stock = db.raw("stock").unwrap();
        db.transact(|tx| stock.put(tx, "apples", "3")).unwrap();
        db.compact().unwrap();
        let mut out = String::new();
        append(&mut out, &db.cluster_figures().unwrap());
        for line in [
            "\ncarnet_cluster_leader 1\n",
            "\ncarnet_cluster_term 1\n",
            "\ncarnet_cluster_sweep_running 0\n",
            "\ncarnet_cluster_requests_failed_total{kind=\"write\"} 0\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
        let cells = out.lines().find_map(|line| line.strip_prefix("carnet_cluster_cached_cells "));
        assert!(cells.unwrap().parse::<u64>().unwrap() > 0, "{out}");
        assert!(!out.contains("carnet_cluster_nodes "), "no driver knows nodes");
    }
}
