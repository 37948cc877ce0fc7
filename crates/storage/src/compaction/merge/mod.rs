//! Many sorted inputs become one, and what nobody needs is left out.
//!
//! ```text
//!  source 0 ─┐                  range tombstones of all inputs, cut into fragments
//!  source 1 ─┼▶ tournament ──▶ collector ──▶ tombstones wait ──▶ sink
//!  source 2 ─┘  by key, then   what does     for an older
//!               newest first   anybody see?  version of the key
//! ```
//!
//! What stays is decided by a [`Mark`]: below it somebody reads only at the snapshots it names.
//! Rules, each of which has a test that fails without it:
//!
//! 1. Versions above the mark all stay.
//! 2. Of the versions between two neighbouring readers (a *stripe*) the newest stays, older ones
//!    go.
//! 3. A version that a range tombstone of its own stripe hides goes, and with it what is older in
//!    the stripe. The cell of a commit wins against the range tombstone of the same commit.
//! 4. What expired for every reader counts as a tombstone.
//! 5. A tombstone at or below the mark goes where nothing older of its key comes out, and nothing
//!    older of its key can exist further down ([`Below`]). Of several in a row the oldest stays.
//! 6. A range tombstone goes once no reader is older than it, and nothing older within its range
//!    can exist further down. What it covers in the inputs has gone then, by rules 2 and 3.
//! 7. A version that two inputs have comes out once.
//! 8. Of a dropped table nothing comes out.
//! 9. A version of a table whose cells pass goes once the hook says that it has.
//!
//! The cost lies in finding the next input. Eight bytes of each source's key are kept beside each
//! other, so that a comparison seldom looks at keys; they are taken from behind what all keys of
//! the job share, for the first 14 bytes of a flat key are the same throughout a wide partition.
//! An entry of 130 bytes in memory costs 31, 38, 47 and 54 ns with 2, 4, 8 and 12 sources, the
//! copy to the output included, in a wide partition as elsewhere; 1,000 range tombstones add 5 ns
//! (example `merge`).
//!
//! Deliberately absent: a seek over what goes. A range tombstone over a million cells is read
//! through; what it covers wholly leaves as whole files, by the policy.

mod collect;
mod fragments;
mod mark;
mod source;
#[cfg(test)]
mod tests;
mod tournament;

use std::cmp::Ordering;

use carnet_base::{Error, Result, TableId};

pub use mark::{GcHook, Mark};
pub use source::{Cell, Fragment, RangeVersion, Sink, Source};

use self::collect::{Collector, Fate};
use self::tournament::Tournament;
use super::below::Below;
use crate::manifest::{FlatRange, table_of};

/// Merges sources, one version a step.
#[derive(Debug)]
pub struct Merge<S, H> {
    inputs: Inputs<S>,
    tournament: Tournament,
    collector: Collector,
    hook: H,
    /// What becomes of the table of the key in progress.
    treatment: Treatment,
    fragments: Vec<Fragment>,
    /// The first fragment that does not end at or before the key in progress.
    fragment: usize,
    below: Below,
    /// The key in progress.
    key: Vec<u8>,
    begun: bool,
    /// Whether a version of it came out.
    out: bool,
    /// Its tombstone that waits for an older version.
    shadow: Option<RangeVersion>,
}

