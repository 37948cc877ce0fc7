//! Figures of the documents: what each one is, and how it is compared with the recorded one.

use carnet_base::{Error, Result};

use super::outputs::Outputs;
use super::take::Take;

/// Part of a recorded value by which a figure may be worse.
pub(super) const WORSE: f64 = 0.25;

/// A table of the documents.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    /// Heading of the first column.
    pub(super) heading: &'static str,
    pub(super) figures: Vec<Figure>,
}

/// What a group needs beside the programs of this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// The engines of `bench/peers`: RocksDB is built from source.
    Peers,
    /// A Cassandra, and ScalarDB.
    Cluster,
}

/// A number of the documents: a row and a column of its group's table.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) row: String,
    pub(super) column: String,
    /// A program and its arguments, as in [`super::command`].
    pub(super) command: String,
    take: Take,
    over: Over,
    pub(super) better: Option<Better>,
    /// Whether it is a count, which does not depend on the machine.
    pub(super) counted: bool,
}

/// Divisor of a figure.
enum Over {
    One,
    Number(f64),
    /// Another number of the same output.
    Same(Take),
    /// A number of another command's output.
    Other(String, Take),
}

/// Direction in which a figure is better. A figure without one is shown and not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
    /// Neither less nor more.
    Equal,
}

impl Better {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Equal => "equal",
        }
    }

    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Less => "↓",
            Self::More => "↑",
            Self::Equal => "=",
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Same,
    Worse,
    Better,
    New,
    /// The figure is shown and not compared.
    Shown,
}

impl Verdict {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::New => "new",
            Self::Shown => "shown",
        }
    }
}

/// Median, least and greatest value of a figure's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Group {
    pub(super) const fn new(name: &'static str, heading: &'static str) -> Self {
        Self { name, needs: Needs::Nothing, heading, figures: Vec::new() }
    }

    pub(super) fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Adds a figure. `row` and `column` are each a part of its name and a text of the table.
    pub(super) fn add(
        &mut self,
        row: (&str, &str),
        column: (&str, &str),
        command: &str,
        take: Take,
    ) -> &mut Figure {
        let parts = [self.name, row.0, column.0];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.figures.push(Figure {
            name: parts.join("."),
            row: row.1.to_owned(),
            column: column.1.to_owned(),
            command: command.to_owned(),
            take,
            over: Over::One,
            better: None,
            counted: false,
        });
        self.figures.last_mut().expect("it was added")
    }
}

impl Figure {
    pub(super) fn over(&mut self, take: Take) -> &mut Self {
        self.over = Over::Same(take);
        self
    }

    pub(super) fn over_number(&mut self, number: f64) -> &mut Self {
        self.over = Over::Number(number);
        self
    }

    pub(super) fn over_other(&mut self, command: &str, take: Take) -> &mut Self {
        self.over = Over::Other(command.to_owned(), take);
        self
    }

    pub(super) fn better(&mut self, better: Better) -> &mut Self {
        self.better = Some(better);
        self
    }

    /// Declares a count of which less is better.
    pub(super) fn counted(&mut self) -> &mut Self {
        self.counted = true;
        self.better(Better::Less)
    }

    /// Returns the commands whose outputs have the figure.
    pub(super) fn commands(&self) -> impl Iterator<Item = &str> {
        let other = match &self.over {
            Over::Other(command, _) => Some(command.as_str()),
            _ => None,
        };
        std::iter::once(self.command.as_str()).chain(other)
    }

    /// Returns the figure in the outputs of its commands: the median of all runs and rounds.
    ///
    /// A ratio of two numbers of one round is a sample, so that a disturbance of a round changes both.
    pub(super) fn find(&self, outputs: &Outputs) -> Result<Found> {
        let of = |command: &str, take: &Take| -> Result<Vec<Vec<f64>>> {
            outputs
                .of(command)
                .iter()
                .map(|output| take.samples(output))
                .collect::<Result<_>>()
                .map_err(|error| {
                    Error::invalid(format!("{}: {command}", self.name)).with_source(error)
                })
        };
        let taken = of(&self.command, &self.take)?;
        let samples: Vec<f64> = match &self.over {
            Over::One => taken.concat(),
            Over::Number(number) => taken.concat().iter().map(|value| value / number).collect(),
            Over::Same(over) => {
                let pairs = taken.iter().zip(of(&self.command, over)?);
                pairs.flat_map(|(taken, over)| ratios(taken, &over)).collect()
            }
            Over::Other(command, over) => {
                let pairs = taken.iter().zip(of(command, over)?);
                pairs.flat_map(|(taken, over)| ratios(taken, &over)).collect()
            }
        };
        Found::of(samples).ok_or_else(|| {
            Error::invalid(format!("{}: no output of {} has it", self.name, self.command))
        })
    }

