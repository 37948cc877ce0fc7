//! Number of disk reads, and contents of the cache.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crossbeam_epoch as epoch;

use super::*;
use crate::disk::{self, DirectoryLock, File, ReadFuture};
use crate::sstable::Block;

/// A disk that counts reads and can suspend them.
#[derive(Clone)]
struct Watched {
    disk: SimDisk,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    reads: AtomicUsize,
    read_bytes: AtomicUsize,
    /// Reads are pending while this is set.
    held: Mutex<bool>,
}

struct WatchedFile {
    file: Arc<dyn File>,
    shared: Arc<Shared>,
}

impl Watched {
    fn new() -> Self {
        Self { disk: SimDisk::new(1), shared: Arc::default() }
    }

    /// Returns the number of reads since the last call.
    fn reads(&self) -> usize {
        self.shared.read_bytes.store(0, Ordering::Relaxed);
        self.shared.reads.swap(0, Ordering::Relaxed)
    }

    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { file, shared: Arc::clone(&self.shared) })
    }
}

impl Disk for Watched {
    fn lock(&self) -> carnet_base::Result<DirectoryLock> {
        self.disk.lock()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name).map(|file| self.file(file))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name).map(|file| self.file(file))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
    fn path(&self, name: &str) -> String {
        self.disk.path(name)
    }
    fn link(&self, name: &str, to: &dyn Disk) -> io::Result<()> {
        self.disk.link(name, to)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shared.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }
    fn read(self: Arc<Self>, offset: u64, len: usize) -> ReadFuture {
        self.shared.reads.fetch_add(1, Ordering::Relaxed);
        self.shared.read_bytes.fetch_add(len, Ordering::Relaxed);
        let reading = Arc::clone(&self.file).read(offset, len);
        Box::pin(async move {
            let free = |_: &mut Context<'_>| match *self.shared.held.lock().unwrap() {
                true => Poll::Pending,
                false => Poll::Ready(()),
            };
            std::future::poll_fn(free).await;
            reading.await
        })
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn read_many(self: Arc<Self>, places: &[disk::Place]) -> Vec<ReadFuture> {
        places.iter().map(|place| Arc::clone(&self).read(place.offset, place.len)).collect()
    }
    fn write_vectored_at(&self, pieces: &mut [io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_vectored_at(pieces, offset)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.file.preallocate(len)
    }
    fn evict(&self) -> io::Result<()> {
        self.file.evict()
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn row(n: u64) -> Vec<u8> {
    let partition = n.to_be_bytes();
    flat(1, n.wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed(), &partition, b"")
}

/// Rows of 96 random bytes, one per partition, with the even numbers of `0..2 * count`.
fn hashed(count: u64) -> Model {
    let mut model = Model::default();
    let mut rng = SeededRng::new(count);
    for n in 0..count {
        let payload = (0..12).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        let kept = (time(1), None, Some(payload));
        model.versions.insert((row(2 * n), Reverse(time(2))), kept);
    }
    model
}

fn watched(model: &Model, cache: &Arc<Cache>, options: TableOptions) -> (Watched, Arc<Table>) {
    let watched = Watched::new();
    let disk: Arc<dyn Disk> = Arc::new(watched.clone());
    let built = model.build(&disk, 1, move |_| options).unwrap();
    let table = open(&disk, &built, cache);
    watched.reads();
    (watched, table)
}

const READS: ReadOptions = ReadOptions { bypass_cache: false };

#[test]
fn smaller_cache_evicts_blocks() {
    let model = hashed(20_000);
    let cache = Cache::new(64 << 20);
    let (_, table) = watched(&model, &cache, TableOptions::default());
    for n in 0..20_000 {
        block_on(table.get(&row(n), Timestamp::MAX, READS)).unwrap();
    }
    let bytes = cache.bytes();
    assert!(bytes > 256 << 10, "{bytes} bytes");
    cache.resize(128 << 10);
    assert!(cache.bytes() <= 128 << 10, "{} bytes", cache.bytes());
    cache.resize(64 << 20);
    for n in 0..20_000 {
        block_on(table.get(&row(n), Timestamp::MAX, READS)).unwrap();
    }
    assert!(cache.bytes() > 256 << 10);
}

/// At most three reads if nothing is cached, one if the index is.
#[test]
fn uncached_get_takes_at_most_two_reads() {
    let model = hashed(20_000);
    let cache = Cache::new(64 << 20);
    let (disk, table) = watched(&model, &cache, TableOptions::default());
    let mut cold = 0;
    for n in (0..40_000).step_by(371) {
        let (there, key) = (n % 2 == 0, row(n));
        let cached = table.get_cached(&key, Timestamp::MAX, READS);
        let found = block_on(table.get(&key, Timestamp::MAX, READS)).unwrap();
        assert_eq!(found.is_some(), there);
        let reads = disk.reads();
        assert!(reads <= 2, "{reads} reads");
        assert_eq!(cached.is_ok(), reads == 0, "the short way reads nothing");
        cold += usize::from(reads == 2);
        assert_eq!(table.get_cached(&key, Timestamp::MAX, READS).unwrap(), found);
        block_on(table.get(&key, Timestamp::MAX, READS)).unwrap();
        assert_eq!(disk.reads(), 0, "the second time is hot");
    }
    assert!(cold >= 3, "pages were cold {cold} times");
    // After that many keys every page is in the cache, so at most one read is left.
    for n in (0..40_000).step_by(2 * 1009) {
        block_on(table.get(&row(n), Timestamp::MAX, READS)).unwrap();
        assert!(disk.reads() <= 1);
    }
}

#[test]
fn filter_saves_the_block_read() {
    let model = hashed(20_000);
    for filter in [FilterKind::Partitions, FilterKind::Cells] {
        let cache = Cache::new(64 << 20);
        let options = TableOptions { filter, ..TableOptions::default() };
        let (disk, table) = watched(&model, &cache, options);
        for n in (0..40_000).step_by(20) {
            block_on(table.get(&row(n), Timestamp::MAX, READS)).unwrap();
        }
        disk.reads();
        let before = cache.metrics();
        for n in (1..40_000).step_by(20) {
            assert_eq!(block_on(table.get(&row(n), Timestamp::MAX, READS)).unwrap(), None);
        }
        let after = cache.metrics();
        let passed = 2000 - (after.bloom_negatives - before.bloom_negatives);
        let looked = after.block_hits + after.block_reads - before.block_hits - before.block_reads;
        assert!(passed < 60, "{passed} of 2000 absent partitions passed");
        assert!(looked <= passed, "a filter that says no costs no data");
    }
}

#[test]
fn page_of_one_member_has_no_filter() {
    let cache = Cache::new(64 << 20);
    let has_filter = |model: &Model, filter| {
        let table = model.table(&cache, TableOptions { filter, ..TableOptions::default() });
        describe(&table).unwrap().pages[0].filter.is_some()
    };
    for filter in [FilterKind::Partitions, FilterKind::Cells] {
        assert!(!has_filter(&hashed(1), filter) && has_filter(&hashed(2), filter));
    }
    // Two cells of one partition.
    let mut model = hashed(1);
    let (key, kept) =
        model.versions.iter().next().map(|(at, kept)| (at.0.clone(), kept.clone())).unwrap();
    model.versions.insert(([&key[..], b"x"].concat(), Reverse(time(9))), kept);
    assert!(!has_filter(&model, FilterKind::Partitions) && has_filter(&model, FilterKind::Cells));
}

/// Many versions of one key, over many blocks and pages.
#[test]
fn old_versions_are_skipped_without_reads() {
    let mut model = hashed(2);
    let hot = row(0);
    for commit in 0..50_000 {
        let kept = (time(2 * commit + 3), None, Some(b"v".to_vec()));
        model.versions.insert((hot.clone(), Reverse(time(2 * commit + 4))), kept);
    }
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, ..TableOptions::default() };
        for read in [2, 4, 5, 50_001, 100_002, 200_000] {
            let cache = Cache::new(0);
            let (disk, table) = watched(&model, &cache, options);
            let pages = describe(&table).unwrap().pages.len() as u64;
            disk.reads();
            let found = block_on(table.get(&hot, time(read), READS)).unwrap();
            assert_eq!(found, model.get(&hot, time(read)));
            assert!(disk.reads() <= 2, "a point read at {read}");
            let mut decoded = cache.metrics().block_reads;
            for reverse in [false, true] {
                let walk = Walk { read: time(read), reverse, ..Walk::default() };
                assert_eq!(walked(&table, &walk), model.walk(&walk));
                let metrics = cache.metrics();
                let blocks = metrics.block_reads + metrics.block_reads_ahead - decoded;
                decoded += blocks;
                assert!(blocks <= 2 * pages + 4, "{blocks} blocks, {pages} pages, {reverse}");
            }
        }
    }
}

