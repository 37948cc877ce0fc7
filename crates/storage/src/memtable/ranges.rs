//! Range tombstones of a memtable, as fragments that do not overlap.
//!
//! ```text
//!  delete [b, m) at 10, [f, z) at 20
//!  fragments   [b, f): 10    [f, m): 20, 10    [m, z): 20
//! ```
//!
//! A lookup finds the last fragment that begins at or before the key. An insertion splits the
//! fragments at the ends of the new range, adds its version to those within, and fills the gaps
//! between them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use carnet_base::Timestamp;

use crate::lock::{read, write};

/// A key range and the (commit, start) of every deletion that covers it, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) lower: Bytes,
    pub(crate) upper: Bytes,
    pub(crate) versions: Vec<(Timestamp, Timestamp)>,
}

impl Fragment {
    /// Returns the newest deletion at or before a snapshot: its commit and start.
    pub(crate) fn at(&self, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        self.versions.iter().find(|(commit, _)| *commit <= at).copied()
    }
}

/// Range tombstones; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Fragments by lower bound.
    fragments: RwLock<BTreeMap<Bytes, Fragment>>,
    len: AtomicUsize,
    /// Bytes of keys and versions.
    bytes: AtomicUsize,
}

/// Approximate size of a fragment without keys and versions.
const FRAGMENT_BYTES: usize = 256;
/// Size of a version; a `Vec` allocates up to twice its length.
const VERSION_BYTES: usize = 2 * size_of::<(Timestamp, Timestamp)>();

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Returns the approximate memory. Nested ranges take more: each fragment holds the versions of
    /// all ranges that cover it.
    pub(super) fn allocated(&self) -> usize {
        self.len.load(Ordering::Relaxed) * FRAGMENT_BYTES + self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn insert(
        &self,
        (commit, start): (Timestamp, Timestamp),
        lower: &[u8],
        upper: &[u8],
    ) {
        if lower >= upper {
            return;
        }
        let mut fragments = write(&self.fragments);
        let mut added = cut(&mut fragments, lower) + cut(&mut fragments, upper);
        let bytes = Bytes::copy_from_slice;
        let (mut at, upper) = (bytes(lower), bytes(upper));
        let mut gaps = Vec::new();
        for (begin, fragment) in fragments.range_mut(at.clone()..upper.clone()) {
            if *begin > at {
                gaps.push((at, begin.clone()));
            }
            at = fragment.upper.clone();
            let place = fragment.versions.partition_point(|(other, _)| *other > commit);
            if fragment.versions.get(place).is_none_or(|(other, _)| *other != commit) {
                fragment.versions.insert(place, (commit, start));
                added += VERSION_BYTES;
            }
        }
        if at < upper {
            gaps.push((at, upper));
        }
        for (lower, upper) in gaps {
            let versions = vec![(commit, start)];
            added += lower.len() + upper.len() + VERSION_BYTES;
            fragments.insert(lower.clone(), Fragment { lower, upper, versions });
        }
        self.bytes.fetch_add(added, Ordering::Relaxed);
        self.len.store(fragments.len(), Ordering::Release);
    }

    /// Returns the newest deletion of a key at or before a snapshot.
    pub(super) fn covering(&self, key: &[u8], at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        if self.is_empty() {
            return None;
        }
        let fragments = read(&self.fragments);
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (_, fragment) = fragments.range::<[u8], _>(upto).next_back()?;
        if *fragment.upper > *key { fragment.at(at) } else { None }
    }

    /// Returns all fragments, in key order.
    pub(super) fn fragments(&self) -> Vec<Fragment> {
        if self.is_empty() {
            return Vec::new();
        }
        read(&self.fragments).values().cloned().collect()
    }
}

/// Splits the fragment that spans a key, if any; returns the bytes added.
fn cut(fragments: &mut BTreeMap<Bytes, Fragment>, key: &[u8]) -> usize {
    let before = (Bound::Unbounded, Bound::Excluded(key));
    let Some((_, fragment)) = fragments.range_mut::<[u8], _>(before).next_back() else {
        return 0;
    };
    if *fragment.upper <= *key {
        return 0;
    }
    let key = Bytes::copy_from_slice(key);
    let upper = std::mem::replace(&mut fragment.upper, key.clone());
    let versions = fragment.versions.clone();
    let added = key.len() + versions.len() * VERSION_BYTES;
    fragments.insert(key.clone(), Fragment { lower: key, upper, versions });
    added
}
