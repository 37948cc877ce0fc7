//! The commit order of a database in one process: its clock, its active snapshots, and its
//! decisions.

use std::sync::PoisonError;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result, Timestamp};
use carnet_store::{BeginKind, Begun, Claim, CommitOrder, LogStart};

use crate::conflict::{ConflictState, DEFAULT_BYTES_MAX, Lost, Refusal, VersionOrder};
use crate::snapshots::Snapshots;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Retry delay while the clock has reached its bound. Raising the bound is one small write.
const BOUND_RETRY: Duration = Duration::from_millis(10);

/// Number of commits between trims of the conflict state: a trim scans all active snapshots.
const TRIM_COMMITS: u32 = 64;

/// Decides commits for the process that owns the log.
///
/// The first timestamp of an incarnation is *consumed*: P and the conflict state's low watermark
/// start there. So an idle database does not refuse its first transactions, and every commit of an
/// earlier incarnation lies below.
#[derive(Debug)]
pub struct CommitChecker {
    clock: AtomicU64,
    bound: AtomicU64,
    published: AtomicU64,
    /// The last commit that may have changed a system table, or the begin of this incarnation.
    schema: AtomicU64,
    snapshots: Snapshots,
    conflicts: Mutex<ConflictState>,
    /// Commits since the conflict state was trimmed.
    since_trim: AtomicU32,
}

impl CommitChecker {
    /// Starts a checker above every timestamp that an earlier incarnation may have handed out.
    /// Snapshots of earlier incarnations are not taken up again.
    #[must_use]
    pub fn starting_at(first: Timestamp) -> Self {
        Self::resuming(LogStart { first, swept: first })
    }

    /// Like [`CommitChecker::starting_at`], but takes up snapshots of earlier incarnations from the
    /// sweep mark on.
    #[must_use]
    pub fn resuming(life: LogStart) -> Self {
        Self::with_conflict_bytes(life, DEFAULT_BYTES_MAX)
    }

    /// Like [`CommitChecker::resuming`], with a conflict state of at most `bytes_max` bytes.
    #[must_use]
    pub fn with_conflict_bytes(LogStart { first, swept }: LogStart, bytes_max: usize) -> Self {
        let conflicts = ConflictState::new(first, bytes_max);
        Self {
            clock: AtomicU64::new(first.get()),
            bound: AtomicU64::new(first.get()),
            published: AtomicU64::new(first.get()),
            schema: AtomicU64::new(first.get()),
            snapshots: Snapshots::swept_below(swept),
            conflicts: Mutex::new(conflicts),
            since_trim: AtomicU32::new(0),
        }
    }

    /// Sets the order of a cell's versions in the log's store.
    #[must_use]
    pub fn with_version_order(mut self, order: VersionOrder) -> Self {
        let conflicts = self.conflicts.get_mut().unwrap_or_else(PoisonError::into_inner);
        let empty = ConflictState::new(Timestamp::ZERO, 0);
        *conflicts = std::mem::replace(conflicts, empty).with_order(order);
        self
    }

    fn next(&self) -> Result<Timestamp> {
        let bound = self.bound.load(Ordering::Acquire);
        let step = |clock: u64| (clock + 1 < bound).then_some(clock + 1);
        match self.clock.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            Ok(before) => Ok(timestamp(before + 1)),
            Err(_) => Err(Error::new(
                ErrorKind::Overloaded { retry_after: BOUND_RETRY },
                "timestamps are handed out faster than their bound is raised; try again",
            )),
        }
    }

    fn conflicts(&self) -> MutexGuard<'_, ConflictState> {
        self.conflicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets commits that no active writer has to be checked against, and frees their memory
    /// outside the lock.
    fn trim(&self) {
        let unneeded = self.snapshots.oldest(self.published()).writer;
        let forgotten = self.conflicts().trim(unneeded);
        drop(forgotten);
    }
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("the clock stays below its bound, which is a timestamp")
}

