//! Metrics of the use of a cluster on `/metrics`.

use std::fmt::Write as _;

use carnet::cluster::ClusterFigures;

/// Appends the figures of a database over a cluster.
pub(crate) fn append(out: &mut String, figures: &ClusterFigures) {
    let ClusterFigures { requests, is_leading, is_failing, syncs_later, .. } = figures;
    let name = "carnet_cluster_requests_total";
    let _ = writeln!(
        out,
        "# HELP {name} Requests sent to the cluster, whatever their results.\n# TYPE {name} counter"
    );
    for (kind, count) in [
        ("read", requests.reads),
        ("serial_read", requests.serial_reads),
        ("write", requests.blind_writes),
        ("conditional_write", requests.conditional_writes),
    ] {
        let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
    }
    for (name, help, value) in [
        ("leader", "1 if this process leads the database.", is_leading),
        ("failing", "1 if the last request to the cluster failed.", is_failing),
        (
            "syncs_later",
            "1 if a node acknowledges writes before they are on its disk (commitlog_sync: periodic).",
            syncs_later,
        ),
    ] {
        let _ = writeln!(
            out,
            "# HELP carnet_cluster_{name} {help}\n# TYPE carnet_cluster_{name} gauge\n\
             carnet_cluster_{name} {}",
            u8::from(*value)
        );
    }
}
