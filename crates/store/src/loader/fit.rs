//! Cost model of reads at one parallelism, fitted to measured reads.
//!
//! A read of N cells by p lanes in w waves of batches of b cells takes about
//!
//! ```text
//!   T = cell · N/p  +  batch · w  +  late · b
//! ```
//!
//! The terms are the cost of its cells, the cost of its batches, and the lateness of the last lane,
//! which ends a part of a batch after the others. Each cell of a lane costs `cell + batch / b +
//! late / w`. The fit is least squares of relative errors, over reads with decaying weight.

/// Prior of a new curve: cost of a batch, in cells.
const BATCH_CELLS: f64 = 32.0;

/// Prior of a new curve: lateness of the last lane, as a part of a batch.
const LATE_PART: f64 = 0.3;

/// Weight of the two priors, in reads.
const ASSUMED_READS: f64 = 0.3;

/// Number of reads that a curve remembers.
const MEMORY_READS: f64 = 40.0;

/// Weight of a faded curve, in reads.
const FADED_READS: f64 = 2.0;

/// Maximum ratio of a read's time to the expected time; longer times are truncated, because a pause
/// is an exception.
const SURPRISE_MAX: f64 = 1.5;

/// Sums with decaying weight: the normal equations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fit {
    reads: f64,
    matrix: [[f64; 3]; 3],
    right: [f64; 3],
    /// The row of the last read: the factors of the three costs.
    last: [f64; 3],
}

/// Costs of a read, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) cell: f64,
    pub(crate) batch: f64,
    pub(crate) late: f64,
}

impl Costs {
    /// Returns the seconds for each cell of a lane.
    pub(crate) fn each(&self, batch_cells: f64, waves: f64) -> f64 {
        self.cell + self.batch / batch_cells + self.late / waves
    }
}

impl Fit {
    /// Adds a read with its seconds for each cell of a lane; returns the ratio to the expected
    /// time.
    pub(crate) fn add(&mut self, each: f64, batch_cells: f64, waves: f64) -> f64 {
        let expected = self.costs().map(|costs| costs.each(batch_cells, waves));
        let surprise = expected.map_or(1.0, |expected| each / expected);
        let each = each / surprise.max(SURPRISE_MAX) * SURPRISE_MAX;
        self.scale(1.0 - 1.0 / MEMORY_READS);
        self.reads += 1.0;
        let row = [1.0 / each, 1.0 / (batch_cells * each), 1.0 / (waves * each)];
        self.last = row;
        accumulate(&mut self.matrix, row);
        for (sum, part) in self.right.iter_mut().zip(row) {
            *sum += part;
        }
        surprise
    }

    /// Reduces the weight of past reads, so that a few new ones outweigh them.
    pub(crate) fn fade(&mut self) {
        self.scale(FADED_READS / self.reads.max(FADED_READS));
    }

    /// Doubles all expected times.
    pub(crate) fn double(&mut self) {
        self.matrix.as_flattened_mut().iter_mut().for_each(|sum| *sum /= 4.0);
        self.right.iter_mut().for_each(|sum| *sum /= 2.0);
        self.last = self.last.map(|part| part / 2.0);
    }

    /// Returns the costs; `None` before the first read.
    pub(crate) fn costs(&self) -> Option<Costs> {
        if self.reads == 0.0 {
            return None;
        }
        // Add the priors batch = BATCH_CELLS · cell and late = LATE_PART · cell, in the form of two
        // reads like the last one: reads of one kind alone do not determine the three costs.
        let [cells, batches, lates] = self.last.map(|part| part * ASSUMED_READS.sqrt());
        let mut matrix = self.matrix;
        accumulate(&mut matrix, [-batches * BATCH_CELLS, batches, 0.0]);
        accumulate(&mut matrix, [-lates * LATE_PART, 0.0, lates]);
        let [cell, batch, late] = solve(matrix, self.right)?;
        // No cost is zero.
        let least = cell.max(1e-3 * ASSUMED_READS.sqrt() / cells);
        let (batch, late) = (batch.max(least * 1e-2), late.max(least * 1e-3));
        let [[cells, batches, lates], ..] = self.matrix;
        let cell = (self.right[0] - batches * batch - lates * late) / cells;
        Some(Costs { cell: cell.max(least * 1e-3), batch, late })
    }

