//! Metrics of the server, in Prometheus' text format.
//!
//! Every metric is a field of [`Metrics`], whose comment defines it; [`Metrics::render`] names it.
//! Counters only grow, gauges move both ways; durations are in seconds.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use carnet_base::Durations;

use crate::duration_figures::append_one;
use crate::protocol::Opcode;
use crate::protocol::error::ErrorCode;

/// Counter: a number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds an amount to the counter.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns the counter's value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gauge: the current number of items.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Counts one item until the guard is dropped.
    #[must_use]
    pub fn enter(&self) -> GaugeGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self)
    }

    /// Returns the gauge's value.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One item that a [`Gauge`] counts.
#[derive(Debug)]
pub struct GaugeGuard<'a>(&'a Gauge);

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Metrics of the server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Number of open CQL connections.
    pub connections: Gauge,
    /// Number of accepted CQL connections.
    pub connections_accepted: Counter,
    /// Number of CQL connections closed at once, because there were too many in total or from one
    /// address.
    pub connections_refused: Counter,
    /// Number of CQL connections in their TLS handshake, or waiting for its turn.
    pub tls_handshakes: Gauge,
    /// Number of CQL connections whose TLS handshake failed.
    pub tls_handshakes_failed: Counter,
    /// Number of decoded requests, by opcode.
    pub requests: PerRequest<Counter>,
    /// Duration of requests from their last byte to their answer's encoding, by opcode. Requests
    /// that the connection answers by itself are not timed.
    pub request_duration: PerRequest<Durations>,
    /// Number of statements in progress.
    pub requests_in_flight: Gauge,
    /// Number of statements of the dashboard's pages, which no other metric of requests counts.
    pub requests_watching: Counter,
    /// Duration for which statements kept their thread at a time.
    pub poll_duration: PerThreads<Durations>,
    /// Number of statements that moved to the threads of long statements.
    pub statements_long: Counter,
    /// Number of requests refused unread, because too many bytes were in flight.
    pub requests_shed: Counter,
    /// Number of queries without admission refused because answers held most of their memory.
    pub requests_shed_by_answers: Counter,
    /// Number of connections closed because they did not read answers while these held much memory.
    pub connections_stalled: Counter,
    /// Number of errors sent, by code.
    pub errors: PerError,
    /// Number of refused log-ins.
    pub logins_refused: Counter,
    /// Bytes received on CQL connections.
    pub received_bytes: Counter,
    /// Bytes sent on CQL connections.
    pub sent_bytes: Counter,
    /// Events sent to registered connections, counted once for each connection.
    pub events: Counter,
}

/// Kind of threads that run statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Threads of the connections.
    Connections,
    /// Threads of long statements.
    Long,
}

impl Threads {
    /// Both kinds, with their names in metrics.
    pub const ALL: [(Self, &str); 2] = [(Self::Connections, "connections"), (Self::Long, "long")];
}

/// One value for each kind of [`Threads`].
#[derive(Debug, Default)]
pub struct PerThreads<T>([T; Threads::ALL.len()]);

impl<T> PerThreads<T> {
    /// Returns the value of a kind.
    pub const fn get(&self, threads: Threads) -> &T {
        &self.0[threads as usize]
    }
}

/// One value for each request opcode.
#[derive(Debug, Default)]
pub struct PerRequest<T>([T; Opcode::REQUESTS.len()]);

impl<T> PerRequest<T> {
    /// Returns the value of an opcode. All opcodes of responses share the last value; none is
    /// requested.
    #[must_use]
    pub fn get(&self, opcode: Opcode) -> &T {
        let at = Opcode::REQUESTS.iter().position(|known| *known == opcode);
        &self.0[at.unwrap_or(self.0.len() - 1)]
    }
}

/// One counter for each error code.
#[derive(Debug, Default)]
pub struct PerError([Counter; ErrorCode::ALL.len()]);

impl PerError {
    /// Returns the counter of a code.
    #[must_use]
    pub fn get(&self, code: ErrorCode) -> &Counter {
        let at = ErrorCode::ALL.iter().position(|known| *known == code);
        &self.0[at.unwrap_or(0)]
    }
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    writeln!(out, "{name} {value}").expect("a string can be written to");
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
        .expect("a string can be written to");
}

