//! Runs one compaction, a piece at a time.
//!
//! ```text
//!  Plan ──▶ open range tombstones of all inputs
//!           a cursor per table of level 0, one per level behind it (a chain of its tables)
//!       ──▶ Merge ──▶ Writer ──▶ Output, Output, … ──▶ Edit { add, remove }
//! ```
//!
//! The job knows neither files nor threads: [`Tables`] reads, [`Outputs`] writes, and whoever
//! calls [`Job::step`] decides when and how fast. Between two steps it may be dropped for good;
//! nothing has happened then but that files were written which no manifest names.
//!
//! Invariants:
//!
//! 1. All versions of a key are in one file: files end between keys only.
//! 2. The files of one job have disjoint ranges. A range tombstone that reaches over a file's end
//!    is cut there, and both parts are written.
//! 3. What the edit adds is finished, and durable as [`Output::finish`] promises.

#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::vec;

use carnet_base::Result;

use self::writer::Writer;
use super::below::Below;
use super::cut::Cutter;
use super::merge::{Cell, Fragment, GcHook, Merge, RangeVersion, Source};
use super::policy::Plan;
use crate::manifest::{Edit, FlatRange, Levels};

/// Reads the tables that a job compacts.
pub trait Tables {
    /// A cursor over a table's cells.
    type Cursor: Source;

    /// Reads all range tombstones of a table.
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unavailable`, naming the file; the job ends with it.
    fn range_tombstones(&self, table: u64) -> Result<Vec<Fragment>>;

    /// Opens a cursor over a table's cells within a range; it stands on the first one.
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unavailable`, naming the file; the job ends with it.
    fn cursor(&self, table: u64, within: &FlatRange) -> Result<Self::Cursor>;
}

/// Makes the tables that a job writes.
pub trait Outputs {
    /// A table under way.
    type Output: Output;

    /// Begins a table with a number of its own.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job ends with it.
    fn begin(&mut self) -> Result<Self::Output>;
}

/// A table under way. Dropping it leaves a file behind that no manifest names.
pub trait Output {
    /// Takes the next version: keys ascending, the versions of a key newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job ends with it.
    fn push(&mut self, key: &[u8], cell: Cell<'_>) -> Result<()>;

    /// Takes the next fragment; they are disjoint and ascend, and each comes after the cells that
    /// it covers.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job ends with it.
    fn push_range_tombstone(
        &mut self,
        lower: &[u8],
        upper: &[u8],
        versions: &[RangeVersion],
    ) -> Result<()>;

    /// Says about how long the file would be if it ended here.
    fn estimated_bytes(&self) -> u64;

    /// Finishes the table; its file is durable afterwards.
    ///
    /// # Errors
    ///
    /// `Unavailable`; the job ends with it.
    fn finish(self) -> Result<Written>;
}

/// A finished table's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The number in its name.
    pub number: u64,
    /// Its length.
    pub bytes: u64,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// All is written. The edit makes it count.
    Done(Edit),
}

/// A compaction under way.
pub struct Job<T: Tables, O: Outputs, H> {
    merge: Merge<Chain<T>, H>,
    writer: Writer<O>,
    remove: Vec<u64>,
    read_bytes: u64,
}

impl<T: Tables, O: Outputs, H: GcHook> Job<T, O, H> {
    /// Begins a compaction that was planned on `levels`.
    ///
    /// # Errors
    ///
    /// What opening an input says.
    pub fn new(plan: &Plan, levels: &Levels, tables: &Arc<T>, outputs: O, hook: H) -> Result<Self> {
        let whole = Self::of_part(plan, &plan.hull, levels, tables, outputs, hook)?;
        Ok(Self { remove: plan.numbers().collect(), ..whole })
    }

    /// Begins a part of a compaction, the keys of a range. Its edit removes nothing: that is for
    /// when all [parts](super::Parts) are done.
    ///
    /// # Errors
    ///
    /// As [`Job::new`].
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
        Ok(Self { merge, writer, remove: Vec::new(), read_bytes: 0 })
    }

    /// Reads about `bytes` of cells and writes what stays of them. A step never ends a table in
    /// the middle of a key, so that a single cell or the end of a file may make it longer.
    ///
    /// # Errors
    ///
    /// What an input or output says. The job is of no use then but for [`Job::abandon`].
    pub fn step(&mut self, bytes: u64) -> Result<Progress> {
        let mut done_bytes = 0;
        while done_bytes < bytes.max(1) {
            match self.merge.step(&mut self.writer)? {
                Some(moved) => done_bytes += moved.max(1),
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

    /// Returns how many bytes of keys and payloads were read so far.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Gives the job up. Returns the numbers of the files that it finished and nobody needs.
    #[must_use]
    pub fn abandon(mut self) -> Vec<u64> {
        self.writer.take_finished().into_iter().map(|table| table.number).collect()
    }
}

/// Disjoint tables, one behind the other; each is opened when the one before it ends.
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
        self.current.as_ref().expect("it is asked for only where there is a key").cell()
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
