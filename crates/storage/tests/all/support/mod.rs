//! Shared by the engine's tests: workers that the test steps, a model, and a random workload.
#![allow(unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use carnet_base::{
    Bytes, CellKey, Error, KeyRange, PartitionKey, Result, Rng, SeededRng, Stepped, SystemClock,
    TableId, Timestamp, Version, block_on,
};
use carnet_storage::compaction::merge::{GcHook, Mark};
use carnet_storage::compaction::policy::Config;
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{
    Appended, Durability, Engine, EntryCell, MergeOperator, Mutation, Options, PageLimit,
    TableOptions, TableOptionsOf,
};

pub fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// Layout with small blocks and index pages.
pub fn blocks(block_bytes: usize) -> TableOptionsOf {
    let index_page_bytes = block_bytes / 2;
    TableOptionsOf::all(TableOptions { block_bytes, index_page_bytes, ..TableOptions::default() })
}

/// Table in which the tests record commits.
pub const ENTRIES: TableId = TableId(9);

pub fn entry_key(start: Timestamp) -> CellKey {
    let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
    CellKey::new(ENTRIES, &partition, "")
}

pub fn entry_cell() -> EntryCell {
    Arc::new(|start, commit| Ok((entry_key(start), commit.get().to_be_bytes().to_vec().into())))
}

pub fn open_on(disk: &dyn Fn() -> Arc<dyn Disk>, options: Options) -> Result<(Engine, Stepped)> {
    let workers = Stepped::default();
    let engine = Engine::open(disk(), Arc::new(SystemClock), &workers, options, entry_cell())?;
    engine.set_merge_operator(Arc::new(Joined));
    Ok((engine, workers))
}

pub fn open(disk: &SimDisk, options: Options) -> Result<(Engine, Stepped)> {
    open_on(&|| Arc::new(disk.clone()), options)
}

pub fn poll(appended: &mut Appended) -> Poll<Result<Timestamp>> {
    pin!(appended).poll(&mut Context::from_waker(Waker::noop()))
}

/// First byte of deltas, which only tables with odd ids have.
const DELTA_MARK: u8 = b'+';

/// Operator that appends deltas to the value below them.
pub struct Joined;

impl MergeOperator for Joined {
    fn mark(&self) -> u8 {
        DELTA_MARK
    }

    fn has_deltas(&self, table: TableId) -> bool {
        table.0 % 2 == 1 && table != ENTRIES
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        // The delta `+-` deletes.
        let last_delete = deltas.iter().position(|(_, delta)| delta == "+-");
        if last_delete == Some(0) {
            return Ok(None);
        }
        let value = value.filter(|_| last_delete.is_none()).map_or(&b"0"[..], |(_, value)| value);
        let newer = deltas[..last_delete.unwrap_or(deltas.len())].iter().rev();
        let newer = newer.map(|(_, delta)| &delta[..]);
        Ok(Some(std::iter::once(value).chain(newer).collect::<Vec<_>>().concat().into()))
    }
}

fn is_delta(key: &CellKey, payload: &[u8]) -> bool {
    Joined.has_deltas(key.table()) && payload.first() == Some(&DELTA_MARK)
}

pub type Cells = BTreeMap<CellKey, Option<Bytes>>;

/// All records with a position in the log, in order, and the promises about them.
#[derive(Clone, Default)]
pub struct Model {
    pub records: Vec<(Timestamp, Timestamp, Cells, Vec<KeyRange>)>,
    pub acknowledged: Timestamp,
    /// Durability of the last opening that succeeded.
    pub opened: Option<Durability>,
    /// Commits that survive a loss of power with any durability: they were flushed, or recovered.
    pub kept: Timestamp,
    pub bound: Timestamp,
}

