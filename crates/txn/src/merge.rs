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
//!   has read the delta before that, and misses a version below, must not take it for absent or aborted: it reads the
//!   oldest delta once more. A read that begins after the deletion sees the row, or that the delta is gone.

use carnet_base::{Bytes, CellKey, Result, RowDelta, Timestamp, Version};
use carnet_store::{At, CellStore, CommitLog, Context};

use crate::settle::{Settled, settle};

/// Number of versions in the first read below a delta; a store writes rows of longer chains.
const CHAIN_FIRST: usize = 8;
/// Maximum number of versions in one read.
const CHAIN_MAX: usize = 256;

/// Deltas of a cell that were read so far, newest first.
struct Chain {
    deltas: Vec<(Timestamp, Bytes)>,
    /// Only versions with a smaller start are left to read.
    at: At,
}

/// End of a chain of deltas.
enum End {
    /// The image below the deltas; `None` if the cell has no row below them.
    Row(Option<(Timestamp, Bytes)>),
    /// A delta was replaced or deleted meanwhile.
    Changed,
}

/// Returns the row of a visible version: the version itself unless it is a delta. `None` if the
/// versions changed meanwhile, so that the cell has to be read again.
pub(crate) async fn row<S: CellStore + CommitLog>(
    store: &S,
    context: &Context,
    key: &CellKey,
    newest: Version,
    read: Timestamp,
) -> Result<Option<Version>> {
    let payload = match &newest.payload {
        Some(payload) if store.is_delta(key.table(), &newest) => payload.clone(),
        _ => return Ok(Some(newest)),
    };
    let at = At::snapshot(read).below(newest.start);
    let mut chain = Chain { deltas: vec![(newest.start, payload)], at };
    let End::Row(image) = chain.read(store, context, key).await? else { return Ok(None) };
    let image = image.as_ref().map(|(start, payload)| (*start, payload));
    let row = RowDelta::merge(image, &chain.deltas)?;
    let row = Version { payload: row.is_live().then(|| row.encode()), ..newest };
    store.merged(context, key, &row, read, chain.deltas.len() + usize::from(image.is_some()));
    Ok(Some(row))
}

impl Chain {
    async fn read<S: CellStore + CommitLog>(
        &mut self,
        store: &S,
        context: &Context,
        key: &CellKey,
    ) -> Result<End> {
        let (mut max, mut is_complete) = (CHAIN_FIRST, true);
        loop {
            let candidates = store.get_chain(context, key, self.at, max).await?;
            let is_last = candidates.len() < max;
            for candidate in candidates {
                let at = self.at;
                self.at = at.below(candidate.start);
                let settled = settle(store, context, key, candidate, at).await?;
                let Settled::Visible(version) = settled else {
                    is_complete = false;
                    continue;
                };
                let is_delta = store.is_delta(key.table(), &version);
                let image = match version.payload {
                    Some(delta) if is_delta => {
                        self.deltas.push((version.start, delta));
                        continue;
                    }
                    Some(image) => Some((version.start, image)),
                    None => None,
                };
                let is_certain = is_complete || self.is_unchanged(store, context, key).await?;
                return Ok(if is_certain { End::Row(image) } else { End::Changed });
            }
            if is_last {
                let is_certain = self.is_unchanged(store, context, key).await?;
                return Ok(if is_certain { End::Row(None) } else { End::Changed });
            }
            max = (max * 4).min(CHAIN_MAX);
        }
    }

    /// Reads the oldest delta again, because a version below it may have been deleted.
    async fn is_unchanged<S: CellStore + CommitLog>(
        &self,
        store: &S,
        context: &Context,
        key: &CellKey,
    ) -> Result<bool> {
        let Some((oldest, _)) = self.deltas.last() else { return Ok(false) };
        let through = oldest.checked_add(1).unwrap_or(Timestamp::MAX);
        let again = store.get(context, key, At::snapshot(self.at.read).below(through)).await?;
        Ok(again.is_some_and(|again| again.start == *oldest && store.is_delta(key.table(), &again)))
    }
}
