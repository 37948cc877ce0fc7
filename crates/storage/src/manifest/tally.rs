//! Counts a file's contents while it is written.
//!
//! The counts of garbage tell compaction what a merge of the file would drop, so they follow the
//! rules of [`merge`](crate::compaction::merge): a merge that wrote a file would drop nothing from
//! it again, and the counts of its output say so.

use bytes::Bytes;
use carnet_base::Timestamp;

use super::range::{FlatRange, after};
use super::table::{Contents, TableMeta};

/// Kind of a version, as a merge treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// Value, which hides all older versions.
    Value,
    /// Tombstone, which hides all older versions.
    Tombstone,
    /// Delta, which a merge combines with the next older version.
    Delta,
    /// Delta of a chain that a merge could not combine, and kept.
    StuckDelta,
}

impl VersionKind {
    /// Returns the kind of a version that is no delta.
    #[must_use]
    pub const fn whole(payload: Option<&[u8]>) -> Self {
        if payload.is_none() { Self::Tombstone } else { Self::Value }
    }

    /// Returns the kind of a version, given the first byte of its table's deltas.
    #[must_use]
    pub fn of(payload: Option<&[u8]>, delta_mark: Option<u8>) -> Self {
        let first = payload.and_then(|payload| payload.first().copied());
        if delta_mark.is_some() && first == delta_mark { Self::Delta } else { Self::whole(payload) }
    }
}

/// Newer versions of the current key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Above {
    #[default]
    Nothing,
    /// Only this many deltas.
    Deltas(u64),
    /// Only deltas, some of which cannot be merged.
    StuckDeltas,
    /// A version that hides all older ones.
    Hiding,
}

/// Counts a file's contents while it is written.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    contents: Contents,
    commits: Option<(Timestamp, Timestamp)>,
    lower: Option<Bytes>,
    last_key: Vec<u8>,
    /// Greatest upper bound of a range tombstone.
    upper: Option<Bytes>,
    above: Above,
    /// Whether a cell was counted that passes with the next one of its table.
    has_passing: bool,
}

