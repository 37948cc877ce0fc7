//! The commit table over a cluster: the place of entries, and how they are settled and read.
//!
//! ```text
//!   start ──(coordination map)──▶ encoding ──▶ table, row, column
//!
//!   a read finds     which means                                    and does
//!   ─────────────────────────────────────────────────────────────────────────────────────
//!   c                final                                          nothing more
//!   s alone          a round that was answered, or that timed out   touches it, writes c;
//!                    and lives on one replica                       not where C > R: then it is
//!                                                                   invisible either way
//!   nothing, S of    the epoch that released R had resolved every   nothing: invisible
//!   R's own epoch    commit ≤ R, and S is none of them
//!   nothing, S of    its leader may have left a round on one        puts the abort marker; the
//!   an older epoch   replica that a later read will see             value stored then decides
//! ```
//!
//! Final entries are cached: an entry never changes except by a restore. A process that slept
//! through a restore detects it by the gap in the coordination map, and starts a new cache.
//! Snapshots of the restored database lie beyond the map that the process knew, so it reads the map
//! before it serves them. Snapshots of the original database are refused by the sweep's mark.

mod scan;
pub(crate) mod unresolved;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::commit_encoding::v2::{PARTITIONING_QUANTUM, quantum_of, rows_of_quantum};
use carnet_base::{
    Bytes, CommitEntry, Encoding, Epoch, Error, ErrorKind, Result, Timer, Timestamp,
};
use carnet_store::Outcome;
use carnet_store::cluster::{
    Cluster, CommitRow, CommitTable as Table, Fault, NewEntry, ReadMode, Register, RowAnswer,
    SetAnswer, StoredEntry,
};
use quick_cache::sync::Cache;

use crate::coordination::{EncodingMap, check};
use crate::fence::{self, Fence, Progress};
use crate::futures::all;
use crate::oneshot::lock;
use crate::options::Options;
use crate::sweep::Marks;
use unresolved::{Action, Answer, Settled, Stop, Unresolved};

pub use scan::{ScanFrom, ScanPage};

/// Maximum number of cached outcomes, of 32 bytes each.
const CACHED_MAX: usize = 1 << 20;
/// Number of rows that are fenced concurrently.
const FENCES_AT_ONCE: usize = 32;
/// Number of tries after which a reader gives a row up; a leader never does.
const READER_TRIES: u32 = 8;
/// Wait after the first failed call; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The commit table.
pub struct CommitTable<C> {
    cluster: Arc<C>,
    timer: Arc<dyn Timer>,
    known: Mutex<Known>,
    /// Encoding for a database that has no coordination map yet.
    first_encoding: Encoding,
    coordination_step: u64,
}

/// Final entries, since the last restore of the database.
type Outcomes = Cache<Timestamp, CommitEntry>;

/// State that was read from the database.
struct Known {
    map: Option<Arc<EncodingMap>>,
    /// A lookup takes this cache before it reads, and stores its result there. A result from before
    /// a restore thus goes to a cache that is no longer used.
    outcomes: Arc<Outcomes>,
}

/// Place of a start's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) row: CommitRow,
    pub(crate) column: Bytes,
    pub(crate) encoding: Encoding,
}

impl Place {
    fn entry(&self, value: Bytes) -> NewEntry {
        NewEntry { column: self.column.clone(), value }
    }
}

/// Reason why rows could not be fenced.
#[derive(Debug)]
pub(crate) enum FenceError {
    /// A row is of a later epoch.
    Superseded,
    /// A row could not be reached; others may have been raised.
    Failed(Error),
}

/// A row being fenced.
type Fencing<'a> = Pin<Box<dyn Future<Output = Result<(), FenceError>> + Send + 'a>>;

fn table_of(encoding: Encoding) -> Result<Table> {
    match encoding {
        Encoding::V1 => Err(Error::corrupted(
            "the coordination map names encoding v1, which a cluster never has",
        )),
        Encoding::V2 => Ok(Table::V2),
        Encoding::V3 => Ok(Table::V3),
    }
}

/// Returns `true` if an encoding has a column for settled values.
const fn confirms(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::V3)
}

