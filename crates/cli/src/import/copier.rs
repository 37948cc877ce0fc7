//! The copier: readers that process one token range after another.
//!
//! Each page of the source becomes transactions of bounded size. Each transaction also stores the
//! progress of its range, so that a resumed import finds rows and progress consistent after a
//! crash. Temporary failures are retried: writing a row twice is idempotent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::{Bytes, ErrorKind};
use carnet_base::{Clock, Signal, SystemClock, Token, lock};

use super::pace::Pace;
use super::plan::{Cursor, Range, Tally};
use super::progress::{self, Job};
use super::row::Row;
use super::source::{RowPage, Source};
use super::target::{CommitError, Statement, Target, Write};
use super::writes::Writer;

/// Number of statements, and of bytes, at which a transaction is committed.
const STATEMENTS_MAX: usize = 500;
const BYTES_MAX: u64 = 1 << 20;
/// Maximum number of attempts; a failure that lasts longer is taken as permanent.
const ATTEMPTS_MAX: u32 = 12;
/// Interval at which waiting threads poll for the end.
const LOOK: Duration = Duration::from_millis(50);

/// Copy of a table.
pub(super) struct Copier<'a, S, T> {
    source: &'a S,
    target: &'a T,
    writer: &'a Writer,
    /// The plan's id.
    job: &'a Bytes,
    work: Mutex<Work>,
    /// Set when all readers have ended, or one has failed and the others are to end.
    stop: AtomicBool,
    /// Failure beside the readers.
    failure: Mutex<Option<anyhow::Error>>,
}

/// State that readers share.
struct Work {
    left: VecDeque<Range>,
    pace: Pace,
    /// Amount copied since the copier was made.
    copied: Tally,
    /// Number of copied tokens, of 2⁶⁴.
    tokens: u128,
}

impl<'a, S: Source, T: Target> Copier<'a, S, T> {
    pub(super) fn new(
        source: &'a S,
        target: &'a T,
        writer: &'a Writer,
        job: &'a Job,
        pace: Pace,
    ) -> Self {
        let (ranges, job) = (&job.ranges, &job.id);
        let left = ranges.iter().filter(|range| !range.is_done()).copied().collect();
        let tokens = ranges.iter().map(tokens).sum();
        let work = Mutex::new(Work { left, pace, copied: Tally::default(), tokens });
        let stop = AtomicBool::new(false);
        Self { source, target, writer, job, work, stop, failure: Mutex::default() }
    }

