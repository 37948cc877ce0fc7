//! A device with channels: the time that requests take.
//!
//! Each channel serves one request at a time, and a request takes the first free one. Reads and writes share
//! the channels, so that together they get what lies on a diagonal between what each gets alone; beyond it
//! requests queue.

use std::time::Duration;

use carnet_base::{Moment, Rng, SeededRng};

use crate::io::{Combine, Direction, Model};

/// What a device is like.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Requests that are served at the same time.
    pub channels: usize,
    /// Time that a read takes beside its bytes.
    pub read_latency: Duration,
    /// Time that a write takes beside its bytes.
    pub write_latency: Duration,
    /// Bytes that each channel moves a second.
    pub channel_bytes_per_second: u64,
    /// By how many parts in a thousand the time of a request varies, both ways.
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
    /// Returns the model that fits the device.
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

/// A device and what it has to do.
#[derive(Clone, Debug)]
pub struct Device {
    options: DeviceOptions,
    /// When each channel is free.
    free: Vec<Moment>,
    /// From when on requests take how many parts in a thousand of their time.
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

    /// Takes a request; returns when it is done.
    pub fn begin(&mut self, direction: Direction, bytes: usize, now: Moment) -> Moment {
        let takes = self.takes(direction, bytes, now);
        let first = self.free.iter_mut().min().expect("there is at least one channel");
        *first = (*first).max(now).after(takes);
        *first
    }

    /// Has no channel serve anything for a time.
    pub fn stall(&mut self, time: Duration, now: Moment) {
        for free in &mut self.free {
            *free = (*free).max(now).after(time);
        }
    }

    /// Has requests that begin from a moment on take so many parts in a thousand of their time: 2000 halves
    /// the device's rate.
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
