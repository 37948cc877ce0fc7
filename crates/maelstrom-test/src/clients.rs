//! Clients: each makes one request at a time to its node, and waits for the answer. No I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};
use serde_json::Value;

use crate::net::Envelope;
use crate::plan::Plan;
use crate::trace::Request;
use crate::workload::{self, CallId, ClientAnswer, Workload};

/// Results of the requests so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) ok: u64,
    pub(crate) fail: u64,
    pub(crate) info: u64,
    pub(crate) latencies: Vec<Duration>,
    /// Requests in the order of their answers, if they are recorded.
    pub(crate) requests: Vec<Request>,
}

pub(crate) struct Clients {
    workload: Box<dyn Workload>,
    rng: SeededRng,
    rate: f64,
    timeout: Duration,
    traces: bool,
    /// For each node, its idle clients.
    idle: Vec<VecDeque<i64>>,
    next_process: i64,
    calls: u64,
    waiting: BTreeMap<CallId, Waiting>,
    /// Time of the next request; `None` before the first and after the last.
    next_request: Option<Moment>,
    until: Moment,
    /// Number of requests that found all clients busy.
    late: u64,
    pub(crate) tally: Tally,
}

struct Waiting {
    process: i64,
    node: usize,
    since: Moment,
}

impl Clients {
    pub(crate) fn new(plan: &Plan, rng: SeededRng) -> Self {
        let mut clients = Self {
            workload: workload::new(plan.workload),
            rng,
            rate: plan.rate,
            timeout: plan.client_timeout,
            traces: plan.traces,
            idle: vec![VecDeque::new(); plan.nodes],
            next_process: 0,
            calls: 0,
            waiting: BTreeMap::new(),
            next_request: None,
            until: Moment::default(),
            late: 0,
            tally: Tally::default(),
        };
        for _ in 0..plan.clients_per_node {
            for node in 0..plan.nodes {
                clients.add_process(node);
            }
        }
        clients
    }

    fn add_process(&mut self, node: usize) {
        self.idle[node].push_back(self.next_process);
        self.next_process += 1;
    }

    /// Starts to make requests.
    pub(crate) fn start(&mut self, now: Moment, time_limit: Duration) {
        self.until = now.after(time_limit);
        self.schedule(now);
    }

    fn schedule(&mut self, now: Moment) {
        // Between zero and twice the mean, as Jepsen staggers requests.
        let mean = Duration::from_secs_f64(1.0 / self.rate);
        let nanos = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 2);
        let next = now.after(Duration::from_nanos(self.rng.below(nanos.saturating_mul(2))));
        self.next_request = Some(next).filter(|next| *next < self.until);
    }

    /// Makes the requests that are due, and times out old ones.
    pub(crate) fn advance(&mut self, now: Moment) -> Vec<Envelope> {
        let mut requests = Vec::new();
        while let Some(due) = self.next_request.filter(|due| *due <= now) {
            self.late += 1;
            self.schedule(due);
        }
        while self.late > 0 {
            let Some((node, process)) = self.pick() else { break };
            self.late -= 1;
            requests.push(self.request(node, process, now));
        }
        while let Some((call, waiting)) = self.waiting.first_key_value()
            && waiting.since.after(self.timeout) <= now
        {
            let call = *call;
            self.complete(call, now, ClientAnswer::Info);
        }
        requests
    }

    fn pick(&mut self) -> Option<(usize, i64)> {
        let count = self.idle.len() as u64;
        let first = usize::try_from(self.rng.below(count)).ok()?;
        let order = (first..self.idle.len()).chain(0..first);
        let node = order.into_iter().find(|node| !self.idle[*node].is_empty())?;
        Some((node, self.idle[node].pop_front()?))
    }

    fn request(&mut self, node: usize, process: i64, now: Moment) -> Envelope {
        let call = self.next_call();
        let body = self.workload.invoke(call, process, now, &mut self.rng);
        self.ask(call, node, process, now, body)
    }

    const fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    fn ask(
        &mut self,
        call: CallId,
        node: usize,
        process: i64,
        now: Moment,
        mut body: Value,
    ) -> Envelope {
        body["msg_id"] = Value::from(call.0);
        self.waiting.insert(call, Waiting { process, node, since: now });
        Envelope { src: format!("c{process}"), dest: format!("n{node}"), body }
    }

    /// Takes an answer; an answer that no client waits for is dropped.
    pub(crate) fn take(&mut self, body: Value, now: Moment) {
        if let Some(call) = body["in_reply_to"].as_u64() {
            self.complete(CallId(call), now, ClientAnswer::from_body(body));
        }
    }

    fn complete(&mut self, call: CallId, now: Moment, answer: ClientAnswer) {
        let Some(Waiting { process, node, since }) = self.waiting.remove(&call) else { return };
        if self.traces {
            let outcome = answer.outcome();
            self.tally.requests.push(Request { process, node, since, until: now, outcome });
        }
        match answer {
            ClientAnswer::Ok(_) => {
                self.tally.ok += 1;
                self.tally.latencies.push(now.since(since));
            }
            ClientAnswer::Fail(_) => self.tally.fail += 1,
            ClientAnswer::Info => self.tally.info += 1,
        }
        // The client's request may still be in progress, so another client takes its place.
        if answer == ClientAnswer::Info {
            self.add_process(node);
        } else {
            self.idle[node].push_back(process);
        }
        self.workload.complete(call, now, answer);
    }

    /// Returns when [`advance`](Self::advance) is due next.
    pub(crate) fn next(&self) -> Option<Moment> {
        let timeout = self.waiting.values().next();
        let timeout = timeout.map(|waiting| waiting.since.after(self.timeout));
        [self.next_request, timeout].into_iter().flatten().min()
    }

    /// Returns `true` if all requests were made, and each was answered or timed out.
    pub(crate) fn is_done(&self) -> bool {
        self.next_request.is_none() && self.late == 0 && self.waiting.is_empty()
    }

    /// Creates the last request for each node, if the workload has one.
    pub(crate) fn finish(&mut self, now: Moment) -> Vec<Envelope> {
        let mut requests = Vec::new();
        for node in 0..self.idle.len() {
            let Some(process) = self.idle[node].pop_front() else { continue };
            let call = self.next_call();
            if let Some(body) = self.workload.finish(call, process, now) {
                requests.push(self.ask(call, node, process, now, body));
            }
        }
        requests
    }

    pub(crate) fn into_parts(self) -> (Box<dyn Workload>, Tally) {
        (self.workload, self.tally)
    }
}