impl<C: Cluster> CommitTable<C> {
    /// Opens the commit table of a database.
    #[must_use]
    pub fn new(cluster: Arc<C>, timer: Arc<dyn Timer>, options: &Options) -> Self {
        Self {
            cluster,
            timer,
            known: Mutex::new(Known { map: None, outcomes: no_outcomes() }),
            first_encoding: options.encoding,
            coordination_step: options.coordination_step,
        }
    }

    /// Returns `true` if an encoding has a column for settled values.
    pub(crate) const fn confirms(encoding: Encoding) -> bool {
        confirms(encoding)
    }

    pub(crate) fn cluster(&self) -> &Arc<C> {
        &self.cluster
    }

    /// Returns the place of a start's entry.
    pub(crate) async fn place(&self, start: Timestamp) -> Result<Place> {
        let encoding = match self.known_encoding(start) {
            Some(encoding) => encoding,
            None => self.read_map(ReadMode::Quorum).await?.encoding_of(start).ok_or_else(|| {
                Error::invalid(format!(
                    "start {start} lies beyond every timestamp that may be \
                                        handed out"
                ))
            })?,
        };
        place_in(encoding, start)
    }

    /// Returns the place of the entry of a start that a leader may hand out: the map that was read
    /// covers it.
    pub(crate) fn known_place(&self, start: Timestamp) -> Result<Place> {
        let encoding = self.known_encoding(start).ok_or_else(|| {
            Error::corrupted(format!("start {start} was handed out beyond the coordination map"))
        })?;
        place_in(encoding, start)
    }

    fn known_encoding(&self, start: Timestamp) -> Option<Encoding> {
        lock(&self.known).map.as_ref()?.encoding_of(start)
    }

    /// Reads the map if the known one does not cover `start`.
    async fn know_map_through(&self, start: Timestamp) -> Result<()> {
        if self.known_encoding(start).is_none() {
            Box::pin(self.read_map(ReadMode::Quorum)).await?;
        }
        Ok(())
    }

    async fn read_map(&self, mode: ReadMode) -> Result<Arc<EncodingMap>> {
        let bytes = self.cluster.read_register(Register::Coordination, mode).await?;
        let bytes = bytes.ok_or_else(|| {
            Error::unavailable("the database has no coordination map: no leader has started it yet")
        })?;
        Ok(self.keep_map(EncodingMap::decode(&bytes)?))
    }

    fn keep_map(&self, map: EncodingMap) -> Arc<EncodingMap> {
        let map = Arc::new(map);
        let mut known = lock(&self.known);
        let before = known.map.replace(Arc::clone(&map));
        if before.is_some_and(|before| before.last_gap() != map.last_gap()) {
            tracing::warn!("the database was restored: cached outcomes of its commits are dropped");
            known.outcomes = no_outcomes();
        }
        map
    }

    /// Extends the map to every start below a bound if necessary, and reads it.
    pub(crate) async fn coordinate(&self, bound: Timestamp) -> Result<()> {
        let further = bound.checked_add(self.coordination_step).unwrap_or(Timestamp::MAX);
        self.change_map(|map| {
            let Some(map) = map else {
                check(self.first_encoding)?;
                return Ok(Some(EncodingMap::starting_with(self.first_encoding, further)));
            };
            Ok((map.valid_through() < bound).then(|| map.extended(further)))
        })
        .await?;
        Ok(())
    }