impl Model {
    /// Returns the visible cells at a snapshot.
    pub fn at(&self, read: Timestamp) -> BTreeMap<CellKey, (Timestamp, Bytes)> {
        let mut visible: BTreeMap<CellKey, (Timestamp, Bytes)> = BTreeMap::new();
        for (_, commit, cells, ranges) in self.records.iter().filter(|record| record.1 <= read) {
            for range in ranges {
                visible.retain(|key, _| !range.contains(key));
            }
            for (key, payload) in cells {
                match payload {
                    Some(delta) if is_delta(key, delta) && delta == "+-" => visible.remove(key),
                    Some(delta) if is_delta(key, delta) => {
                        let value = visible.get(key).map_or(&b"0"[..], |(_, value)| value);
                        let joined = Bytes::from([value, &delta[..]].concat());
                        visible.insert(key.clone(), (*commit, joined))
                    }
                    Some(payload) => visible.insert(key.clone(), (*commit, payload.clone())),
                    None => visible.remove(key),
                };
            }
        }
        visible
    }

    /// Takes back the promises that a durability does not keep when the process is killed or, with
    /// `power`, the power fails.
    pub fn lose(&mut self, durability: Durability, power: bool) {
        let keeps = if power { durability == Durability::Always } else { durability.has_log() };
        if !keeps {
            self.acknowledged = self.acknowledged.min(self.kept);
        }
    }

    pub fn last_commit(&self) -> Timestamp {
        self.records.last().map_or(Timestamp::ZERO, |record| record.1)
    }
}

/// Parameters of a workload.
#[derive(Clone, Copy)]
pub struct Mix {
    pub tables: u64,
    pub partitions: u64,
    pub clusterings: u64,
    pub payload_bytes: u64,
}

pub const SMALL: Mix = Mix { tables: 2, partitions: 6, clusterings: 4, payload_bytes: 3000 };

pub fn random_key(mix: &Mix, rng: &mut SeededRng) -> CellKey {
    let table = TableId(u32::try_from(rng.below(mix.tables)).unwrap());
    let partition = PartitionKey::new(rng.below(mix.partitions).to_be_bytes()[6..].to_vec());
    CellKey::new(table, &partition, &rng.below(mix.clusterings).to_be_bytes()[6..])
}

/// Makes cells, of which some are deltas if `with_deltas`.
pub fn random_cells(mix: &Mix, with_deltas: bool, rng: &mut SeededRng) -> Cells {
    let mut cells = Cells::new();
    for _ in 0..=rng.below(4) {
        let key = random_key(mix, rng);
        let payload = rng.chance(800).then(|| {
            let len = usize::try_from(rng.below(mix.payload_bytes)).unwrap();
            let first = rng.next_u64();
            // Half random, so that blocks are partly compressible.
            let bytes = (0..len).map(|at| if at % 2 == 0 { (first >> (at % 60)) as u8 } else { 7 });
            let kind = if with_deltas && rng.chance(400) { DELTA_MARK } else { b'v' };
            let kind = Joined.has_deltas(key.table()).then_some(kind);
            kind.into_iter().chain(bytes).collect::<Vec<u8>>()
        });
        let deletes = payload.as_deref().is_some_and(|it| is_delta(&key, it)) && rng.chance(200);
        let payload = payload.map(|it| if deletes { b"+-".to_vec() } else { it });
        cells.insert(key, payload.map(Bytes::from));
    }
    cells
}

/// Returns the range of a partition, a part of one, or a table.
fn random_delete(mix: &Mix, rng: &mut SeededRng) -> KeyRange {
    let (one, other) = (random_key(mix, rng), random_key(mix, rng));
    let table = one.table();
    match rng.below(8) {
        0 => KeyRange::table(table),
        1..5 => KeyRange::partition(table, &one.partition()),
        _ => {
            let bounds = [one.clustering_bytes(), other.clustering_bytes()];
            let [lower, upper] = if bounds[0] <= bounds[1] {
                bounds
            } else {
                let [upper, lower] = bounds;
                [lower, upper]
            };
            let (lower, upper) = (Bound::Included(lower), Bound::Excluded(upper));
            KeyRange::clustering(table, &one.partition(), lower, upper)
        }
    }
}

/// Compaction options for tables of a few kilobytes.
pub fn small_compaction() -> Config {
    Config {
        level0_tables: 2,
        base_bytes: 30_000,
        fanout: 3,
        table_bytes: 12_000,
        part_bytes: 1_000,
        slow_runs: 4,
        ..Config::default()
    }
}

/// GC hook that permits dropping versions that are invisible at the newest published commit.
pub struct Forget(AtomicU64);

