//! The paging state: position and snapshot of a read that spans several requests.
//!
//! ```text
//! version    1 byte    5
//! table      4 bytes   the id of the table that is read, big-endian
//! snapshot   8 bytes   R, big-endian: every page of a sequence reads the same moment
//! wall       8 bytes   the wall time by which columns expire, in microseconds since 1970
//! start      8 bytes   S of the open transaction whose writes are read, 0 without one
//! remaining  4 bytes   rows that the LIMIT still allows, 2³² − 1 without one
//! in here    4 bytes   rows returned from the partition below, for PER PARTITION LIMIT
//! token      8 bytes   the last row returned: its partition's token,
//! length     2 bytes   the partition key's length,
//! partition  n bytes   the partition key,
//! length     4 bytes   the clustering key's length,
//! clustering n bytes   the clustering key
//! entry      n bytes   the key of the index entry that led to it; empty without an index
//! checksum   4 bytes   the first half of the Murmur3 hash of all before it
//! ```
//!
//! Clients store it and send it back. The checksum detects damaged or invented states; it is no
//! secret, and a paging state gives access to nothing that the statement itself could not read.

use carnet::{CellKey, PartitionKey, Timestamp, WallTime};
use carnet_base::TableId;
use carnet_base::{Bytes, Token, murmur3};

use crate::cql_error::{CqlError, CqlErrorKind};

const VERSION: u8 = 5;
const CHECKSUM_BYTES: usize = 4;
const HEAD_BYTES: usize = 1 + 4 + 8 + 8 + 8 + 4 + 4 + 8 + 2;
const NO_LIMIT: u32 = u32::MAX;

/// Position at which a read resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagingState {
    /// Table of the read.
    pub(crate) table: TableId,
    /// Snapshot of all pages.
    pub(crate) snapshot: Timestamp,
    /// Wall time by which columns expire, in all pages.
    pub(crate) wall: WallTime,
    /// Start of the open transaction whose own writes are part of the rows.
    pub(crate) start: Option<Timestamp>,
    /// Number of rows that the LIMIT still allows.
    pub(crate) remaining: Option<u32>,
    /// Number of rows returned from `partition`.
    pub(crate) in_partition: u32,
    /// Partition of the last returned row.
    pub(crate) partition: PartitionKey,
    /// Clustering key of the last returned row.
    pub(crate) clustering: Bytes,
    /// Index entry that led to the last returned row.
    pub(crate) entry: Option<CellKey>,
}

