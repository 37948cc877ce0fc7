//! A bloom filter over partitions.
//!
//! ```text
//!  0  probes  u32
//!  4  bits    …     a multiple of 8; bit i is bit i mod 8 of byte i / 8
//!     CRC32C  u32
//! ```
//!
//! The token is a good hash of the partition key already; the table id is mixed into it. With n
//! partitions and a chance p of a false "maybe", m = −n ln p / (ln 2)² bits and k = m/n ln 2
//! probes are best (Bloom 1970); probe i looks at h₁ + i h₂ (Kirsch and Mitzenmacher 2006).

use bytes::{BufMut, Bytes};
use carnet_base::{Error, Result, TableId, Token};

use super::section;

const PROBES_MAX: u32 = 30;

/// A filter that was read.
#[derive(Debug)]
pub(crate) struct Bloom {
    probes: u32,
    bits: Bytes,
}

impl Bloom {
    /// Reads a filter that stands at `offset`.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn read(bytes: &Bytes, offset: u64) -> Result<Self> {
        let section = section::open(bytes, offset)?;
        let Some((probes, bits)) = section.split_first_chunk::<4>() else {
            return Err(Error::corrupted("the filter ends too early"));
        };
        let probes = u32::from_le_bytes(*probes);
        if probes > PROBES_MAX || bits.is_empty() {
            return Err(Error::corrupted("the filter makes no sense"));
        }
        Ok(Self { probes, bits: section.slice(4..) })
    }

    /// Tells whether the partition may be there; `false` is certain.
    pub(crate) fn may_contain(&self, table: TableId, token: Token) -> bool {
        places(hash(table, token), self.probes, self.bits.len() as u64 * 8)
            .all(|(byte, bit)| self.bits[byte] & bit != 0)
    }
}

/// Collects the partitions of a table.
#[derive(Debug, Default)]
pub(crate) struct BloomBuilder {
    hashes: Vec<u64>,
}

impl BloomBuilder {
    /// Adds a partition; twice in a row counts once.
    pub(crate) fn add(&mut self, table: TableId, token: Token) {
        let hash = hash(table, token);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Appends the filter, which will stand at `offset`.
    pub(crate) fn finish(&self, fp_chance: f64, out: &mut Vec<u8>, offset: u64) {
        let from = out.len();
        // 2⁻³⁰ and one half are the ends of what 1 to 30 probes can do.
        let bits_each = -fp_chance.clamp(1e-9, 0.5).log2() / std::f64::consts::LN_2;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product is positive and far below 2^53, the probes at most 30"
        )]
        let (bytes, probes) = {
            let bits = (self.hashes.len() as f64 * bits_each).ceil() as usize;
            let probes = (bits_each * std::f64::consts::LN_2).round().clamp(1.0, 30.0);
            (bits.div_ceil(8).max(8), probes as u32)
        };
        out.put_u32_le(probes);
        let at = out.len();
        out.resize(at + bytes, 0);
        for &hash in &self.hashes {
            for (byte, bit) in places(hash, probes, bytes as u64 * 8) {
                out[at + byte] |= bit;
            }
        }
        section::seal(out, from, offset);
    }
}

fn hash(table: TableId, token: Token) -> u64 {
    let mut x = token.0.cast_unsigned() ^ u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The finalizer of SplitMix64, so that both halves depend on every bit.
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The byte and the bit of each probe.
fn places(hash: u64, probes: u32, bits: u64) -> impl Iterator<Item = (usize, u8)> {
    let (first, step) = (hash, hash.rotate_left(32) | 1);
    (0..u64::from(probes)).map(move |probe| {
        let place = first.wrapping_add(probe.wrapping_mul(step)) % bits;
        let byte = usize::try_from(place / 8).expect("the filter is in memory");
        (byte, 1 << (place % 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_is_found_and_few_others() {
        let mut builder = BloomBuilder::default();
        let token = |n: i64| Token(n.wrapping_mul(0x1234_5678_9abc_def1));
        for n in 0..10_000 {
            builder.add(TableId(1), token(n));
        }
        let mut out = Vec::new();
        builder.finish(0.01, &mut out, 77);
        let bloom = Bloom::read(&Bytes::from(out), 77).unwrap();
        assert!((0..10_000).all(|n| bloom.may_contain(TableId(1), token(n))));
        let wrong = (0..10_000).filter(|&n| bloom.may_contain(TableId(2), token(n))).count();
        assert!((20..200).contains(&wrong), "{wrong} of 10,000 where 100 are expected");
    }
}