impl Metrics {
    /// Writes all metrics. `request_bytes` is the used part of the byte budget.
    #[must_use]
    pub fn render(&self, request_bytes: usize) -> String {
        let mut out = String::new();
        let out = &mut out;
        let gauge = |out: &mut String, name: &str, help: &str, value: i64| {
            head(out, name, "gauge", help);
            line(out, name, value);
        };
        let counter = |out: &mut String, name: &str, help: &str, counter: &Counter| {
            head(out, name, "counter", help);
            line(out, name, counter.get());
        };

        let help = "CQL connections that are open.";
        gauge(out, "carnet_server_connections", help, self.connections.get());
        let help = "CQL connections accepted.";
        counter(out, "carnet_server_connections_accepted_total", help, &self.connections_accepted);
        let help = "CQL connections closed at once: too many in all or from one address.";
        counter(out, "carnet_server_connections_refused_total", help, &self.connections_refused);
        let help = "CQL connections in their TLS handshake, or waiting for its turn.";
        gauge(out, "carnet_server_tls_handshakes", help, self.tls_handshakes.get());
        let name = "carnet_server_tls_handshakes_failed_total";
        let help = "CQL connections whose TLS handshake failed, or that began without one.";
        counter(out, name, help, &self.tls_handshakes_failed);

        let name = "carnet_server_requests_total";
        head(out, name, "counter", "Requests understood, by opcode.");
        for opcode in Opcode::REQUESTS {
            line(out, &format!("{name}{{{}}}", label(opcode)), self.requests.get(opcode).get());
        }
        let name = "carnet_server_request_duration_seconds";
        head(out, name, "histogram", "From a statement's last byte to its answer's encoding.");
        for opcode in [Opcode::Query, Opcode::Prepare, Opcode::Execute, Opcode::Batch] {
            let durations = self.request_duration.get(opcode).counts();
            append_one(out, name, &label(opcode), &durations);
        }
        let name = "carnet_server_poll_duration_seconds";
        head(out, name, "histogram", "How long statements kept their thread at a time.");
        for (threads, label) in Threads::ALL {
            let durations = self.poll_duration.get(threads).counts();
            append_one(out, name, &format!("threads=\"{label}\""), &durations);
        }
        let name = "carnet_server_statements_long_total";
        let help = "Statements that ran on the threads of long statements.";
        counter(out, name, help, &self.statements_long);
        let help = "Statements in progress.";
        gauge(out, "carnet_server_requests_in_flight", help, self.requests_in_flight.get());
        let name = "carnet_server_dashboard_requests_total";
        let help = "Statements of the dashboard's pages, which the numbers of requests and errors and the durations leave out.";
        counter(out, name, help, &self.requests_watching);
        let help = "Bytes of requests that are not answered yet.";
        let bytes = i64::try_from(request_bytes).unwrap_or(i64::MAX);
        gauge(out, "carnet_server_request_bytes_in_flight", help, bytes);
        let help =
            "Connections closed because they did not read answers while these held much memory.";
        counter(out, "carnet_server_connections_stalled_total", help, &self.connections_stalled);

        let name = "carnet_server_errors_total";
        head(out, name, "counter", "Errors sent, by code.");
        for code in ErrorCode::ALL {
            let count = self.errors.get(code).get();
            line(out, &format!("{name}{{code=\"{}\"}}", code.name()), count);
        }
        let help = "Log-ins refused.";
        counter(out, "carnet_server_logins_refused_total", help, &self.logins_refused);
        let help = "Bytes received on CQL connections.";
        counter(out, "carnet_server_received_bytes_total", help, &self.received_bytes);
        let help = "Bytes sent on CQL connections.";
        counter(out, "carnet_server_sent_bytes_total", help, &self.sent_bytes);
        let help = "Events sent, counted once for each connection.";
        counter(out, "carnet_server_events_total", help, &self.events);
        std::mem::take(out)
    }
}

/// Appends the memory that parts of the server hold, by name.
pub(crate) fn append_memory(out: &mut String, memory: &[(&str, usize)]) {
    let name = "carnet_memory_bytes";
    head(out, name, "gauge", "Memory held, by part of the server.");
    for (owner, bytes) in memory {
        line(out, &format!("{name}{{owner=\"{owner}\"}}"), bytes);
    }
}

/// Returns a name as the value of a label.
pub(crate) fn label_value(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn label(opcode: Opcode) -> String {
    format!("opcode=\"{}\"", opcode.name().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_help_and_type() {
        let metrics = Metrics::default();
        metrics.requests.get(Opcode::Batch).add(3);
        metrics.errors.get(ErrorCode::Syntax).add(2);
        let text = metrics.render(42);
        assert!(text.contains("carnet_server_requests_total{opcode=\"batch\"} 3\n"));
        assert!(text.contains("carnet_server_errors_total{code=\"syntax\"} 2\n"));
        assert!(text.contains("carnet_server_request_bytes_in_flight 42\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name);
            assert!(text.contains(&format!("# HELP {family} ")), "{family}");
            assert!(text.contains(&format!("# TYPE {family} ")), "{family}");
        }
    }
}
