//! Simulated disk whose operations take the time of a [`Device`].
//!
//! A [`File::read`](crate::disk::File::read) is pending until the device has completed it. Blocking
//! operations occupy the device and return at once, because their thread is shared with others: a
//! worker pauses afterwards, see [`Turns::pause`](crate::io::Turns::pause).

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Timer};

use super::SimDisk;
use super::device::{Device, DeviceOptions};
use super::timed_device::{InDevice, Timed};
use crate::io::{Direction, Watch};
use crate::lock::lock;

impl SimDisk {
    /// Sets a device: from now on operations take time. The seed determines their variation.
    pub fn set_device(
        &self,
        options: DeviceOptions,
        seed: u64,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn Timer>,
    ) {
        let device = Device::new(options, seed);
        *lock(&self.0.timed) = Some(Timed { device, clock, timer, watch: None });
    }

    /// Stalls the device for a duration. Ignored without a device.
    pub fn stall_device(&self, time: Duration) {
        if let Some(timed) = &mut *lock(&self.0.timed) {
            timed.device.stall(time, timed.clock.now());
        }
    }

    /// Scales the duration of requests from now on, in thousandths; see [`Device::set_pace`].
    /// Ignored without a device.
    pub fn set_device_pace(&self, permille: u32) {
        if let Some(timed) = &mut *lock(&self.0.timed) {
            timed.device.set_pace(permille, timed.clock.now());
        }
    }

    pub(super) fn watch_device(&self, watch: Arc<dyn Watch>) {
        if let Some(timed) = &mut *lock(&self.0.timed) {
            timed.watch = Some(watch);
        }
    }

    /// Occupies the device, if there is one.
    pub(super) fn occupy(&self, direction: Direction, bytes: usize) {
        if let Some(timed) = &mut *lock(&self.0.timed) {
            let now = timed.clock.now();
            timed.device.begin(direction, bytes, now);
        }
    }

    /// Starts a read in the device, if there is one.
    pub(super) fn begin_read(&self, bytes: usize) -> Option<InDevice> {
        let mut timed = lock(&self.0.timed);
        let Timed { device, clock, timer, watch } = timed.as_mut()?;
        let begun = clock.now();
        let done = device.begin(Direction::Read, bytes, begun);
        Some(InDevice { wait: timer.wait(done.since(begun)), begun, bytes, watch: watch.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use carnet_base::{Moment, Wait, WallTime};

    use super::*;
    use crate::disk::{Disk, ReadFuture};

    /// A clock that the test advances; waits are polled and not woken.
    #[derive(Clone, Default)]
    struct Virtual(Arc<Mutex<Moment>>);

    impl Virtual {
        fn pass(&self, micros: u64) {
            let mut now = lock(&self.0);
            *now = now.after(Duration::from_micros(micros));
        }
    }

    impl Clock for Virtual {
        fn now(&self) -> Moment {
            *lock(&self.0)
        }

        fn wall(&self) -> WallTime {
            WallTime(0)
        }
    }

    impl Timer for Virtual {
        fn now(&self) -> Moment {
            *lock(&self.0)
        }

        fn wait(&self, wait: Duration) -> Wait {
            let (clock, until) = (self.clone(), lock(&self.0).after(wait));
            Box::pin(std::future::poll_fn(move |_| match *lock(&clock.0) >= until {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }))
        }
    }

    fn is_done(read: &mut ReadFuture) -> bool {
        read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Makes a disk with one channel: reads of 4 KiB take 121 µs, writes of 100 KB 1,020 µs.
    fn disk(clock: &Virtual) -> SimDisk {
        let disk = SimDisk::new(1);
        disk.plant("file", vec![7; 1 << 20]);
        let options = DeviceOptions {
            channels: 1,
            channel_bytes_per_second: 100_000_000,
            jitter_permille: 0,
            ..DeviceOptions::default()
        };
        disk.set_device(options, 1, Arc::new(clock.clone()), Arc::new(clock.clone()));
        disk
    }

    #[test]
    fn device_serves_reads_in_order() {
        let clock = Virtual::default();
        let file = disk(&clock).open("file").unwrap();
        let [mut one, mut two] = [0, 4096].map(|at| Arc::clone(&file).read(at, 4096));
        clock.pass(120);
        assert!(!is_done(&mut one));
        clock.pass(1);
        assert!(is_done(&mut one) && !is_done(&mut two));
        clock.pass(121);
        assert!(is_done(&mut two));
    }

    #[test]
    fn reads_wait_for_writes_and_stalls() {
        let clock = Virtual::default();
        let disk = disk(&clock);
        let file = disk.open("file").unwrap();
        let takes = |micros: u64| {
            let mut read = Arc::clone(&file).read(0, 4096);
            clock.pass(micros - 1);
            assert!(!is_done(&mut read), "it took less than {micros} µs");
            clock.pass(1);
            assert!(is_done(&mut read), "it took more than {micros} µs");
        };
        takes(121);
        file.write_at(&[1; 100_000], 0).unwrap();
        takes(1_020 + 121);
        disk.stall_device(Duration::from_millis(50));
        takes(50_000 + 121);
        disk.set_device_pace(2000);
        takes(242);
    }
}