    fn scale(&mut self, part: f64) {
        self.reads *= part;
        self.matrix.as_flattened_mut().iter_mut().for_each(|sum| *sum *= part);
        self.right.iter_mut().for_each(|sum| *sum *= part);
    }
}

/// Adds the products of a row with itself.
fn accumulate(matrix: &mut [[f64; 3]; 3], row: [f64; 3]) {
    for (line, a) in matrix.iter_mut().zip(row) {
        for (sum, b) in line.iter_mut().zip(row) {
            *sum += a * b;
        }
    }
}

/// Solves three equations by Cramer's rule; `None` if they do not determine three unknowns.
fn solve(matrix: [[f64; 3]; 3], right: [f64; 3]) -> Option<[f64; 3]> {
    let whole = determinant(&matrix);
    let solved = [0, 1, 2].map(|column| {
        let mut replaced = matrix;
        for (line, value) in replaced.iter_mut().zip(right) {
            line[column] = value;
        }
        determinant(&replaced) / whole
    });
    solved.iter().all(|value| value.is_finite()).then_some(solved)
}

fn determinant([a, b, c]: &[[f64; 3]; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { cell: 1e-5, batch: 2e-3, late: 4e-6 };

    const READS: [(f64, f64); 4] = [(1000.0, 1.0), (500.0, 2.0), (100.0, 10.0), (100.0, 1.0)];

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.1 * b
    }

    /// Returns a curve through a number of reads.
    fn fit(reads: usize, each: impl Fn(usize, f64, f64) -> f64) -> Fit {
        let mut fit = Fit::default();
        for (n, (batch, waves)) in READS.iter().cycle().take(reads).enumerate() {
            fit.add(each(n, *batch, *waves), *batch, *waves);
        }
        fit
    }

    #[test]
    fn reads_of_several_kinds_tell_the_costs_apart() {
        let costs = fit(60, |_, batch, waves| COSTS.each(batch, waves)).costs().unwrap();
        assert!(is_near(costs.cell, COSTS.cell), "{costs:?}");
        assert!(is_near(costs.batch, COSTS.batch), "{costs:?}");
        assert!((costs.late - COSTS.late).abs() < 0.3 * COSTS.late, "{costs:?}");
    }

    #[test]
    fn reads_of_one_kind_predict_that_kind() {
        let mut fit = Fit::default();
        assert_eq!(fit.costs(), None);
        for _ in 0..5 {
            fit.add(0.01, 100.0, 2.0);
            let costs = fit.costs().unwrap();
            assert!(is_near(costs.each(100.0, 2.0), 0.01), "{costs:?}");
            assert!(costs.cell > 0.0 && costs.batch > 0.0 && costs.late > 0.0, "{costs:?}");
        }
    }

    #[test]
    fn pause_is_damped_and_change_is_learned() {
        let calm = |batch, waves| COSTS.each(batch, waves);
        let paused = fit(60, |n, b, w| if n % 20 == 0 { 100.0 } else { 1.0 } * calm(b, w));
        assert!(is_near(paused.costs().unwrap().each(500.0, 2.0), calm(500.0, 2.0)));
        let mut doubled = paused.clone();
        doubled.double();
        assert!(is_near(doubled.costs().unwrap().each(500.0, 2.0), 2.0 * calm(500.0, 2.0)));
        let slower = fit(300, |n, b, w| if n < 60 { 1.0 } else { 4.0 } * calm(b, w));
        assert!(is_near(slower.costs().unwrap().each(500.0, 2.0), 4.0 * calm(500.0, 2.0)));
    }
}
