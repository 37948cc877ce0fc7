//! Record of an entry in a decoded block.
//!
//! ```text
//!  0  commit       u64
//!  8  start        u64
//! 16  key offset   u32   after the record, or after that of the key's newest version
//! 20  key length   u32   highest bit: the entry expires
//! 24  length       u32   of the payload; all bits set: tombstone
//! 28  key, if stored here; expiry u64, if the entry expires; payload
//! ```

pub(super) const RECORD_BYTES: usize = 28;
pub(super) const EXPIRY_BYTES: usize = 8;

const EXPIRES: u32 = 1 << 31;
const NO_PAYLOAD: u32 = u32::MAX;

/// An entry of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) commit: u64,
    pub(super) start: u64,
    pub(super) key_at: u32,
    pub(super) key_len: u32,
    pub(super) expires: bool,
    /// Offset of the payload, or of the next record if there is none.
    pub(super) payload_at: u32,
    /// `None` for a tombstone.
    pub(super) payload_len: Option<u32>,
}

impl Entry {
    pub(super) fn write(&self, record: &mut [u8; RECORD_BYTES]) {
        let key_len = self.key_len | if self.expires { EXPIRES } else { 0 };
        record[..8].copy_from_slice(&self.commit.to_le_bytes());
        record[8..16].copy_from_slice(&self.start.to_le_bytes());
        record[16..20].copy_from_slice(&self.key_at.to_le_bytes());
        record[20..24].copy_from_slice(&key_len.to_le_bytes());
        record[24..].copy_from_slice(&self.payload_len.unwrap_or(NO_PAYLOAD).to_le_bytes());
    }

    /// Reads the record at an offset in the block.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a decoded block is far below 4 GiB")]
    pub(super) fn read(record: &[u8; RECORD_BYTES], place: usize) -> Self {
        let (key_at, marked_len, payload_len) =
            (short(record, 16), short(record, 20), short(record, 24));
        let expires = marked_len & EXPIRES != 0;
        let key_len = marked_len & !EXPIRES;
        let behind = (place + RECORD_BYTES) as u32;
        let key_here = if key_at == behind { key_len } else { 0 };
        Self {
            commit: commit(record),
            start: long(record, 8),
            key_at,
            key_len,
            expires,
            payload_at: behind + key_here + if expires { EXPIRY_BYTES as u32 } else { 0 },
            payload_len: (payload_len != NO_PAYLOAD).then_some(payload_len),
        }
    }
}

/// Returns the commit timestamp of a record.
#[inline]
pub(super) fn commit(record: &[u8; RECORD_BYTES]) -> u64 {
    long(record, 0)
}

/// Returns offset and length of a record's key.
#[inline]
pub(super) fn key(record: &[u8; RECORD_BYTES]) -> (usize, usize) {
    (short(record, 16) as usize, (short(record, 20) & !EXPIRES) as usize)
}

#[inline]
fn long(record: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(*record[at..].first_chunk().expect("a record has 28 bytes"))
}

#[inline]
fn short(record: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(*record[at..].first_chunk().expect("a record has 28 bytes"))
}

/// Sets the commit timestamp of a record.
pub(super) fn stamp(record: &mut [u8], commit: u64) {
    record[..8].copy_from_slice(&commit.to_le_bytes());
}
