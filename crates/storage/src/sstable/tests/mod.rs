//! Tests of tables: against a sorted map, on a disk that counts, and with damaged bytes.
#![expect(clippy::cast_possible_truncation, reason = "small random numbers")]

mod damage;
mod golden;
mod model;
mod reads;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Rng, SeededRng, TableId, Timestamp, block_on};

use super::*;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::sstable::cache::Cache;

pub(super) fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// Makes a flat key.
pub(super) fn flat(table: u32, token: i64, partition: &[u8], clustering: &[u8]) -> Vec<u8> {
    let mut key = table.to_be_bytes().to_vec();
    key.extend((token.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    key.extend(u16::try_from(partition.len()).unwrap().to_be_bytes());
    key.extend(partition);
    key.extend(clustering);
    key
}

/// A version in the model: start, expiry, payload.
pub(super) type Kept = (Timestamp, Option<u64>, Option<Vec<u8>>);

/// Expected contents of a table.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) versions: BTreeMap<(Vec<u8>, Reverse<Timestamp>), Kept>,
    pub(super) tombstones: Vec<RangeTombstone>,
}

impl Model {
    /// Returns the newest version at or before `read`, without range tombstones.
    fn version(&self, key: &[u8], read: Timestamp) -> Option<Found> {
        let from = (key.to_vec(), Reverse(read));
        let ((found, Reverse(commit)), (start, expiry, payload)) =
            self.versions.range(from..).next()?;
        (found == key).then(|| Found {
            start: *start,
            commit: *commit,
            expiry: *expiry,
            payload: payload.clone().map(Bytes::from),
        })
    }

    fn covering(&self, key: &[u8], read: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let covers = |t: &&RangeTombstone| t.commit <= read && *t.lower <= *key && *key < *t.upper;
        self.tombstones.iter().filter(covers).map(|t| (t.commit, t.start)).max()
    }

    fn get(&self, key: &[u8], read: Timestamp) -> Option<Found> {
        let found = self.version(key, read);
        match self.covering(key, read) {
            Some((commit, start)) if found.as_ref().is_none_or(|found| found.commit < commit) => {
                Some(Found { start, commit, expiry: None, payload: None })
            }
            _ => found,
        }
    }

    fn walk(&self, walk: &Walk) -> Vec<(Vec<u8>, Option<Found>)> {
        let mut keys: Vec<_> = self.versions.keys().map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys.retain(|key| {
            **key >= *walk.lower && walk.upper.as_ref().is_none_or(|upper| **key < **upper)
        });
        if walk.reverse {
            keys.reverse();
        }
        keys.into_iter().map(|key| (key.clone(), self.version(&key, walk.read))).collect()
    }

    pub(super) fn build(
        &self,
        disk: &Arc<dyn Disk>,
        number: u64,
        options: impl FnMut(TableId) -> TableOptions + Send + 'static,
    ) -> Option<Built> {
        let mut builder = Builder::begin(Arc::clone(disk), number, options).unwrap();
        for tombstone in &self.tombstones {
            builder.push_range_tombstone(tombstone).unwrap();
        }
        for ((key, Reverse(commit)), (start, expiry, payload)) in &self.versions {
            let (commit, start, expiry) = (*commit, *start, *expiry);
            let payload = payload.as_deref();
            builder.push(&EntryRef { key, commit, start, expiry, payload }).unwrap();
        }
        builder.finish().unwrap()
    }

    pub(super) fn table(&self, cache: &Arc<Cache>, options: TableOptions) -> Arc<Table> {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let built = self.build(&disk, 1, move |_| options).unwrap();
        open(&disk, &built, cache)
    }
}

pub(super) fn open(disk: &Arc<dyn Disk>, built: &Built, cache: &Arc<Cache>) -> Arc<Table> {
    let (disk, cache) = (Arc::clone(disk), Arc::clone(cache));
    Arc::new(Table::open(disk, built.number, built.bytes, cache).unwrap())
}

/// Makes keys of difficult kinds: short, long common prefixes, equal heads, zero bytes.
fn awkward_key(rng: &mut SeededRng) -> Vec<u8> {
    let table = 1 + rng.below(3) as u32;
    let token = [i64::MIN, -1, 0, 7, i64::MAX][rng.below(5) as usize];
    let partition = [&b""[..], b"p", b"pp", b"other"][rng.below(4) as usize];
    match rng.below(10) {
        0 => flat(table, 0, b"", b"")[..1 + rng.below(13) as usize].to_vec(),
        1 => vec![0; 1 + rng.below(30) as usize],
        2..=4 => flat(table, token, partition, &vec![0; rng.below(20) as usize]),
        5..=6 => {
            let mut clustering = b"the same long beginning".to_vec();
            clustering.push(rng.below(20) as u8);
            flat(table, 7, b"p", &clustering)
        }
        _ => flat(table, token, partition, &rng.below(1000).to_be_bytes()[5..]),
    }
}

pub(super) fn random_model(rng: &mut SeededRng, versions: u64) -> Model {
    let mut model = Model::default();
    let keys: Vec<_> = (0..1 + rng.below(versions)).map(|_| awkward_key(rng)).collect();
    for commit in 1..=versions {
        let key = keys[rng.below(keys.len() as u64) as usize].clone();
        let payload = match rng.below(10) {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(rng.next_u64().to_le_bytes().repeat(rng.below(40) as usize)),
            _ => Some(vec![b'v'; rng.below(10) as usize]),
        };
        let expiry = rng.chance(100).then(|| [0, 5, 1 << 40, u64::MAX][rng.below(4) as usize]);
        // Several cells per commit, and lags of all lengths.
        let commit = time(10 + (commit / 3) * 5 + (rng.below(1 + versions / 100) << rng.below(40)));
        let start = time(rng.below(commit.get()));
        model.versions.insert((key, Reverse(commit)), (start, expiry, payload));
    }
    for _ in 0..rng.below(8) {
        let (a, b) = (awkward_key(rng), awkward_key(rng));
        let commit = time(10 + rng.below(versions * 2));
        let (lower, upper) = (a.clone().min(b.clone()).into(), a.max(b).into());
        let start = time(rng.below(commit.get()));
        model.tombstones.push(RangeTombstone { lower, upper, commit, start });
    }
    model.tombstones.sort_by(|left, right| left.lower.cmp(&right.lower));
    // All range tombstones of a commit have the same start.
    let starts: BTreeMap<_, _> = model.tombstones.iter().map(|t| (t.commit, t.start)).collect();
    model.tombstones.iter_mut().for_each(|t| t.start = starts[&t.commit]);
    model
}

pub(super) fn random_options(rng: &mut SeededRng) -> TableOptions {
    let bytes = |rng: &mut SeededRng| [64, 100, 300, 1000, 4096][rng.below(5) as usize];
    TableOptions {
        block_bytes: bytes(rng),
        index_page_bytes: bytes(rng),
        compression: [Compression::None, Compression::Lz4, Compression::Zstd(1)]
            [rng.below(3) as usize],
        bloom_fp_chance: 0.1,
        filter: if rng.chance(500) { FilterKind::Cells } else { FilterKind::Partitions },
    }
}

/// Runs a test with many seeds, or only with `CARNET_SEED` if that is set.
pub(super) fn with_seeds(count: u64, test: impl Fn(u64, &mut SeededRng)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {0}: set CARNET_SEED={0} to replay it alone", self.0);
            }
        }
    }
    let seeds = match std::env::var("CARNET_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("CARNET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count,
    };
    for seed in seeds {
        let seed = Seed(seed);
        test(seed.0, &mut SeededRng::new(seed.0));
    }
}

/// Scans to the end, alternately key by key and by `take_more`; returns all cells.
pub(super) fn walked(table: &Arc<Table>, walk: &Walk) -> Vec<(Vec<u8>, Option<Found>)> {
    let mut cursor = TableCursor::new(Arc::clone(table), walk.clone());
    let mut out = Vec::new();
    loop {
        block_on(cursor.advance()).unwrap();
        let Some(key) = cursor.peek_key() else { break };
        let version = cursor.version();
        assert!(version.is_none_or(|version| version.key == key));
        out.push((key.to_vec(), version.map(|version| Found::of(&version))));
        let mut more = out.len() % 5;
        cursor
            .take_more(|key, version| {
                let takes = more > 0;
                if takes {
                    more -= 1;
                    out.push((key.to_vec(), version.map(|version| Found::of(&version))));
                }
                Ok(takes)
            })
            .unwrap();
        assert_eq!(cursor.peek_key(), out.last().map(|(key, _)| &key[..]), "the last one taken");
    }
    block_on(cursor.advance()).unwrap();
    assert!(cursor.peek_key().is_none() && cursor.version().is_none(), "the end stays the end");
    out
}