impl Tally {
    /// Counts a version. Versions come in order.
    pub fn cell(&mut self, key: &[u8], commit: Timestamp, expiry: Option<u64>, kind: VersionKind) {
        let first = self.contents.cells == 0;
        if first {
            self.begin_at(key);
        }
        if first || key != self.last_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            self.above = Above::Nothing;
        }
        self.contents.cells += 1;
        self.contents.tombstones += u64::from(kind == VersionKind::Tombstone);
        // The expiry of a value below deltas that cannot be merged has no effect.
        let expiry = expiry.filter(|_| kind == VersionKind::Value);
        if let Some(expiry) = expiry.filter(|_| self.above != Above::StuckDeltas) {
            self.expiring(expiry);
        }
        self.garbage(kind, expiry.is_some());
        self.commit(commit);
    }

    fn expiring(&mut self, expiry: u64) {
        let contents = &mut self.contents;
        let least = if contents.expiring == 0 { expiry } else { contents.expiry_min };
        contents.expiry_min = least.min(expiry);
        contents.expiry_max = contents.expiry_max.max(expiry);
        contents.expiring += 1;
    }

    /// Counts what a merge would drop from the current key if it had this version as well.
    fn garbage(&mut self, kind: VersionKind, expires: bool) {
        let Contents { overwritten, bottom_garbage, .. } = &mut self.contents;
        let is_tombstone = kind == VersionKind::Tombstone;
        self.above = match (self.above, kind) {
            (Above::Hiding, _) => {
                *overwritten += 1;
                Above::Hiding
            }
            (Above::Nothing, VersionKind::Delta) => Above::Deltas(1),
            // Without a version below them, deltas become one value, but only above nothing.
            (Above::Deltas(count), VersionKind::Delta) => {
                *bottom_garbage += 1;
                Above::Deltas(count + 1)
            }
            (Above::StuckDeltas, VersionKind::Delta | VersionKind::StuckDelta) => {
                Above::StuckDeltas
            }
            (Above::Deltas(count), _) => {
                *bottom_garbage -= count - 1;
                // Deltas are not merged with a value that expires: the result would not expire.
                let is_merged = kind != VersionKind::StuckDelta && !expires;
                *overwritten += if is_merged { count } else { 0 };
                if kind == VersionKind::StuckDelta { Above::StuckDeltas } else { Above::Hiding }
            }
            (Above::Nothing, VersionKind::StuckDelta) => Above::StuckDeltas,
            (Above::Nothing | Above::StuckDeltas, _) => {
                *bottom_garbage += u64::from(is_tombstone);
                Above::Hiding
            }
        };
    }

    /// Records that compaction drops the last version counted, the only one of its key, once the GC
    /// watermark has passed it. With `keeps_newest` it does so only if a later cell of the table has
    /// been passed as well.
    pub fn will_pass(&mut self, keeps_newest: bool) {
        if keeps_newest && !std::mem::replace(&mut self.has_passing, true) {
            return;
        }
        let contents = &mut self.contents;
        contents.overwritten = (contents.overwritten + 1).min(contents.cells);
    }

    /// Counts one version of a fragment of range tombstones.
    pub fn range_tombstone(&mut self, lower: &[u8], upper: &[u8], commit: Timestamp) {
        self.begin_at(lower);
        if self.upper.as_ref().is_none_or(|furthest| upper > *furthest) {
            self.upper = Some(Bytes::copy_from_slice(upper));
        }
        self.contents.range_tombstones += 1;
        self.commit(commit);
    }

    fn begin_at(&mut self, key: &[u8]) {
        if self.lower.as_ref().is_none_or(|lower| key < *lower) {
            self.lower = Some(Bytes::copy_from_slice(key));
        }
    }

    fn commit(&mut self, commit: Timestamp) {
        let (least, greatest) = self.commits.unwrap_or((commit, commit));
        self.commits = Some((least.min(commit), greatest.max(commit)));
    }

    /// Returns the key of the last version; empty before the first.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Describes the finished file; `None` if nothing was counted.
    #[must_use]
    pub fn finish(self, number: u64, level: u8, bytes: u64) -> Option<TableMeta> {
        let (commit_min, commit_max) = self.commits?;
        let contents = Contents { commit_min, commit_max, ..self.contents };
        let mut range = FlatRange { lower: self.lower?, upper: self.upper.unwrap_or_default() };
        if contents.cells > 0 && range.upper <= self.last_key {
            range.upper = after(&self.last_key);
        }
        Some(TableMeta { number, level, bytes, range, contents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(commit: u64) -> Timestamp {
        Timestamp::new(commit).unwrap()
    }

    /// Counts versions of one key, newest first: `v`alue, value that `e`xpires, `t`ombstone,
    /// `d`elta, or delta that is `s`tuck. Returns the numbers of versions that a merge drops
    /// anywhere, and only above nothing.
    fn garbage(versions: &str) -> (u64, u64) {
        let mut tally = Tally::default();
        for (commit, version) in (1..100).rev().zip(versions.chars()) {
            let kind = match version {
                'v' | 'e' => VersionKind::Value,
                't' => VersionKind::Tombstone,
                'd' => VersionKind::Delta,
                _ => VersionKind::StuckDelta,
            };
            tally.cell(b"key", at(commit), (version == 'e').then_some(50), kind);
        }
        let Contents { overwritten, bottom_garbage, .. } = tally.contents;
        (overwritten, bottom_garbage)
    }

    #[test]
    fn tally_counts_written_versions() {
        let mut tally = Tally::default();
        tally.range_tombstone(b"b", b"c", at(9));
        tally.cell(b"b", at(8), Some(70), VersionKind::Value);
        tally.cell(b"b", at(5), Some(20), VersionKind::Tombstone);
        tally.cell(b"d", at(6), Some(50), VersionKind::Value);
        let meta = tally.finish(3, 2, 100).unwrap();
        assert_eq!(meta.range, FlatRange::new(&b"b"[..], &b"d\0"[..]));
        let contents = Contents {
            cells: 3,
            overwritten: 1,
            bottom_garbage: 0,
            tombstones: 1,
            range_tombstones: 1,
            expiring: 2,
            expiry_min: 50,
            expiry_max: 70,
            commit_min: at(5),
            commit_max: at(9),
        };
        assert_eq!((meta.number, meta.level, meta.bytes, meta.contents), (3, 2, 100, contents));
        assert_eq!(Tally::default().finish(1, 0, 0), None);
    }

    #[test]
    fn hidden_versions_are_garbage_anywhere() {
        assert_eq!([garbage("v"), garbage("vv"), garbage("vttdv")], [(0, 0), (1, 0), (4, 0)]);
        assert_eq!([garbage("t"), garbage("tv"), garbage("tt")], [(0, 1), (1, 1), (1, 1)]);
    }

    #[test]
    fn deltas_are_garbage_above_a_version_that_ends_their_chain() {
        assert_eq!([garbage("d"), garbage("ddd")], [(0, 0), (0, 2)]);
        assert_eq!([garbage("dddv"), garbage("ddt"), garbage("ddvv")], [(3, 0), (2, 0), (3, 0)]);
        assert_eq!([garbage("dde"), garbage("ddev")], [(0, 0), (1, 0)], "until the value expires");
    }

    #[test]
    fn stuck_deltas_are_no_garbage() {
        assert_eq!([garbage("ss"), garbage("ssv"), garbage("dds")], [(0, 0); 3]);
        assert_eq!([garbage("sst"), garbage("ssdt"), garbage("ssvv")], [(0, 1), (0, 1), (1, 0)]);
        let mut tally = Tally::default();
        tally.cell(b"key", at(9), None, VersionKind::StuckDelta);
        tally.cell(b"key", at(8), Some(50), VersionKind::Value);
        assert_eq!(tally.contents.expiring, 0, "the value stays when it has expired");
    }

    #[test]
    fn passing_versions_are_garbage_below_the_watermark() {
        let mut tally = Tally::default();
        for key in 0..10_u8 {
            tally.cell(&[key], at(5), None, VersionKind::Value);
            if key < 4 {
                tally.will_pass(false);
            }
        }
        let meta = tally.clone().finish(1, 0, 1).unwrap();
        assert_eq!((meta.garbage(at(4), None), meta.garbage(at(5), None)), (0, 4));
        for key in 10..13_u8 {
            tally.cell(&[key], at(5), None, VersionKind::Value);
            tally.will_pass(true);
        }
        let meta = tally.finish(1, 0, 1).unwrap();
        assert_eq!(meta.garbage(at(5), None), 4 + 2, "the newest one stays");
    }

    #[test]
    fn range_tombstone_widens_file_range() {
        let mut tally = Tally::default();
        tally.cell(b"d", at(6), None, VersionKind::Value);
        tally.range_tombstone(b"a", b"x", at(9));
        assert_eq!(tally.finish(1, 0, 1).unwrap().range, FlatRange::new(&b"a"[..], &b"x"[..]));
    }

    #[test]
    fn garbage_counts_invisible_versions() {
        let mut tally = Tally::default();
        for key in 0..10_u8 {
            let kind = if key == 0 { VersionKind::Tombstone } else { VersionKind::Value };
            tally.cell(&[key], at(5), Some(100 + u64::from(key)), kind);
        }
        let meta = tally.finish(1, 0, 1).unwrap();
        assert_eq!(meta.garbage(at(4), Some(1000)), 0, "a reader may still need all of it");
        assert_eq!(meta.garbage(at(5), None), 1);
        assert_eq!(meta.garbage(at(5), Some(104)), 1 + 4);
        assert_eq!(meta.garbage(at(5), Some(1000)), 10);
    }
}
