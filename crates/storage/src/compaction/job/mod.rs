//! Compaction job: runs one compaction step by step.
//!
//! ```text
//!  Plan ──▶ open range tombstones of all inputs
//!           a cursor per table of level 0, one per deeper level (a chain of its tables)
//!       ──▶ Merge ──▶ Writer ──▶ Output, Output, … ──▶ Edit { add, remove }
//! ```
//!
//! A job has no files and no threads of its own: [`Tables`] reads, [`Outputs`] writes, and the
//! caller of [`Job::step`] decides when and how fast. A job may be dropped between two steps; then
//! only files remain that no manifest names.
//!
//! Invariants:
//!
//! 1. All versions of a key are in one file: files end between keys only.
//! 2. The files of one job have disjoint ranges. A range tombstone that crosses the end of a file
//!    is split there, and both parts are written.
//! 3. The tables that the edit adds are finished, and durable as [`Output::finish`] promises.

#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation_tests;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::vec;

use carnet_base::Result;

pub use self::tables::{Output, Outputs, Tables, Written};
use self::writer::Writer;
use super::below::Below;
use super::cut::Cutter;
use super::merge::{Cell, GcHook, Merge, Source};
use super::policy::Plan;
use crate::manifest::{Edit, FlatRange, Levels};

/// Result of a step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The job is not finished.
    More,
    /// The job is finished; the caller has to apply the edit.
    Done(Edit),
}

/// A running compaction.
pub struct Job<T: Tables, O: Outputs, H> {
    merge: Merge<Chain<T>, H>,
    writer: Writer<O>,
    remove: Vec<u64>,
    read_bytes: u64,
    read_cells: u64,
}

impl<T: Tables, O: Outputs, H: GcHook> Job<T, O, H> {
    /// Starts a compaction that was planned on `levels`.
    ///
    /// # Errors
    ///
    /// Errors of opening an input.
    pub fn new(plan: &Plan, levels: &Levels, tables: &Arc<T>, outputs: O, hook: H) -> Result<Self> {
        let whole = Self::of_part(plan, &plan.hull, levels, tables, outputs, hook)?;
        Ok(Self { remove: plan.numbers().collect(), ..whole })
    }

    /// Starts a part of a compaction, for the keys of a range. Its edit removes no tables: they are
    /// removed when all [parts](super::Parts) are finished.
    ///
    /// # Errors
    ///
    /// Like [`Job::new`].
    pub fn of_part(
        plan: &Plan,
        part: &FlatRange,
        levels: &Levels,
        tables: &Arc<T>,
        outputs: O,
        hook: H,
    ) -> Result<Self> {
        let (mut sources, mut fragments) = (Vec::new(), Vec::new());
        for (level, inputs) in &plan.inputs {
            let within = inputs.iter().filter(|table| table.range.overlaps(part));
            let numbers: Vec<u64> = within.map(|table| table.number).collect();
            for number in &numbers {
                let all = tables.range_tombstones(*number)?;
                fragments.extend(all.iter().filter_map(|fragment| fragment.within(part)));
            }
            if *level == 0 {
                for number in numbers {
                    sources.push(Chain::new(tables, part, vec![number])?);
                }
            } else {
                sources.push(Chain::new(tables, part, numbers)?);
            }
        }
        let inputs: Vec<u64> = plan.numbers().collect();
        let below = Below::output(levels, plan.output_level, &inputs, part);
        let merge = Merge::new(sources, fragments, part, below, hook);
        let cutter = Cutter::new(plan, part, levels);
        let writer = Writer::new(outputs, merge.range_tombstones(), cutter, plan.output_level);
        Ok(Self { merge, writer, remove: Vec::new(), read_bytes: 0, read_cells: 0 })
    }

    /// Reads about `bytes` of cells and writes the surviving ones. A table never ends within a key,
    /// so a step may read more.
    ///
    /// # Errors
    ///
    /// Errors of an input or output. Afterwards only [`Job::abandon`] may be called.
    pub fn step(&mut self, bytes: u64) -> Result<Progress> {
        let mut done_bytes = 0;
        while done_bytes < bytes.max(1) {
            match self.merge.step(&mut self.writer)? {
                Some(moved) => {
                    done_bytes += moved.max(1);
                    self.read_cells += 1;
                }
                None => {
                    self.read_bytes += done_bytes;
                    self.writer.end()?;
                    let add = self.writer.take_finished();
                    return Ok(Progress::Done(Edit {
                        add,
                        remove: std::mem::take(&mut self.remove),
                        ..Edit::default()
                    }));
                }
            }
        }
        self.read_bytes += done_bytes;
        Ok(Progress::More)
    }

    /// Returns the bytes of keys and payloads that were read so far.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the number of versions that were read so far.
    #[must_use]
    pub const fn read_cells(&self) -> u64 {
        self.read_cells
    }

    /// Abandons the job. Returns the numbers of the files that it has finished, which are not
    /// needed.
    #[must_use]
    pub fn abandon(mut self) -> Vec<u64> {
        self.writer.take_finished().into_iter().map(|table| table.number).collect()
    }
}

/// Chain of disjoint tables; each is opened when the one before it ends.
struct Chain<T: Tables> {
    tables: Arc<T>,
    within: FlatRange,
    rest: vec::IntoIter<u64>,
    current: Option<T::Cursor>,
}

impl<T: Tables> Chain<T> {
    fn new(tables: &Arc<T>, within: &FlatRange, numbers: Vec<u64>) -> Result<Self> {
        let (tables, within) = (Arc::clone(tables), within.clone());
        let mut chain = Self { tables, within, rest: numbers.into_iter(), current: None };
        chain.open()?;
        Ok(chain)
    }

    /// Opens tables until one has a cell.
    fn open(&mut self) -> Result<()> {
        while self.current.as_ref().is_none_or(|cursor| cursor.key().is_none()) {
            let Some(number) = self.rest.next() else { break };
            self.current = Some(self.tables.cursor(number, &self.within)?);
        }
        Ok(())
    }
}

impl<T: Tables> Source for Chain<T> {
    fn key(&self) -> Option<&[u8]> {
        self.current.as_ref()?.key()
    }

    fn cell(&self) -> Cell<'_> {
        self.current.as_ref().expect("the caller checked that there is a key").cell()
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.current {
            cursor.advance()?;
            if cursor.key().is_none() {
                return self.open();
            }
        }
        Ok(())
    }
}
