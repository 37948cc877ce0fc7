//! Merges sorted inputs into one output and drops the versions that no reader needs.
//!
//! ```text
//!  source 0 ─┐                  range tombstones of all inputs, cut into fragments
//!  source 1 ─┼▶ tournament ──▶ collector ──▶ pending tomb- ──▶ sink
//!  source 2 ─┘  by key, then   which does    stone, for older
//!               newest first   a reader see? versions of the key
//! ```
//!
//! A [`Mark`] decides which versions survive: below it, readers exist only at the snapshots that it
//! names. Each rule has a test that fails without it:
//!
//! 1. All versions above the watermark survive.
//! 2. Of the versions between two adjacent readers (a *stripe*) only the newest survives.
//! 3. A version that a range tombstone of its own stripe hides is dropped, and so are older
//!    versions of the stripe. A commit's cell takes precedence over the commit's range tombstone.
//! 4. A version that has expired for every reader counts as a tombstone.
//! 5. A tombstone at or below the watermark is dropped if no older version of its key survives and
//!    none can exist in deeper levels ([`Below`]). Of adjacent tombstones the oldest survives.
//! 6. A range tombstone is dropped once no reader is older than it, and no older data within its
//!    range can exist in deeper levels. By rules 2 and 3, the cells that it covers are dropped too.
//! 7. A version that two inputs hold is written once.
//! 8. All cells of a dropped table are dropped.
//! 9. A version of a table whose cells [pass](GcHook::passes) is dropped once the hook says that it
//!    has passed.
//! 10. A delta does not hide older versions of its stripe. It is merged with them, up to the first
//!     that is no delta, into a value in the place of the newest delta. Deltas above the watermark,
//!     or above a version of an older stripe or a deeper level, are written as they are. So are deltas
//!     that cannot be merged, and then the version that ends their chain survives as well.
//!
//! Selecting the next input dominates the cost. The merge caches eight bytes of each source's key,
//! so that most comparisons do not access keys. These bytes follow the prefix that all keys of the
//! job share, because the first 14 bytes of flat keys are equal throughout a wide partition. `carnet-bench
//! merge` measures it.
//!
//! Not implemented on purpose: seeking past deleted cells. Cells under a range tombstone are read;
//! tables that it covers wholly are dropped by the policy.

mod chain;
mod collect;
mod fragments;
mod key_output;
mod mark;
mod source;
#[cfg(test)]
mod tests;
mod tournament;

use std::cmp::Ordering;

use carnet_base::{Error, Result, TableId};

pub use mark::{GcHook, Mark};
pub use source::{Cell, Fragment, RangeVersion, Sink, Source};

use self::collect::{Collector, Decision};
use self::key_output::KeyOutput;
use self::tournament::Tournament;
use super::below::Below;
use crate::manifest::{FlatRange, VersionKind, table_of};

/// Merges sources, one version per step.
#[derive(Debug)]
pub struct Merge<S, H> {
    inputs: Inputs<S>,
    tournament: Tournament,
    collector: Collector,
    hook: H,
    /// Treatment of the current key's table.
    treatment: Treatment,
    /// First byte of the table's deltas.
    delta_mark: Option<u8>,
    fragments: Vec<Fragment>,
    /// Index of the first fragment that does not end at or before the current key.
    fragment: usize,
    below: Below,
    /// The current key and its output.
    output: KeyOutput,
    begun: bool,
}

impl<S: Source, H: GcHook> Merge<S, H> {
    /// Starts a merge.
    ///
    /// `hull` contains every key of the sources, `range_tombstones` are those of all inputs, and
    /// `below` are the ranges that may hold older data. The GC watermark is read once, here.
    pub fn new(
        sources: Vec<S>,
        range_tombstones: impl IntoIterator<Item = Fragment>,
        hull: &FlatRange,
        below: Below,
        hook: H,
    ) -> Self {
        let collector = Collector::new(&hook.mark());
        let fragments = fragments::combine(range_tombstones, collector.stripes());
        let inputs = Inputs::new(sources, hull.shared_prefix_bytes());
        let tournament = Tournament::new(inputs.sources.len(), |a, b| inputs.is_before(a, b));
        Self {
            inputs,
            tournament,
            collector,
            hook,
            treatment: Treatment::Merged,
            delta_mark: None,
            fragments,
            fragment: 0,
            below,
            output: KeyOutput::default(),
            begun: false,
        }
    }

    /// Returns the surviving range tombstones, disjoint and ascending. The caller splits
    /// fragments that cross the end of an output file.
    #[must_use]
    pub fn range_tombstones(&self) -> Vec<Fragment> {
        let mut below = self.below.clone();
        let oldest = self.collector.stripes().oldest();
        let mut survivors = Vec::new();
        for Fragment { lower, upper, versions } in &self.fragments {
            let range = FlatRange { lower: lower.clone(), upper: upper.clone() };
            let dropped = range.only_table().is_some_and(|table| self.hook.is_dropped(table));
            let older = below.may_overlap(lower, upper);
            let stays = |version: &&RangeVersion| !dropped && (older || version.commit > oldest);
            let versions: Vec<_> = versions.iter().filter(stays).copied().collect();
            if !versions.is_empty() {
                survivors.push(Fragment { lower: lower.clone(), upper: upper.clone(), versions });
            }
        }
        survivors
    }

