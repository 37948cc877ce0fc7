//! The network between nodes, services and clients. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};
use serde_json::Value;

use crate::trace::Trace;

/// A message under way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) src: String,
    pub(crate) dest: String,
    pub(crate) body: Value,
}

fn names(envelope: &Envelope) -> (&str, &str) {
    (&envelope.src, &envelope.dest)
}

/// A message, and its number in the trace.
struct Underway {
    envelope: Envelope,
    traced: Option<usize>,
}

/// Distribution of the one-way latencies of messages between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Distribution {
    /// Always the mean.
    Constant,
    /// Uniform between zero and twice the mean.
    Uniform,
    /// Exponentially distributed with this mean.
    Exponential,
}

/// The network's faults. Messages of clients are neither late nor lost.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Mean one-way latency of messages between servers.
    pub latency: Duration,
    /// Distribution of these latencies.
    pub distribution: Distribution,
    /// Number of messages between nodes that are lost, per 1000.
    pub loss: u64,
}

/// Numbers of messages that were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Messages neither from nor to a client.
    pub(crate) servers: u64,
    pub(crate) clients: u64,
    /// Messages of servers, by service (or `node`) and kind of message.
    pub(crate) kinds: BTreeMap<String, u64>,
    /// Messages of servers that a partition or the network dropped.
    pub(crate) lost: u64,
}

/// Kind of a sender or receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Client,
    Node,
    Service,
}

impl Party {
    pub(crate) fn from_name(name: &str) -> Self {
        let number =
            |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        match name.split_at_checked(1) {
            Some(("c", rest)) if number(rest) => Self::Client,
            Some(("n", rest)) if number(rest) => Self::Node,
            _ => Self::Service,
        }
    }
}

pub(crate) struct Network {
    conditions: Conditions,
    rng: SeededRng,
    underway: BTreeMap<(Moment, u64), Underway>,
    sent: u64,
    /// Messages so far, if they are recorded.
    pub(crate) trace: Option<Trace>,
    /// Number in the trace of the message that arrived last.
    last_traced: Option<usize>,
    /// Nodes that do not reach the others.
    cut_off: BTreeSet<String>,
    /// Whether these nodes do not reach services, either.
    cuts_services: bool,
    pub(crate) counts: Counts,
}

impl Network {
    pub(crate) fn new(conditions: Conditions, rng: SeededRng) -> Self {
        Self {
            conditions,
            rng,
            underway: BTreeMap::new(),
            sent: 0,
            trace: None,
            last_traced: None,
            cut_off: BTreeSet::new(),
            cuts_services: false,
            counts: Counts::default(),
        }
    }

    /// Cuts some nodes off from the others, and optionally from services.
    pub(crate) fn cut_off(&mut self, nodes: BTreeSet<String>, cuts_services: bool) {
        (self.cut_off, self.cuts_services) = (nodes, cuts_services);
    }

    /// Sends a message, delayed by `extra` in addition to the latency.
    pub(crate) fn send(&mut self, envelope: Envelope, now: Moment, extra: Duration) {
        let (src, dest) = (Party::from_name(&envelope.src), Party::from_name(&envelope.dest));
        let is_of_client = src == Party::Client || dest == Party::Client;
        self.count(&envelope, is_of_client);
        let is_between_nodes = src == Party::Node && dest == Party::Node;
        if is_between_nodes && self.rng.chance(self.conditions.loss) {
            self.counts.lost += 1;
            if let Some(trace) = &mut self.trace {
                trace.add(names(&envelope), &envelope.body, now, None);
            }
            return;
        }
        let latency = if is_of_client { Duration::ZERO } else { self.latency() };
        let at = now.after(latency + extra);
        let traced = self
            .trace
            .as_mut()
            .and_then(|trace| trace.add(names(&envelope), &envelope.body, now, Some(at)));
        self.put(Underway { envelope, traced }, at);
    }

    /// Delays the message that arrived last.
    pub(crate) fn delay(&mut self, envelope: Envelope, at: Moment) {
        let traced = self.last_traced.take();
        self.note_arrival(traced, Some(at));
        self.put(Underway { envelope, traced }, at);
    }

    fn put(&mut self, underway: Underway, at: Moment) {
        self.sent += 1;
        self.underway.insert((at, self.sent), underway);
    }

    fn note_arrival(&mut self, traced: Option<usize>, at: Option<Moment>) {
        if let (Some(trace), Some(number)) = (&mut self.trace, traced) {
            trace.messages[number].arrives = at;
        }
    }

