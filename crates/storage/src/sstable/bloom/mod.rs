//! Bloom filters over the partitions, or the cells, of one index page's blocks.
//!
//! ```text
//!  0  kind    u8    0 none, 3 partitions, 4 cells
//!  1  probes  u8    1 to 20; 0 if there is no filter
//!  2  length  u32   bytes of the bits: less than 64, or a multiple of it; at most 16 MiB
//!  6  bits          bit i is bit i mod 8 of byte i / 8
//! ```
//!
//! All probes of a member are in one line of 64 bytes, which is one cache line of the processor: a
//! lookup waits for memory once, instead of up to seven times. Some lines get more members than
//! others, so such a filter is slightly larger ([`size`]; Putze, Sanders and Singler 2007). A
//! filter of few members is a single shorter line.
//!
//! The hash of a partition is the CRC32C of its flat key up to the end of the partition key; the
//! hash of a cell is that of its whole flat key. The finalizer of SplitMix64 extends it to 64 bits:
//! 32 select the line, 32 the bits. A 32-bit hash suffices for filters of thousands of members.
//!
//! Files of version 2 have filters of kinds 1 and 2, whose probes are spread over the whole filter:
//! probe i is at h₁ + i h₂ (Kirsch and Mitzenmacher 2006), scaled to the bits by a multiplication.
//! They are read, but not written.

mod size;

use bytes::BufMut;

use super::damage::Wrong;
use super::flat_key::partition_len;
use super::options::FilterKind;
use size::{BITS_BYTES_MAX, LINE_BITS, LINE_BYTES, PROBES_MAX, Size};

const HEADER_BYTES: usize = 6;

/// A Bloom filter; one without bits may contain everything.
#[derive(Debug, Default)]
pub(super) struct Filter {
    kind: FilterKind,
    spread: Spread,
    probes: u8,
    /// Number of bytes of bits in the file.
    bytes: usize,
    lines: Box<[Line]>,
}

/// Placement of a member's probes.
#[derive(Clone, Copy, Debug, Default)]
enum Spread {
    /// All in one line.
    #[default]
    Line,
    /// Anywhere in the filter.
    All,
}

/// A cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; LINE_BYTES / 8]);

impl Line {
    fn read(bytes: &[u8]) -> Self {
        let mut line = Self::default();
        for (word, bytes) in line.0.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        line
    }
}

impl Filter {
    /// Reads a filter at the beginning of an index page.
    pub(super) fn take(page: &mut &[u8]) -> Result<Self, Wrong> {
        let (header, rest) = page.split_first_chunk::<HEADER_BYTES>().ok_or("a filter is short")?;
        let len = u32::from_le_bytes([header[2], header[3], header[4], header[5]]) as usize;
        let (kind, spread) = match header[0] {
            0 if len == 0 && header[1] == 0 => (FilterKind::default(), Spread::default()),
            1 if len > 0 => (FilterKind::Partitions, Spread::All),
            2 if len > 0 => (FilterKind::Cells, Spread::All),
            3 if is_lines(len) => (FilterKind::Partitions, Spread::Line),
            4 if is_lines(len) => (FilterKind::Cells, Spread::Line),
            _ => return Err("a filter's kind is unknown, or its length not one of that kind"),
        };
        if len > BITS_BYTES_MAX || header[1] > PROBES_MAX || (len > 0 && header[1] == 0) {
            return Err("a filter's header is invalid");
        }
        let (bits, rest) = rest.split_at_checked(len).ok_or("a filter is short")?;
        *page = rest;
        let lines = bits.chunks(LINE_BYTES).map(Line::read).collect();
        Ok(Self { kind, spread, probes: header[1], bytes: len, lines })
    }

    /// Returns the number of bytes of bits.
    pub(super) const fn len(&self) -> usize {
        self.bytes
    }

    /// Returns `false` if the cell is not a member; `true` if it may be one.
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        self.lines.is_empty() || self.has(hash_of(self.kind, key))
    }

    fn has(&self, hash: u32) -> bool {
        match self.spread {
            Spread::Line => {
                let (line, bits) = places_in_line(hash, self.probes, self.bytes);
                let Line(words) = &self.lines[line];
                // Without branches, because the processor would mispredict one of them.
                bits.fold(1, |all, bit| all & (words[bit / 64] >> (bit % 64))) == 1
            }
            Spread::All => {
                let mut bits = places_all_over(hash, self.probes, self.bytes);
                bits.all(|bit| {
                    let Line(words) = &self.lines[bit / LINE_BITS];
                    words[bit % LINE_BITS / 64] >> (bit % 64) & 1 == 1
                })
            }
        }
    }

    pub(super) const fn kind(&self) -> FilterKind {
        self.kind
    }
}

/// Collects the members of a filter.
#[derive(Default)]
pub(super) struct FilterBuilder {
    hashes: Vec<u32>,
    size: Size,
}

impl FilterBuilder {
    /// Sets the false-positive rate.
    pub(super) fn set_chance(&mut self, fp_chance: f64) {
        // Computing a size is a search, and the tables in a file usually share the rate.
        if self.size.chance.to_bits() != fp_chance.to_bits() {
            self.size = Size::of(fp_chance);
        }
    }

