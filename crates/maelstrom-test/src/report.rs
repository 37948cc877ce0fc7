//! Results of a run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::net::Counts;
use crate::plan::Plan;
use crate::trace::Trace;
use crate::workload::Verdict;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The verdict on the clients' history.
    pub verdict: Verdict,
    /// Number of requests that were answered.
    pub ok: u64,
    /// Number of requests that definitely did not take effect.
    pub fail: u64,
    /// Number of requests of unknown outcome.
    pub info: u64,
    /// Number of messages between nodes and services, without those before the clients began.
    pub server_messages: u64,
    /// Length of the longest value in `lin-kv`, in bytes; that is the root if `lin-kv` keeps it.
    pub root_bytes_max: usize,
    /// Messages and requests, if the plan asked for them.
    pub trace: Option<Trace>,
    counts: Counts,
    latencies: Vec<Duration>,
}

impl Report {
    pub(crate) fn new(
        verdict: Verdict,
        [ok, fail, info]: [u64; 3],
        counts: Counts,
        mut latencies: Vec<Duration>,
        root_bytes_max: usize,
    ) -> Self {
        latencies.sort_unstable();
        let server_messages = counts.servers;
        let trace = None;
        Self { verdict, ok, fail, info, server_messages, root_bytes_max, trace, counts, latencies }
    }

    /// Returns the number of messages between nodes and services per request.
    #[must_use]
    pub fn server_messages_per_op(&self) -> f64 {
        let count = |number| u32::try_from(number).map_or(f64::INFINITY, f64::from);
        count(self.server_messages) / count((self.ok + self.fail + self.info).max(1))
    }

    /// Returns the number of messages between nodes.
    #[must_use]
    pub fn messages_between_nodes(&self) -> u64 {
        let kinds = self.counts.kinds.iter();
        kinds.filter(|(kind, _)| kind.starts_with("node ")).map(|(_, count)| count).sum()
    }

    /// Returns the number of messages that partitions and the network dropped.
    #[must_use]
    pub const fn lost_messages(&self) -> u64 {
        self.counts.lost
    }

    /// Returns the given per-mille quantile of the latencies of answered requests; zero if none was
    /// answered.
    #[must_use]
    pub fn latency(&self, per_mille: usize) -> Duration {
        let place = (self.latencies.len() * per_mille).div_ceil(1000).max(1) - 1;
        self.latencies.get(place).copied().unwrap_or_default()
    }

    /// Returns the results and the plan as a JSON object.
    #[must_use]
    pub fn to_json(&self, plan: &Plan) -> Value {
        let millis = |time: Duration| (time.as_secs_f64() * 1e5).round() / 1e2;
        let Self { verdict, ok, fail, info, counts, .. } = self;
        json!({
            "valid": verdict.is_valid,
            "anomalies": verdict.anomalies,
            "workload": clap::ValueEnum::to_possible_value(&plan.workload)
                .map(|name| name.get_name().to_owned()),
            "consistency_model": plan.model.name(),
            "node_count": plan.nodes,
            "rate": plan.rate,
            "time_limit_s": plan.time_limit.as_secs_f64(),
            "network_latency_ms": millis(plan.conditions.latency),
            "preload": plan.preload,
            "seed": plan.seed,
            "ops": {"count": ok + fail + info, "ok": ok, "fail": fail, "info": info},
            "messages": {
                "servers": counts.servers,
                "servers_per_op": (self.server_messages_per_op() * 100.0).round() / 100.0,
                "clients": counts.clients,
                "lost": counts.lost,
                "by_kind": counts.kinds,
            },
            "latency_ms": {
                "p50": millis(self.latency(500)),
                "p95": millis(self.latency(950)),
                "p99": millis(self.latency(990)),
                "max": millis(self.latency(1000)),
            },
            "root_bytes_max": self.root_bytes_max,
        })
    }
}
