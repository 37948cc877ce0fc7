//! A service level and its options.

use std::fmt;
use std::time::Duration;

use carnet_base::{Error, Result};

use crate::{LevelLimits, SHARES_DEFAULT, Workload};

/// Options of a service level. An option that is not set takes the server's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLevel {
    /// Timeout of a statement, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// Handling of statements under overload; `None` if each statement decides.
    pub workload_type: Option<Workload>,
    /// Weight relative to other levels, from 1 to 1000.
    pub shares: u32,
    /// Maximum number of running statements per class.
    pub max_concurrency: Option<usize>,
    /// Maximum number of queued statements per class.
    pub max_queue: Option<usize>,
    /// Maximum time in the queue under overload, in whole milliseconds.
    pub shed_after: Option<Duration>,
    /// Memory of a statement in bytes above which a warning is logged.
    pub memory_soft: Option<u64>,
    /// Memory of a statement in bytes above which the statement fails.
    pub memory_hard: Option<u64>,
}

impl Default for ServiceLevel {
    fn default() -> Self {
        Self {
            timeout: None,
            workload_type: None,
            shares: SHARES_DEFAULT,
            max_concurrency: None,
            max_queue: None,
            shed_after: None,
            memory_soft: None,
            memory_hard: None,
        }
    }
}

/// An option of a level and its value; `None` resets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The option `timeout`.
    Timeout(Option<Duration>),
    /// The option `workload_type`.
    WorkloadType(Option<Workload>),
    /// The option `shares`.
    Shares(Option<u32>),
    /// The option `max_concurrency`.
    MaxConcurrency(Option<usize>),
    /// The option `max_queue`.
    MaxQueue(Option<usize>),
    /// The option `shed_after`.
    ShedAfter(Option<Duration>),
    /// The option `memory_soft`.
    MemorySoft(Option<u64>),
    /// The option `memory_hard`.
    MemoryHard(Option<u64>),
}

impl Setting {
    /// Returns the name of the option.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::WorkloadType(_) => "workload_type",
            Self::Shares(_) => "shares",
            Self::MaxConcurrency(_) => "max_concurrency",
            Self::MaxQueue(_) => "max_queue",
            Self::ShedAfter(_) => "shed_after",
            Self::MemorySoft(_) => "memory_soft",
            Self::MemoryHard(_) => "memory_hard",
        }
    }

    /// Returns the value as text; `None` if the option is not set.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        match self {
            Self::Timeout(time) | Self::ShedAfter(time) => time.map(|time| Shown(time).to_string()),
            Self::WorkloadType(workload) => workload.map(|workload| workload.name().to_owned()),
            Self::Shares(shares) => shares.map(|shares| shares.to_string()),
            Self::MaxConcurrency(count) | Self::MaxQueue(count) => {
                count.map(|count| count.to_string())
            }
            Self::MemorySoft(bytes) | Self::MemoryHard(bytes) => {
                bytes.map(|bytes| bytes.to_string())
            }
        }
    }
}

