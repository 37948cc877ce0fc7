//! Decodes sections without a checksum, for fuzzing.

use super::block::SharedBlock;
use super::statistics::Statistics;
use super::tombstones::RangeTombstones;
use super::{footer, page, run};

/// Decodes bytes as one kind of section, without a checksum: for fuzzing only.
#[doc(hidden)]
pub fn decode_anything(kind: u8, bytes: &[u8]) {
    const MEMORY_MAX: usize = 16 << 20;
    let look_at = |block: SharedBlock| {
        let (key, commit) = (bytes, carnet_base::Timestamp::MAX);
        assert!(block.seek(key, commit) <= block.len() && block.memory_bytes() <= 2 * MEMORY_MAX);
        for at in 0..block.len() {
            let entry = block.get(at);
            assert_eq!(block.seek(entry.key, entry.commit), at);
        }
    };
    let end = bytes.len() as u64;
    let _ = match kind % 7 {
        0 => run::decode(bytes, MEMORY_MAX).map(look_at),
        1 => page::decode_data(bytes).map(drop),
        2 => page::decode_page(bytes, end).map(drop),
        3 => page::decode_top(bytes, 0, end).map(drop),
        4 => RangeTombstones::read(bytes).map(drop),
        5 => Statistics::read(bytes).map(drop),
        _ => footer::Footer::read(bytes, 1, end).map(drop).map_err(|_| "no footer"),
    };
}
