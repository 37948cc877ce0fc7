//! Wall-clock map: wall times of commits, stored in the log with them.
//!
//! A [point](WallPoint) is a cell of a reserved table, entirely in its key. The next commit writes
//! it, so it needs no record, sync or timestamp of its own, and survives a crash if any later
//! commit does.
//!
//! ```text
//!  worker     tick: (P, now), asks ──┐          after a spacing, while P advances
//!  commit            asked? (P, now) ┴─▶ writes the points with its own cells
//!  worker                                wakes, and waits for the spacing to elapse
//! ```
//!
//! The worker's point bounds the commits before it; the point of the commit that writes it bounds
//! those after. Without commits the worker sleeps: the next commit writes a point and wakes it, and
//! so does a commit that was in flight at the last tick and is published now. Commits only check
//! one flag.
//!
//! # Time that readers have seen
//!
//! Values expire by the same clock. Readers without commits leave no point, and the machine's clock
//! may be set back before the next opening. So the last time that a reader has seen is in a file of
//! its own ([`clock_file`]). The worker writes it while readers ask, at most once in [`SEEN_SPACING`];
//! `close` writes it; and a reader does at once when the machine's clock was set, since the file then
//! may be far behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{
    CellKey, Clock, Error, KeyRange, Moment, PartitionKey, Result, Signal, TableId, Timestamp,
    WallTime, block_on,
};
use carnet_storage::disk::Disk;
use carnet_storage::{Engine, Mutation, PageLimit, clock_file};
use carnet_store::{SteadyWall, WallPoint, WallTimes};

/// Id of the table, reserved in the catalog.
pub(crate) const TABLE: TableId = TableId(5);

const PARTITION: &[u8] = b"points";

/// Length of a wall time and a timestamp.
const KEY_BYTES: usize = 16;

/// Distance between points; a fraction of the retention if that is short.
pub(crate) const SPACING_MAX: Duration = Duration::from_secs(1);
const SPACING_MIN: Duration = Duration::from_millis(1);
const RETENTION_PART: u32 = 64;
/// A commit within this fraction of the spacing after a point makes none.
const NEAR_PART: u32 = 16;

/// Time that readers may see beyond the one in the file.
const SEEN_SPACING: Duration = Duration::from_secs(10);

/// Number of attempts to read P and the wall time together.
const POINT_ATTEMPTS: u32 = 8;

/// Number of points read at a time when the store is opened.
const PAGE: PageLimit = PageLimit { cells: 1024, bytes: usize::MAX };

/// Map of timestamps to wall-clock times.
pub(crate) struct WallClockMap {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    spacing: Duration,
    /// Set if the next commit has to write points.
    asks: AtomicBool,
    /// Set while the worker waits for a commit to wake it.
    sleeps: AtomicBool,
    /// Wakes the worker.
    signal: Signal,
    state: Mutex<WallClockState>,
    /// Held while the file is written; taken before `state`.
    storing: Mutex<()>,
}

struct WallClockState {
    steady: SteadyWall,
    known: WallTimes,
    /// Points that no commit has written yet.
    unwritten: Vec<WallPoint>,
    ticked: Moment,
    seen: SeenTime,
}

/// Wall times that readers have seen.
struct SeenTime {
    last: WallTime,
    /// Time in the file, or that was tried last.
    stored: WallTime,
}

