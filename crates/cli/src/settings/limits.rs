//! Settings of admission and of statement timeouts.

use std::thread::available_parallelism;
use std::time::Duration;

use carnet_admission::{AdmissionLimits, GateLimits};
use carnet_cql::{OpenLimits, Timeouts, WarnThresholds};

use super::units::{bytes, scaled};

/// Maximum number of running, and of waiting, statements of a kind.
const COUNT_MAX: usize = 1_000_000;
/// Maximum time in milliseconds: one day.
const MILLIS_MAX: u64 = 86_400_000;

/// Limits that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) running: Option<usize>,
    pub(crate) queue: Option<usize>,
    pub(crate) queue_bytes: Option<usize>,
    pub(crate) shed_after: Option<Duration>,
    pub(crate) statement_timeout: Option<Duration>,
    pub(crate) scan_timeout: Option<Duration>,
    pub(crate) schema_timeout: Option<Duration>,
    pub(crate) transactions: Option<usize>,
    pub(crate) transactions_per_client: Option<usize>,
    pub(crate) requests_per_client: Option<u32>,
    pub(crate) transaction_idle_timeout: Option<Duration>,
    pub(crate) batch_size_warn_threshold: Option<usize>,
    pub(crate) unlogged_batch_across_partitions_warn_threshold: Option<usize>,
    pub(crate) tombstone_warn_threshold: Option<usize>,
}

impl Limits {
    pub(super) fn take(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "running" => self.running = Some(count(text)?),
            "queue" => self.queue = Some(count(text)?),
            "queue_memory" => self.queue_bytes = Some(bytes(text)?),
            "shed_after" => self.shed_after = Some(time(text)?),
            "statement_timeout" => self.statement_timeout = Some(time(text)?),
            "scan_timeout" => self.scan_timeout = Some(time(text)?),
            "schema_timeout" => self.schema_timeout = Some(time(text)?),
            "transactions" => self.transactions = Some(count(text)?),
            "transactions_per_client" => self.transactions_per_client = Some(count(text)?),
            "requests_per_client" => {
                self.requests_per_client = u32::try_from(count(text)?).ok();
            }
            "transaction_idle_timeout" => self.transaction_idle_timeout = Some(time(text)?),
            "batch_size_warn_threshold" => self.batch_size_warn_threshold = Some(bytes(text)?),
            "unlogged_batch_across_partitions_warn_threshold" => {
                self.unlogged_batch_across_partitions_warn_threshold = Some(count(text)?);
            }
            "tombstone_warn_threshold" => self.tombstone_warn_threshold = Some(count(text)?),
            name => unreachable!("limits.{name} is known and not taken"),
        }
        Ok(())
    }

    /// Returns the admission limits for this machine.
    pub(crate) fn admission(&self) -> AdmissionLimits {
        let processors = available_parallelism().map_or(1, usize::from);
        let AdmissionLimits { statements, system } = AdmissionLimits::of_server(processors);
        let gate = |default: GateLimits| GateLimits {
            running_max: self.running.unwrap_or(default.running_max),
            queue_max: self.queue.unwrap_or(default.queue_max),
            queue_bytes_max: self.queue_bytes.unwrap_or(default.queue_bytes_max),
            ..default
        };
        let shed_after = self.shed_after.unwrap_or(statements.shed_after);
        AdmissionLimits {
            statements: GateLimits { shed_after, ..gate(statements) },
            system: gate(system),
        }
    }

    /// Returns the limits of transactions that stay open between statements.
    pub(crate) fn open_transactions(&self) -> OpenLimits {
        let default = OpenLimits::default();
        OpenLimits {
            transactions_max: self.transactions.unwrap_or(default.transactions_max),
            per_client_max: self.transactions_per_client,
            idle_timeout: self.transaction_idle_timeout.unwrap_or(default.idle_timeout),
        }
    }

    /// Returns the sizes above which answers come with warnings.
    pub(crate) fn warn_thresholds(&self) -> WarnThresholds {
        let default = WarnThresholds::default();
        let wide = |given: Option<usize>, default| given.map_or(default, |given| given as u64);
        WarnThresholds {
            batch_bytes: wide(self.batch_size_warn_threshold, default.batch_bytes),
            unlogged_partitions: self
                .unlogged_batch_across_partitions_warn_threshold
                .unwrap_or(default.unlogged_partitions),
            tombstones: wide(self.tombstone_warn_threshold, default.tombstones),
        }
    }

    /// Returns the statement timeouts.
    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts {
            statement: self.statement_timeout.unwrap_or(Duration::from_secs(5)),
            scan: self.scan_timeout.unwrap_or(Duration::from_secs(60)),
            schema: self.schema_timeout.unwrap_or(Duration::from_secs(60)),
        }
    }
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {COUNT_MAX}"))
}

/// Parses a time with its unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    match scaled(text, &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]) {
        Some(millis @ 1..=MILLIS_MAX) => Ok(Duration::from_millis(millis)),
        Some(_) => Err("expected a time from 1ms to 24h".into()),
        None => Err("expected a time such as 50ms, 5s or 2m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        let mut limits = Limits::default();
        for (name, text) in [("running", "16"), ("queue", "1"), ("shed_after", "1ms")] {
            limits.take(name, text).unwrap();
        }
        limits.take("queue_memory", "4MiB").unwrap();
        limits.take("transactions", "10").unwrap();
        limits.take("transactions_per_client", "2").unwrap();
        limits.take("transaction_idle_timeout", "90s").unwrap();
        let expected = OpenLimits {
            transactions_max: 10,
            per_client_max: Some(2),
            idle_timeout: Duration::from_secs(90),
        };
        assert_eq!(limits.open_transactions(), expected);
        let admission = limits.admission();
        assert_eq!(admission.statements.running_max, 16);
        assert_eq!(admission.system.running_max, 16);
        assert_eq!(admission.statements.queue_bytes_max, 4 << 20);
        assert_eq!(admission.statements.shed_after, Duration::from_millis(1));
        assert_eq!(admission.system.shed_after, Duration::from_secs(2));
        assert_eq!(limits.timeouts().scan, Duration::from_secs(60));
        for (name, text) in [
            ("running", "0"),
            ("running", "many"),
            ("queue", "1000001"),
            ("queue_memory", "16"),
            ("shed_after", "0ms"),
            ("scan_timeout", "25h"),
            ("statement_timeout", "5"),
            ("transactions", "0"),
            ("transaction_idle_timeout", "5"),
        ] {
            assert!(limits.take(name, text).is_err(), "{name} = {text}");
        }
    }
}
