//! Range tombstones of a table.
//!
//! They are added in the order of their lower bounds and may overlap. A table stores them split at
//! every bound, so that fragments do not overlap and a binary search finds the one of a key:
//! ```text
//! added  ├────────── 7 ──────────┤              stored   ├── 7 ──┤── 9, 7 ──┤─ 7 ─┤
//!                ├──── 9 ───┤                             a       c          f     k
//! ```
//!
//! They are read when a table is opened and stay in memory; a table holds at most
//! [`RangeTombstones::BYTES_MAX`] of them. The memory of a table includes them.
//!
//! ```text
//! section := count VAR_LONG, fragment × count, CRC32C
//! fragment :=
//!   shared VAR_LONG, rest VAR_LONG, bytes      lower; shared with the previous upper bound
//!   shared VAR_LONG, rest VAR_LONG, bytes      upper; shared with the lower bound
//!   count VAR_LONG, then for each, newest first: commit VAR_LONG, start VAR_LONG
//! ```

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::damage::Wrong;
use super::flat_key::{KEY_BYTES_MAX, shared_len};
use super::statistics::{Counting, take_time};
use super::var;

/// Deletes every version with a smaller commit timestamp of every key in `[lower, upper)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// Lower bound, inclusive.
    pub lower: Bytes,
    /// Upper bound, exclusive.
    pub upper: Bytes,
    /// Commit timestamp of the transaction that deleted the range.
    pub commit: Timestamp,
    /// Start timestamp of that transaction.
    pub start: Timestamp,
}

/// A fragment, which overlaps no other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    lower: Bytes,
    upper: Bytes,
    /// Commit and start of each version, newest first; at least one.
    versions: Vec<(Timestamp, Timestamp)>,
}

impl Fragment {
    fn bytes(&self) -> usize {
        let version_bytes = self.versions.len() * size_of::<(Timestamp, Timestamp)>();
        size_of::<Self>() + self.lower.len() + self.upper.len() + version_bytes
    }
}

/// Range tombstones of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
    bytes: usize,
}

impl RangeTombstones {
    /// Maximum memory of the range tombstones of one table.
    pub const BYTES_MAX: usize = 64 << 20;

    /// Returns `true` if there are no range tombstones.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Returns the memory of the range tombstones.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the newest range tombstone at or before `read` that covers a key: commit and start.
    #[must_use]
    pub fn covering(&self, key: &[u8], read: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let at = self.fragments.partition_point(|fragment| fragment.upper <= key);
        let fragment = self.fragments.get(at).filter(|fragment| fragment.lower <= key)?;
        let at = fragment.versions.partition_point(|(commit, _)| *commit > read);
        fragment.versions.get(at).copied()
    }

    /// Returns `true` if a range tombstone of any time overlaps with `[lower, upper)`; `None` means
    /// no upper bound.
    #[must_use]
    pub fn overlaps(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let at = self.fragments.partition_point(|fragment| fragment.upper <= lower);
        let next = self.fragments.get(at);
        next.is_some_and(|next| upper.is_none_or(|upper| lower < upper && next.lower < upper))
    }

    /// Iterates over the versions of all fragments, in the order of lower bounds, newest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> {
        self.fragments.iter().flat_map(|fragment| {
            fragment.versions.iter().map(|&(commit, start)| RangeTombstone {
                lower: fragment.lower.clone(),
                upper: fragment.upper.clone(),
                commit,
                start,
            })
        })
    }

    pub(super) fn count(&self, counting: &mut Counting) {
        let versions = self.fragments.iter().flat_map(|fragment| &fragment.versions);
        versions.for_each(|&(commit, start)| counting.add_range(commit, start));
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        var::put(out, self.fragments.len() as u64);
        let mut last: &[u8] = &[];
        for Fragment { lower, upper, versions } in &self.fragments {
            put_key(out, last, lower);
            put_key(out, lower, upper);
            last = upper;
            var::put(out, versions.len() as u64);
            for (commit, start) in versions {
                var::put(out, commit.get());
                var::put(out, start.get());
            }
        }
    }

    pub(super) fn read(mut section: &[u8]) -> Result<Self, Wrong> {
        let bytes = &mut section;
        let count = var::take_len(bytes)?;
        let mut read = Self::default();
        let mut last = Bytes::new();
        for at in 0..count {
            let lower = take_key(bytes, &last)?;
            let upper = take_key(bytes, &lower)?;
            if upper <= lower || (at > 0 && lower < last) {
                return Err("the range tombstones are not in order");
            }
            last = upper.clone();
            let versions = take_versions(bytes)?;
            read.push(Fragment { lower, upper, versions });
            if read.bytes > Self::BYTES_MAX {
                return Err("the range tombstones take too much memory");
            }
        }
        if bytes.is_empty() { Ok(read) } else { Err("the range tombstones are too long") }
    }

    fn push(&mut self, fragment: Fragment) {
        self.bytes += fragment.bytes();
        self.fragments.push(fragment);
    }
}

