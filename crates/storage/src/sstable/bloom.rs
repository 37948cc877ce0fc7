//! Bloom filters: which partitions, or which cells, lie in the blocks of one index page.
//!
//! ```text
//!  0  kind    u8    0 none, 1 of partitions, 2 of cells
//!  1  probes  u8    1 to 20; 0 where there is no filter
//!  2  length  u32   of the bits in bytes, at most 16 MiB
//!  6  bits          bit i is bit i mod 8 of byte i / 8
//! ```
//!
//! The hash of a partition is the CRC32C of its flat key's first bytes, up to the partition key's
//! end; that of a cell, of its whole flat key. It is spread to 64 bits by the finalizer of
//! SplitMix64. 32 bits of hash are enough: a filter holds thousands, not billions. With n members
//! and a chance p of a false "perhaps", m = −n ln p / (ln 2)² bits and k = m/n ln 2 probes are
//! best (Bloom 1970); probe i looks at h₁ + i h₂ (Kirsch and Mitzenmacher 2006), scaled to m by a
//! multiplication, which costs a tenth of a division.

use bytes::BufMut;

use super::options::FilterKind;
use super::{Wrong, partition_len};

const PROBES_MAX: u8 = 20;
const BITS_BYTES_MAX: usize = 16 << 20;
/// In fewer bits the probes of one member meet each other.
const BITS_BYTES_MIN: usize = 8;
const HEADER_BYTES: usize = 6;

/// A filter; one without bits says "perhaps" to everything.
#[derive(Debug, Default)]
pub(super) struct Filter {
    kind: FilterKind,
    probes: u8,
    bits: Box<[u8]>,
}

impl Filter {
    /// Takes a filter off the front of an index page.
    pub(super) fn take(page: &mut &[u8]) -> Result<Self, Wrong> {
        let (header, rest) = page.split_first_chunk::<HEADER_BYTES>().ok_or("a filter is short")?;
        let len = u32::from_le_bytes([header[2], header[3], header[4], header[5]]) as usize;
        let kind = match header[0] {
            0 if len == 0 && header[1] == 0 => FilterKind::default(),
            1 if len > 0 => FilterKind::Partitions,
            2 if len > 0 => FilterKind::Cells,
            _ => return Err("a filter's kind is unknown"),
        };
        if len > BITS_BYTES_MAX || header[1] > PROBES_MAX || (len > 0 && header[1] == 0) {
            return Err("a filter makes no sense");
        }
        let (bits, rest) = rest.split_at_checked(len).ok_or("a filter is short")?;
        *page = rest;
        Ok(Self { kind, probes: header[1], bits: bits.into() })
    }

    /// How many bytes of bits there are.
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// Tells whether a cell may be there; `false` is certain.
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        self.bits.is_empty() || self.has(hash_of(self.kind, key))
    }

    fn has(&self, hash: u32) -> bool {
        places(hash, self.probes, self.bits.len()).all(|(byte, bit)| self.bits[byte] & bit != 0)
    }

    pub(super) const fn kind(&self) -> FilterKind {
        self.kind
    }
}

/// Collects the members of a filter.
#[derive(Default)]
pub(super) struct FilterBuilder {
    hashes: Vec<u32>,
    bits_each: f64,
}

impl FilterBuilder {
    /// Sets the chance of a false "perhaps".
    ///
    /// Once for many filters: the logarithm took 3 % of a compaction whose writer asked at each key
    /// how long the file would be.
    pub(super) fn set_chance(&mut self, fp_chance: f64) {
        self.bits_each = -fp_chance.log2() / std::f64::consts::LN_2;
    }

    /// Adds what a filter of that kind remembers of a key.
    pub(super) fn add(&mut self, kind: FilterKind, key: &[u8]) {
        self.hashes.push(hash_of(kind, key));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// How many bytes the filter takes.
    pub(super) fn bytes(&self) -> usize {
        if self.hashes.len() <= 1 {
            HEADER_BYTES
        } else {
            HEADER_BYTES + bits_bytes(self.hashes.len(), self.bits_each)
        }
    }

    /// Appends the filter and begins the next one. Of one member nothing is kept: whoever looks
    /// here looks for it, or for what the statistics and the index keep out.
    pub(super) fn finish(&mut self, kind: FilterKind, out: &mut Vec<u8>) {
        if self.hashes.len() <= 1 {
            self.hashes.clear();
            out.put_slice(&[0; HEADER_BYTES]);
            return;
        }
        let (bytes, probes) =
            (bits_bytes(self.hashes.len(), self.bits_each), probes(self.bits_each));
        out.put_u8(match kind {
            FilterKind::Partitions => 1,
            FilterKind::Cells => 2,
        });
        out.put_u8(probes);
        out.put_u32_le(u32::try_from(bytes).expect("a filter is at most 16 MiB"));
        let at = out.len();
        out.resize(at + bytes, 0);
        for hash in self.hashes.drain(..) {
            for (byte, bit) in places(hash, probes, bytes) {
                out[at + byte] |= bit;
            }
        }
    }
}

/// The bytes for so many members.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product is positive and far below 2^53"
)]
fn bits_bytes(members: usize, bits_each: f64) -> usize {
    let bytes = (members as f64 * bits_each / 8.0).ceil() as usize;
    bytes.clamp(BITS_BYTES_MIN, BITS_BYTES_MAX)
}

/// The probes for each member.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are 1 to 20 of them"
)]
fn probes(bits_each: f64) -> u8 {
    (bits_each * std::f64::consts::LN_2).round().clamp(1.0, f64::from(PROBES_MAX)) as u8
}

fn hash_of(kind: FilterKind, key: &[u8]) -> u32 {
    match kind {
        FilterKind::Partitions => crc32c::crc32c(&key[..partition_len(key)]),
        FilterKind::Cells => crc32c::crc32c(key),
    }
}

/// The byte and the bit of each probe.
fn places(hash: u32, probes: u8, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut x = u64::from(hash).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let (first, step) = (x & u64::from(u32::MAX), (x >> 32) | 1);
    let bits = bytes as u64 * 8;
    (0..u64::from(probes)).map(move |probe| {
        let place = ((first.wrapping_add(probe * step) & u64::from(u32::MAX)) * bits) >> 32;
        let byte = usize::try_from(place / 8).expect("the filter is in memory");
        (byte, 1 << (place % 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_found_and_few_others() {
        for (fp_chance, most) in [(0.1, 1_200), (0.01, 140), (0.001, 25)] {
            for members in [2_u32, 10, 300, 5_000] {
                let mut builder = FilterBuilder::default();
                builder.set_chance(fp_chance);
                (0..members).for_each(|n| builder.add(FilterKind::Cells, &n.to_be_bytes()));
                let mut out = Vec::new();
                let bytes = builder.bytes();
                builder.finish(FilterKind::Cells, &mut out);
                assert_eq!(out.len(), bytes);
                let mut rest = &out[..];
                let filter = Filter::take(&mut rest).unwrap();
                assert!(rest.is_empty());
                assert!((0..members).all(|n| filter.may_contain(&n.to_be_bytes())));
                let others = 1_000_000..1_010_000_u32;
                let wrong = others.filter(|n| filter.may_contain(&n.to_be_bytes())).count();
                // In a small filter the probes of two members meet more often.
                let most = if members < 300 { 3 * most } else { most };
                assert!(wrong <= most, "{wrong} of 10,000 at {fp_chance} with {members}");
                assert!(members < 300 || wrong * 5 > most, "{wrong} at {fp_chance}, {members}");
            }
        }
    }
}