impl WallClockMap {
    /// Loads the points of earlier runs. `first` is above all of their commits.
    pub(crate) fn open(
        engine: &Engine,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        retention: Duration,
        signal: Signal,
        first: Timestamp,
    ) -> Result<Self> {
        let spacing = (retention / RETENTION_PART).clamp(SPACING_MIN, SPACING_MAX);
        let mut known = read_points(engine)?;
        let seen = clock_file::load(&*disk).unwrap_or_else(|error| {
            tracing::warn!(%error, "the last wall time that readers have seen is not known");
            None
        });
        let last = known.last().map(|last| last.wall).max(seen);
        let mut steady = SteadyWall::resuming(&*clock, last);
        let now = steady.read(&*clock);
        let mut unwritten = Vec::new();
        // A commit later than a spacing after the last point would have written another point. This
        // holds for commits only: starts up to `first` may be as young as the opening.
        let newest = engine.published();
        let ended = known.last().map(|last| (newest, now.min(after(last.wall, spacing))));
        for (timestamp, wall) in ended.into_iter().chain([(first, now)]) {
            let point = WallPoint { timestamp, wall };
            if known.note(point) {
                unwritten.push(point);
            }
        }
        let ticked = clock.now();
        let least = WallTime(i64::MIN);
        let seen = SeenTime { last: least, stored: seen.unwrap_or(least) };
        let state = Mutex::new(WallClockState { steady, known, unwritten, ticked, seen });
        let (asks, sleeps) = (AtomicBool::new(true), AtomicBool::new(true));
        let storing = Mutex::default();
        Ok(Self { disk, clock, spacing, asks, sleeps, signal, state, storing })
    }

    /// Makes the worker's point if one is due. Returns the time until the next one; `None` if a
    /// commit will wake the worker.
    pub(crate) fn tick(&self, published: impl Fn() -> Timestamp) -> Option<Duration> {
        let mut state = self.lock();
        let since = self.clock.now().since(state.ticked);
        if since < self.spacing {
            self.sleeps.store(false, Ordering::SeqCst);
            return Some(self.spacing.saturating_sub(since));
        }
        // Set before P is read: a commit published afterwards sees it set, and wakes the worker.
        self.sleeps.store(true, Ordering::SeqCst);
        let point = state.point_now(&*self.clock, published);
        if state.known.last().is_none_or(|last| last.timestamp < point.timestamp) {
            state.note(point);
            state.ticked = self.clock.now();
            self.asks.store(true, Ordering::Release);
        }
        None
    }

    /// Records that P has advanced.
    pub(crate) fn published(&self) {
        if self.sleeps.load(Ordering::SeqCst) && self.sleeps.swap(false, Ordering::SeqCst) {
            self.signal.ring();
        }
    }

    /// Returns the points that the next commit has to write; usually none.
    pub(crate) fn asked(&self, published: impl Fn() -> Timestamp) -> Option<Box<Asked<'_>>> {
        if !self.asks.load(Ordering::Relaxed) || !self.asks.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.lock();
        let point = state.point_now(&*self.clock, published);
        // Directly after the worker's point, another one would be redundant.
        let near = self.spacing / NEAR_PART;
        if state.known.last().is_none_or(|last| point.wall >= after(last.wall, near)) {
            state.note(point);
            state.ticked = self.clock.now();
        }
        let points = state.unwritten.clone();
        drop(state);
        let keys = points.iter().copied().map(key).collect();
        Some(Box::new(Asked { wall_clock: self, points, keys, written: false }))
    }

    /// Returns the newest commit that was published by a wall time.
    pub(crate) fn timestamp_at(&self, wall: WallTime, published: Timestamp) -> Result<Timestamp> {
        let mut state = self.lock();
        let now = state.steady.read(&*self.clock);
        state.known.find(wall, now, published)
    }

    /// Returns the current wall time for a reader. It never decreases.
    pub(crate) fn wall_time(&self) -> WallTime {
        let mut state = self.lock();
        let wall = state.steady.read(&*self.clock);
        state.seen.last = wall;
        let has_leapt = state.steady.take_leap();
        let is_due = state.seen.is_due();
        drop(state);
        if has_leapt {
            self.store_seen(|_| true);
        } else if is_due {
            self.signal.ring();
        }
        wall
    }

    /// Stores the last time that a reader has seen, if it is due.
    pub(crate) fn store_due(&self) {
        self.store_seen(SeenTime::is_due);
    }

    /// Stores the last time that a reader has seen.
    pub(crate) fn store_last(&self) {
        self.store_seen(|seen| seen.last > seen.stored);
    }

    /// Stores the last time that a reader has seen, if `needs` says so. Readers go on meanwhile. If the
    /// disk fails, the next time that is due is tried.
    fn store_seen(&self, needs: impl FnOnce(&SeenTime) -> bool) {
        // One writer at a time, so that the latest time stays in the file.
        let _storing = lock(&self.storing);
        let mut state = self.lock();
        if !needs(&state.seen) {
            return;
        }
        state.seen.stored = state.seen.last;
        let last = state.seen.last;
        drop(state);
        if let Err(error) = clock_file::store(&*self.disk, last) {
            tracing::warn!(%error, "cannot store the wall time that readers have seen");
        }
    }

    /// Returns the second that has passed for all readers at a timestamp or later; `None` if unknown.
    pub(crate) fn passed_second(&self, read: Timestamp) -> Option<u64> {
        let wall = self.lock().known.wall_of(read)?;
        u64::try_from(wall.0 / 1_000_000).ok()
    }

    /// Returns the wall time at which a commit was published.
    pub(crate) fn wall_time_of(&self, commit: Timestamp, published: Timestamp) -> Result<WallTime> {
        self.lock().known.find_wall(commit, published)
    }

    /// Reads the monotonic clock.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Returns the newest timestamp with a known wall time.
    pub(crate) fn newest_known(&self) -> Timestamp {
        self.lock().known.last().map_or(Timestamp::ZERO, |last| last.timestamp)
    }

    /// Returns the newest commit at the begin of the retention; zero if unknown.
    pub(crate) fn newest_before(&self, retention: Duration) -> Timestamp {
        let mut state = self.lock();
        let now = state.steady.read(&*self.clock);
        let micros = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let begun = WallTime(now.0.saturating_sub(micros));
        state.known.timestamp_at(begun).unwrap_or_default()
    }

    /// Returns `true` if a cell of the table is not needed any more.
    pub(crate) fn is_forgotten(&self, key: &[u8]) -> bool {
        decode(key).is_ok_and(|point| !self.lock().known.contains(point))
    }

    /// Drops points that are not needed for timestamps from `mark` on.
    pub(crate) fn forget_below(&self, mark: Timestamp) {
        self.lock().known.forget_below(mark);
    }

    fn lock(&self) -> MutexGuard<'_, WallClockState> {
        lock(&self.state)
    }
}