#[test]
fn only_long_scans_read_ahead() {
    let model = hashed(50_000);
    for reverse in [false, true] {
        let (disk, table) = watched(&model, &Cache::new(0), TableOptions::default());
        let blocks = describe(&table).unwrap().blocks as usize;
        disk.reads();
        let walk = Walk { read: Timestamp::MAX, reverse, ..Walk::default() };
        assert_eq!(walked(&table, &walk).len(), 50_000);
        let reads = disk.reads();
        assert!(reads < blocks / 8, "{reads} reads of {blocks} blocks");
        let wanting = |cells: usize| {
            let walk = Walk { cells_wanted: Some(cells), ..walk.clone() };
            let mut cursor = TableCursor::new(Arc::clone(&table), walk);
            for _ in 0..cells {
                block_on(cursor.advance()).unwrap();
            }
            let bytes = disk.shared.read_bytes.load(Ordering::Relaxed);
            (disk.reads(), bytes)
        };
        let (reads, bytes) = wanting(30);
        assert!(reads <= 3 && bytes < 15_000, "a short walk read {bytes} bytes, {reads} times");
        let (reads, bytes) = wanting(1_000);
        let data = usize::try_from(table.footer.index / 50).unwrap();
        assert!(reads <= 7, "{reads} reads for {data} bytes");
        assert!(bytes < data + data / 4 + 16_000, "{bytes} bytes for {data}");
        let mut cursor = RawCursor::new(Arc::clone(&table), Bytes::new(), None);
        let mut versions = 0;
        cursor.advance_blocking().unwrap();
        while cursor.entry().is_some() {
            versions += 1;
            cursor.advance_blocking().unwrap();
        }
        assert_eq!(versions, 50_000);
        let reads = disk.reads();
        // Pieces of 256 KiB, regardless of the pages of their blocks, and all index pages in one or
        // two.
        let pieces = usize::try_from(table.footer.index >> 18).unwrap();
        assert!(reads <= pieces + 4, "{reads} reads of {blocks} blocks, {pieces} pieces");
    }
}

