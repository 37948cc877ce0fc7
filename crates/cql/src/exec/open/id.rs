//! Ids of open transactions.
//!
//! ```text
//! 48 bits  start timestamp, its highest bits
//!  4 bits  1000: version 8 of RFC 9562, for application-defined layouts
//! 12 bits  start timestamp, the next bits
//!  2 bits  10: the variant of RFC 9562
//!  3 bits  start timestamp, its lowest bits; the whole is 0 for a transaction that only reads
//! 16 bits  tag of the server that holds the transaction
//! 43 bits  random
//! ```
//!
//! With the start timestamp in it, the outcome of a transaction can be found by its id at every
//! server, also after the server that held the transaction has crashed.

use carnet::{Timestamp, Uuid};
use carnet_base::murmur3;

const VERSION: u64 = 8;
const VARIANT: u64 = 0b10;
const RANDOM_BITS: u32 = 43;
const TAG_BITS: u32 = 16;

/// Returns the tag of a server.
pub(in crate::exec) fn tag(host_id: Uuid) -> u16 {
    let bytes = murmur3::token(host_id.as_bytes()).0.to_be_bytes();
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// Returns the id of a transaction.
pub(in crate::exec) fn id(start: Option<Timestamp>, tag: u16, random: u64) -> Uuid {
    let start = start.map_or(0, Timestamp::get);
    let high = ((start >> 15) << 16) | (VERSION << 12) | ((start >> 3) & 0xfff);
    let random = random & ((1 << RANDOM_BITS) - 1);
    let low = (VARIANT << 62)
        | ((start & 0b111) << (RANDOM_BITS + TAG_BITS))
        | (u64::from(tag) << RANDOM_BITS)
        | random;
    Uuid::from_u64_pair(high, low)
}

/// Parts of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Parts {
    /// Start timestamp; `None` for a transaction that only reads.
    pub(in crate::exec) start: Option<Timestamp>,
    /// Tag of the server that holds the transaction.
    pub(in crate::exec) tag: u16,
}

/// Returns the parts of an id; `None` for a UUID that is no transaction's id.
pub(in crate::exec) fn parts(id: Uuid) -> Option<Parts> {
    let (high, low) = id.as_u64_pair();
    if (high >> 12) & 0xf != VERSION || low >> 62 != VARIANT {
        return None;
    }
    let start =
        ((high >> 16) << 15) | ((high & 0xfff) << 3) | ((low >> (RANDOM_BITS + TAG_BITS)) & 0b111);
    let tag = u16::try_from((low >> RANDOM_BITS) & 0xffff).unwrap_or_default();
    Some(Parts { start: Timestamp::new(start).filter(|_| start > 0), tag })
}

/// Returns the start timestamp of a transaction that may write.
pub(in crate::exec) fn start_of(id: Uuid) -> Option<Timestamp> {
    parts(id)?.start
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn parts_are_those_of_the_id() {
        let mut rng = SeededRng::new(7);
        let largest = u64::try_from(i64::MAX).unwrap();
        for start in [0, 1, 7, 8, 0x7fff, 0x8000, 1 << 40, largest] {
            let start = Timestamp::new(start).filter(|_| start > 0);
            let (tag, random) = (u16::try_from(rng.below(1 << 16)).unwrap(), rng.next_u64());
            let id = id(start, tag, random);
            assert_eq!(parts(id), Some(Parts { start, tag }), "{id}");
        }
    }

    #[test]
    fn other_uuids_are_no_ids() {
        for text in ["00000000-0000-0000-0000-000000000000", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"]
        {
            assert_eq!(parts(Uuid::try_parse(text).unwrap()), None);
        }
    }
}
