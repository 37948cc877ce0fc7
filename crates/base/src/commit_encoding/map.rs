//! Map from starts to the encodings of the commit table.
//!
//! ```text
//!   first    0 ─────────── 25 000 000 ──────────── valid_through
//!            v2            v3                      undecided beyond
//! ```
//!
//! For every start up to `valid_through` the map gives the place of its entry, permanently: the map
//! is extended, never changed. No process hands out a timestamp beyond the `valid_through` that it
//! has read, so no two processes ever disagree about a start in use. A migration is one atomic
//! change that installs another encoding behind `valid_through`; nothing is copied, and no process
//! stops.
//!
//! A restore skips timestamps that the original database may have used. Such a *gap* has no
//! entries, so no process looks for any.
//!
//! ```text
//!  0  version        u8: 1, or 2 where there are gaps
//!  1  valid_through  u64, big-endian
//!  9  of version 2   number of gaps u16, of each from u64, to u64: rising, not touching
//!  …  n times        first u64, encoding u8       rising, the first one at 0
//! ```

use bytes::Bytes;

use super::encoding::Encoding;
use crate::error::{Error, Result};
use crate::ids::Timestamp;

const VERSION: u8 = 1;
const GAPS_VERSION: u8 = 2;
const FRAME_BYTES: usize = 9;
const SPAN_BYTES: usize = 9;
const GAP_BYTES: usize = 16;
/// Maximum number of encodings, more than are ever needed.
const SPANS_MAX: usize = 4096;
/// Maximum number of gaps, more than are ever needed.
const GAPS_MAX: usize = 4096;

/// The map from starts to encodings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingMap {
    valid_through: Timestamp,
    /// First start of each encoding.
    spans: Vec<(Timestamp, Encoding)>,
    /// Ranges of starts that were never handed out.
    gaps: Vec<(Timestamp, Timestamp)>,
}

impl EncodingMap {
    /// Creates the map of a new database.
    #[must_use]
    pub fn starting_with(encoding: Encoding, valid_through: Timestamp) -> Self {
        Self { valid_through, spans: vec![(Timestamp::ZERO, encoding)], gaps: Vec::new() }
    }

    /// Returns the last start that the map covers.
    #[must_use]
    pub const fn valid_through(&self) -> Timestamp {
        self.valid_through
    }

    /// Returns a start's encoding; `None` if that is not decided.
    #[must_use]
    pub fn encoding_of(&self, start: Timestamp) -> Option<Encoding> {
        if start > self.valid_through {
            return None;
        }
        let behind = self.spans.partition_point(|(first, _)| *first <= start);
        Some(self.spans[behind - 1].1)
    }

    /// Returns the first start of each encoding, in rising order.
    pub fn spans(&self) -> impl Iterator<Item = (Timestamp, Encoding)> {
        self.spans.iter().copied()
    }

    /// Returns the encodings of the starts in `from..to`, as far as they are decided; none if all
    /// of it is a gap.
    pub fn encodings_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Encoding> {
        let behind = self.spans.iter().skip(1).map(|(first, _)| Some(*first)).chain([None]);
        let is_gap = self.gaps.iter().any(|gap| gap.0 <= from && to <= gap.1);
        let overlaps = move |first: Timestamp, next: Option<Timestamp>| {
            first < to && next.is_none_or(|next| next > from)
        };
        self.spans
            .iter()
            .zip(behind)
            .filter(move |((first, _), next)| !is_gap && overlaps(*first, *next))
            .map(|((_, encoding), _)| *encoding)
    }

    /// Returns the last gap; the restored database begins at its end.
    #[must_use]
    pub fn last_gap(&self) -> Option<(Timestamp, Timestamp)> {
        self.gaps.last().copied()
    }