/// A short scan reads no further than into the next block, wherever it begins in a block.
#[test]
fn short_scan_reads_at_most_two_blocks() {
    let model = hashed(5_000);
    let options = TableOptions::default();
    let (disk, table) = watched(&model, &Cache::new(0), options);
    let keys: Vec<_> = model.versions.keys().map(|(key, _)| key.clone()).collect();
    for (at, reverse) in (1_000..1_100).flat_map(|at| [(at, false), (at, true)]) {
        let (lower, upper) = match reverse {
            false => (keys[at].clone().into(), None),
            true => (Bytes::new(), Some(keys[at].clone().into())),
        };
        let cells_wanted = Some(3);
        let read = Timestamp::MAX;
        let walk = Walk { lower, upper, read, reverse, cells_wanted, ..Walk::default() };
        disk.reads();
        let mut cursor = TableCursor::new(Arc::clone(&table), walk);
        for _ in 0..3 {
            block_on(cursor.advance()).unwrap();
        }
        let bytes = disk.shared.read_bytes.load(Ordering::Relaxed);
        let (block, page) = (options.block_bytes, options.index_page_bytes);
        // Both may be beyond the end of their index page.
        let bytes_max = 2 * (block + block / 4) + 2 * (page + page / 4);
        assert!(bytes <= bytes_max, "{bytes} bytes from {at} on, {reverse}");
    }
}

