//! Finds the version of a cell that is visible at a snapshot.
//!
//! A store returns the newest *candidate*. A stamped version is visible: the store passes over
//! versions stamped above the snapshot. An unstamped version is looked up in the commit table. If
//! it is undecided, aborted, or committed later, the read goes on below it:
//!
//! ```text
//!   x:  S=40 unstamped, running  ─ look up: pending   ─▶ below 40
//!       S=31 unstamped           ─ look up: C=52 > R  ─▶ below 31
//!       S=12 stamped C=14 ≤ R    ─ visible
//! ```
//!
//! A sweep may stamp a version and delete its entry between the read and the lookup. So if a lookup
//! finds no commit, the version is read once more, and a stamp found then wins.

use carnet_base::{CellKey, Result, Timestamp, Version};
use carnet_store::{At, CellStore, CommitLog, Context, Outcome};

/// Reads a cell at a snapshot; a tombstone is returned as one.
///
/// # Errors
///
/// See the store's.
pub async fn read<S: CellStore + CommitLog>(
    store: &S,
    context: &Context,
    key: &CellKey,
    snapshot: Timestamp,
) -> Result<Option<Version>> {
    let mut at = At::snapshot(snapshot);
    loop {
        let Some(candidate) = store.get(context, key, at).await? else { return Ok(None) };
        match settle(store, context, key, candidate, at).await? {
            Settled::Visible(version) => return Ok(Some(version)),
            Settled::Hidden(start) => at = at.below(start),
        }
    }
}

/// Reads the first of many cells at a snapshot, see [`CellStore::get_many`].
///
/// # Errors
///
/// See the store's.
pub async fn read_many<S: CellStore + CommitLog>(
    store: &S,
    context: &Context,
    keys: &[CellKey],
    snapshot: Timestamp,
    bytes_max: usize,
) -> Result<Vec<Option<Version>>> {
    let mut found = store.get_many(context, keys, At::snapshot(snapshot), bytes_max).await?;
    for (key, version) in keys.iter().zip(&mut found) {
        if let Some(candidate) = version.take() {
            *version = resolve(store, context, key, candidate, snapshot).await?;
        }
    }
    Ok(found)
}

/// Finds the visible version of a cell whose newest candidate another read has returned.
///
/// # Errors
///
/// See the store's.
pub async fn resolve<S: CellStore + CommitLog>(
    store: &S,
    context: &Context,
    key: &CellKey,
    candidate: Version,
    snapshot: Timestamp,
) -> Result<Option<Version>> {
    if candidate.commit.is_some() {
        return Ok(Some(candidate));
    }
    match settle(store, context, key, candidate, At::snapshot(snapshot)).await? {
        Settled::Visible(version) => Ok(Some(version)),
        Settled::Hidden(_) => read(store, context, key, snapshot).await,
    }
}

enum Settled {
    Visible(Version),
    Hidden(Timestamp),
}

async fn settle<S: CellStore + CommitLog>(
    store: &S,
    context: &Context,
    key: &CellKey,
    candidate: Version,
    at: At,
) -> Result<Settled> {
    if candidate.commit.is_some() {
        return Ok(Settled::Visible(candidate));
    }
    let start = candidate.start;
    match store.outcome_for_reader(context, start, at.read).await? {
        Outcome::Committed(commit) if commit <= at.read => {
            Ok(Settled::Visible(Version { commit: Some(commit), ..candidate }))
        }
        Outcome::Committed(_) => Ok(Settled::Hidden(start)),
        Outcome::Aborted | Outcome::Pending => {
            // Read that version, not a version that became visible later: a newer version on a
            // single replica would be taken for the absence of this version.
            let through = start.checked_add(1).unwrap_or(Timestamp::MAX);
            let again = store.get(context, key, at.below(through)).await?;
            Ok(match again {
                Some(version) if version.start == start && version.commit.is_some() => {
                    Settled::Visible(version)
                }
                _ => Settled::Hidden(start),
            })
        }
    }
}