    /// Compares a measured figure with the recorded one. A value that was seen when it was recorded
    /// is not worse.
    pub(super) fn judge(&self, found: f64, recorded: Option<Found>) -> Verdict {
        let Some(better) = self.better else { return Verdict::Shown };
        let Some(Found { value, low, high }) = recorded else { return Verdict::New };
        let least = (value * (1.0 - WORSE)).min(low);
        let most = (value * (1.0 + WORSE)).max(high);
        match better {
            Better::Less | Better::Equal if found > most => Verdict::Worse,
            Better::More | Better::Equal if found < least => Verdict::Worse,
            Better::Less if found < least => Verdict::Better,
            Better::More if found > most => Verdict::Better,
            _ => Verdict::Same,
        }
    }
}

impl Found {
    pub(super) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.retain(|sample| sample.is_finite());
        samples.sort_by(f64::total_cmp);
        let value = *samples.get(samples.len() / 2)?;
        Some(Self { value, low: *samples.first()?, high: *samples.last()? })
    }
}

/// Divides the numbers of each round, or all by the median if the rounds do not match.
fn ratios(taken: &[f64], over: &[f64]) -> Vec<f64> {
    if taken.len() == over.len() {
        return taken.iter().zip(over).map(|(taken, over)| taken / over).collect();
    }
    let over = Found::of(over.to_vec()).map_or(f64::NAN, |over| over.value);
    taken.iter().map(|taken| taken / over).collect()
}

#[cfg(test)]
mod tests {
    use super::super::take::text;
    use super::*;

    fn figure(better: Option<Better>) -> Group {
        let mut group = Group::new("group", "figure");
        let one = group.add(("one", "one"), ("", "value"), "carnet-bench merge", text("both", 0));
        one.over(text("alone", 0)).better = better;
        group
    }

    #[test]
    fn quarter_worse_is_worse() {
        let (less, more) = (figure(Some(Better::Less)), figure(Some(Better::More)));
        let equal = figure(Some(Better::Equal));
        let recorded = |value| Some(Found { value, low: value, high: value });
        let judge = |group: &Group, found| group.figures[0].judge(found, recorded(2.0));
        for (found, of_less, of_more, of_equal) in [
            (2.0, Verdict::Same, Verdict::Same, Verdict::Same),
            (2.5, Verdict::Same, Verdict::Same, Verdict::Same),
            (2.51, Verdict::Worse, Verdict::Better, Verdict::Worse),
            (1.5, Verdict::Same, Verdict::Same, Verdict::Same),
            (1.49, Verdict::Better, Verdict::Worse, Verdict::Worse),
        ] {
            let judged = (judge(&less, found), judge(&more, found), judge(&equal, found));
            assert_eq!(judged, (of_less, of_more, of_equal), "{found}");
        }
        assert_eq!(less.figures[0].judge(1.0, None), Verdict::New);
        assert_eq!(judge(&figure(None), 9.0), Verdict::Shown);
        // Nothing is a quarter of none: a count of none stays none.
        assert_eq!(less.figures[0].judge(1.0, recorded(0.0)), Verdict::Worse);
    }

    #[test]
    fn value_seen_before_is_not_worse() {
        let less = figure(Some(Better::Less));
        let noisy = Some(Found { value: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(less.figures[0].judge(2.9, noisy), Verdict::Same);
        assert_eq!(less.figures[0].judge(3.1, noisy), Verdict::Worse);
        assert_eq!(figure(Some(Better::More)).figures[0].judge(1.1, noisy), Verdict::Same);
    }

    #[test]
    fn ratio_is_the_median_of_rounds() {
        let group = figure(Some(Better::Less));
        let run = |both: u32, alone: u32| format!("alone {alone}\nboth {both}\n");
        let runs = vec![run(4, 2), run(30, 10), run(9, 9)];
        let outputs = Outputs::with("carnet-bench merge", runs);
        let found = group.figures[0].find(&outputs).unwrap();
        assert_eq!(found, Found { value: 2.0, low: 1.0, high: 3.0 });
        // Rounds of one run are divided one by one, or by the median if their numbers differ.
        assert_eq!(ratios(&[4.0, 30.0, 9.0], &[2.0, 10.0, 9.0]), [2.0, 3.0, 1.0]);
        assert_eq!(ratios(&[4.0, 30.0], &[2.0, 10.0, 5.0]), [0.8, 6.0]);
        let error = group.figures[0].find(&Outputs::default()).unwrap_err().to_string();
        assert_eq!(error, "group.one: no output of carnet-bench merge has it");
    }
}