    /// Copies the remaining ranges with a number of concurrent readers. `watch` runs beside them
    /// until they end.
    pub(super) fn run(&self, readers: u16, watch: impl FnOnce(&Self) + Send) -> Result<()> {
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..readers).map(|_| scope.spawn(|| self.reader())).collect();
            let watching = scope.spawn(|| watch(self));
            let ended: Vec<Result<()>> = readers
                .into_iter()
                .map(|reader| reader.join().expect("no reader panics"))
                .collect();
            self.stop.store(true, Ordering::Relaxed);
            watching.join().expect("watching does not panic");
            match lock(&self.failure).take() {
                Some(error) => Err(error),
                None => ended.into_iter().collect(),
            }
        })
    }

    /// Ends the copy with an error.
    pub(super) fn fail(&self, error: anyhow::Error) {
        lock(&self.failure).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits; returns `true` if readers are still running.
    pub(super) fn goes_on(&self, wait: Duration) -> bool {
        if !self.stop.load(Ordering::Relaxed) {
            Signal::new().wait(Some(wait));
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Returns the amount copied since the copier was made, and the copied fraction of all tokens.
    pub(super) fn copied(&self) -> (Tally, f64) {
        let work = self.work();
        (work.copied, work.tokens as f64 / 2_f64.powi(64))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.work)
    }

    fn reader(&self) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(range) = self.work().left.pop_front() else { break };
            self.range(range).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Copies a range, unless the copy ends before.
    fn range(&self, range: Range) -> Result<()> {
        let mut taken = Taken::new(range);
        let mut from = None;
        while let Some(page) = self.read(range.rest(), &from)? {
            self.check_current()?;
            for (token, row) in &page.rows {
                self.take(&mut taken, *token, row)?;
            }
            from = page.next;
            if from.is_none() {
                taken.cursor.finish();
                return self.write(&mut taken);
            }
            if !taken.writes.is_empty() {
                self.write(&mut taken)?;
            }
        }
        Ok(())
    }

    /// Reads a page when it is due; `None` if the copy has ended.
    fn read(
        &self,
        range: (Token, Token),
        from: &Option<S::Position>,
    ) -> Result<Option<RowPage<S::Position>>> {
        for attempt in 1.. {
            self.pause();
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let (began, page_rows) = (SystemClock.now(), self.work().pace.page_rows());
            match self.source.page(range, page_rows, from.clone()) {
                Ok(page) => {
                    let heaviest = page.rows.iter().map(|(_, row)| size_bytes(row)).max();
                    let (now, rows) = (SystemClock.now(), page.rows.len());
                    let took = now.since(began);
                    self.work().pace.answered(now, took, rows, heaviest.unwrap_or(0));
                    return Ok(Some(page));
                }
                Err(error) => {
                    let retry_after = match error.kind() {
                        ErrorKind::Overloaded { retry_after } => retry_after,
                        ErrorKind::Unavailable | ErrorKind::Timeout => Duration::ZERO,
                        _ => return Err(error).context("the source cannot be read"),
                    };
                    if attempt == ATTEMPTS_MAX {
                        return Err(error).with_context(|| {
                            format!("the source failed {attempt} times in a row")
                        });
                    }
                    self.work().pace.failed(SystemClock.now(), attempt, retry_after);
                }
            }
        }
        Ok(None)
    }

    /// Fails if the plan is no longer in force. Its rows could otherwise overwrite newer ones.
    fn check_current(&self) -> Result<()> {
        let query = progress::current_query(&self.writer.table);
        for attempt in 1.. {
            match self.target.query(&query) {
                Ok(rows) if progress::is_current(&rows, self.job) => break,
                Ok(_) => bail!(
                    "another import into {} has restarted, or its plan was removed; this import ends",
                    self.writer.table
                ),
                Err(error) if attempt == ATTEMPTS_MAX => return Err(error),
                Err(_) => {
                    self.work().pace.failed(SystemClock.now(), attempt, Duration::ZERO);
                    self.pause();
                }
            }
        }
        Ok(())
    }

    /// Waits until the pace allows the next read or retry.
    fn pause(&self) {
        loop {
            let wait = self.work().pace.wait(SystemClock.now());
            if wait.is_zero() || !self.goes_on(wait.min(LOOK)) {
                return;
            }
        }
    }

    /// Takes a row of the source, and writes the taken rows if there are enough.
    fn take(&self, taken: &mut Taken, token: Token, row: &Row) -> Result<()> {
        let divided = self.writer.divide(row)?;
        let is_first = taken.partition.as_ref() != Some(&divided.partition);
        let bytes = size_bytes(row);
        let (rows, partitions) = (u64::from(!divided.row.is_empty()), u64::from(is_first));
        taken.cursor.take(token, Tally { rows, partitions, bytes });
        // Static columns come with each row of the partition.
        if is_first {
            taken.writes.extend(divided.statics);
        }
        taken.writes.extend(divided.row);
        taken.partition = Some(divided.partition);
        taken.bytes += bytes;
        if taken.writes.len() >= STATEMENTS_MAX || taken.bytes >= BYTES_MAX {
            self.write(taken)?;
        }
        Ok(())
    }

    /// Writes the taken rows and the progress of the range as one transaction. Counters are written before, because a
    /// batch cannot mix them with the progress; to write them again does not change them.
    fn write(&self, taken: &mut Taken) -> Result<()> {
        let range = taken.cursor.range();
        let values = progress::range_values(&self.writer.table, self.job, &range);
        let mut writes = std::mem::take(&mut taken.writes);
        taken.bytes = 0;
        if writes.iter().any(|write| write.statement.is_on_counters()) {
            self.commit(&std::mem::take(&mut writes))?;
        }
        writes.push(Write::whole(Statement::Range, values));
        self.commit(&writes)?;
        let mut work = self.work();
        work.copied = work.copied.plus(range.tally.minus(taken.written.tally));
        work.tokens += tokens(&range) - tokens(&taken.written);
        taken.written = range;
        Ok(())
    }

    fn commit(&self, writes: &[Write]) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.target.commit(writes) {
                Ok(()) => return Ok(()),
                Err(CommitError::Lasting(error)) => return Err(self.refused(writes, error)),
                Err(CommitError::Passing { error, .. }) if attempt == ATTEMPTS_MAX => {
                    let how = format!("{} failed {attempt} times in a row", self.writer.table);
                    return Err(error.context(how));
                }
                Err(CommitError::Passing { retry_after, .. }) => {
                    self.work().pace.failed(SystemClock.now(), attempt, retry_after);
                    self.pause();
                }
            }
            attempt += 1;
        }
    }

    /// Finds the row that caused a refusal, by writing each row alone.
    fn refused(&self, writes: &[Write], error: anyhow::Error) -> anyhow::Error {
        for write in writes.iter().filter(|write| write.statement != Statement::Range) {
            if let Err(CommitError::Lasting(error)) =
                self.target.commit(std::slice::from_ref(write))
            {
                let name = self.writer.key_of(write);
                return error
                    .context(format!("{} does not take the row {name}", self.writer.table));
            }
        }
        error.context(format!("{} does not take rows", self.writer.table))
    }
}

/// Rows taken from a range and not yet written.
struct Taken {
    cursor: Cursor,
    /// The range as it was last stored.
    written: Range,
    /// The partition of the last row.
    partition: Option<Row>,
    /// Writes of the next transaction.
    writes: Vec<Write>,
    bytes: u64,
}

impl Taken {
    const fn new(range: Range) -> Self {
        let cursor = Cursor::new(range);
        Self { cursor, written: range, partition: None, writes: Vec::new(), bytes: 0 }
    }
}

fn size_bytes(row: &Row) -> u64 {
    row.iter().flatten().map(|value| value.len() as u64).sum()
}

/// Returns the number of copied tokens of a range.
fn tokens(range: &Range) -> u128 {
    range.copied.0.abs_diff(range.after.0).into()
}
