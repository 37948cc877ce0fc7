//! The environment of the nodes: network, services, clients and partitions, without I/O and without
//! a clock. A driver passes in the time and the lines that nodes write, and delivers the lines that
//! it returns to nodes.
//!
//! ```text
//!   init ──► preload ──► load ──► settle ──► last reads ──► over
//!                        clients,  open       of each node,
//!                        faults    requests   once
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};
use serde_json::{Value, json};

use crate::clients::Clients;
use crate::net::{Envelope, Network, Party};
use crate::plan::Plan;
use crate::report::Report;
use crate::service::{End, RequestFaults, Services, error};
use crate::trace::Trace;

/// Maximum time in which nodes have to start, and to answer while keys are loaded.
const SETUP_PATIENCE: Duration = Duration::from_secs(60);
/// Number of keys that one transaction loads.
const PRELOAD_KEYS: u64 = 100;
/// The first of the loaded keys; clients do not use these.
const PRELOAD_FIRST_KEY: u64 = 1 << 32;
/// The client that initializes nodes and loads keys.
const OPERATOR: &str = "c999999";

/// A line for a node: the node's number, and the line without its end.
pub(crate) type Delivery = (usize, String);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Init,
    Preload,
    Load,
    LastReads,
    Over,
}

pub(crate) struct World {
    plan: Plan,
    network: Network,
    services: Services,
    clients: Clients,
    rng: SeededRng,
    phase: Phase,
    /// Number of answers that the operator waits for.
    awaited: usize,
    since: Moment,
    loaded: u64,
    next_partition: Option<Moment>,
    is_partitioned: bool,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut rng = SeededRng::new(plan.seed);
        let mut split = || SeededRng::new(rng.next_u64());
        let mut network = Network::new(plan.conditions, split());
        let clients = Clients::new(&plan, split());
        let names: Vec<String> = (0..plan.nodes).map(|node| format!("n{node}")).collect();
        for (number, name) in (1_u64..).zip(&names) {
            let body = json!({
                "type": "init", "msg_id": number, "node_id": name, "node_ids": names,
            });
            let envelope = Envelope { src: OPERATOR.to_owned(), dest: name.clone(), body };
            network.send(envelope, Moment::default(), Duration::ZERO);
        }
        Self {
            network,
            services: Services::new(),
            clients,
            rng: split(),
            phase: Phase::Init,
            awaited: plan.nodes,
            since: Moment::default(),
            loaded: 0,
            next_partition: None,
            is_partitioned: false,
            plan,
        }
    }

    /// Does the work that is due, and returns lines for nodes.
    ///
    /// # Errors
    ///
    /// A sentence that says what a node failed to do during the preparation of the run.
    pub(crate) fn advance(&mut self, now: Moment) -> Result<Vec<Delivery>, String> {
        self.partition(now);
        if self.phase == Phase::Load || self.phase == Phase::LastReads {
            for request in self.clients.advance(now) {
                self.network.send(request, now, Duration::ZERO);
            }
        }
        let mut deliveries = Vec::new();
        while let Some(envelope) = self.network.arrived(now) {
            match Party::from_name(&envelope.dest) {
                Party::Client => self.answered(envelope, now)?,
                Party::Service => self.serve(envelope, now),
                Party::Node => deliveries.extend(delivery(&envelope)),
            }
        }
        self.enter_next_phase(now)?;
        Ok(deliveries)
    }

    /// Takes a line that a node has written.
    ///
    /// # Errors
    ///
    /// A sentence that says why the line is invalid.
    pub(crate) fn receive(&mut self, node: usize, line: &str, now: Moment) -> Result<(), String> {
        let wrong = |what: &str| format!("n{node} wrote {what}: {line}");
        let Ok(Value::Object(mut message)) = serde_json::from_str(line) else {
            return Err(wrong("no JSON object"));
        };
        let mut name = |field: &str| match message.remove(field) {
            Some(Value::String(name)) => Some(name),
            _ => None,
        };
        let (Some(src), Some(dest)) = (name("src"), name("dest")) else {
            return Err(wrong("no src or no dest"));
        };
        let body = message.remove("body").filter(|body| body["type"].is_string());
        let Some(body) = body else { return Err(wrong("no body with a type")) };
        if src != format!("n{node}") {
            return Err(wrong("another one's name"));
        }
        self.network.send(Envelope { src, dest, body }, now, Duration::ZERO);
        Ok(())
    }

    fn serve(&mut self, request: Envelope, now: Moment) {
        let Envelope { src, dest, body } = request;
        let faults = match self.phase {
            Phase::Load => self.plan.faults.draw(&mut self.rng),
            _ => RequestFaults {
                delay: Duration::ZERO,
                answer_delay: Duration::ZERO,
                end: End::Answered,
            },
        };
        // A message is delayed only once.
        if !faults.delay.is_zero() && body["is_late"].is_null() {
            let mut body = body;
            body["is_late"] = Value::Bool(true);
            return self.network.delay(Envelope { src, dest, body }, now.after(faults.delay));
        }
        let is_done = match faults.end {
            End::Answered => true,
            End::Lost { is_done } | End::Error { is_done } => is_done,
        };
        let mut answer = None;
        if is_done {
            let handled = self.services.handle(&dest, &src, &body, &mut self.rng);
            answer = Some(handled.unwrap_or_else(|| error(1, "there is no such node")));
        }
        let answer = match faults.end {
            End::Answered => answer,
            End::Lost { .. } => None,
            End::Error { .. } => Some(error(if self.rng.chance(500) { 0 } else { 13 }, "a fault")),
        };
        if let Some(mut answer) = answer {
            answer["in_reply_to"] = body["msg_id"].clone();
            let answer = Envelope { src: dest, dest: src, body: answer };
            self.network.send(answer, now, faults.answer_delay);
        }
    }

    fn answered(
        &mut self,
        Envelope { src, dest, body }: Envelope,
        now: Moment,
    ) -> Result<(), String> {
        if dest != OPERATOR {
            self.clients.take(body, now);
            return Ok(());
        }
        match body["type"].as_str() {
            Some("init_ok" | "txn_ok") => {
                self.awaited = self.awaited.saturating_sub(1);
                Ok(())
            }
            _ => Err(format!("{src} cannot begin: {body}")),
        }
    }

    fn enter_next_phase(&mut self, now: Moment) -> Result<(), String> {
        let is_setup = matches!(self.phase, Phase::Init | Phase::Preload);
        if is_setup && self.awaited > 0 {
            let is_over = now.since(self.since) > SETUP_PATIENCE;
            return if is_over { Err("a node does not answer".to_owned()) } else { Ok(()) };
        }
        match self.phase {
            Phase::Init | Phase::Preload if self.loaded < self.plan.preload => self.load(now),
            Phase::Init | Phase::Preload => {
                self.phase = Phase::Load;
                self.network.counts = Default::default();
                self.network.trace = self.plan.traces.then(Trace::default);
                self.clients.start(now, self.plan.time_limit);
                self.next_partition = self.plan.partition_every.map(|every| now.after(every));
            }
            Phase::Load if self.clients.is_done() => {
                self.phase = Phase::LastReads;
                self.next_partition = None;
                self.network.cut_off(BTreeSet::new(), false);
                for request in self.clients.finish(now) {
                    self.network.send(request, now, Duration::ZERO);
                }
            }
            Phase::Load | Phase::LastReads | Phase::Over => {}
        }
        if self.phase == Phase::LastReads && self.clients.is_done() {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    /// Loads the next keys, through each node in turn.
    fn load(&mut self, now: Moment) {
        self.phase = Phase::Preload;
        let keys = self.loaded..self.plan.preload.min(self.loaded + PRELOAD_KEYS);
        self.loaded = keys.end;
        let ops: Vec<Value> =
            keys.map(|key| json!(["append", PRELOAD_FIRST_KEY + key, 1])).collect();
        let body = json!({"type": "txn", "msg_id": 1000 + self.loaded, "txn": ops});
        let node = self.loaded / PRELOAD_KEYS % self.plan.nodes as u64;
        let envelope = Envelope { src: OPERATOR.to_owned(), dest: format!("n{node}"), body };
        (self.awaited, self.since) = (1, now);
        self.network.send(envelope, now, Duration::ZERO);
    }

    /// Cuts a random half of the nodes off, or reunites them.
    fn partition(&mut self, now: Moment) {
        let (Some(due), Some(every)) = (self.next_partition, self.plan.partition_every) else {
            return;
        };
        if due > now {
            return;
        }
        self.next_partition = Some(due.after(every));
        self.is_partitioned = !self.is_partitioned;
        let mut nodes: Vec<usize> = (0..self.plan.nodes).collect();
        let mut cut_off = BTreeSet::new();
        while self.is_partitioned && cut_off.len() < self.plan.nodes / 2 {
            let place = self.rng.below(nodes.len() as u64);
            let node = nodes.swap_remove(usize::try_from(place).unwrap_or_default());
            cut_off.insert(format!("n{node}"));
        }
        self.network.cut_off(cut_off, self.plan.partition_services);
    }

    /// Returns when [`advance`](Self::advance) is due next; `None` if only nodes can make progress.
    pub(crate) fn next(&self) -> Option<Moment> {
        let clients = self.clients.next();
        [self.network.next(), clients, self.next_partition].into_iter().flatten().min()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(crate) fn report(self) -> Report {
        let (workload, tally) = self.clients.into_parts();
        let root_bytes_max = self.services.root_bytes_max();
        let counts = [tally.ok, tally.fail, tally.info];
        let verdict = workload.verdict(self.plan.model);
        let mut report =
            Report::new(verdict, counts, self.network.counts, tally.latencies, root_bytes_max);
        report.trace = self.network.trace.map(|trace| Trace { requests: tally.requests, ..trace });
        report
    }
}

fn delivery(envelope: &Envelope) -> Option<Delivery> {
    let Envelope { src, dest, body } = envelope;
    let node = dest.strip_prefix('n')?.parse().ok()?;
    Some((node, json!({"src": src, "dest": dest, "body": body}).to_string()))
}