/// A scan that wants one cell may have to skip many deleted ones.
#[test]
fn scan_over_deleted_cells_reads_ahead() {
    let mut model = hashed(50_000);
    model.versions.values_mut().for_each(|kept| kept.2 = None);
    for reverse in [false, true] {
        let (disk, table) = watched(&model, &Cache::new(0), TableOptions::default());
        let description = describe(&table).unwrap();
        let (blocks, pages) = (description.blocks as usize, description.pages.len());
        disk.reads();
        let cells_wanted = Some(1);
        let walk = Walk { read: Timestamp::MAX, reverse, cells_wanted, ..Walk::default() };
        assert_eq!(walked(&table, &walk).len(), 50_000);
        // Each index page is read, and no piece extends beyond one.
        let reads = disk.reads();
        assert!(reads < 2 * pages + 10, "{reads} reads of {blocks} blocks, {pages} pages");
    }
}

#[test]
fn scan_reads_no_cached_block_again() {
    let model = hashed(5_000);
    for reverse in [false, true] {
        let (disk, table) = watched(&model, &Cache::new(64 << 20), TableOptions::default());
        let pages = describe(&table).unwrap().pages;
        let blocks: Vec<_> = pages.iter().flat_map(|page| &page.blocks).collect();
        for pair in blocks.windows(2).step_by(2) {
            let (lower, upper) = (pair[0].separator.clone(), pair[1].separator.clone());
            let (lower, upper) = (Bytes::from(lower), Some(Bytes::from(upper)));
            walked(&table, &Walk { lower, upper, read: Timestamp::MAX, ..Walk::default() });
        }
        disk.reads();
        let walk = Walk { read: Timestamp::MAX, reverse, ..Walk::default() };
        assert_eq!(walked(&table, &walk).len(), 5_000);
        let bytes = disk.shared.read_bytes.load(Ordering::Relaxed);
        let all = usize::try_from(table.footer.index).unwrap();
        assert!(bytes < all * 11 / 20, "half of {all} bytes was there, {bytes} were read");
    }
}

/// The index states the end of a range, so no block is read to find it.
#[test]
fn scan_reads_no_block_beyond_its_bounds() {
    let model = hashed(5_000);
    let (disk, table) = watched(&model, &Cache::new(0), TableOptions::default());
    let pages = describe(&table).unwrap().pages;
    let blocks = &pages[0].blocks;
    for at in [1, blocks.len() / 2, blocks.len() - 2] {
        let lower = Bytes::from(blocks[at].separator.clone());
        let upper = Some(Bytes::from(blocks[at + 1].separator.clone()));
        for reverse in [false, true] {
            let (lower, upper) = (lower.clone(), upper.clone());
            let walk = Walk { lower, upper, read: Timestamp::MAX, reverse, ..Walk::default() };
            disk.reads();
            let rows = walked(&table, &walk).len();
            assert!(rows > 20 && rows < 40);
            assert_eq!(disk.reads(), 2, "reverse {reverse}");
        }
    }
}

#[test]
fn bypassing_read_leaves_cache_unchanged() {
    let model = hashed(5_000);
    let cache = Cache::new(64 << 20);
    let (disk, table) = watched(&model, &cache, TableOptions::default());
    let bypass = ReadOptions { bypass_cache: true };
    let walk = Walk { read: Timestamp::MAX, reads: bypass, ..Walk::default() };
    assert_eq!(walked(&table, &walk).len(), 5_000);
    block_on(table.get(&row(8), Timestamp::MAX, bypass)).unwrap().unwrap();
    assert_eq!(cache.bytes(), 0);
    block_on(table.get(&row(8), Timestamp::MAX, READS)).unwrap().unwrap();
    disk.reads();
    block_on(table.get(&row(8), Timestamp::MAX, bypass)).unwrap().unwrap();
    assert_eq!(disk.reads(), 0, "it takes what is there");
}

