//! A line through what batches took: t(b) = t0 + c·b.

/// What is assumed of a fresh line: a batch costs as much as this many cells.
const CELLS_OF_A_BATCH: f64 = 32.0;

/// How many waves of batches a line remembers.
const MEMORY_WAVES: f64 = 24.0;

/// How much the assumption weighs, in waves.
const ASSUMPTION_WAVES: f64 = 0.25;

/// How much of a faded line is left, in waves.
const FADED_WAVES: f64 = 2.0;

/// No answer counts as more than this many times what was expected: a pause is not the rule.
const SURPRISE_MAX: f64 = 3.0;

/// Sums of decaying weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fit {
    weight: f64,
    cells: f64,
    seconds: f64,
    cells_squared: f64,
    cells_seconds: f64,
    seconds_squared: f64,
}

/// A line, and how far answers stray from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// Seconds of a batch without a cell.
    pub(crate) batch: f64,
    /// Seconds of a cell.
    pub(crate) cell: f64,
    /// The deviation of answers from the line, as a part of what they take.
    pub(crate) deviation: f64,
}

impl Line {
    pub(crate) fn at(&self, cells: f64) -> f64 {
        self.batch + self.cell * cells
    }
}

impl Fit {
    /// Takes an answer, one of `lanes` that make a wave; returns how many times what was expected
    /// it took.
    pub(crate) fn add(&mut self, cells: f64, seconds: f64, lanes: f64) -> f64 {
        let expected = self.line().map(|line| line.at(cells));
        let surprise = expected.map_or(1.0, |expected| seconds / expected);
        let seconds = expected.map_or(seconds, |expected| seconds.min(expected * SURPRISE_MAX));
        let weight = 1.0 / lanes;
        let kept = 1.0 - weight / MEMORY_WAVES;
        let adds = [1.0, cells, seconds, cells * cells, cells * seconds, seconds * seconds];
        for (sum, add) in self.sums().into_iter().zip(adds) {
            *sum = *sum * kept + add * weight;
        }
        surprise.min(SURPRISE_MAX)
    }

    /// Keeps what is known as an assumption only, that the next wave outweighs.
    pub(crate) fn fade(&mut self) {
        let part = 1.0_f64.min(FADED_WAVES / self.weight.max(FADED_WAVES));
        for sum in self.sums() {
            *sum *= part;
        }
    }

    /// Expects everything to take twice as long.
    pub(crate) fn double(&mut self) {
        self.seconds *= 2.0;
        self.cells_seconds *= 2.0;
        self.seconds_squared *= 4.0;
    }

    const fn sums(&mut self) -> [&mut f64; 6] {
        [
            &mut self.weight,
            &mut self.cells,
            &mut self.seconds,
            &mut self.cells_squared,
            &mut self.cells_seconds,
            &mut self.seconds_squared,
        ]
    }

    /// Returns the line; `None` before the first answer.
    ///
    /// Least squares, where the seconds of a batch are held by a weak assumption: answers of
    /// batches of one size say nothing of how it depends on the size.
    pub(crate) fn line(&self) -> Option<Line> {
        let mean_cells = self.cells / self.weight;
        let mean_seconds = self.seconds / self.weight;
        if self.weight == 0.0 || mean_seconds <= 0.0 {
            return None;
        }
        let assumed = mean_seconds * CELLS_OF_A_BATCH / (CELLS_OF_A_BATCH + mean_cells);
        // Σw(t − t0 − c·b)² + v(t0 − assumed)², whose derivatives by t0 and c are 0.
        let (w, v) = (self.weight, ASSUMPTION_WAVES);
        let determinant = (w + v) * self.cells_squared - self.cells * self.cells;
        let batch = ((self.seconds + v * assumed) * self.cells_squared
            - self.cells * self.cells_seconds)
            / determinant;
        // Neither a batch nor a cell is for nothing.
        let batch = batch.clamp(mean_seconds * 1e-3, mean_seconds * 0.999);
        let cell = (mean_seconds - batch) / mean_cells;
        // Σw(t − t0 − c·b)², multiplied out.
        let squares = self.seconds_squared
            - 2.0 * (batch * self.seconds + cell * self.cells_seconds)
            + batch * batch * w
            + 2.0 * batch * cell * self.cells
            + cell * cell * self.cells_squared;
        Some(Line { batch, cell, deviation: (squares / w).max(0.0).sqrt() / mean_seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(answers: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let mut fit = Fit::default();
        for (cells, seconds) in answers {
            fit.add(cells, seconds, 1.0);
        }
        fit.line().unwrap()
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.1 * b
    }

    #[test]
    fn batches_of_several_sizes_show_what_a_batch_costs() {
        let line = fit((0..60).map(|n| {
            let cells = [10.0, 100.0, 400.0][n % 3];
            (cells, 0.005 + 0.0001 * cells)
        }));
        assert!(is_near(line.batch, 0.005) && is_near(line.cell, 0.0001), "{line:?}");
        assert!(line.deviation < 0.1, "{line:?}");
    }

    #[test]
    fn batches_of_one_size_say_what_that_size_takes() {
        let line = fit([(100.0, 0.01); 5]);
        assert!(is_near(line.at(100.0), 0.01) && line.batch > 0.0 && line.cell > 0.0, "{line:?}");
        assert_eq!(Fit::default().line(), None);
    }

    #[test]
    fn a_pause_is_not_the_rule_and_a_change_is_learned() {
        let calm = [(100.0, 0.01), (200.0, 0.015)].into_iter().cycle();
        let paused = fit(calm.clone().take(30).chain([(100.0, 60.0)]));
        assert!(paused.at(100.0) < 0.012, "{paused:?}");
        let slower = calm.clone().take(30).chain(calm.map(|(b, t)| (b, t * 4.0)).take(80));
        assert!(is_near(fit(slower).at(100.0), 0.04));
    }
}