fn refused(refusal: &Refusal, claim: &Claim) -> Error {
    let beaten = |used, Lost { commit, cell }: &Lost| {
        Error::conflict(format!(
            "another transaction wrote a cell that this one {used}, at {commit}, after this one's \
             snapshot {}; nothing was written, run the transaction again",
            claim.read
        ))
        .with_lost_cell(*cell)
        .with_lost_key(claim.cells.key_of(*cell))
    };
    match refusal {
        Refusal::Written(lost) => beaten("wrote", lost),
        Refusal::Read(lost) => beaten("read", lost),
        Refusal::BelowWatermark(watermark) => Error::new(
            ErrorKind::TooOld,
            format!(
                "the snapshot {} is older than the conflict state reaches ({watermark}); \
                 nothing was written, begin a new transaction",
                claim.read
            ),
        ),
    }
}

impl CommitOrder for CommitChecker {
    fn begin(&self, kind: BeginKind) -> Result<Begun> {
        let writer = kind == BeginKind::ReadWrite;
        if let BeginKind::ReadOnlyAt(read) = kind {
            let published = self.published();
            if read > published {
                return Err(Error::invalid(format!(
                    "snapshot {read} lies ahead of the last commit, {published}: it was never \
                     handed out"
                )));
            }
            let slot = self.snapshots.begin_at(read)?;
            return Ok(Begun { read, start: None, slot, schema: self.schema() });
        }
        let (read, slot) = self.snapshots.begin(&self.published, writer);
        // Read after the snapshot is taken: a commit that the snapshot includes was decided before
        // it was published.
        let schema = self.schema();
        if !writer {
            return Ok(Begun { read, start: None, slot, schema });
        }
        match self.snapshots.draw(slot, || self.next()) {
            Ok(start) => Ok(Begun { read, start: Some(start), slot, schema }),
            Err(error) => {
                self.snapshots.end(slot);
                Err(error)
            }
        }
    }

    fn end(&self, begun: Begun) {
        self.snapshots.end(begun.slot);
        if self.since_trim.load(Ordering::Relaxed) >= TRIM_COMMITS
            && self.since_trim.swap(0, Ordering::Relaxed) >= TRIM_COMMITS
        {
            self.trim();
        }
    }

    fn check(&self, claim: &Claim) -> Result<()> {
        // The message is made when the lock is free.
        let checked = self.conflicts().check(claim);
        checked.map_err(|refusal| refused(&refusal, claim))
    }

    fn decide(&self, claim: &mut Claim) -> Result<Timestamp> {
        if !self.snapshots.is_open(claim.slot, claim.start) {
            return Err(Error::invalid(format!(
                "start {} is not open: it was never handed out, or has been decided",
                claim.start
            )));
        }
        let mut conflicts = self.conflicts();
        if let Err(refusal) = conflicts.check(claim) {
            drop(conflicts);
            return Err(refused(&refusal, claim));
        }
        let commit = self.next()?;
        self.snapshots.decided(claim.slot, claim.start);
        if claim.changes_schema() {
            self.schema.store(commit.get(), Ordering::Release);
        }
        conflicts.record(commit, claim);
        self.since_trim.fetch_add(1, Ordering::Relaxed);
        Ok(commit)
    }

    fn publish(&self, commit: Timestamp) {
        let before = self.published.swap(commit.get(), Ordering::AcqRel);
        assert!(commit.get() > before, "commits are published in the order they were decided");
    }

    fn published(&self) -> Timestamp {
        timestamp(self.published.load(Ordering::Acquire))
    }

    fn schema(&self) -> Timestamp {
        timestamp(self.schema.load(Ordering::Acquire))
    }

    fn latest(&self) -> Timestamp {
        timestamp(self.clock.load(Ordering::Acquire))
    }

    fn is_running(&self, start: Timestamp) -> bool {
        self.snapshots.is_running(start)
    }

    fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        self.snapshots.raise_mark(wanted, self.published())
    }

    fn mark(&self) -> Timestamp {
        self.snapshots.mark()
    }

    fn headroom(&self) -> u64 {
        let clock = self.clock.load(Ordering::Acquire);
        self.bound.load(Ordering::Acquire).saturating_sub(clock)
    }

    fn extend(&self, bound: Timestamp) {
        self.bound.fetch_max(bound.get(), Ordering::AcqRel);
    }

    fn skip_to(&self, first: Timestamp) {
        self.clock.fetch_max(first.get().saturating_sub(1), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, TableId, Token};
    use carnet_store::{CommitRequest, ReadSet, Write};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn checker() -> CommitChecker {
        let checker = CommitChecker::starting_at(at(100));
        checker.extend(at(1000));
        checker
    }

    fn write(begun: Begun, name: &'static str) -> Claim {
        write_to(TableId(1), begun, name)
    }

    fn write_to(table: TableId, begun: Begun, name: &'static str) -> Claim {
        let partition = PartitionKey::first_at(Token(0));
        let key = CellKey::new(table, &partition, name);
        let writes = vec![Write { key, payload: None }];
        CommitRequest::new(begun, begun.start.unwrap(), ReadSet::default(), writes).into_claim()
    }

    #[test]
    fn new_incarnation_starts_above_the_old_one() {
        let checker = checker();
        let begun = checker.begin(BeginKind::ReadWrite).unwrap();
        assert_eq!((begun.read, begun.start), (at(100), Some(at(101))));
        assert_eq!(checker.decide(&mut write(begun, "a")).unwrap(), at(102));
    }

    #[test]
    fn snapshots_are_taken_up_from_the_mark_to_the_last_commit() {
        let checker = checker();
        assert_eq!((checker.mark(), checker.headroom()), (at(100), 900));
        let writer = checker.begin(BeginKind::ReadWrite).unwrap();
        let commit = checker.decide(&mut write(writer, "a")).unwrap();
        checker.publish(commit);
        checker.end(writer);
        let begin_at = |read| checker.begin(BeginKind::ReadOnlyAt(read));
        let last = begin_at(commit).unwrap();
        assert_eq!((last.read, last.start), (commit, None));
        let early = begin_at(commit.checked_add(1).unwrap()).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Invalid);
        checker.end(last);
        assert_eq!(checker.raise_mark(commit), commit);
        assert_eq!(checker.mark(), commit);
        assert_eq!(begin_at(at(100)).unwrap_err().kind(), ErrorKind::TooOld);
    }

    #[test]
    fn check_reports_a_refusal_before_the_commit() {
        let checker = checker();
        let begin = || checker.begin(BeginKind::ReadWrite).unwrap();
        let (one, other) = (begin(), begin());
        let mut claim = write(one, "a");
        assert!(checker.check(&claim).is_ok());
        checker.decide(&mut claim).unwrap();
        let late = write(other, "a");
        assert_eq!(checker.check(&late).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(checker.check(&write(other, "b")).is_ok());
    }

    #[test]
    fn a_snapshot_never_includes_an_unpublished_commit() {
        let checker = checker();
        let writer = checker.begin(BeginKind::ReadWrite).unwrap();
        let commit = checker.decide(&mut write(writer, "a")).unwrap();
        assert_eq!(checker.begin(BeginKind::ReadOnly).unwrap().read, at(100));
        checker.publish(commit);
        assert_eq!(checker.begin(BeginKind::ReadOnly).unwrap().read, commit);
    }

    #[test]
    fn snapshot_has_the_last_schema_change() {
        let checker = checker();
        let commit = |table| {
            let begun = checker.begin(BeginKind::ReadWrite).unwrap();
            let commit = checker.decide(&mut write_to(TableId(table), begun, "a")).unwrap();
            let meanwhile = checker.begin(BeginKind::ReadOnly).unwrap();
            checker.publish(commit);
            (commit, meanwhile)
        };
        let schema = || checker.begin(BeginKind::ReadOnly).unwrap().schema;
        assert_eq!(schema(), at(100), "changes of an earlier incarnation are not known");
        commit(TableId::FIRST.0);
        assert_eq!(schema(), at(100));
        let (changed, meanwhile) = commit(3);
        assert!(meanwhile.read < changed && schema() == changed);
        let old = checker.begin(BeginKind::ReadOnlyAt(meanwhile.read)).unwrap();
        assert!(old.schema > old.read, "whether it changed before is forgotten");
        commit(TableId::FIRST.0);
        assert_eq!(schema(), changed);
    }

    #[test]
    fn a_start_runs_until_it_is_ended() {
        let checker = checker();
        let begun = checker.begin(BeginKind::ReadWrite).unwrap();
        let start = begun.start.unwrap();
        assert!(checker.is_running(start));
        checker.decide(&mut write(begun, "a")).unwrap();
        assert!(checker.is_running(start));
        checker.end(begun);
        assert!(!checker.is_running(start));
    }

    #[test]
    fn a_start_is_decided_once() {
        let checker = checker();
        let begun = checker.begin(BeginKind::ReadWrite).unwrap();
        checker.decide(&mut write(begun, "a")).unwrap();
        assert_eq!(checker.decide(&mut write(begun, "a")).unwrap_err().kind(), ErrorKind::Invalid);
        let ended = checker.begin(BeginKind::ReadWrite).unwrap();
        checker.end(ended);
        assert_eq!(checker.decide(&mut write(ended, "b")).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn conflict_state_lasts_for_the_oldest_writer() {
        let checker = checker();
        let old = checker.begin(BeginKind::ReadWrite).unwrap();
        for name in ["a", "b", "c"] {
            let begun = checker.begin(BeginKind::ReadWrite).unwrap();
            let commit = checker.decide(&mut write(begun, name)).unwrap();
            checker.publish(commit);
            checker.end(begun);
        }
        checker.trim();
        let beaten = checker.decide(&mut write(old, "a")).unwrap_err();
        assert_eq!(beaten.kind(), ErrorKind::Conflict);
        checker.end(old);
        checker.trim();
        assert_eq!(checker.conflicts().cells(), 0, "no writer needs them any more");
        let begun = checker.begin(BeginKind::ReadWrite).unwrap();
        assert!(checker.decide(&mut write(begun, "a")).is_ok());
    }

    #[test]
    fn conflict_state_is_bounded_under_old_snapshots() {
        const BYTES_MAX: usize = 20_000;
        let life = LogStart { first: at(100), swept: at(100) };
        let checker = CommitChecker::with_conflict_bytes(life, BYTES_MAX);
        checker.extend(at(1_000_000));
        let reader = checker.begin(BeginKind::ReadOnly).unwrap();
        let writer = checker.begin(BeginKind::ReadWrite).unwrap();
        for round in 0..10_000 {
            let begun = checker.begin(BeginKind::ReadWrite).unwrap();
            let commit = checker.decide(&mut write(begun, "a")).unwrap();
            checker.publish(commit);
            checker.end(begun);
            let bytes = checker.conflicts().bytes();
            assert!(bytes <= BYTES_MAX, "{bytes} after {round} commits");
        }
        assert!(checker.conflicts().low_watermark() > writer.read);
        let refused = checker.decide(&mut write(writer, "b")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooOld);
        assert_eq!(checker.raise_mark(at(20_000)), reader.read, "versions that it sees are kept");
        checker.end(writer);
        checker.end(reader);
        assert_eq!(checker.raise_mark(at(20_000)), at(20_000));
    }

    #[test]
    fn skipped_timestamps_are_not_handed_out() {
        let checker = checker();
        let before = checker.begin(BeginKind::ReadWrite).unwrap();
        checker.skip_to(at(500));
        let after = checker.begin(BeginKind::ReadWrite).unwrap();
        assert_eq!((before.start, after.start), (Some(at(101)), Some(at(500))));
        assert_eq!(checker.decide(&mut write(before, "a")).unwrap(), at(501));
        checker.skip_to(at(300));
        assert_eq!(checker.latest(), at(501), "time never goes back");
    }

    #[test]
    fn timestamps_stay_below_the_bound() {
        let checker = CommitChecker::starting_at(at(5));
        checker.extend(at(7));
        assert_eq!(checker.begin(BeginKind::ReadWrite).unwrap().start, Some(at(6)));
        let refused = checker.begin(BeginKind::ReadWrite).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Overloaded { .. }));
        assert!(checker.begin(BeginKind::ReadOnly).is_ok());
        checker.extend(at(6));
        assert_eq!(checker.headroom(), 1, "a bound is never lowered");
    }
}
