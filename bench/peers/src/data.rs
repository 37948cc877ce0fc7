//! Rows: 16-byte keys spread at random over the whole key space, 100-byte values that do not
//! compress.
//!
//! A row is a function of its number and the seed. So no data is stored beside the engines, the
//! timed loops generate rows at the same small cost for all engines (about 20 ns each: 15 words of
//! a mixing function), and every row that an engine returns can be checked:
//!
//! ```text
//!  key   = mix(seed ⊕ number) ‖ mix of that            (a bijection: keys are unique)
//!  value = mix(k + γ), mix(k + 2γ), …  where k is the key's first word
//! ```

/// Size of a key in bytes.
pub(crate) const KEY_BYTES: usize = 16;
/// Size of a value in bytes.
pub(crate) const VALUE_BYTES: usize = 100;
/// Size of a row in bytes, without the overhead of an engine.
pub(crate) const ROW_BYTES: usize = KEY_BYTES + VALUE_BYTES;

/// Key of a row.
pub(crate) type Key = [u8; KEY_BYTES];

/// Value of a row.
pub(crate) type Value = [u8; VALUE_BYTES];

/// A row to write.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) value: Value,
}

/// The golden ratio's fraction: an odd number whose multiples spread well.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word: a bijection (the finalizer of `SplitMix64`, Steele, Lea and Flood 2014).
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// All the rows of one run.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    seed: u64,
}

impl Rows {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    /// Returns the key of the row with a number.
    pub(crate) fn key(self, number: u64) -> Key {
        let first = mix(self.seed ^ number);
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&first.to_be_bytes());
        key[8..].copy_from_slice(&mix(first ^ GAMMA).to_be_bytes());
        key
    }

    /// Returns the row with a number.
    pub(crate) fn row(self, number: u64) -> Row {
        let key = self.key(number);
        Row { key, value: value_of(&key) }
    }
}

/// Returns the value that belongs to a key.
pub(crate) fn value_of(key: &Key) -> Value {
    let mut value = [0; VALUE_BYTES];
    let mut state = first_word(key);
    for chunk in value.chunks_mut(8) {
        state = state.wrapping_add(GAMMA);
        chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
    }
    value
}

fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

/// Summary of the rows that a reader returned. It reads the length and the first word of each key
/// and value, so that every engine has to return them, and a wrong row is detected.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) rows: u64,
    pub(crate) absent: u64,
    pub(crate) wrong: u64,
}

impl Seen {
    /// Adds a row.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8]) {
        let expected = mix(first_word(key).wrapping_add(GAMMA)).to_le_bytes();
        let right = key.len() == KEY_BYTES
            && value.len() == VALUE_BYTES
            && value.first_chunk() == Some(&expected);
        self.rows += 1;
        self.wrong += u64::from(!right);
    }

    /// Adds the result of a point read.
    pub(crate) fn found(&mut self, key: &Key, value: Option<&[u8]>) {
        match value {
            Some(value) => self.row(key, value),
            None => self.absent += 1,
        }
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.absent += other.absent;
        self.wrong += other.wrong;
    }
}

/// A fast generator of read positions (xorshift64*, Vigna 2014).
pub(crate) struct Places {
    state: u64,
}

impl Places {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed).max(1) }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`, uniformly distributed to within `end` / 2⁶⁴.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_unique_and_determine_values() {
        let rows = Rows::new(7);
        let keys: HashSet<Key> = (0..100_000).map(|number| rows.key(number)).collect();
        assert_eq!(keys.len(), 100_000);
        let row = rows.row(3);
        let mut seen = Seen::default();
        seen.row(&row.key, &row.value);
        assert_eq!((seen.rows, seen.wrong), (1, 0));
        seen.row(&rows.key(4), &row.value);
        seen.row(&row.key, &row.value[..99]);
        assert_eq!((seen.rows, seen.wrong), (3, 2));
    }

    #[test]
    fn values_do_not_compress() {
        let rows = Rows::new(7);
        let bytes: Vec<u8> = (0..1000).flat_map(|number| rows.row(number).value).collect();
        let mut counts = [0_u32; 256];
        for byte in &bytes {
            counts[usize::from(*byte)] += 1;
        }
        // 390 of each are expected; a skew that a compressor could exploit would exceed the bounds.
        assert!(counts.iter().all(|count| (290..490).contains(count)), "{counts:?}");
    }
}
