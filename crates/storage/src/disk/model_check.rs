//! Compares a disk with its model when a database is opened.

use std::time::Duration;

use carnet_base::{Clock, Result, Rng, SeededRng};

use super::{BulkReader, Disk, During, Place};
use crate::io::Model;

/// Maximum duration of the check.
const TIME_MAX: Duration = Duration::from_millis(200);

/// Number of reads after which the check ends.
const READS_MAX: usize = 100;

/// Minimum number of reads for a median.
const READS_MIN: usize = 20;

/// Size of a read in bytes.
const READ_BYTES: usize = 4096;

/// Maximum factor between the measured and the expected median latency of the same disk.
const FACTOR: u64 = 4;

/// Reads random pages of a file with direct I/O for at most 200 ms. Returns `false` if the latency
/// does not fit the model; `true` for files that are too short for the check.
///
/// # Errors
///
/// `Unavailable` if the disk fails.
pub(crate) fn fits(
    disk: &dyn Disk,
    clock: &dyn Clock,
    name: &str,
    bytes: u64,
    model: &Model,
) -> Result<bool> {
    let pages = bytes / READ_BYTES as u64;
    if model.read_median_nanos == 0 || pages < READS_MAX as u64 {
        return Ok(true);
    }
    let mut reader = BulkReader::open(disk, name).during("open", disk, name)?;
    let (mut rng, begun) = (SeededRng::new(bytes), clock.now());
    let mut latencies = Vec::new();
    while latencies.len() < READS_MAX {
        let before = clock.now();
        if before.since(begun) >= TIME_MAX {
            break;
        }
        let offset = rng.below(pages) * READ_BYTES as u64;
        reader.read(Place { offset, len: READ_BYTES }).during("read", disk, name)?;
        latencies.push(clock.now().since(before));
    }
    if latencies.len() < READS_MIN {
        // Each read took 10 ms or more.
        return Ok(model.read_median_nanos >= 10_000_000 / FACTOR);
    }
    latencies.sort_unstable();
    let median = u64::try_from(latencies[latencies.len() / 2].as_nanos()).unwrap_or(u64::MAX);
    let expected = model.read_median_nanos;
    Ok(median <= expected.saturating_mul(FACTOR) && median >= expected / FACTOR)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use carnet_base::{Moment, WallTime};

    use super::*;
    use crate::disk::sim::SimDisk;

    /// A clock that advances at each call.
    struct Ticking(Mutex<Moment>, Duration);

    impl Clock for Ticking {
        fn now(&self) -> Moment {
            let mut now = self.0.lock().unwrap();
            *now = now.after(self.1);
            *now
        }

        fn wall(&self) -> WallTime {
            WallTime(0)
        }
    }

    #[test]
    fn disk_of_another_latency_does_not_fit() {
        let disk = SimDisk::new(1);
        disk.plant("file", vec![0; 1 << 20]);
        let model = Model { read_median_nanos: 100_000, ..Model::UNMEASURED };
        let fits = |micros, bytes, model| {
            let clock = Ticking(Mutex::default(), Duration::from_micros(micros));
            let fits = fits(&disk, &clock, "file", bytes, &model).unwrap();
            let took = clock.0.lock().unwrap().0;
            // Each read takes two ticks: it begins and ends.
            let most = Duration::from_micros(micros * 201).min(Duration::from_millis(200));
            assert!(took <= most + Duration::from_micros(2 * micros), "{took:?}");
            fits
        };
        assert!(fits(100, 1 << 20, model) && fits(30, 1 << 20, model) && fits(300, 1 << 20, model));
        assert!(!fits(20, 1 << 20, model), "it is much faster");
        assert!(!fits(500, 1 << 20, model), "it is much slower");
        assert!(!fits(30_000, 1 << 20, model), "there is hardly time for a read");
        assert!(fits(500, 4096, model), "too little to read");
        assert!(fits(500, 1 << 20, Model::UNMEASURED), "nothing was measured");
    }
}