    /// Adds a key, or its partition, as the kind says.
    pub(super) fn add(&mut self, kind: FilterKind, key: &[u8]) {
        self.hashes.push(hash_of(kind, key));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns the size of the filter.
    pub(super) fn bytes(&self) -> usize {
        if self.hashes.len() <= 1 {
            HEADER_BYTES
        } else {
            HEADER_BYTES + self.size.bytes(self.hashes.len())
        }
    }

    /// Appends the filter and starts the next one. For a single member no filter is written:
    /// lookups of other keys are mostly excluded by the statistics and the index.
    pub(super) fn finish(&mut self, kind: FilterKind, out: &mut Vec<u8>) {
        if self.hashes.len() <= 1 {
            self.hashes.clear();
            out.put_slice(&[0; HEADER_BYTES]);
            return;
        }
        let bytes = self.size.bytes(self.hashes.len());
        out.put_u8(match kind {
            FilterKind::Partitions => 3,
            FilterKind::Cells => 4,
        });
        out.put_u8(self.size.probes);
        out.put_u32_le(u32::try_from(bytes).expect("a filter is at most 16 MiB"));
        let at = out.len();
        out.resize(at + bytes, 0);
        for hash in self.hashes.drain(..) {
            let (line, bits) = places_in_line(hash, self.size.probes, bytes);
            let line = &mut out[at + line * LINE_BYTES..];
            bits.for_each(|bit| line[bit / 8] |= 1 << (bit % 8));
        }
    }
}

const fn is_lines(bytes: usize) -> bool {
    bytes > 0 && (bytes < LINE_BYTES || bytes.is_multiple_of(LINE_BYTES))
}

fn hash_of(kind: FilterKind, key: &[u8]) -> u32 {
    match kind {
        FilterKind::Partitions => crc32c::crc32c(&key[..partition_len(key)]),
        FilterKind::Cells => crc32c::crc32c(key),
    }
}

/// Extends a hash to 64 bits: the upper half and the lower one.
#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
const fn spread(hash: u32) -> (u32, u32) {
    let mut x = (hash as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((x >> 32) as u32, x as u32)
}

/// Returns the line of a member in a filter of `bytes` bytes, and the bit of each probe in it: a
/// number that is multiplied for each probe, and scaled.
fn places_in_line(hash: u32, probes: u8, bytes: usize) -> (usize, impl Iterator<Item = usize>) {
    const FACTOR: u32 = 0x9e37_79b9;
    let (line, mut number) = spread(hash);
    let line_bits = LINE_BITS.min(bytes * 8);
    let bits = (0..probes).map(move |_| {
        let bit = scaled(number, line_bits);
        number = number.wrapping_mul(FACTOR);
        bit
    });
    (scaled(line, bytes.div_ceil(LINE_BYTES)), bits)
}

/// Returns the bit of each probe in a filter of `bytes` bytes.
fn places_all_over(hash: u32, probes: u8, bytes: usize) -> impl Iterator<Item = usize> {
    let (step, first) = spread(hash);
    (0..u32::from(probes))
        .map(move |probe| scaled(first.wrapping_add(probe.wrapping_mul(step | 1)), bytes * 8))
}

/// Scales a number to the range below `below`.
fn scaled(number: u32, below: usize) -> usize {
    let place = (u64::from(number) * below as u64) >> u32::BITS;
    usize::try_from(place).expect("the filter is in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a filter of the numbers `from..from + members`.
    fn built(fp_chance: f64, from: u32, members: u32) -> Filter {
        let mut builder = FilterBuilder::default();
        builder.set_chance(fp_chance);
        (from..from + members).for_each(|n| builder.add(FilterKind::Cells, &n.to_be_bytes()));
        let mut out = Vec::new();
        let bytes = builder.bytes();
        builder.finish(FilterKind::Cells, &mut out);
        assert_eq!(out.len(), bytes);
        let mut rest = &out[..];
        let filter = Filter::take(&mut rest).unwrap();
        assert!(rest.is_empty());
        filter
    }

    #[test]
    fn members_are_found_with_few_false_positives() {
        const FILTERS: u32 = 10;
        const STRANGERS: u32 = 20_000;
        for fp_chance in [0.1, 0.01, 0.001] {
            for members in [2_u32, 10, 300, 5_000] {
                let mut wrong = 0;
                for number in 0..FILTERS {
                    let from = number << 20;
                    let filter = built(fp_chance, from, members);
                    let has = |n: u32| filter.may_contain(&n.to_be_bytes());
                    assert!((from..from + members).all(has));
                    wrong += (1 << 30..(1 << 30) + STRANGERS).filter(|&n| has(n)).count();
                }
                let chance = wrong as f64 / f64::from(FILTERS * STRANGERS);
                assert!(chance <= fp_chance * 1.1, "{chance}, not {fp_chance}, of {members}");
                // The filter is not larger than necessary either.
                let is_most = members < 5_000 || chance >= fp_chance * 0.85;
                assert!(is_most, "{chance}, not {fp_chance}, of {members}");
            }
        }
    }
}