impl PagingState {
    pub(crate) fn encode(&self) -> Bytes {
        let partition = self.partition.bytes();
        let length = u16::try_from(partition.len()).expect("a partition key has at most 64 KiB");
        let mut out = Vec::with_capacity(HEAD_BYTES + partition.len() + CHECKSUM_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.table.0.to_be_bytes());
        out.extend_from_slice(&self.snapshot.get().to_be_bytes());
        out.extend_from_slice(&self.wall.0.to_be_bytes());
        out.extend_from_slice(&self.start.map_or(0, Timestamp::get).to_be_bytes());
        out.extend_from_slice(&self.remaining.unwrap_or(NO_LIMIT).to_be_bytes());
        out.extend_from_slice(&self.in_partition.to_be_bytes());
        out.extend_from_slice(&self.partition.token().0.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(partition);
        let length = u32::try_from(self.clustering.len()).expect("a key is shorter than 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.clustering);
        if let Some(entry) = &self.entry {
            out.extend_from_slice(entry.as_bytes());
        }
        out.extend_from_slice(&checksum(&out));
        out.into()
    }

    /// Decodes a state that a client sends back.
    ///
    /// # Errors
    ///
    /// `Protocol` for bytes that no server of this version returned.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, CqlError> {
        let mangled = || invalid("no server of this version returned it");
        let end = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or_else(mangled)?;
        if end < HEAD_BYTES || bytes[0] != VERSION || bytes[end..] != checksum(&bytes[..end]) {
            return Err(mangled());
        }
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| (u64::from(word(at)) << 32) | u64::from(word(at + 4));
        let length = usize::from(u16::from_be_bytes([bytes[45], bytes[46]]));
        let partition_end = HEAD_BYTES + length;
        let clustering_start = partition_end + 4;
        if clustering_start > end {
            return Err(mangled());
        }
        let clustering_end = clustering_start.saturating_add(word(partition_end) as usize);
        if clustering_end > end {
            return Err(mangled());
        }
        let entry = bytes.slice(clustering_end..end);
        let entry = match entry.is_empty() {
            true => None,
            false => Some(CellKey::from_bytes(entry).map_err(|_| mangled())?),
        };
        let partition = PartitionKey::with_token(
            Token(long(37).cast_signed()),
            bytes.slice(HEAD_BYTES..partition_end),
        );
        let remaining = word(29);
        Ok(Self {
            table: TableId(word(1)),
            snapshot: Timestamp::new(long(5)).ok_or_else(mangled)?,
            wall: WallTime(long(13).cast_signed()),
            start: Timestamp::new(long(21)).filter(|start| start.get() > 0),
            remaining: (remaining != NO_LIMIT).then_some(remaining),
            in_partition: word(33),
            partition,
            clustering: bytes.slice(clustering_start..clustering_end),
            entry,
        })
    }
}

/// Returns the error for an invalid paging state.
pub(crate) fn invalid(why: &str) -> CqlError {
    CqlError::new(
        CqlErrorKind::Protocol,
        format!("Invalid value for the paging state: {why}; begin the query anew"),
    )
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = murmur3::token(bytes).0.to_be_bytes();
    [hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> PagingState {
        PagingState {
            table: TableId(1007),
            snapshot: Timestamp::new(77).unwrap(),
            wall: WallTime(-5),
            start: Timestamp::new(78),
            remaining: Some(12),
            in_partition: 3,
            partition: PartitionKey::new("part"),
            clustering: Bytes::from("clust"),
            entry: Some(CellKey::new(TableId(1008), &PartitionKey::new(""), "entry")),
        }
    }

    #[test]
    fn state_is_decoded_as_encoded() {
        for state in [
            state(),
            PagingState { remaining: None, entry: None, ..state() },
            PagingState { start: None, ..state() },
            PagingState { clustering: Bytes::new(), entry: None, ..state() },
        ] {
            assert_eq!(PagingState::decode(&state.encode()).unwrap(), state);
        }
    }

    /// Returns a state with the checksum of its bytes.
    fn forged(bytes: &[u8]) -> Bytes {
        [bytes, &checksum(bytes)].concat().into()
    }

    #[test]
    fn forged_states_are_decoded_or_refused() {
        let whole = state().encode();
        let good = &whole[..whole.len() - CHECKSUM_BYTES];
        let refused = |bytes: Bytes| {
            let decoded = PagingState::decode(&bytes);
            let Err(error) = decoded else { return false };
            assert_eq!(error.kind(), &CqlErrorKind::Protocol, "{error}");
            assert!(error.message().starts_with("Invalid value for the paging state"), "{error}");
            true
        };
        let before_entry = good.len() - state().entry.unwrap().as_bytes().len();
        for end in 0..good.len() {
            let is_refused = refused(forged(&good[..end]));
            assert!(is_refused || end >= before_entry, "cut to {end} bytes");
        }
        assert!(refused(forged(&good[..=before_entry])), "an entry of one byte");
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = good.to_vec();
                bytes[at] = value;
                refused(forged(&bytes));
            }
        }
    }

    #[test]
    fn damaged_states_are_refused_without_panic() {
        let good = state().encode();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.to_vec();
                bytes[at] ^= 1 << bit;
                assert!(PagingState::decode(&bytes.into()).is_err());
            }
            assert!(PagingState::decode(&good.slice(..at)).is_err());
        }
    }
}
