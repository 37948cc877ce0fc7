//! Statistics of a table's contents.
//!
//! ```text
//! versions, tombstones, range tombstones, partitions, raw bytes   VAR_LONGs
//! least and greatest commit, least and greatest start             VAR_LONGs
//! 0, or 1 and least and greatest expiry                           VAR_LONGs
//! least and greatest token, as in flat keys                       VAR_LONGs
//! first and last key                                              a VAR_LONG for the length each
//! CRC32C
//! ```

use bytes::Bytes;
use carnet_base::{Timestamp, Token};

use super::damage::Wrong;
use super::entry_ref::EntryRef;
use super::flat_key::{KEY_BYTES_MAX, token_of};
use super::var;

/// Statistics of a table's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Number of versions, including tombstones.
    pub versions: u64,
    /// Number of versions that are tombstones.
    pub tombstones: u64,
    /// Number of range tombstone fragments, after splitting at overlaps.
    pub range_tombstones: u64,
    /// Number of distinct partitions of the versions.
    pub partitions: u64,
    /// Bytes of keys and payloads of all versions, uncompressed.
    pub raw_bytes: u64,
    /// Least commit timestamp, including range tombstones.
    pub commit_min: Timestamp,
    /// Greatest commit timestamp, including range tombstones.
    pub commit_max: Timestamp,
    /// Least start timestamp, including range tombstones.
    pub start_min: Timestamp,
    /// Greatest start timestamp, including range tombstones.
    pub start_max: Timestamp,
    /// Least and greatest expiry, in seconds of wall time, if any version has one.
    pub expiry: Option<(u64, u64)>,
    /// Least and greatest token of the versions' partitions.
    pub tokens: (Token, Token),
    /// First flat key; empty if there are no versions.
    pub first: Bytes,
    /// Last flat key.
    pub last: Bytes,
}

/// Collects statistics while a table is built.
pub(super) struct Counting {
    statistics: Statistics,
    any: bool,
}

impl Default for Counting {
    fn default() -> Self {
        let statistics = Statistics {
            versions: 0,
            tombstones: 0,
            range_tombstones: 0,
            partitions: 0,
            raw_bytes: 0,
            commit_min: Timestamp::ZERO,
            commit_max: Timestamp::ZERO,
            start_min: Timestamp::ZERO,
            start_max: Timestamp::ZERO,
            expiry: None,
            tokens: (Token(0), Token(0)),
            first: Bytes::new(),
            last: Bytes::new(),
        };
        Self { statistics, any: false }
    }
}

impl Counting {
    /// Counts a version; `partition` is `true` for the first version of a partition.
    pub(super) fn add(&mut self, entry: &EntryRef<'_>, partition: bool) {
        let EntryRef { key, commit, start, expiry, payload } = *entry;
        self.see(commit, start);
        let statistics = &mut self.statistics;
        if partition {
            let token = token_of(key);
            let (min, max) = statistics.tokens;
            statistics.tokens = match statistics.partitions {
                0 => (token, token),
                _ => (min.min(token), max.max(token)),
            };
            statistics.partitions += 1;
        }
        if statistics.versions == 0 {
            statistics.first = Bytes::copy_from_slice(key);
        }
        statistics.versions += 1;
        statistics.tombstones += u64::from(payload.is_none());
        statistics.raw_bytes += (key.len() + payload.map_or(0, <[u8]>::len)) as u64;
        if let Some(expiry) = expiry {
            let (min, max) = statistics.expiry.unwrap_or((expiry, expiry));
            statistics.expiry = Some((min.min(expiry), max.max(expiry)));
        }
    }

    /// Counts a fragment of a range tombstone.
    pub(super) fn add_range(&mut self, commit: Timestamp, start: Timestamp) {
        self.see(commit, start);
        self.statistics.range_tombstones += 1;
    }

    fn see(&mut self, commit: Timestamp, start: Timestamp) {
        let statistics = &mut self.statistics;
        if !self.any {
            self.any = true;
            (statistics.commit_min, statistics.commit_max) = (commit, commit);
            (statistics.start_min, statistics.start_max) = (start, start);
        }
        statistics.commit_min = statistics.commit_min.min(commit);
        statistics.commit_max = statistics.commit_max.max(commit);
        statistics.start_min = statistics.start_min.min(start);
        statistics.start_max = statistics.start_max.max(start);
    }

    pub(super) fn finish(mut self, last: &[u8]) -> Statistics {
        self.statistics.last = Bytes::copy_from_slice(last);
        self.statistics
    }
}

/// Maps a token to its encoding in flat keys.
const fn flip(token: Token) -> u64 {
    token.0.cast_unsigned() ^ (1 << 63)
}

impl Statistics {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (token_min, token_max) = self.tokens;
        for number in [
            self.versions,
            self.tombstones,
            self.range_tombstones,
            self.partitions,
            self.raw_bytes,
            self.commit_min.get(),
            self.commit_max.get(),
            self.start_min.get(),
            self.start_max.get(),
            u64::from(self.expiry.is_some()),
        ] {
            var::put(out, number);
        }
        if let Some((min, max)) = self.expiry {
            var::put(out, min);
            var::put(out, max);
        }
        var::put(out, flip(token_min));
        var::put(out, flip(token_max));
        for key in [&self.first, &self.last] {
            var::put(out, key.len() as u64);
            out.extend_from_slice(key);
        }
    }

    pub(super) fn read(mut section: &[u8]) -> Result<Self, Wrong> {
        let bytes = &mut section;
        let statistics = Self {
            versions: var::take(bytes)?,
            tombstones: var::take(bytes)?,
            range_tombstones: var::take(bytes)?,
            partitions: var::take(bytes)?,
            raw_bytes: var::take(bytes)?,
            commit_min: take_time(bytes)?,
            commit_max: take_time(bytes)?,
            start_min: take_time(bytes)?,
            start_max: take_time(bytes)?,
            expiry: match var::take(bytes)? {
                0 => None,
                1 => Some((var::take(bytes)?, var::take(bytes)?)),
                _ => return Err("the statistics' expiry flag is invalid"),
            },
            tokens: (take_token(bytes)?, take_token(bytes)?),
            first: take_key(bytes)?,
            last: take_key(bytes)?,
        };
        if bytes.is_empty() { Ok(statistics) } else { Err("the statistics are too long") }
    }
}

pub(super) fn take_time(bytes: &mut &[u8]) -> Result<Timestamp, Wrong> {
    Timestamp::new(var::take(bytes)?).ok_or("a timestamp is out of range")
}

fn take_token(bytes: &mut &[u8]) -> Result<Token, Wrong> {
    Ok(Token((var::take(bytes)? ^ (1 << 63)).cast_signed()))
}

fn take_key(bytes: &mut &[u8]) -> Result<Bytes, Wrong> {
    let len = var::take_len(bytes)?;
    let (key, rest) = bytes.split_at_checked(len).ok_or("a key ends too early")?;
    if len > KEY_BYTES_MAX {
        return Err("a key is too long");
    }
    *bytes = rest;
    Ok(Bytes::copy_from_slice(key))
}
