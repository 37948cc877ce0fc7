//! Output for people: a progress bar, and a final sentence.

use std::fmt;
use std::time::Duration;

use indicatif::HumanBytes;

use super::copier::Copier;
use super::plan::Tally;
use super::source::Source;
use super::table_name::TableName;
use super::target::Target;
use crate::bar::{Bar, Extent};

const EVERY: Duration = Duration::from_millis(100);

/// Result of an import.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(super) table: TableName,
    /// Amount copied in earlier runs.
    pub(super) before: Tally,
    /// Amount copied in this run.
    pub(super) copied: Tally,
    pub(super) took: Duration,
    /// Notes about data that was not copied.
    pub(super) notes: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, before, copied, took, notes } = self;
        let Tally { rows, partitions, bytes } = copied;
        let seconds = took.as_secs_f64();
        let bytes = HumanBytes(*bytes);
        write!(f, "{rows} rows of {partitions} partitions ({bytes}) copied into {table}")?;
        write!(f, " in {seconds:.1} s, {:.0} rows/s", *rows as f64 / seconds.max(0.001))?;
        if *before != Tally::default() {
            write!(f, "; {} rows were copied before (--restart copies them again)", before.rows)?;
        }
        notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

/// Shows a copy's progress on standard error, if that is a terminal, until it ends.
pub(super) fn watch<S: Source, T: Target>(copier: &Copier<'_, S, T>) {
    let bar = Bar::new(Extent::Part);
    while copier.goes_on(EVERY) {
        let (copied, part) = copier.copied();
        bar.set_part(part, &format!("{} rows, {}", copied.rows, Bar::bytes(copied.bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_this_run_and_earlier_ones() {
        let table = TableName::parse("shop.orders").unwrap();
        let copied = Tally { rows: 300, partitions: 20, bytes: 4096 };
        let took = Duration::from_millis(1500);
        let summary = Summary { table, before: Tally::default(), copied, took, notes: Vec::new() };
        assert_eq!(
            summary.to_string(),
            "300 rows of 20 partitions (4.00 KiB) copied into shop.orders in 1.5 s, 200 rows/s"
        );
        let summary = Summary { before: copied, ..summary };
        assert!(
            summary
                .to_string()
                .ends_with("; 300 rows were copied before (--restart copies them again)")
        );
    }
}