    /// Processes one version of the inputs. Returns the bytes of its key and payload, or `None` at
    /// the end.
    ///
    /// # Errors
    ///
    /// Errors of the source or the sink; `Corrupted` if a source's keys do not ascend. Afterwards
    /// the merge must not be used.
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<Option<u64>> {
        let winner = self.tournament.winner();
        let Some(source) = self.inputs.sources.get(winner) else { return Ok(None) };
        let Some(key) = source.key() else {
            self.end_key(sink)?;
            return Ok(None);
        };
        if !self.begun || key != self.output.key {
            self.start_key(winner, sink)?;
        }
        let cell = self.inputs.sources[winner].cell();
        let bytes = (self.output.key.len() + cell.payload.map_or(0, <[u8]>::len)) as u64;
        let goes = match self.treatment {
            Treatment::Merged => false,
            Treatment::Dropped => true,
            Treatment::Passing => {
                let mark = self.collector.stripes().oldest();
                self.hook.has_passed(mark, &self.output.key, cell.commit)
            }
        };
        if !goes {
            let covering = match self.fragments.get(self.fragment) {
                Some(fragment) if fragment.lower <= self.output.key[..] => &fragment.versions[..],
                _ => &[],
            };
            let kind = VersionKind::of(cell.payload, self.delta_mark);
            let decision = self.collector.decide(cell, kind, covering);
            let stripe = self.collector.stripes().of(cell.commit);
            self.output.take(decision, cell, kind, stripe, &self.hook, sink)?;
            if self.treatment == Treatment::Passing && decision == Decision::Keep {
                let table = table_of(&self.output.key);
                sink.will_pass(table.is_some_and(|table| self.hook.keeps_newest(table)));
            }
        }
        self.inputs.advance(winner)?;
        self.tournament.replay(|a, b| self.inputs.is_before(a, b));
        Ok(Some(bytes))
    }

    /// Ends the current key and starts the key of the winning source.
    fn start_key(&mut self, winner: usize, sink: &mut impl Sink) -> Result<()> {
        self.end_key(sink)?;
        let Some(key) = self.inputs.sources[winner].key() else { return Ok(()) };
        if self.begun && key < &self.output.key[..] {
            return Err(Error::corrupted("an input of a compaction is not in the order of keys"));
        }
        if self.output.key.first_chunk::<4>() != key.first_chunk::<4>() {
            let table = table_of(key);
            self.treatment =
                table.map_or(Treatment::Merged, |table| Treatment::of(table, &self.hook));
            self.delta_mark = table.and_then(|table| self.hook.delta_mark(table));
        }
        self.output.key.clear();
        self.output.key.extend_from_slice(key);
        self.begun = true;
        self.collector.begin_key();
        while self
            .fragments
            .get(self.fragment)
            .is_some_and(|next| next.upper <= self.output.key[..])
        {
            self.fragment += 1;
        }
        Ok(())
    }

    fn end_key(&mut self, sink: &mut impl Sink) -> Result<()> {
        self.output.end(&mut self.below, &self.hook, sink)
    }
}

/// Treatment of the cells of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// Versions that no reader can see are dropped.
    Merged,
    /// Cells are dropped once they have passed, see [`GcHook::passes`].
    Passing,
    /// All cells are dropped.
    Dropped,
}

impl Treatment {
    fn of(table: TableId, hook: &impl GcHook) -> Self {
        if hook.is_dropped(table) {
            Self::Dropped
        } else if hook.passes(table) {
            Self::Passing
        } else {
            Self::Merged
        }
    }
}

/// The sources and the order of their current cells.
#[derive(Debug)]
struct Inputs<S> {
    sources: Vec<S>,
    /// For each source, the eight bytes of its key after the shared prefix; all ones at the end.
    heads: Vec<u64>,
    shared: usize,
}

impl<S: Source> Inputs<S> {
    fn new(sources: Vec<S>, shared: usize) -> Self {
        let heads = sources.iter().map(|source| head(source.key(), shared)).collect();
        Self { sources, heads, shared }
    }

    fn advance(&mut self, source: usize) -> Result<()> {
        self.sources[source].advance()?;
        self.heads[source] = head(self.sources[source].key(), self.shared);
        Ok(())
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match self.heads[a].cmp(&self.heads[b]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.is_before_by_all(a, b),
        }
    }

    #[cold]
    #[inline(never)]
    fn is_before_by_all(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.sources[a], &self.sources[b]);
        match (left.key(), right.key()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(key), Some(other)) => match key.cmp(other) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => (right.cell().commit, a) < (left.cell().commit, b),
            },
        }
    }
}

/// Splits range tombstones so that they do not overlap; drops none.
#[cfg(test)]
pub(crate) fn disjoint(range_tombstones: impl IntoIterator<Item = Fragment>) -> Vec<Fragment> {
    fragments::combine(range_tombstones, Collector::new(&Mark::default()).stripes())
}

/// Returns eight bytes of a key after the first `shared` ones, as a number that sorts like the key.
fn head(key: Option<&[u8]>, shared: usize) -> u64 {
    let Some(rest) = key.map(|key| key.get(shared..).unwrap_or_default()) else { return u64::MAX };
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}