impl ServiceLevel {
    /// Sets or resets an option.
    pub const fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Timeout(timeout) => self.timeout = timeout,
            Setting::WorkloadType(workload) => self.workload_type = workload,
            Setting::Shares(Some(shares)) => self.shares = shares,
            Setting::Shares(None) => self.shares = SHARES_DEFAULT,
            Setting::MaxConcurrency(count) => self.max_concurrency = count,
            Setting::MaxQueue(count) => self.max_queue = count,
            Setting::ShedAfter(time) => self.shed_after = time,
            Setting::MemorySoft(bytes) => self.memory_soft = bytes,
            Setting::MemoryHard(bytes) => self.memory_hard = bytes,
        }
    }

    /// Returns every option with its value.
    #[must_use]
    pub const fn settings(&self) -> [Setting; 8] {
        [
            Setting::Timeout(self.timeout),
            Setting::WorkloadType(self.workload_type),
            Setting::Shares(Some(self.shares)),
            Setting::MaxConcurrency(self.max_concurrency),
            Setting::MaxQueue(self.max_queue),
            Setting::ShedAfter(self.shed_after),
            Setting::MemorySoft(self.memory_soft),
            Setting::MemoryHard(self.memory_hard),
        ]
    }

    /// Checks the values of all options.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the name of the option.
    pub fn check(&self) -> Result<()> {
        if !(1..=SHARES_DEFAULT).contains(&self.shares) {
            return Err(Error::invalid(format!(
                "'SHARES' can only take values of 1-1000 (given {})",
                self.shares
            )));
        }
        for (name, time) in [("timeout", self.timeout), ("shed_after", self.shed_after)] {
            check_time(name, time)?;
        }
        if self.max_concurrency == Some(0) {
            return Err(Error::invalid("max_concurrency has to be at least 1"));
        }
        match (self.memory_soft, self.memory_hard) {
            (_, Some(0)) => Err(Error::invalid("memory_hard has to be at least 1 byte")),
            (Some(soft), Some(hard)) if soft > hard => Err(Error::invalid(format!(
                "memory_soft ({soft} bytes) is larger than memory_hard ({hard} bytes)"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the level's limits at the admission gate.
    #[must_use]
    pub const fn limits(&self) -> LevelLimits {
        LevelLimits {
            shares: self.shares,
            running_max: self.max_concurrency,
            queue_max: self.max_queue,
            shed_after: self.shed_after,
        }
    }

    /// Merges two levels of the same user: the smaller value of every number, a set option before
    /// an unset one, and batch before interactive.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let workload = |workload| match workload {
            Workload::Batch => 0,
            Workload::Interactive => 1,
            Workload::Unspecified => 2,
        };
        let workloads = self.workload_type.into_iter().chain(other.workload_type);
        Self {
            timeout: least(self.timeout, other.timeout),
            workload_type: workloads.min_by_key(|one| workload(*one)),
            shares: self.shares.min(other.shares),
            max_concurrency: least(self.max_concurrency, other.max_concurrency),
            max_queue: least(self.max_queue, other.max_queue),
            shed_after: least(self.shed_after, other.shed_after),
            memory_soft: least(self.memory_soft, other.memory_soft),
            memory_hard: least(self.memory_hard, other.memory_hard),
        }
    }
}

/// Returns the smaller of the values that are set.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

/// Maximum of a time option, that of a CQL duration in nanoseconds.
const TIME_MAX: Duration = Duration::from_nanos(i64::MAX as u64);

fn check_time(name: &str, time: Option<Duration>) -> Result<()> {
    let Some(time) = time else { return Ok(()) };
    if time.subsec_nanos() % 1_000_000 != 0 {
        return Err(Error::invalid(format!(
            "{name} values cannot have granularity finer than milliseconds"
        )));
    }
    if time > TIME_MAX {
        return Err(Error::invalid(format!("{name} is too long")));
    }
    Ok(())
}

/// A time in whole milliseconds, in the notation of CQL durations.
struct Shown(Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_millis();
        if left == 0 {
            return f.write_str("0ms");
        }
        for (unit, millis) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
            if left >= millis {
                write!(f, "{}{unit}", left / millis)?;
                left %= millis;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_level_takes_the_documented_values() {
        let millis = |millis| Some(Duration::from_millis(millis));
        let one = ServiceLevel {
            timeout: millis(500),
            shares: 300,
            max_queue: Some(7),
            ..ServiceLevel::default()
        };
        let other = ServiceLevel {
            timeout: millis(100),
            workload_type: Some(Workload::Interactive),
            shares: 900,
            memory_hard: Some(9),
            ..ServiceLevel::default()
        };
        let merged = ServiceLevel {
            timeout: millis(100),
            workload_type: Some(Workload::Interactive),
            shares: 300,
            max_queue: Some(7),
            memory_hard: Some(9),
            ..ServiceLevel::default()
        };
        assert_eq!((one.merge(&other), other.merge(&one)), (merged, merged));
        let batch = ServiceLevel { workload_type: Some(Workload::Batch), ..one };
        assert_eq!(batch.merge(&other).workload_type, Some(Workload::Batch));
        assert_eq!(other.merge(&batch).workload_type, Some(Workload::Batch));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let with = |setting| {
            let mut level = ServiceLevel::default();
            level.set(setting);
            level.check()
        };
        assert!(with(Setting::Shares(Some(0))).is_err());
        assert!(with(Setting::Shares(Some(1001))).is_err());
        assert!(with(Setting::MaxConcurrency(Some(0))).is_err());
        assert!(with(Setting::MemoryHard(Some(0))).is_err());
        assert!(with(Setting::Timeout(Some(Duration::from_micros(1500)))).is_err());
        assert!(with(Setting::Timeout(Some(Duration::MAX))).is_err());
        assert!(with(Setting::Timeout(Some(Duration::ZERO))).is_ok());
        assert!(with(Setting::MaxQueue(Some(0))).is_ok());
        let both =
            ServiceLevel { memory_soft: Some(2), memory_hard: Some(1), ..ServiceLevel::default() };
        assert!(both.check().is_err());
    }

    #[test]
    fn reset_options_have_their_defaults() {
        let mut level = ServiceLevel::default();
        let other = ServiceLevel { shares: 7, ..level };
        other.settings().into_iter().for_each(|setting| level.set(setting));
        assert_eq!(level.shares, 7);
        level.set(Setting::Shares(None));
        assert_eq!(level, ServiceLevel::default());
    }

    #[test]
    fn times_are_written_as_durations() {
        for (millis, text) in [(0, "0ms"), (500, "500ms"), (61_500, "1m1s500ms"), (7_200_000, "2h")]
        {
            let setting = Setting::Timeout(Some(Duration::from_millis(millis)));
            assert_eq!(setting.value().as_deref(), Some(text));
        }
    }
}
