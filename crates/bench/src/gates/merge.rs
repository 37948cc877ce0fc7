//! Compaction's merge in memory: the cost per entry without reads and writes.
//!
//! Sources with 16-byte keys after a 14-byte frame and 100-byte values (130 bytes per entry),
//! contiguous like in a decoded block; the sink copies its input to a buffer. Prints nanoseconds
//! per input entry (best of five) and the number of output entries.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use carnet_base::{Result, Rng, SeededRng, TableId, Timestamp};
use carnet_storage::compaction::Below;
use carnet_storage::compaction::merge::{
    Cell, Fragment, GcHook, Mark, Merge, RangeVersion, Sink, Source,
};
use carnet_storage::manifest::{FlatRange, VersionKind};

const ENTRIES: usize = 1_000_000;
const KEY_BYTES: usize = 30;
const ENTRY_BYTES: usize = 130;

/// Entries of one length, contiguous, with their commits in a separate list.
#[derive(Clone)]
struct Block {
    bytes: Vec<u8>,
    commits: Vec<Timestamp>,
    place: usize,
}

impl Source for Block {
    fn key(&self) -> Option<&[u8]> {
        self.bytes.get(self.place * ENTRY_BYTES..self.place * ENTRY_BYTES + KEY_BYTES)
    }

    fn cell(&self) -> Cell<'_> {
        let commit = self.commits[self.place];
        let payload =
            &self.bytes[self.place * ENTRY_BYTES + KEY_BYTES..][..ENTRY_BYTES - KEY_BYTES];
        Cell { commit, start: commit, expiry: None, payload: Some(payload) }
    }

    fn advance(&mut self) -> Result<()> {
        self.place += 1;
        Ok(())
    }
}

/// Copies all input into a buffer of the size of a disk write.
struct Copy {
    buffer: Vec<u8>,
    entries: u64,
}

impl Sink for Copy {
    fn begin_key(&mut self, key: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(key);
        Ok(())
    }

    fn push(&mut self, _: &[u8], cell: Cell<'_>, _: VersionKind) -> Result<()> {
        self.buffer.extend_from_slice(cell.payload.unwrap_or_default());
        self.entries += 1;
        if self.buffer.len() > 256 << 10 {
            std::hint::black_box(&self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }
}

struct Hook(u64);

impl GcHook for Hook {
    fn mark(&self) -> Mark {
        Mark { read: Timestamp::new(self.0).unwrap_or_default(), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// Makes a key of table 1: in a separate partition, or in a shared one.
fn key(hashed: bool, number: u64) -> [u8; KEY_BYTES] {
    let mut key = [7; KEY_BYTES];
    key[..4].copy_from_slice(&1_u32.to_be_bytes());
    let at = if hashed { 4 } else { 16 };
    key[at..at + 8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Makes sorted sources; keys are drawn from a large range, or from a small one so that most occur
/// twice.
fn sources(count: usize, hashed: bool, keys: u64) -> Vec<Block> {
    let mut rng = SeededRng::new(7);
    let mut source = |age: usize| {
        let mut numbers: Vec<u64> = (0..ENTRIES / count).map(|_| rng.below(keys)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut bytes = Vec::with_capacity(numbers.len() * ENTRY_BYTES);
        for number in &numbers {
            bytes.extend_from_slice(&key(hashed, *number));
            bytes.extend_from_slice(&[42; ENTRY_BYTES - KEY_BYTES]);
        }
        let commit = Timestamp::new(1 + age as u64).unwrap_or_default();
        Block { bytes, commits: vec![commit; numbers.len()], place: 0 }
    };
    (0..count).map(&mut source).collect()
}

fn measure(
    sources: &[Block],
    hull: &FlatRange,
    mark: u64,
    fragments: &[Fragment],
) -> Result<(f64, f64)> {
    let mut best = f64::MAX;
    let mut out = 0.0;
    for _ in 0..5 {
        let sources = sources.to_vec();
        let entries: usize = sources.iter().map(|source| source.commits.len()).sum();
        let begun = Instant::now();
        let mut merge =
            Merge::new(sources, fragments.to_vec(), hull, Below::of([hull.clone()]), Hook(mark));
        let mut sink = Copy { buffer: Vec::with_capacity(512 << 10), entries: 0 };
        while merge.step(&mut sink)?.is_some() {}
        let entries = f64::from(u32::try_from(entries).unwrap_or(u32::MAX));
        best = best.min(begun.elapsed().as_secs_f64() * 1e9 / entries);
        out = f64::from(u32::try_from(sink.entries).unwrap_or(u32::MAX)) / entries;
    }
    Ok((best, out))
}

pub(crate) fn run() -> Result<()> {
    println!(
        "{:>7} {:>12} {:>12} {:>18} {:>7}",
        "sources", "keys", "versions", "range tombstones", "ns"
    );
    for count in [1, 2, 4, 8, 12] {
        for hashed in [true, false] {
            for keys in [u64::MAX, ENTRIES as u64 / 4] {
                let (lower, upper) =
                    (key(hashed, 0), key(hashed, if hashed { u64::MAX } else { keys }));
                let hull = FlatRange::new(lower.to_vec(), upper.to_vec());
                let sources = sources(count, hashed, keys);
                let version = RangeVersion {
                    commit: Timestamp::new(1).unwrap_or_default(),
                    start: Timestamp::ZERO,
                };
                let fragment = |number: u64| Fragment {
                    lower: key(hashed, number * (keys / 1000)).to_vec().into(),
                    upper: key(hashed, number * (keys / 1000) + keys / 2000).to_vec().into(),
                    versions: vec![version],
                };
                let thousand: Vec<_> = (0..1000).map(fragment).collect();
                for fragments in [&[][..], &thousand] {
                    let (nanos, out) = measure(&sources, &hull, 100, fragments)?;
                    println!(
                        "{count:>7} {:>12} {:>12} {:>18} {nanos:>7.1} ({:.0} % come out)",
                        if hashed { "hashed" } else { "one partition" },
                        if keys == u64::MAX { "one" } else { "overwritten" },
                        fragments.len(),
                        out * 100.0
                    );
                }
            }
        }
    }
    Ok(())
}
