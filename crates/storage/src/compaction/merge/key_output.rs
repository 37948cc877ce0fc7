//! Output of one key: pending tombstones and deltas, until an older version decides about them.

use carnet_base::Result;

use super::chain::{Chain, ChainEnd};
use super::collect::Decision;
use super::mark::GcHook;
use super::source::{Cell, RangeVersion, Sink};
use crate::compaction::below::Below;
use crate::manifest::VersionKind;

/// The current key of a merge, and its versions that are not written yet.
#[derive(Debug, Default)]
pub(super) struct KeyOutput {
    pub(super) key: Vec<u8>,
    /// Whether the key was begun in the sink.
    is_begun: bool,
    /// Pending tombstone; written only if an older version survives or may exist. Newer than the
    /// chain.
    tombstone: Option<RangeVersion>,
    chain: Chain,
}

impl KeyOutput {
    /// Takes the next version of the key, newest first.
    pub(super) fn take(
        &mut self,
        decision: Decision,
        cell: Cell<'_>,
        kind: VersionKind,
        stripe: Option<usize>,
        hook: &impl GcHook,
        sink: &mut impl Sink,
    ) -> Result<()> {
        if decision == Decision::Drop {
            return Ok(());
        }
        let is_below_chain = !self.chain.is_empty() && self.chain.stripe() == stripe;
        // The value would not expire with the version that it was merged with.
        let expires = decision == Decision::Keep && cell.expiry.is_some();
        if is_below_chain && decision != Decision::Delta && !expires {
            let below = match decision {
                Decision::Keep => ChainEnd::Value(cell),
                Decision::Tombstone => {
                    ChainEnd::Tombstone(RangeVersion { commit: cell.commit, start: cell.start })
                }
                Decision::Covered | Decision::Drop | Decision::Delta => ChainEnd::Nothing,
            };
            self.begin(sink)?;
            self.tombstone = self.chain.write_merged(below, &self.key, hook, sink)?;
            return Ok(());
        }
        if !self.chain.is_empty() && (!is_below_chain || expires) {
            self.begin(sink)?;
            self.chain.write(&self.key, VersionKind::Delta, sink)?;
        }
        match decision {
            Decision::Delta => self.chain.push(cell, stripe),
            Decision::Tombstone => {
                // The older tombstone hides the same versions as the newer one.
                self.tombstone = Some(RangeVersion { commit: cell.commit, start: cell.start });
            }
            Decision::Keep => {
                self.begin(sink)?;
                sink.push(&self.key, cell, kind)?;
            }
            Decision::Covered | Decision::Drop => {}
        }
        Ok(())
    }

    /// Ends the key. If no older data may exist in deeper levels, a pending tombstone is dropped and
    /// pending deltas are merged.
    pub(super) fn end(
        &mut self,
        below: &mut Below,
        hook: &impl GcHook,
        sink: &mut impl Sink,
    ) -> Result<()> {
        if !self.chain.is_empty() || self.tombstone.is_some() {
            let has_older = below.may_hold(&self.key);
            if !self.chain.is_empty() {
                self.begin(sink)?;
                if has_older {
                    self.chain.write(&self.key, VersionKind::Delta, sink)?;
                } else {
                    // Nothing older exists, so a tombstone is not needed.
                    let _ = self.chain.write_merged(ChainEnd::Nothing, &self.key, hook, sink)?;
                }
            } else if has_older {
                self.begin(sink)?;
            }
            self.tombstone = None;
        }
        self.is_begun = false;
        Ok(())
    }

    /// Begins the key in the sink, and writes a pending tombstone.
    fn begin(&mut self, sink: &mut impl Sink) -> Result<()> {
        if !self.is_begun {
            sink.begin_key(&self.key)?;
            self.is_begun = true;
        }
        match self.tombstone.take() {
            Some(RangeVersion { commit, start }) => {
                let cell = Cell { commit, start, expiry: None, payload: None };
                sink.push(&self.key, cell, VersionKind::Tombstone)
            }
            None => Ok(()),
        }
    }
}
