//! Merges deltas, over stores that do not merge them themselves.
//!
//! If the visible version of a cell is a delta, the reader goes on to older versions until an image or a tombstone.
//! The order of a cell's starts is the order of its commits, so the versions below a visible one are final.
//!
//! ```text
//!   x:  S=40 C=44 delta  b = 2        visible, a delta: go on
//!       S=37 undecided                skipped: it can only abort
//!       S=31 C=36 delta  a = 1
//!       S=12 C=14 image  a = 0, b = 0, c = 0       row of S=40: a = 1, b = 2, c = 0
//! ```
//!
//! # Invariants
//!
//! * The merged row takes the place of the newest version: all snapshots that see that version see the same row. So a
//!   store may write the row under the start of that version at any time, and several processes that do so write the
//!   same bytes.
//! * The sweep writes the row of a delta before it deletes the versions below and their commit entries. A reader that
//!   has read the delta before that, and misses a version below, must not take it for absent or aborted: it reads all
//!   deltas once more, see [`DeltaChain`].

use carnet_base::{Bytes, CellKey, Result, Timestamp, Version};
use carnet_store::{At, Context, DeltaChain, Store};

use crate::settle::{Settled, settle};

/// Number of versions in the first read below a delta. Over a cluster the leader writes a row after
/// eight deltas, while some more may arrive.
const CHAIN_FIRST: usize = 12;
/// Maximum number of versions in one read.
const CHAIN_MAX: usize = 256;

/// Returns the row of a visible version: the version itself unless it is a delta. `None` if a delta
/// was deleted meanwhile, so that the cell has to be read again.
pub(crate) async fn row(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    newest: Version,
    read: Timestamp,
) -> Result<Option<Version>> {
    let payload = match &newest.payload {
        Some(payload) if store.is_delta(key.table(), &newest) => payload.clone(),
        _ => return Ok(Some(newest)),
    };
    // In memory of its own: most versions are images.
    Box::pin(merged(store, context, key, newest, payload, read)).await
}

/// Merges a delta with the versions below it.
async fn merged(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    newest: Version,
    payload: Bytes,
    read: Timestamp,
) -> Result<Option<Version>> {
    let mut chain = DeltaChain::default();
    chain.push(newest.start, payload);
    let reading = Reading { store, context, key, read };
    let is_complete = reading.below(&mut chain, newest.start).await?;
    if !is_complete && !chain.confirm(&reading.again(&chain).await?) {
        return Ok(None);
    }
    let row = Version { payload: chain.row()?, ..newest };
    store.merged(context, key, &row, read, chain.len());
    Ok(Some(row))
}

/// A read of the chain of a cell at a snapshot.
struct Reading<'a> {
    store: &'a dyn Store,
    context: &'a Context,
    key: &'a CellKey,
    read: Timestamp,
}

impl Reading<'_> {
    /// Adds the versions below `newest` down to an image or a tombstone. Returns `false` if a version
    /// may be missing, because one has no outcome or the cell has no more.
    async fn below(&self, chain: &mut DeltaChain, newest: Timestamp) -> Result<bool> {
        let (mut max, mut is_complete) = (CHAIN_FIRST, true);
        let mut at = At::snapshot(self.read).below(newest);
        loop {
            let candidates = self.store.get_chain(self.context, self.key, at, max).await?;
            let is_last = candidates.len() < max;
            self.look_up(&candidates).await?;
            for candidate in candidates {
                let through = at;
                at = at.below(candidate.start);
                let settled =
                    settle(self.store, self.context, self.key, candidate, through).await?;
                let Settled::Visible(version) = settled else {
                    is_complete = false;
                    continue;
                };
                let is_delta = self.store.is_delta(self.key.table(), &version);
                match version.payload {
                    Some(delta) if is_delta => chain.push(version.start, delta),
                    image => {
                        chain.end_at(version.start, image);
                        return Ok(is_complete);
                    }
                }
            }
            if is_last {
                return Ok(false);
            }
            max = (max * 4).min(CHAIN_MAX);
        }
    }

    /// Looks up the outcomes of the versions down to the first image together: each on its own would
    /// be a request, one after the other.
    async fn look_up(&self, candidates: &[Version]) -> Result<()> {
        let is_delta = |version: &&Version| self.store.is_delta(self.key.table(), version);
        let deltas = candidates.iter().take_while(is_delta).count();
        let through_image = candidates.iter().take(deltas + 1);
        let unstamped = through_image.filter(|version| version.commit.is_none());
        let starts: Vec<Timestamp> = unstamped.map(|version| version.start).collect();
        match starts.len() {
            0 | 1 => Ok(()),
            _ => self.store.look_up_outcomes(self.context, &starts, self.read).await,
        }
    }

    /// Reads all versions from the newest delta to the oldest again.
    async fn again(&self, chain: &DeltaChain) -> Result<Vec<Version>> {
        let (mut again, mut max) = (Vec::new(), CHAIN_FIRST.max(chain.len()));
        let Some((newest, oldest)) = chain.starts() else { return Ok(again) };
        let through = newest.checked_add(1).unwrap_or(Timestamp::MAX);
        let mut at = At::snapshot(self.read).below(through);
        loop {
            let found = self.store.get_chain(self.context, self.key, at, max).await?;
            let last = found.last().filter(|_| found.len() >= max).map(|version| version.start);
            again.extend(found);
            match last {
                Some(last) if last > oldest => at = at.below(last),
                _ => return Ok(again),
            }
            max = (max * 4).min(CHAIN_MAX);
        }
    }
}