    /// Returns `true` if this map of a database covers fewer starts than another one, or lacks a gap
    /// of it, so that it is an earlier one.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        (self.last_gap(), self.valid_through) < (other.last_gap(), other.valid_through)
    }

    /// Returns the map extended to further starts, with the last encoding.
    #[must_use]
    pub fn extended(&self, valid_through: Timestamp) -> Self {
        Self { valid_through: self.valid_through.max(valid_through), ..self.clone() }
    }

    /// Returns the map with a gap at `from..to`, which must lie above all existing gaps.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not, or is empty; `Unavailable` after thousands of gaps.
    pub fn with_gap(&self, from: Timestamp, to: Timestamp) -> Result<Self> {
        let mut gaps = self.gaps.clone();
        if from >= to || gaps.last().is_some_and(|gap| gap.1 >= from) {
            return Err(Error::invalid(format!(
                "the gap from {from} to {to} is empty or does not lie above all earlier gaps"
            )));
        }
        if gaps.len() == GAPS_MAX {
            return Err(Error::unavailable("the database was restored too often"));
        }
        gaps.push((from, to));
        Ok(Self { gaps, ..self.clone() })
    }

    /// Returns the map with another encoding for the undecided starts.
    ///
    /// # Errors
    ///
    /// `Unavailable` after thousands of migrations.
    pub fn followed_by(&self, encoding: Encoding) -> Result<Self> {
        let Some(first) = self.valid_through.checked_add(1) else {
            return Err(Error::unavailable("there is no timestamp left to migrate at"));
        };
        let mut spans = self.spans.clone();
        spans.retain(|(begin, _)| *begin < first);
        if spans.last().is_none_or(|(_, last)| *last != encoding) {
            spans.push((first, encoding));
        }
        if spans.len() > SPANS_MAX {
            return Err(Error::unavailable("the commit table was migrated too often"));
        }
        Ok(Self { spans, ..self.clone() })
    }

    /// Encodes the map.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(FRAME_BYTES + self.spans.len() * SPAN_BYTES);
        bytes.push(if self.gaps.is_empty() { VERSION } else { GAPS_VERSION });
        bytes.extend(self.valid_through.get().to_be_bytes());
        if !self.gaps.is_empty() {
            let count = u16::try_from(self.gaps.len()).expect("there are at most GAPS_MAX");
            bytes.extend(count.to_be_bytes());
            for (from, to) in &self.gaps {
                bytes.extend(from.get().to_be_bytes());
                bytes.extend(to.get().to_be_bytes());
            }
        }
        for (first, encoding) in &self.spans {
            bytes.extend(first.get().to_be_bytes());
            bytes.push(encoding.version());
        }
        bytes.into()
    }

    /// Decodes a map.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a version or an encoding that this program does not know; `Corrupted` if
    /// the bytes are not a map.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupted = || Error::corrupted("the map of commit encodings is damaged");
        let (&version, rest) = bytes.split_first().ok_or_else(corrupted)?;
        if !matches!(version, VERSION | GAPS_VERSION) {
            let message = format!("a map of commit encodings of version {version}");
            return Err(Error::unsupported(message));
        }
        let timestamp =
            |bytes: [u8; 8]| Timestamp::new(u64::from_be_bytes(bytes)).ok_or_else(corrupted);
        let (valid_through, mut rest) = rest.split_first_chunk().ok_or_else(corrupted)?;
        let mut gaps: Vec<(Timestamp, Timestamp)> = Vec::new();
        if version == GAPS_VERSION {
            let (count, behind) = rest.split_first_chunk().ok_or_else(corrupted)?;
            let count = usize::from(u16::from_be_bytes(*count));
            let (list, behind) =
                behind.split_at_checked(count * GAP_BYTES).ok_or_else(corrupted)?;
            rest = behind;
            for &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] in list.as_chunks().0 {
                let from = timestamp([a, b, c, d, e, f, g, h])?;
                let to = timestamp([i, j, k, l, m, n, o, p])?;
                if from >= to || gaps.last().is_some_and(|gap| gap.1 >= from) {
                    return Err(corrupted());
                }
                gaps.push((from, to));
            }
            if gaps.is_empty() || gaps.len() > GAPS_MAX {
                return Err(corrupted());
            }
        }
        let (chunks, left) = rest.as_chunks::<SPAN_BYTES>();
        if !left.is_empty() || chunks.len() > SPANS_MAX {
            return Err(corrupted());
        }
        let mut spans: Vec<(Timestamp, Encoding)> = Vec::with_capacity(chunks.len());
        for &[a, b, c, d, e, f, g, h, version] in chunks {
            let first = timestamp([a, b, c, d, e, f, g, h])?;
            let encoding = Encoding::of_version(version).ok_or_else(|| {
                Error::unsupported(format!("encoding v{version} of the commit table"))
            })?;
            if spans.last().map_or(first != Timestamp::ZERO, |(last, _)| *last >= first) {
                return Err(corrupted());
            }
            spans.push((first, encoding));
        }
        if spans.is_empty() {
            return Err(corrupted());
        }
        Ok(Self { valid_through: timestamp(*valid_through)?, spans, gaps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::rng::{Rng, SeededRng};

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn migrated() -> EncodingMap {
        let map = EncodingMap::starting_with(Encoding::V2, at(100));
        map.followed_by(Encoding::V3).unwrap().extended(at(200))
    }

    #[test]
    fn migration_begins_behind_decided_starts() {
        let map = migrated();
        assert_eq!(map.encoding_of(at(100)), Some(Encoding::V2));
        assert_eq!(map.encoding_of(at(101)), Some(Encoding::V3));
        assert_eq!(map.encoding_of(at(201)), None);
        let between = |from, to| map.encodings_between(at(from), at(to)).collect::<Vec<_>>();
        assert_eq!(between(0, 101), [Encoding::V2]);
        assert_eq!(between(0, 102), [Encoding::V2, Encoding::V3]);
        assert_eq!(between(101, 150), [Encoding::V3]);
        assert_eq!(map.extended(at(50)), map, "decided starts stay decided");
    }

    #[test]
    fn maps_follow_each_other() {
        let map = migrated();
        let further = map.extended(at(300));
        assert!(map.precedes(&further) && !further.precedes(&map) && !map.precedes(&map));
        // A restored database may begin with a map that covers less than the one it replaces.
        let restored = map.with_gap(at(201), at(1_000)).unwrap();
        assert!(further.precedes(&restored) && !restored.precedes(&further));
    }

    #[test]
    fn encoding_installed_twice_counts_once() {
        let map = EncodingMap::starting_with(Encoding::V2, at(100));
        let third = map.followed_by(Encoding::V3).unwrap();
        assert_eq!(third.followed_by(Encoding::V3).unwrap(), third);
        assert_eq!(third.followed_by(Encoding::V2).unwrap(), map);
    }

    #[test]
    fn gap_has_no_encodings() {
        let map = migrated().with_gap(at(130), at(180)).unwrap();
        let between = |from, to| map.encodings_between(at(from), at(to)).collect::<Vec<_>>();
        assert_eq!((between(130, 180), between(140, 150)), (vec![], vec![]));
        assert_eq!(between(129, 131), [Encoding::V3]);
        assert_eq!(between(179, 181), [Encoding::V3]);
        assert!(map.with_gap(at(180), at(190)).is_err() && map.with_gap(at(190), at(190)).is_err());
        let two = map.with_gap(at(190), at(195)).unwrap();
        assert_eq!((migrated().last_gap(), two.last_gap()), (None, Some((at(190), at(195)))));
        assert_eq!(EncodingMap::decode(&two.encode()).unwrap(), two);
        assert_eq!(two.extended(at(300)).followed_by(Encoding::V2).unwrap().gaps, two.gaps);
    }

    #[test]
    fn map_round_trips_and_damage_is_rejected() {
        let good = migrated().with_gap(at(130), at(180)).unwrap().encode();
        assert_eq!(EncodingMap::decode(&migrated().encode()).unwrap(), migrated());
        let unknown = [&good[..good.len() - 1], &[4]].concat();
        assert_eq!(EncodingMap::decode(&unknown).unwrap_err().kind(), ErrorKind::Unsupported);
        for seed in 0..10_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.to_vec();
            bytes.truncate(usize::try_from(rng.below(good.len() as u64 + 1)).unwrap());
            let at = usize::try_from(rng.below(good.len() as u64)).unwrap();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
            if let Ok(map) = EncodingMap::decode(&bytes) {
                assert_eq!(&map.encode()[..], &bytes[..], "seed {seed}");
            }
        }
    }
}