impl SeenTime {
    fn is_due(&self) -> bool {
        self.last >= after(self.stored, SEEN_SPACING)
    }
}

impl WallClockState {
    /// Reads P and the wall time as of one moment: P is the same before and after the time was read.
    /// Otherwise a commit between the two reads would contradict the point.
    fn point_now(&mut self, clock: &dyn Clock, published: impl Fn() -> Timestamp) -> WallPoint {
        let mut timestamp = published();
        for _ in 0..POINT_ATTEMPTS {
            let wall = self.steady.read(clock);
            let after = published();
            if after == timestamp {
                return WallPoint { timestamp, wall };
            }
            timestamp = after;
        }
        // Commits follow each other faster than the clock can be read.
        WallPoint { timestamp, wall: self.steady.read(clock) }
    }

    fn note(&mut self, point: WallPoint) {
        if self.known.note(point) {
            self.unwritten.push(point);
            // If commits are refused for long, points that became redundant need not be written.
            self.unwritten.retain(|point| self.known.contains(*point));
        }
    }
}

/// Points for a commit to write. If the commit fails, the next one writes them.
pub(crate) struct Asked<'a> {
    wall_clock: &'a WallClockMap,
    points: Vec<WallPoint>,
    keys: Vec<CellKey>,
    written: bool,
}

impl Asked<'_> {
    /// Returns the cells to write.
    pub(crate) fn mutations(&self) -> impl Iterator<Item = Mutation<'_>> + Clone {
        self.keys.iter().map(|key| Mutation::put_or_delete(key, Some(&[])))
    }

    /// Records that the commit has been decided.
    pub(crate) fn written(mut self) {
        self.written = true;
        self.wall_clock.lock().unwritten.retain(|point| !self.points.contains(point));
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.written {
            self.wall_clock.asks.store(true, Ordering::Release);
        }
    }
}

pub(crate) fn after(wall: WallTime, spacing: Duration) -> WallTime {
    WallTime(wall.0.saturating_add(i64::try_from(spacing.as_micros()).unwrap_or(i64::MAX)))
}

