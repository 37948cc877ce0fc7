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

use std::future::Future;
use std::pin::Pin;

use carnet_base::concurrent::join;
use carnet_base::{CellKey, CellPage, CellRef, CellsBuilder, Result, Timestamp, Version};
use carnet_store::{At, CandidatePage, Context, Store};

use crate::merge;
use crate::settle::{Settled, settle};

/// Number of cells that are looked up concurrently.
const RESOLVED_AT_ONCE: usize = 16;

/// A look-up of a cell, with the place of its result.
type Resolving<'a> = Pin<Box<dyn Future<Output = Result<(usize, Option<Version>)>> + Send + 'a>>;

/// Reads a cell at a snapshot; a tombstone is returned as one.
///
/// # Errors
///
/// See the store's.
pub async fn read(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    snapshot: Timestamp,
) -> Result<Option<Version>> {
    let mut at = At::snapshot(snapshot);
    loop {
        let Some(candidate) = store.get(context, key, at).await? else { return Ok(None) };
        match settle(store, context, key, candidate, at).await? {
            Settled::Visible(version) => {
                if let Some(row) = merge::row(store, context, key, version, snapshot).await? {
                    return Ok(Some(row));
                }
                at = At::snapshot(snapshot);
            }
            Settled::Hidden(start) => at = at.below(start),
        }
    }
}

/// Reads the first of many cells at a snapshot, see [`CellStore::get_many`](carnet_store::CellStore::get_many).
///
/// # Errors
///
/// See the store's.
pub async fn read_many(
    store: &dyn Store,
    context: &Context,
    keys: &[CellKey],
    snapshot: Timestamp,
    bytes_max: usize,
) -> Result<Vec<Option<Version>>> {
    let found = store.get_many(context, keys, At::snapshot(snapshot), bytes_max).await?;
    resolve_all(store, context, keys, found, snapshot).await
}

/// Finds the visible versions of cells whose newest candidates another read has returned. Reads of
/// several cells, if they are necessary, run concurrently.
///
/// # Errors
///
/// See the store's.
pub async fn resolve_all(
    store: &dyn Store,
    context: &Context,
    keys: &[CellKey],
    found: Vec<Option<Version>>,
    snapshot: Timestamp,
) -> Result<Vec<Option<Version>>> {
    let (mut versions, mut unclear) = (Vec::with_capacity(found.len()), Vec::new());
    for (place, (key, candidate)) in keys.iter().zip(found).enumerate() {
        match candidate {
            Some(candidate) if !is_row(store, key, &candidate) => {
                unclear.push((place, key, candidate));
                versions.push(None);
            }
            settled => versions.push(settled),
        }
    }
    if unclear.is_empty() {
        return Ok(versions);
    }
    let mut resolving: Vec<Resolving<'_>> = Vec::with_capacity(unclear.len());
    for (place, key, candidate) in unclear {
        resolving.push(Box::pin(async move {
            Ok((place, resolve(store, context, key, candidate, snapshot).await?))
        }));
    }
    for (place, version) in join(resolving, RESOLVED_AT_ONCE).await? {
        versions[place] = version;
    }
    Ok(versions)
}

/// Finds the visible versions of the cells of a page.
///
/// # Errors
///
/// See the store's.
pub async fn settle_page(
    store: &dyn Store,
    context: &Context,
    candidates: CandidatePage,
    snapshot: Timestamp,
) -> Result<CellPage> {
    let CandidatePage { page, unsettled } = candidates;
    if unsettled.is_empty() {
        return Ok(page);
    }
    let (mut keys, mut found) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(unsettled.len());
    for candidate in unsettled {
        places.push(candidate.before);
        keys.push(candidate.key);
        found.push(Some(candidate.version));
    }
    // In memory of its own: pages of a store with all commit timestamps need no look-up.
    let versions = Box::pin(resolve_all(store, context, &keys, found, snapshot)).await?;
    let (mut cells, mut settled) = (CellsBuilder::default(), page.cells.iter());
    let mut deleted = page.deleted;
    for ((before, key), version) in places.into_iter().zip(&keys).zip(&versions) {
        let between = before - (page.cells.len() - settled.len());
        settled.by_ref().take(between).for_each(|cell| cells.push(&cell));
        if let Some(Version { start, commit: Some(commit), payload: Some(payload) }) = version {
            let (key, start, commit) = (key.as_key_ref(), *start, *commit);
            cells.push(&CellRef { key, start, commit, payload });
        } else if let Some(Version { payload: None, .. }) = version {
            deleted += 1;
        }
    }
    settled.for_each(|cell| cells.push(&cell));
    Ok(CellPage { cells: cells.finish(), resume: page.resume, deleted })
}

/// Returns `true` for a stamped version that is no delta: most versions need no look-up.
fn is_row(store: &dyn Store, key: &CellKey, version: &Version) -> bool {
    version.commit.is_some() && !store.is_delta(key.table(), version)
}

/// Finds the visible version of a cell whose newest candidate another read has returned.
///
/// # Errors
///
/// See the store's.
pub async fn resolve(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    candidate: Version,
    snapshot: Timestamp,
) -> Result<Option<Version>> {
    if is_row(store, key, &candidate) {
        return Ok(Some(candidate));
    }
    if let Settled::Visible(version) =
        settle(store, context, key, candidate, At::snapshot(snapshot)).await?
        && let Some(row) = merge::row(store, context, key, version, snapshot).await?
    {
        return Ok(Some(row));
    }
    read(store, context, key, snapshot).await
}
