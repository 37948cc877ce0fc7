//! Device model: the time that requests take.
//!
//! Each channel serves one request at a time, and a request uses the channel that is free first.
//! Reads and writes share the channels, so their combined throughput is bounded by the sum of their
//! shares; further requests queue.

use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};

use crate::io::{Combine, Direction, Model};

/// Properties of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Number of requests that are served at the same time.
    pub channels: usize,
    /// Duration of a read without the transfer of its bytes.
    pub read_latency: Duration,
    /// Duration of a write without the transfer of its bytes.
    pub write_latency: Duration,
    /// Transfer rate of each channel, in bytes per second.
    pub channel_bytes_per_second: u64,
    /// Maximum variation of a request's duration, up and down, in thousandths.
    pub jitter_permille: u64,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            channels: 4,
            read_latency: Duration::from_micros(80),
            write_latency: Duration::from_micros(20),
            channel_bytes_per_second: 125_000_000,
            jitter_permille: 100,
        }
    }
}

impl DeviceOptions {
    /// Returns the I/O scheduler's model of the device.
    #[must_use]
    pub fn model(&self) -> Model {
        let channels = self.channels as u64;
        let rate = channels * self.channel_bytes_per_second;
        let iops = |latency: Duration| {
            let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
            channels * 1_000_000_000 / nanos
        };
        Model {
            combine: Combine::Sum,
            read_iops: iops(self.read_latency),
            read_bytes_per_second: rate,
            write_iops: iops(self.write_latency),
            write_bytes_per_second: rate,
            residual_permille: 0,
            read_median_nanos: 0,
            read_p99_nanos: 0,
        }
    }
}

/// A device and its queue.
#[derive(Clone, Debug)]
pub struct Device {
    options: DeviceOptions,
    /// Time at which each channel is free.
    free: Vec<Moment>,
    /// Time from which durations are scaled, and the scale in thousandths.
    pace: (Moment, u32),
    rng: SeededRng,
}

impl Device {
    /// Makes an idle device.
    #[must_use]
    pub fn new(options: DeviceOptions, seed: u64) -> Self {
        let free = vec![Moment::default(); options.channels.max(1)];
        Self { options, free, pace: (Moment::default(), 1000), rng: SeededRng::new(seed) }
    }

    /// Adds a request; returns its completion time.
    pub fn begin(&mut self, direction: Direction, bytes: usize, now: Moment) -> Moment {
        let takes = self.takes(direction, bytes, now);
        let first = self.free.iter_mut().min().expect("there is at least one channel");
        *first = (*first).max(now).after(takes);
        *first
    }

    /// Stalls all channels for a duration.
    pub fn stall(&mut self, time: Duration, now: Moment) {
        for free in &mut self.free {
            *free = (*free).max(now).after(time);
        }
    }

    /// Scales the duration of requests that start at `from` or later by thousandths: 2000 halves
    /// the device's throughput.
    pub fn set_pace(&mut self, permille: u32, from: Moment) {
        self.pace = (from, permille);
    }

    fn takes(&mut self, direction: Direction, bytes: usize, now: Moment) -> Duration {
        let DeviceOptions { read_latency, write_latency, channel_bytes_per_second, .. } =
            self.options;
        let latency = match direction {
            Direction::Read => read_latency,
            Direction::Write => write_latency,
        };
        let moved = bytes as u128 * 1_000_000_000 / u128::from(channel_bytes_per_second.max(1));
        let takes = latency + Duration::from_nanos(u64::try_from(moved).unwrap_or(u64::MAX));
        let jitter = self.options.jitter_permille.min(999);
        let varied = 1000 - jitter + self.rng.below(2 * jitter + 1);
        let (from, pace) = self.pace;
        let pace = if now >= from { pace } else { 1000 };
        takes * u32::try_from(varied).unwrap_or(1000) / 1000 * pace / 1000
    }
}
