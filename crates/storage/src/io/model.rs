//! Model of a disk: the measured cost of requests.

use super::bucket::SECOND;
use super::request::{Direction, Request};

/// Combination of the two parts of a request's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The maximum of operation and transfer: the device overlaps them.
    Max,
    /// The sum of operation and transfer.
    Sum,
}

/// Model of a disk: the device time of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Combination of the parts of the cost.
    pub combine: Combine,
    /// Reads per second.
    pub read_iops: u64,
    /// Bytes read per second.
    pub read_bytes_per_second: u64,
    /// Writes per second.
    pub write_iops: u64,
    /// Bytes written per second.
    pub write_bytes_per_second: u64,
    /// Maximum error for the measured mixed loads, in thousandths.
    pub residual_permille: u32,
    /// Median latency of small reads on the idle disk, in nanoseconds.
    pub read_median_nanos: u64,
    /// 99th percentile of the latency of small reads on the idle disk, in nanoseconds.
    pub read_p99_nanos: u64,
}

/// A load of equal requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Direction of the requests.
    pub direction: Direction,
    /// Size of each request, in bytes.
    pub bytes: usize,
    /// Number of requests per second.
    pub per_second: f64,
}

impl Model {
    /// Costs without a measured model. Only their ratios matter then, because no request waits for
    /// tokens.
    pub const UNMEASURED: Self = Self {
        combine: Combine::Sum,
        read_iops: 10_000,
        read_bytes_per_second: 500 << 20,
        write_iops: 10_000,
        write_bytes_per_second: 500 << 20,
        residual_permille: 0,
        read_median_nanos: 0,
        read_p99_nanos: 0,
    };

    /// Returns the device time of a request in nanoseconds, at least 1.
    #[must_use]
    pub fn cost_nanos(&self, request: &Request) -> u64 {
        let (iops, rate) = match request.direction {
            Direction::Read => (self.read_iops, self.read_bytes_per_second),
            Direction::Write => (self.write_iops, self.write_bytes_per_second),
        };
        let operation = SECOND / iops.max(1);
        let bytes = request.bytes as u128 * u128::from(SECOND) / u128::from(rate.max(1));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self.combine {
            Combine::Max => operation.max(bytes),
            Combine::Sum => operation.saturating_add(bytes),
        }
        .max(1)
    }

    /// Fits a model to loads that saturated a disk: for each direction one of small and one of
    /// large requests, and mixed loads, from which [`Combine`] and the residual are determined.
    /// Read latencies are not set.
    ///
    /// Returns `None` if a load is zero, or larger requests were not slower.
    #[must_use]
    pub fn fit(corners: &[Flow; 4], mixed: &[Vec<Flow>]) -> Option<Self> {
        let fits = [Combine::Max, Combine::Sum].into_iter().filter_map(|combine| {
            let mut model = Self::of_corners(combine, corners)?;
            let residual = mixed.iter().map(|load| (model.load(load) - 1.0).abs());
            model.residual_permille =
                whole(residual.fold(0.0, f64::max) * 1000.0)?.try_into().ok()?;
            Some(model)
        });
        fits.min_by_key(|model| model.residual_permille)
    }

    fn of_corners(combine: Combine, corners: &[Flow; 4]) -> Option<Self> {
        let [small_read, large_read, small_write, large_write] = corners;
        let (read_iops, read_bytes_per_second) = rates(combine, small_read, large_read)?;
        let (write_iops, write_bytes_per_second) = rates(combine, small_write, large_write)?;
        Some(Self {
            combine,
            read_iops,
            read_bytes_per_second,
            write_iops,
            write_bytes_per_second,
            ..Self::UNMEASURED
        })
    }