#[test]
fn scan_does_not_evict_hot_blocks() {
    let model = hashed(80_000);
    let budget = 1 << 20;
    let cache = Cache::new(budget);
    let (disk, table) = watched(&model, &cache, TableOptions::default());
    let unbounded = Cache::new(1 << 30);
    let (_, same) = watched(&model, &unbounded, TableOptions::default());
    walked(&same, &Walk { read: Timestamp::MAX, ..Walk::default() });
    assert!(unbounded.bytes() > 10 * budget as u64, "{}", unbounded.bytes());
    let hot: Vec<_> = (0..100).map(|n| row(2 * (n * 577))).collect();
    let get = |key: &Vec<u8>| block_on(table.get(key, Timestamp::MAX, READS)).unwrap().unwrap();
    for _ in 0..3 {
        hot.iter().for_each(|key| drop(get(key)));
    }
    let walk = Walk { read: Timestamp::MAX, ..Walk::default() };
    let scanned: usize = walked(&table, &walk).len();
    assert_eq!(scanned, 80_000);
    disk.reads();
    let still = hot.iter().filter(|key| table.get_cached(key, Timestamp::MAX, READS).is_ok());
    let still = still.count();
    assert!(still >= 80, "only {still} of 100 hot rows are still in the cache");
    assert!(cache.bytes() <= budget as u64, "{} bytes", cache.bytes());
    assert!(cache.metrics().cache_evictions > 1000);
}

/// The index stays cached while it is a small part of the budget and blocks are evicted, even if a
/// page is larger than a shard's queue of new entries.
#[test]
fn index_pages_outlive_blocks() {
    for (rows, budget) in [(80_000, 1 << 20), (40_000, 128 << 10)] {
        let model = hashed(rows);
        let cache = Cache::new(budget);
        let (_, table) = watched(&model, &cache, TableOptions::default());
        walked(&table, &Walk { read: Timestamp::MAX, ..Walk::default() });
        let before = cache.metrics();
        for n in 0..1_000 {
            let key = row(2 * (n * (rows / 1_040)));
            block_on(table.get(&key, Timestamp::MAX, READS)).unwrap().unwrap();
        }
        let after = cache.metrics();
        assert!(after.block_reads > before.block_reads + 500, "{rows} rows: {after:?}");
        assert!(after.index_reads - before.index_reads <= 10, "{rows} rows: {before:?} {after:?}");
    }
}

/// Blocks that normal reads made hot survive a scan; blocks of bypassing reads do not.
#[test]
fn bypassing_read_does_not_mark_blocks_recent() {
    let model = hashed(80_000);
    let scan = Walk { read: Timestamp::MAX, ..Walk::default() };
    let survivors = |bypass_cache| {
        let cache = Cache::new(1 << 20);
        let (_, table) = watched(&model, &cache, TableOptions::default());
        // Until the cache is full for the first time, all new entries stay.
        walked(&table, &scan);
        let mut still = 0;
        for n in 0..100 {
            // One at a time, so that it is still in the queue of new entries.
            let key = row(2 * (n * 577));
            for reads in [READS, ReadOptions { bypass_cache }, ReadOptions { bypass_cache }] {
                block_on(table.get(&key, Timestamp::MAX, reads)).unwrap().unwrap();
            }
        }
        walked(&table, &scan);
        for n in 0..100 {
            let there = table.get_cached(&row(2 * (n * 577)), Timestamp::MAX, READS);
            still += usize::from(there.is_ok());
        }
        still
    };
    let (normal, bypassing) = (survivors(false), survivors(true));
    assert!(normal >= 80 && bypassing <= 20, "{normal} and {bypassing} of 100");
}

#[test]
fn blocks_of_removed_file_are_evicted() {
    let model = hashed(2_000);
    let cache = Cache::new(64 << 20);
    let (_, table) = watched(&model, &cache, TableOptions::default());
    walked(&table, &Walk { read: Timestamp::MAX, ..Walk::default() });
    let full = cache.bytes();
    cache.forget(&[2, 3]);
    assert_eq!(cache.bytes(), full);
    cache.forget(&[1, 3]);
    assert_eq!(cache.bytes(), 0);
    assert!(full > 250_000);
}