fn put_key(out: &mut Vec<u8>, last: &[u8], key: &[u8]) {
    let shared = shared_len(last, key);
    var::put(out, shared as u64);
    var::put(out, (key.len() - shared) as u64);
    out.extend_from_slice(&key[shared..]);
}

fn take_key(bytes: &mut &[u8], last: &[u8]) -> Result<Bytes, Wrong> {
    let shared = last.get(..var::take_len(bytes)?).ok_or("a key shares too much")?;
    let rest = var::take_len(bytes)?;
    let (rest, left) = bytes.split_at_checked(rest).ok_or("a key ends too early")?;
    if shared.len() + rest.len() > KEY_BYTES_MAX + 1 {
        return Err("a key is too long");
    }
    *bytes = left;
    Ok([shared, rest].concat().into())
}

fn take_versions(bytes: &mut &[u8]) -> Result<Vec<(Timestamp, Timestamp)>, Wrong> {
    let count = var::take_len(bytes)?;
    // Each version takes at least two bytes.
    if count == 0 || count > bytes.len() {
        return Err("a range tombstone's number of versions is impossible");
    }
    let mut versions: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(count);
    for _ in 0..count {
        let version = (take_time(bytes)?, take_time(bytes)?);
        if versions.last().is_some_and(|last| last.0 <= version.0) {
            return Err("a range tombstone's versions are not in order");
        }
        versions.push(version);
    }
    Ok(versions)
}

/// Splits range tombstones, added in the order of their lower bounds, into fragments.
#[derive(Default)]
pub(super) struct Fragmenter {
    done: RangeTombstones,
    /// Begin of the next fragment.
    at: Bytes,
    /// Range tombstones that began at or before `at` and end after it, by upper bound.
    open: Vec<(Bytes, Timestamp, Timestamp)>,
    last_lower: Bytes,
}

impl Fragmenter {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.done.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.done.bytes + self.open.len() * size_of::<Fragment>()
    }

    /// Adds a range tombstone.
    ///
    /// # Errors
    ///
    /// `Unsupported` if they take more than [`RangeTombstones::BYTES_MAX`].
    ///
    /// # Panics
    ///
    /// If it is out of order.
    pub(super) fn push(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        let RangeTombstone { lower, upper, commit, start } = tombstone;
        assert!(
            *lower >= self.last_lower,
            "range tombstones come in the order of their lower ends"
        );
        self.last_lower = lower.clone();
        if lower >= upper {
            return Ok(());
        }
        self.close_until(Some(lower))?;
        self.at = lower.clone();
        let at = self.open.partition_point(|(open, ..)| open <= upper);
        self.open.insert(at, (upper.clone(), *commit, *start));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<RangeTombstones> {
        self.close_until(None)?;
        Ok(self.done)
    }

    /// Makes fragments up to a key, or to the end.
    fn close_until(&mut self, key: Option<&Bytes>) -> Result<()> {
        while let Some((end, ..)) = self.open.first() {
            let end = match key {
                Some(key) if key < end => key.clone(),
                _ => end.clone(),
            };
            if end > self.at {
                self.piece(end.clone())?;
            }
            self.open.retain(|(upper, ..)| *upper > end);
            self.at = end;
            if key == Some(&self.at) {
                break;
            }
        }
        Ok(())
    }

    fn piece(&mut self, upper: Bytes) -> Result<()> {
        let mut versions: Vec<_> = self.open.iter().map(|&(_, c, s)| (c, s)).collect();
        versions.sort_unstable_by(|left, right| right.cmp(left));
        versions.dedup_by_key(|(commit, _)| *commit);
        let lower = self.at.clone();
        // Joins fragments that only an earlier table's bounds had split.
        if let Some(last) = self.done.fragments.last_mut()
            && last.upper == lower
            && last.versions == versions
        {
            last.upper = upper;
            return Ok(());
        }
        self.done.push(Fragment { lower, upper, versions });
        if self.done.bytes > RangeTombstones::BYTES_MAX {
            return Err(Error::unsupported(format_args!(
                "range tombstones of more than {} bytes in one table: begin another one",
                RangeTombstones::BYTES_MAX
            )));
        }
        Ok(())
    }
}