/// Returns the key of a point's cell.
fn key(point: WallPoint) -> CellKey {
    let mut clustering = [0; KEY_BYTES];
    // The sign bit is inverted, so that earlier times sort first.
    clustering[..8].copy_from_slice(&(point.wall.0.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    clustering[8..].copy_from_slice(&point.timestamp.get().to_be_bytes());
    CellKey::new(TABLE, &PartitionKey::new(PARTITION), clustering)
}

/// Decodes a point from the end of its cell's key.
pub(crate) fn decode(key: &[u8]) -> Result<WallPoint> {
    let wrong = || Error::corrupted("a cell of the table of wall times is not a valid point");
    let (rest, timestamp) = key.split_last_chunk::<8>().ok_or_else(wrong)?;
    let (_, wall) = rest.split_last_chunk::<8>().ok_or_else(wrong)?;
    let wall = WallTime((u64::from_be_bytes(*wall) ^ (1 << 63)).cast_signed());
    let timestamp = Timestamp::new(u64::from_be_bytes(*timestamp)).ok_or_else(wrong)?;
    Ok(WallPoint { wall, timestamp })
}

fn read_points(engine: &Engine) -> Result<WallTimes> {
    let mut known = WallTimes::default();
    let mut rest = Some(KeyRange::table(TABLE));
    while let Some(range) = rest {
        let page = block_on(engine.range(&range, engine.published(), false, PAGE))?;
        for cell in page.cells.iter() {
            known.note(decode(cell.key.clustering())?);
        }
        rest = page.resume;
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use carnet_base::{Rng, SeededRng, Stepped};
    use carnet_storage::disk::sim::SimDisk;
    use carnet_storage::{EntryCell, Options};

    use super::*;

    /// A clock that the test moves, and that advances by a microsecond at each reading.
    #[derive(Default)]
    struct Moved {
        now: Mutex<Duration>,
        /// Microseconds by which the wall clock is set ahead.
        set: AtomicI64,
    }

    impl Moved {
        fn pass(&self, time: Duration) {
            *lock(&self.now) += time;
        }

        fn set(&self, ahead: Duration) {
            self.set.store(i64::try_from(ahead.as_micros()).unwrap(), Ordering::SeqCst);
        }
    }

    impl Clock for Moved {
        fn now(&self) -> Moment {
            Moment(*lock(&self.now))
        }

        fn wall(&self) -> WallTime {
            let mut now = lock(&self.now);
            *now += Duration::from_micros(1);
            let machine = i64::try_from(now.as_micros()).unwrap();
            WallTime(machine + self.set.load(Ordering::SeqCst))
        }
    }

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn open() -> (WallClockMap, Arc<Moved>, Signal) {
        let clock = Arc::new(Moved::default());
        let (map, signal) = open_with(&SimDisk::new(1), &clock);
        clock.pass(SPACING_MAX);
        (map, clock, signal)
    }

    fn open_with(disk: &SimDisk, clock: &Arc<Moved>) -> (WallClockMap, Signal) {
        let entry_cell: EntryCell = Arc::new(|_, _| Err(Error::unsupported("entries")));
        let (disk, options) = (Arc::new(disk.clone()) as Arc<dyn Disk>, Options::default());
        let shared = Arc::clone(clock) as Arc<dyn Clock>;
        let workers = Stepped::default();
        let engine =
            Engine::open(Arc::clone(&disk), Arc::clone(&shared), &workers, options, entry_cell)
                .unwrap();
        let (retention, signal) = (Duration::from_secs(3600), Signal::new());
        let map =
            WallClockMap::open(&engine, disk, shared, retention, signal.clone(), at(1)).unwrap();
        (map, signal)
    }

    /// The machine's clock is set ahead, and corrected while the database is not open.
    #[test]
    fn seen_time_stays_over_a_restart() {
        const HOUR: Duration = Duration::from_secs(3600);
        let (disk, clock) = (SimDisk::new(1), Arc::new(Moved::default()));
        let (map, _) = open_with(&disk, &clock);
        let before = map.wall_time();
        clock.set(HOUR);
        let seen = map.wall_time();
        assert!(seen >= after(before, HOUR));
        drop(map);
        clock.set(Duration::ZERO);
        let (map, signal) = open_with(&disk, &clock);
        let resumed = map.wall_time();
        assert!(resumed >= seen, "a reader had seen {seen}, now it is {resumed}");
        assert!(resumed < after(seen, SPACING_MAX));

        // Without a leap the worker stores the time, at most once in a while.
        clock.pass(SEEN_SPACING);
        let early = map.wall_time();
        assert!(!signal.take(), "nine tenths of the spacing have passed");
        clock.pass(SEEN_SPACING);
        let due = map.wall_time();
        assert!(signal.take());
        map.store_due();
        clock.pass(SPACING_MAX);
        let last = map.wall_time();
        drop(map);
        let resumed = open_with(&disk, &clock).0.wall_time();
        assert!(early < resumed && due <= resumed && resumed < last, "the rest is in no file");

        let map = open_with(&disk, &clock).0;
        let last = map.wall_time();
        map.store_last();
        drop(map);
        assert!(open_with(&disk, &clock).0.wall_time() >= last);
    }

    #[test]
    fn points_of_failed_commits_are_asked_again() {
        let (map, clock, _) = open();
        let asked = map.asked(|| at(1)).unwrap();
        let points = asked.points.clone();
        assert!(map.asked(|| at(1)).is_none(), "one commit writes them");
        drop(asked);
        let again = map.asked(|| at(2)).expect("the commit has failed");
        assert!(points.iter().all(|point| again.points.contains(point)), "{:?}", again.points);
        again.written();
        assert!(map.asked(|| at(2)).is_none());
        clock.pass(SPACING_MAX);
        assert_eq!(map.tick(|| at(3)), None);
        assert!(map.asked(|| at(3)).is_some_and(|asked| asked.points.len() == 1));
    }

    /// The commit is published directly after the worker has read P.
    #[test]
    fn commit_published_during_a_tick_wakes_the_worker() {
        let (map, clock, signal) = open();
        map.published();
        assert!(signal.take(), "an open map sleeps until the first commit");
        clock.pass(SPACING_MAX);
        let is_published = AtomicBool::new(false);
        let published = || {
            if !is_published.swap(true, Ordering::SeqCst) {
                map.published();
                return at(1);
            }
            at(2)
        };
        assert_eq!(map.tick(published), None);
        assert!(signal.take(), "the worker would sleep although P has advanced");
    }

    /// Commits are published between the readings of P and of the time.
    #[test]
    fn point_has_the_time_of_its_commit() {
        let (map, _, _) = open();
        let reads = Mutex::new(vec![4, 4, 3, 2]);
        let published = || at(lock(&reads).pop().unwrap());
        let before = map.wall_time();
        let asked = map.asked(published).unwrap();
        let point = *asked.points.last().unwrap();
        assert_eq!((point.timestamp, lock(&reads).len()), (at(4), 0));
        assert_eq!(point.wall.0 - before.0, 3, "two readings were repeated");
    }

    #[test]
    fn points_round_trip_in_key_order() {
        let mut rng = SeededRng::new(7);
        let mut points: Vec<_> = (0..1000)
            .map(|_| WallPoint {
                wall: WallTime(rng.next_u64().cast_signed()),
                timestamp: Timestamp::new(rng.next_u64() >> 1).unwrap(),
            })
            .collect();
        points.sort_unstable();
        let keys: Vec<_> = points.iter().copied().map(key).collect();
        assert!(keys.is_sorted());
        for (key, point) in keys.iter().zip(&points) {
            assert_eq!(decode(key.clustering()).unwrap(), *point);
            assert_eq!(decode(key.as_bytes()).unwrap(), *point, "a whole key ends like that");
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = SeededRng::new(8);
        for _ in 0..10_000 {
            let bytes: Vec<u8> =
                (0..rng.below(24)).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
            let valid = bytes.len() >= KEY_BYTES && bytes[bytes.len() - 8] < 0x80;
            assert_eq!(decode(&bytes).is_ok(), valid, "{bytes:?}");
        }
    }
}