    /// Returns the fraction of the disk's time that a load takes: 1 if it saturates the disk.
    #[must_use]
    pub fn load(&self, load: &[Flow]) -> f64 {
        let part = |flow: &Flow| {
            let (iops, rate) = match flow.direction {
                Direction::Read => (self.read_iops, self.read_bytes_per_second),
                Direction::Write => (self.write_iops, self.write_bytes_per_second),
            };
            let (operation, bytes) = (1.0 / float(iops), flow.bytes as f64 / float(rate));
            let cost = match self.combine {
                Combine::Max => operation.max(bytes),
                Combine::Sum => operation + bytes,
            };
            flow.per_second * cost
        };
        load.iter().map(part).sum()
    }
}

/// Computes operations and bytes per second.
fn rates(combine: Combine, small: &Flow, large: &Flow) -> Option<(u64, u64)> {
    let (small_time, large_time) = (1.0 / small.per_second, 1.0 / large.per_second);
    let (operation, byte) = match combine {
        Combine::Max => (small_time, large_time / large.bytes as f64),
        Combine::Sum => {
            let byte = (large_time - small_time) / (large.bytes as f64 - small.bytes as f64);
            (small_time - byte * small.bytes as f64, byte)
        }
    };
    if !(operation > 0.0 && byte > 0.0) {
        return None;
    }
    Some((whole(1.0 / operation)?.max(1), whole(1.0 / byte)?.max(1)))
}

#[expect(clippy::cast_precision_loss, reason = "the precision suffices for a rate")]
fn float(rate: u64) -> f64 {
    rate as f64
}

fn whole(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (0.0..1e15).contains(&value).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(direction: Direction, bytes: usize, per_second: f64) -> Flow {
        Flow { direction, bytes, per_second }
    }

    /// Returns loads of a disk that overlaps operations and transfers, or does not.
    fn measured(overlaps: bool) -> ([Flow; 4], Vec<Vec<Flow>>) {
        let time = |direction, bytes: usize| {
            let (operation, rate) = match direction {
                Direction::Read => (50e-6, 400e6),
                Direction::Write => (100e-6, 200e6),
            };
            let moved = bytes as f64 / rate;
            if overlaps { f64::max(operation, moved) } else { operation + moved }
        };
        let alone = |direction, bytes| flow(direction, bytes, 1.0 / time(direction, bytes));
        let half = |direction, bytes| flow(direction, bytes, 0.5 / time(direction, bytes));
        let (read, write) = (Direction::Read, Direction::Write);
        let corners =
            [alone(read, 4096), alone(read, 131_072), alone(write, 4096), alone(write, 131_072)];
        let mixed = vec![
            vec![half(read, 4096), half(write, 131_072)],
            vec![half(read, 16_384), half(write, 16_384)],
            vec![half(read, 32_768), half(write, 4096)],
        ];
        (corners, mixed)
    }

    #[test]
    fn calibration_chooses_the_fitting_combination() {
        for (overlaps, combine) in [(true, Combine::Max), (false, Combine::Sum)] {
            let (corners, mixed) = measured(overlaps);
            let model = Model::fit(&corners, &mixed).unwrap();
            assert_eq!(model.combine, combine);
            assert!(model.residual_permille <= 1, "{model:?}");
            assert!(model.read_iops.abs_diff(20_000) < 3 && model.write_iops.abs_diff(10_000) < 3);
            assert!(model.read_bytes_per_second.abs_diff(400_000_000) < 2_000);
        }
    }

    #[test]
    fn impossible_measurements_give_no_model() {
        let (corners, mixed) = measured(false);
        let mut zero = corners;
        zero[1].per_second = 0.0;
        assert_eq!(Model::fit(&zero, &mixed), None);
        let mut nan = corners;
        nan[2].per_second = f64::NAN;
        assert_eq!(Model::fit(&nan, &mixed), None);
    }

    #[test]
    fn cost_is_device_time() {
        let model = Model { combine: Combine::Sum, ..Model::UNMEASURED };
        let (direction, bytes) = (Direction::Read, 500 << 20);
        let request = Request { direction, bytes, deadline: Default::default(), splits: false };
        assert_eq!(model.cost_nanos(&request), SECOND + 100_000);
        assert_eq!(Model { combine: Combine::Max, ..model }.cost_nanos(&request), SECOND);
    }
}