    /// Installs another encoding for all starts that are not decided yet, and returns the first of
    /// them; `None` if it is the last encoding already. It takes effect once the leader has used up
    /// the starts of the previous one; nothing is copied and nothing waits.
    ///
    /// # Errors
    ///
    /// `Invalid` for an encoding that a cluster cannot have; `Unavailable`.
    pub async fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        check(to)?;
        // A change whose answer was lost looks like a change by another process.
        let is_news = AtomicBool::new(false);
        let map = self
            .change_map(|map| match map {
                Some(map) if map.spans().last().is_some_and(|(_, last)| last == to) => Ok(None),
                Some(map) => {
                    is_news.store(true, Ordering::Relaxed);
                    map.followed_by(to).map(Some)
                }
                None => Err(Error::unavailable("the database has not been started yet")),
            })
            .await?;
        let first = map.spans().last().map(|(first, _)| first);
        Ok(first.filter(|_| is_news.into_inner()))
    }

    async fn change_map(
        &self,
        change: impl Fn(Option<&EncodingMap>) -> Result<Option<EncodingMap>>,
    ) -> Result<Arc<EncodingMap>> {
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let read = self.cluster.read_register(Register::Coordination, ReadMode::Serial).await;
            let stored = read?;
            let map = stored.as_deref().map(EncodingMap::decode).transpose()?;
            let changed = change(map.as_ref())?;
            let new = match (changed, map) {
                (Some(new), _) => new,
                (None, Some(map)) => return Ok(self.keep_map(map)),
                (None, None) => return Err(Error::unavailable("there is no coordination map")),
            };
            let (register, bytes) = (Register::Coordination, new.encode());
            match self.cluster.compare_and_set(register, stored.as_ref(), &bytes).await {
                Ok(SetAnswer::Applied) => return Ok(self.keep_map(new)),
                // Read again: either the change is there, or it is tried again.
                Ok(SetAnswer::Refused(_)) | Err(Fault::Unknown(_)) => {}
                Err(Fault::Failed(error)) => return Err(error),
            }
            self.timer.wait(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Err(Error::unavailable("the coordination map could not be changed; try again"))
    }

    /// Raises the epoch of every row that starts in `from..to` may use.
    pub(crate) async fn fence(
        &self,
        epoch: Epoch,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), FenceError> {
        self.coordinate(to).await.map_err(FenceError::Failed)?;
        let rows = self.rows_between(from, to).map_err(FenceError::Failed)?;
        let mut fences: Vec<Fencing<'_>> = Vec::with_capacity(rows.len());
        for row in &rows {
            fences.push(Box::pin(self.fence_row(row, epoch)));
        }
        all(fences, FENCES_AT_ONCE).await
    }

    /// Returns the rows that starts in `from..to` may use according to the map that was read.
    pub(crate) fn rows_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<BTreeSet<CommitRow>> {
        let map = lock(&self.known).map.clone();
        let mut rows = BTreeSet::new();
        let (Some(map), Some(last)) = (map, to.previous()) else { return Ok(rows) };
        for quantum in quantum_of(from)..=quantum_of(last) {
            let start = |number: u64| Timestamp::new(number).unwrap_or(Timestamp::MAX);
            let first = start(quantum.saturating_mul(PARTITIONING_QUANTUM));
            let next = start(first.get().saturating_add(PARTITIONING_QUANTUM));
            for encoding in map.encodings_between(first.max(from), next.min(to)) {
                let table = table_of(encoding)?;
                rows.extend(rows_of_quantum(quantum).map(|row| CommitRow { table, row }));
            }
        }
        Ok(rows)
    }

    async fn fence_row(&self, row: &CommitRow, epoch: Epoch) -> Result<(), FenceError> {
        let mut fence = Fence::raising_to(epoch);
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let (answer, fault) = match self.cluster.move_epoch(row, fence.expected(), epoch).await
            {
                Ok(RowAnswer::Applied) => (fence::Answer::Applied, None),
                Ok(RowAnswer::Refused { epoch, .. }) => (fence::Answer::Found(epoch), None),
                Err(fault) => (fence::Answer::Nothing, Some(fault)),
            };
            match fence.answer(answer) {
                Progress::Raised => return Ok(()),
                Progress::Superseded(_) => return Err(FenceError::Superseded),
                Progress::Again => {}
            }
            if let Some(fault) = fault {
                tracing::debug!(%fault, "a row of the commit table could not be fenced yet");
                self.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        Err(FenceError::Failed(Error::unavailable("a row of the commit table cannot be fenced")))
    }

    /// Carries out an action of the loop over a row's entries.
    pub(crate) async fn act(&self, row: &CommitRow, fence: Option<Epoch>, act: &Action) -> Answer {
        let answered = match act {
            Action::Put(entries) => {
                self.cluster.put_unless_exists(row, fence, entries).await.map(Answer::Row)
            }
            Action::Touch(entries) => self.cluster.touch(row, entries).await.map(Answer::Row),
            Action::Confirm(entries) => {
                self.cluster.confirm(row, entries).await.map(|()| Answer::Confirmed)
            }
            Action::Finished => return Answer::Nothing,
        };
        answered.unwrap_or_else(|fault| {
            tracing::debug!(%fault, "a write to the commit table was not answered");
            Answer::Nothing
        })
    }

    /// Runs the loop for one start, without a fence: for readers, and for settling.
    async fn settle_in(
        &self,
        start: Timestamp,
        place: &Place,
        mut unresolved: Unresolved,
        outcomes: &Outcomes,
    ) -> Result<Option<CommitEntry>> {
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let action = unresolved.next();
            let answer = self.act(&place.row, None, &action).await;
            let is_lost = answer == Answer::Nothing;
            let settled = unresolved.answer(answer).map_err(|stop| stopped(start, &stop))?;
            if let Some(Settled { value, .. }) = settled.into_iter().next() {
                let Some(value) = value else { return Ok(None) };
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                if action_leaves_unconfirmed(&action, place.encoding) {
                    self.confirm(&place.row, vec![place.entry(value)]).await;
                }
                return Ok(Some(entry));
            }
            if is_lost {
                self.timer.wait(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        Err(Error::unavailable(format!("the outcome of start {start} cannot be settled now")))
    }

    /// Writes `c` on a best-effort basis: it only saves readers work.
    pub(crate) async fn confirm(&self, row: &CommitRow, entries: Vec<NewEntry>) {
        if let Err(fault) = self.cluster.confirm(row, &entries).await {
            tracing::debug!(%fault, "entries could not be confirmed; readers will confirm them");
        }
    }

    /// Caches a decision of a leader's term, unless it was made before a restore of the database.
    pub(crate) fn remember(&self, start: Timestamp, entry: CommitEntry) {
        let known = lock(&self.known);
        let last_gap = known.map.as_ref().and_then(|map| map.last_gap());
        if last_gap.is_none_or(|gap| start >= gap.1) {
            known.outcomes.insert(start, entry);
        }
    }

    /// Returns the commit of a transaction that is known to be final.
    pub(crate) fn known_commit(&self, start: Timestamp) -> Option<Timestamp> {
        match self.outcomes().get(&start)? {
            CommitEntry::Committed(commit) => Some(commit),
            CommitEntry::Aborted => None,
        }
    }

    fn outcomes(&self) -> Arc<Outcomes> {
        Arc::clone(&lock(&self.known).outcomes)
    }

    /// Returns the outcome of a transaction, and writes the abort marker if it has no entry: the
    /// transaction must not be running.
    ///
    /// # Errors
    ///
    /// `Unknown` below the sweep mark, if the entry may have been swept.
    pub(crate) async fn settle(&self, start: Timestamp) -> Result<CommitEntry> {
        let entry = self.settle_for_reader(start).await?;
        // Read the mark after the marker is written: it covers an entry that was swept before.
        if entry == CommitEntry::Aborted && start <= self.sweep_marks().await?.entries {
            return Err(Error::new(
                ErrorKind::Unknown { start },
                format!(
                    "whether the transaction that started at {start} committed can no longer be \
                     known: its entry may have been swept"
                ),
            ));
        }
        Ok(entry)
    }

    /// Like [`CommitTable::settle`], but a swept entry counts as aborted. The reader then reads the
    /// version once more, and finds the stamp that the sweep left there.
    pub(crate) async fn settle_for_reader(&self, start: Timestamp) -> Result<CommitEntry> {
        let outcomes = self.outcomes();
        if let Some(entry) = outcomes.get(&start) {
            return Ok(entry);
        }
        let place = self.place(start).await?;
        let abort = place.encoding.encode(start, CommitEntry::Aborted)?;
        let unresolved = match self.read_entry(&place).await? {
            Some(Found::Final(value)) => {
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                return Ok(entry);
            }
            Some(Found::Staged(value)) => {
                Unresolved::found(confirms(place.encoding), place.entry(value), Some(abort))
            }
            None => Unresolved::put(None, confirms(place.encoding), [place.entry(abort)]),
        };
        let entry = self.settle_in(start, &place, unresolved, &outcomes).await?;
        Ok(entry.expect("an absent entry is replaced by the abort marker"))
    }

    /// Returns the outcome of a transaction for a reader at `read`, a snapshot of the epoch that
    /// began at `epoch_first`.
    pub(crate) async fn outcome_for_reader(
        &self,
        start: Timestamp,
        read: Timestamp,
        epoch_first: Timestamp,
    ) -> Result<Outcome> {
        self.know_map_through(read).await?;
        let outcomes = self.outcomes();
        if let Some(entry) = outcomes.get(&start) {
            return Ok(outcome(entry));
        }
        Box::pin(self.look_up_for_reader(start, read, epoch_first, &outcomes)).await
    }

    async fn look_up_for_reader(
        &self,
        start: Timestamp,
        read: Timestamp,
        epoch_first: Timestamp,
        outcomes: &Outcomes,
    ) -> Result<Outcome> {
        let place = self.place(start).await?;
        let entry = match self.read_entry(&place).await? {
            Some(Found::Final(value)) => {
                let entry = place.encoding.decode(start, &value)?;
                outcomes.insert(start, entry);
                return Ok(outcome(entry));
            }
            Some(Found::Staged(value)) => match place.encoding.decode(start, &value)? {
                later @ CommitEntry::Committed(commit) if commit > read => {
                    return Ok(outcome(later));
                }
                // A start of this epoch may be running: settle only an entry that was found.
                _ if start >= epoch_first => {
                    let found = place.entry(value);
                    let found = Unresolved::found(confirms(place.encoding), found, None);
                    self.settle_in(start, &place, found, outcomes).await?
                }
                _ => Some(self.settle_for_reader(start).await?),
            },
            None if start >= epoch_first => None,
            None => Some(self.settle_for_reader(start).await?),
        };
        Ok(entry.map_or(Outcome::Pending, outcome))
    }

    async fn read_entry(&self, place: &Place) -> Result<Option<Found>> {
        let columns = std::slice::from_ref(&place.column);
        let stored = self.cluster.read_entries(&place.row, columns).await?;
        let stored = stored.into_iter().find(|entry| entry.column == place.column);
        Ok(stored.and_then(|StoredEntry { staged, confirmed, .. }| {
            confirmed.map(Found::Final).or_else(|| staged.map(Found::Staged))
        }))
    }

    /// Returns the marks of the sweep.
    pub(crate) async fn sweep_marks(&self) -> Result<Marks> {
        let bytes = self.cluster.read_register(Register::SweepMark, ReadMode::Quorum).await?;
        bytes.as_deref().map_or(Ok(Marks::default()), Marks::decode)
    }
}

fn no_outcomes() -> Arc<Outcomes> {
    Arc::new(Cache::new(CACHED_MAX))
}

/// The value that a QUORUM read found.
enum Found {
    Final(Bytes),
    Staged(Bytes),
}

const fn outcome(entry: CommitEntry) -> Outcome {
    match entry {
        CommitEntry::Committed(commit) => Outcome::Committed(commit),
        CommitEntry::Aborted => Outcome::Aborted,
    }
}

/// Returns `true` if an applied action leaves a final entry of which readers find only `s`.
pub(crate) const fn action_leaves_unconfirmed(action: &Action, encoding: Encoding) -> bool {
    matches!(action, Action::Put(_)) && confirms(encoding)
}

fn stopped(start: Timestamp, stop: &Stop) -> Error {
    Error::corrupted(format!("the commit entry of start {start} cannot be settled: {stop:?}"))
}

fn place_in(encoding: Encoding, start: Timestamp) -> Result<Place> {
    let cell = encoding.cell(start);
    let row = CommitRow { table: table_of(encoding)?, row: cell.row };
    Ok(Place { row, column: cell.column, encoding })
}