impl Forget {
    pub fn nothing_yet(engine: &Engine) -> Arc<Self> {
        let forget = Arc::new(Self(AtomicU64::new(0)));
        assert!(engine.set_gc(Arc::clone(&forget) as _));
        forget
    }

    pub fn below(&self, read: Timestamp) {
        self.0.store(read.get(), Ordering::Relaxed);
    }
}

impl GcHook for Forget {
    fn mark(&self) -> Mark {
        Mark { read: time(self.0.load(Ordering::Relaxed)), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// Appends a random record; the model records it once it has a position in the log.
pub fn append(
    engine: &Engine,
    model: &mut Model,
    mix: &Mix,
    rng: &mut SeededRng,
) -> Result<Appended> {
    let last = model.last_commit().max(engine.published()).get();
    let (start, commit) = (time(last + 1), time(last + 2 + rng.below(3)));
    let ranges: Vec<_> = if rng.chance(100) { vec![random_delete(mix, rng)] } else { Vec::new() };
    let cells = random_cells(mix, ranges.is_empty(), rng);
    let puts = cells.iter().map(|(key, payload)| Mutation::put_or_delete(key, payload.as_deref()));
    let deletes = ranges.iter().map(|range| Mutation::DeleteRange { range });
    let prepared = engine.prepare(start, puts.chain(deletes))?;
    let appended = engine.append(prepared, || {
        model.records.push((start, commit, cells, ranges));
        Ok::<_, Error>(commit)
    })?;
    Ok(appended)
}

/// Runs a workload until it ends or fails; the model records the promises.
pub fn run(
    disk: &SimDisk,
    options: &Options,
    model: &mut Model,
    mix: &Mix,
    steps: u64,
    rng: &mut SeededRng,
) -> Result<()> {
    let (mut engine, mut workers) = open(disk, options.clone())?;
    let found = engine.published();
    if found < model.acknowledged {
        let promised = model.acknowledged;
        return Err(Error::corrupted(format!("{promised} was acknowledged, {found} is the last")));
    }
    model.records.retain(|record| record.1 <= found);
    model.kept = found;
    model.opened = Some(options.durability);
    let mut forget = Forget::nothing_yet(&engine);
    let mut waiting: Vec<Appended> = Vec::new();
    for _ in 0..steps {
        match rng.below(100) {
            0..45 => waiting.push(append(&engine, model, mix, rng)?),
            45..74 => workers.step(0),
            74..80 => workers.step(1),
            80..89 => {
                forget.below(engine.published());
                workers.step(2 + rng.below(2) as usize);
            }
            89..92 => {
                let last = model.last_commit();
                engine.flush()?;
                model.kept = model.kept.max(last);
            }
            92..95 => {
                let bound = time(model.last_commit().get() + 1000);
                engine.raise_bound(bound)?;
                model.bound = model.bound.max(bound);
            }
            95..98 => {
                let got = engine.published();
                compare_at(&engine, model, got, rng)?;
            }
            _ => {
                engine.close()?;
                model.acknowledged = model.last_commit();
                model.kept = model.acknowledged;
                waiting.clear();
                (engine, workers) = open(disk, options.clone())?;
                forget = Forget::nothing_yet(&engine);
            }
        }
        waiting.retain_mut(|appended| match poll(appended) {
            Poll::Ready(Ok(commit)) => {
                model.acknowledged = model.acknowledged.max(commit);
                false
            }
            Poll::Ready(Err(_)) => false,
            Poll::Pending => true,
        });
    }
    engine.close()?;
    model.acknowledged = model.last_commit();
    model.kept = model.acknowledged;
    Ok(())
}

/// Reads a range page by page, with random limits.
pub fn scan(
    engine: &Engine,
    range: &KeyRange,
    read: Timestamp,
    reverse: bool,
    rng: &mut SeededRng,
) -> Result<Vec<(CellKey, Version)>> {
    let mut cells = Vec::new();
    let mut rest = Some(range.clone());
    while let Some(range) = rest {
        let limit = PageLimit {
            cells: usize::try_from(rng.below(12)).unwrap(),
            bytes: usize::try_from(rng.below(20_000)).unwrap(),
        };
        let page = block_on(engine.range(&range, read, reverse, limit))?;
        assert!(page.cells.len() <= limit.cells.max(1), "a page holds more than it may");
        cells.extend(page.cells.iter().map(|cell| {
            let payload = Some(Bytes::copy_from_slice(cell.payload));
            (cell.key.to_key(), Version { start: cell.start, commit: Some(cell.commit), payload })
        }));
        rest = page.resume;
    }
    Ok(cells)
}

/// Compares everything visible at a snapshot with the model: ranges in both directions, and points.
pub fn compare_at(
    engine: &Engine,
    model: &Model,
    read: Timestamp,
    rng: &mut SeededRng,
) -> Result<()> {
    let expected = model.at(read);
    let tables: BTreeSet<TableId> =
        model.records.iter().flat_map(|record| record.2.keys().map(CellKey::table)).collect();
    for table in tables {
        let expected: Vec<_> = expected
            .iter()
            .filter(|(key, _)| key.table() == table)
            .map(|(key, (commit, payload))| (key.clone(), Some(*commit), Some(payload.clone())))
            .collect();
        for reverse in [false, true] {
            let found = scan(engine, &KeyRange::table(table), read, reverse, rng)?;
            let mut found: Vec<_> =
                found.into_iter().map(|(key, v)| (key, v.commit, v.payload)).collect();
            if reverse {
                found.reverse();
            }
            if found != expected {
                return Err(Error::corrupted(format!(
                    "table {table} at {read}, reverse {reverse}: {} cells where {} are expected",
                    found.len(),
                    expected.len()
                )));
            }
        }
    }
    for (start, commit, cells, _) in model.records.iter().filter(|record| record.1 <= read) {
        for key in cells.keys() {
            let found = block_on(engine.get(key, read))?.and_then(|version| version.payload);
            if found.as_ref() != expected.get(key).map(|(_, payload)| payload) {
                return Err(Error::corrupted(format!("{key:?} at {read} is not as expected")));
            }
        }
        let recorded = match engine.commit_of(*start) {
            Some(commit) => Some(commit),
            None => block_on(engine.get(&entry_key(*start), Timestamp::MAX))?.and_then(|cell| {
                Some(time(u64::from_be_bytes(cell.payload?[..].try_into().ok()?)))
            }),
        };
        if recorded != Some(*commit) {
            let message = format!("start {start} is recorded at {recorded:?}, not {commit}");
            return Err(Error::corrupted(message));
        }
    }
    Ok(())
}

/// Opens the data after a crash and checks every promise; the model then has the recovered
/// contents.
pub fn check_recovered(
    disk: &SimDisk,
    options: &Options,
    model: &mut Model,
    rng: &mut SeededRng,
) -> Result<(), String> {
    let (engine, _workers) = open(disk, options.clone()).map_err(|error| error.to_string())?;
    let last = engine.published();
    if last < model.acknowledged {
        return Err(format!("commit {} was acknowledged, {last} is the last", model.acknowledged));
    }
    if engine.timestamp_bound() < model.bound {
        return Err(format!("the bound {} was promised", model.bound));
    }
    if last != Timestamp::ZERO && !model.records.iter().any(|record| record.1 == last) {
        return Err(format!("commit {last} was never made"));
    }
    model.records.retain(|record| record.1 <= last);
    compare_at(&engine, model, last, rng).map_err(|error| format!("at {last}: {error}"))?;
    // Snapshots of before the crash, from the GC watermark on, read the same.
    let earlier = time(rng.below(last.get() + 1)).max(engine.swept().min(last));
    compare_at(&engine, model, earlier, rng).map_err(|error| format!("at {earlier}: {error}"))
}

/// Returns a random range of a table.
pub fn random_range(mix: &Mix, rng: &mut SeededRng) -> KeyRange {
    let (left, right) = (random_key(mix, rng), random_key(mix, rng));
    let table = left.table();
    let right = CellKey::new(table, &right.partition(), right.clustering());
    let (low, high) = if left < right { (left, right) } else { (right, left) };
    let bound = |key, rng: &mut SeededRng| match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    KeyRange { table, lower: bound(low, rng), upper: bound(high, rng) }
}

/// Runs a golden script of the folder `testscripts`.
pub fn run_script(runner: &mut impl goldenscript::Runner, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name);
    goldenscript::run(runner, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
