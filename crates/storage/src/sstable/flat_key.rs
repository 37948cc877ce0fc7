//! Parts of flat keys: table, token, partition and common prefixes.

use carnet_base::Token;

use crate::codec;

/// Length of the frame before the partition key in a flat key: table, token, length.
const FRAME_BYTES: usize = 14;

/// Maximum length of a flat key.
pub const KEY_BYTES_MAX: usize =
    FRAME_BYTES + codec::PARTITION_KEY_BYTES_MAX + codec::CLUSTERING_KEY_BYTES_MAX;

/// Returns the length of a flat key's prefix that identifies its partition; the whole key if it is
/// too short.
pub(super) fn partition_len(key: &[u8]) -> usize {
    match key {
        [_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            key.len().min(FRAME_BYTES + len)
        }
        _ => key.len(),
    }
}

/// Returns the id of a flat key's cell table.
pub(super) fn table_of(key: &[u8]) -> u32 {
    key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id))
}

/// Returns the token of a flat key.
pub(super) fn token_of(key: &[u8]) -> Token {
    let flipped = key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |t| u64::from_be_bytes(*t));
    Token((flipped ^ (1 << 63)).cast_signed())
}

/// Returns the length of the common prefix of two keys.
pub(super) fn shared_len(left: &[u8], right: &[u8]) -> usize {
    let (lefts, rights) = (left.chunks_exact(8), right.chunks_exact(8));
    let mut at = 0;
    for (left, right) in lefts.zip(rights) {
        let word = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
        let different = word(left) ^ word(right);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = left[at..].iter().zip(&right[at..]);
    at + rest.take_while(|(left, right)| left == right).count()
}