impl<S: Source, H: GcHook> Merge<S, H> {
    /// Begins a merge.
    ///
    /// `hull` holds every key of the sources, `range_tombstones` are those of all inputs, and
    /// `below` says where older data may lie. The mark is taken once, here.
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
            fragments,
            fragment: 0,
            below,
            key: Vec::new(),
            begun: false,
            out: false,
            shadow: None,
        }
    }

    /// Returns the range tombstones that come out, disjoint and ascending. Where an output file
    /// ends, the caller cuts what reaches over its end.
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

    /// Moves one version from the inputs to where it belongs. Returns how many bytes of key and
    /// payload were looked at, `None` once there are no more.
    ///
    /// # Errors
    ///
    /// What the source or the sink says; `Corrupted` where a source's keys do not ascend. The
    /// merge is of no use afterwards.
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<Option<u64>> {
        let winner = self.tournament.winner();
        let Some(source) = self.inputs.sources.get(winner) else { return Ok(None) };
        let Some(key) = source.key() else {
            self.end_key(sink)?;
            return Ok(None);
        };
        if !self.begun || key != self.key {
            self.turn_to_key(winner, sink)?;
        }
        let cell = self.inputs.sources[winner].cell();
        let bytes = (self.key.len() + cell.payload.map_or(0, <[u8]>::len)) as u64;
        let goes = match self.treatment {
            Treatment::Merged => false,
            Treatment::Dropped => true,
            Treatment::Passing => {
                let mark = self.collector.stripes().oldest();
                self.hook.has_passed(mark, &self.key, cell.commit)
            }
        };
        if !goes {
            let covering = match self.fragments.get(self.fragment) {
                Some(fragment) if fragment.lower <= self.key[..] => &fragment.versions[..],
                _ => &[],
            };
            match self.collector.decide(cell, covering) {
                Fate::Drop => {}
                Fate::Shadow => {
                    // The older one says all that a newer one would.
                    self.shadow = Some(RangeVersion { commit: cell.commit, start: cell.start });
                }
                Fate::Keep => {
                    if !self.out {
                        sink.begin_key(&self.key)?;
                        self.out = true;
                    }
                    cast(&mut self.shadow, &self.key, sink)?;
                    sink.push(&self.key, cell)?;
                    if self.treatment == Treatment::Passing {
                        sink.will_pass();
                    }
                }
            }
        }
        self.inputs.advance(winner)?;
        self.tournament.replay(|a, b| self.inputs.is_before(a, b));
        Ok(Some(bytes))
    }

    /// Leaves the key in progress for the one that a source stands on.
    fn turn_to_key(&mut self, winner: usize, sink: &mut impl Sink) -> Result<()> {
        self.end_key(sink)?;
        let Some(key) = self.inputs.sources[winner].key() else { return Ok(()) };
        if self.begun && key < &self.key[..] {
            return Err(Error::corrupted("an input of a compaction is not in the order of keys"));
        }
        if self.key.first_chunk::<4>() != key.first_chunk::<4>() || !self.begun {
            self.treatment =
                table_of(key).map_or(Treatment::Merged, |table| Treatment::of(table, &self.hook));
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.begun = true;
        self.collector.begin_key();
        while self.fragments.get(self.fragment).is_some_and(|next| next.upper <= self.key[..]) {
            self.fragment += 1;
        }
        Ok(())
    }

    /// Lets a waiting tombstone out where older data may lie further down, else forgets it.
    fn end_key(&mut self, sink: &mut impl Sink) -> Result<()> {
        if self.shadow.is_some() {
            if self.below.may_hold(&self.key) {
                if !self.out {
                    sink.begin_key(&self.key)?;
                }
                cast(&mut self.shadow, &self.key, sink)?;
            }
            self.shadow = None;
        }
        self.out = false;
        Ok(())
    }
}

/// What becomes of the cells of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// Versions that nobody can see go.
    Merged,
    /// As [`GcHook::passes`] says.
    Passing,
    /// All go.
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

/// Lets a waiting tombstone out.
fn cast(shadow: &mut Option<RangeVersion>, key: &[u8], sink: &mut impl Sink) -> Result<()> {
    match shadow.take() {
        Some(RangeVersion { commit, start }) => {
            sink.push(key, Cell { commit, start, expiry: None, payload: None })
        }
        None => Ok(()),
    }
}

/// The sources, and the order of what they stand on.
#[derive(Debug)]
struct Inputs<S> {
    sources: Vec<S>,
    /// Of each source's key the eight bytes behind what all keys share; all ones at the end.
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

/// Cuts range tombstones so that they no longer overlap, and leaves none out.
#[must_use]
pub fn disjoint(range_tombstones: impl IntoIterator<Item = Fragment>) -> Vec<Fragment> {
    fragments::combine(range_tombstones, Collector::new(&Mark::default()).stripes())
}

/// Reads eight bytes of a key behind its first `shared` ones, in an order that agrees with that
/// of keys.
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