/// A lookup by a link counts as a cache hit: the block stays while others become hot and cold
/// again.
#[test]
fn linked_hot_blocks_stay_cached() {
    let model = hashed(80_000);
    let cache = Cache::new(1 << 20);
    let (_, table) = watched(&model, &cache, TableOptions::default());
    let get = |n: u64| drop(block_on(table.get(&row(2 * n), Timestamp::MAX, READS)).unwrap());
    let hot = |n: u64| n * 997;
    let mut missed = 0;
    for round in 0..20 {
        for n in 0..400 {
            // Each of the others is read three times, and never again.
            for _ in 0..3 {
                get((round * 400 + n) * 4 + 1);
            }
            if n % 10 == 0 {
                let before = cache.metrics().block_reads;
                (0..30).map(hot).for_each(get);
                missed += if round < 2 { 0 } else { cache.metrics().block_reads - before };
            }
        }
    }
    let all = 18 * 40 * 30;
    assert!(missed * 50 < all, "{missed} of {all} reads of hot rows missed");
}

/// A link keeps no block alive, and refers to no evicted block.
#[test]
fn link_is_cleared_with_its_block() {
    let model = hashed(2_000);
    let cache = Cache::new(64 << 20);
    let (disk, table) = watched(&model, &cache, TableOptions::default());
    let key = row(1000);
    for _ in 0..3 {
        block_on(table.get(&key, Timestamp::MAX, READS)).unwrap().unwrap();
    }
    assert_eq!(disk.reads(), 2);
    let top = table.top.as_ref().unwrap();
    let pinned = epoch::pin();
    let linked = |index: &Block| {
        let links = &index.index().unwrap().links;
        (0..index.len()).find_map(|slot| links.get(slot, &pinned))
    };
    let page = linked(top).unwrap().hold().unwrap();
    assert!(linked(&page).is_some());
    cache.forget(&[1]);
    assert!(linked(&page).is_none(), "nothing leads to a block that is gone");
    drop(page);
    assert!(linked(top).is_none(), "nor to a page");
    block_on(table.get(&key, Timestamp::MAX, READS)).unwrap().unwrap();
    assert_eq!(disk.reads(), 2);
}

/// Two readers of one uncached block: one reads; if it is cancelled, the other reads.
#[test]
fn concurrent_readers_read_a_block_once() {
    let model = hashed(100);
    for gives_up in [false, true] {
        let cache = Cache::new(64 << 20);
        let (disk, table) = watched(&model, &cache, TableOptions::default());
        let key = row(10);
        let mut context = Context::from_waker(Waker::noop());
        *disk.shared.held.lock().unwrap() = true;
        let mut first = Box::pin(table.get(&key, Timestamp::MAX, READS));
        let mut second = pin!(table.get(&key, Timestamp::MAX, READS));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(disk.reads(), 1, "the second one waits for the first one's read");
        if gives_up {
            drop(first);
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert_eq!(disk.reads(), 1, "the second one reads itself");
            *disk.shared.held.lock().unwrap() = false;
        } else {
            *disk.shared.held.lock().unwrap() = false;
            let Poll::Ready(found) = first.as_mut().poll(&mut context) else {
                panic!("it is there")
            };
            assert!(found.unwrap().is_some());
        }
        let Poll::Ready(found) = second.as_mut().poll(&mut context) else { panic!("it is there") };
        assert!(found.unwrap().is_some());
    }
}

/// A read fails if the disk fails, and the next read tries again.
#[test]
fn failed_read_is_not_cached() {
    let model = hashed(100);
    let sim = SimDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let built = model.build(&disk, 1, |_| TableOptions::default()).unwrap();
    let table = open(&disk, &built, &Cache::new(1 << 20));
    sim.fail_at(sim.operations() + 1, io::ErrorKind::Other);
    let error = block_on(table.get(&row(4), Timestamp::MAX, READS)).unwrap_err();
    assert_eq!(error.kind(), carnet_base::ErrorKind::Unavailable);
    assert!(error.to_string().contains("sst-00000001.sst"), "{error}");
    assert!(block_on(table.get(&row(4), Timestamp::MAX, READS)).unwrap().is_some());
}