    fn count(&mut self, envelope: &Envelope, is_of_client: bool) {
        if is_of_client {
            self.counts.clients += 1;
            return;
        }
        self.counts.servers += 1;
        let kind = envelope.body["type"].as_str().unwrap_or("?");
        let service = [&envelope.dest, &envelope.src].into_iter();
        let service =
            service.map(String::as_str).find(|name| Party::from_name(name) == Party::Service);
        let kind = format!("{} {kind}", service.unwrap_or("node"));
        *self.counts.kinds.entry(kind).or_default() += 1;
    }

    fn latency(&mut self) -> Duration {
        let Conditions { latency, distribution, .. } = self.conditions;
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        match distribution {
            Distribution::Constant => latency,
            Distribution::Uniform => Duration::from_nanos(self.rng.below(nanos.saturating_mul(2))),
            Distribution::Exponential => {
                let share = u32::try_from(1 + self.rng.below(1 << 20)).expect("it has 20 bits");
                latency.mul_f64(-(f64::from(share) / f64::from(1 << 20)).ln())
            }
        }
    }

    /// Returns the next message that has arrived.
    pub(crate) fn arrived(&mut self, now: Moment) -> Option<Envelope> {
        loop {
            let first = self.underway.first_entry().filter(|first| first.key().0 <= now)?;
            let Underway { envelope, traced } = first.remove();
            if self.reaches(&envelope) {
                self.last_traced = traced;
                return Some(envelope);
            }
            self.counts.lost += 1;
            self.note_arrival(traced, None);
        }
    }

    fn reaches(&self, Envelope { src, dest, .. }: &Envelope) -> bool {
        let is_cut_off = |name: &String| self.cut_off.contains(name);
        match (Party::from_name(src), Party::from_name(dest)) {
            (Party::Client, _) | (_, Party::Client) => true,
            (Party::Node, Party::Node) => is_cut_off(src) == is_cut_off(dest),
            _ => !self.cuts_services || !is_cut_off(src) && !is_cut_off(dest),
        }
    }

    /// Returns when the next message arrives.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.underway.first_key_value().map(|((moment, _), _)| *moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(src: &str, dest: &str) -> Envelope {
        let body = serde_json::json!({"type": "x"});
        Envelope { src: src.to_owned(), dest: dest.to_owned(), body }
    }

    fn network(loss: u64) -> Network {
        let latency = Duration::from_millis(10);
        let conditions = Conditions { latency, distribution: Distribution::Constant, loss };
        Network::new(conditions, SeededRng::new(1))
    }

    #[test]
    fn a_partition_cuts_only_nodes_from_each_other() {
        let mut network = network(0);
        network.cut_off(BTreeSet::from(["n0".to_owned()]), false);
        let now = Moment::default();
        for (src, dest) in [("n0", "n1"), ("n1", "n2"), ("n0", "lin-kv"), ("c1", "n0")] {
            network.send(envelope(src, dest), now, Duration::ZERO);
        }
        assert_eq!(network.arrived(now).unwrap().src, "c1");
        assert!(network.arrived(now).is_none());
        let later = network.next().unwrap();
        assert_eq!(later, now.after(Duration::from_millis(10)));
        let dests = [network.arrived(later).unwrap().dest, network.arrived(later).unwrap().dest];
        assert_eq!(dests, ["n2", "lin-kv"]);
        assert!(network.arrived(later).is_none());
        let Counts { servers, clients, lost, .. } = network.counts;
        assert_eq!((servers, clients, lost), (3, 1, 1));
    }

    #[test]
    fn partition_may_cut_services_as_well() {
        let mut network = network(0);
        network.cut_off(BTreeSet::from(["n0".to_owned()]), true);
        for (src, dest) in [("n0", "lin-kv"), ("lin-kv", "n0"), ("n1", "lin-kv"), ("c1", "n0")] {
            network.send(envelope(src, dest), Moment::default(), Duration::ZERO);
        }
        let later = Moment::default().after(Duration::from_millis(10));
        let sources = [network.arrived(later).unwrap().src, network.arrived(later).unwrap().src];
        assert_eq!(sources, ["c1", "n1"]);
        assert!(network.arrived(later).is_none());
        assert_eq!(network.counts.lost, 2);
    }

    #[test]
    fn only_messages_between_nodes_are_lost() {
        let mut network = network(1000);
        for (src, dest) in [("n0", "n1"), ("n0", "lww-kv"), ("lww-kv", "n0")] {
            network.send(envelope(src, dest), Moment::default(), Duration::ZERO);
        }
        assert_eq!((network.counts.lost, network.underway.len()), (1, 2));
    }
}
