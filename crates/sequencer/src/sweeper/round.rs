//! Runs one round of the sweep.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::concurrent::all;
use carnet_base::sync::lock;
use carnet_base::{
    CellKey, CommitEntry, Error, ErrorKind, KeyRange, Moment, Result, Timestamp, Version,
};
use carnet_store::cluster::{
    Acknowledge, CellVersions, Cluster, CommitRow, ReadMode, Register, SetAnswer, VersionName,
    VersionWrite,
};
use carnet_store::{Context, PageLimit, RowTables};

use crate::leader::Leader;
use crate::sweep::{
    Base, BaseRow, Extent, Marks, Plan, SweepOptions, SweepReport, VersionOutcome, plan, trim,
};

/// Number of concurrent lookups of outcomes.
const LOOKUPS_AT_ONCE: usize = 16;
const PAGE_BYTES: usize = 1 << 20;
/// Number of entries deleted at a time.
const ENTRIES_PAGE: usize = 1000;
const PERSIST_TRIES: u32 = 8;

/// A lookup in flight.
type Lookup<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Work on the cells of a page.
#[derive(Default)]
struct Work {
    stamps: Vec<(VersionName, Timestamp)>,
    deletes: Vec<VersionName>,
    /// Rows written in place of deltas.
    rows: Vec<VersionWrite>,
    bases: Vec<VersionName>,
    tombstones: Vec<VersionName>,
}

impl Work {
    fn add(&mut self, key: &CellKey, plan: Plan) {
        let named = |start| VersionName { key: key.clone(), start };
        self.stamps.extend(plan.stamps.into_iter().map(|(start, commit)| (named(start), commit)));
        self.deletes.extend(plan.deletes.into_iter().map(named));
        self.rows.extend(plan.row.map(|BaseRow { start, payload, statement, .. }| VersionWrite {
            key: key.clone(),
            start,
            statement,
            payload,
        }));
        if let Some(Base { start, is_tombstone }) = plan.base {
            let into = if is_tombstone { &mut self.tombstones } else { &mut self.bases };
            into.push(named(start));
        }
    }
}

struct Round<'a, C> {
    leader: &'a Arc<Leader<C>>,
    options: SweepOptions,
    report: SweepReport,
    extent: Extent,
    /// The first expiry of a row's part that has not passed.
    next_expiry: Option<i64>,
    /// Whether a replica did not answer a delete that all must acknowledge.
    lacks_replica: bool,
}

/// Sweeps the versions that no snapshot at `wanted` or later sees, as far as the snapshots in use
/// allow.
pub(super) async fn run<C: Cluster>(
    leader: &Arc<Leader<C>>,
    options: SweepOptions,
    wanted: Timestamp,
) -> Result<SweepReport> {
    // Read P before checking for a hold: a backup that holds the sweep after the check draws its
    // timestamp above everything that this round stamps.
    let through = leader.published();
    let marks = unheld_marks(leader).await?;
    // Marks beyond everything this term has published belong to a later term, or to a restore that
    // this process slept through: its decisions may not have taken effect.
    if marks.versions > leader.published() {
        return Err(over());
    }
    let mark = leader.raise_mark(wanted);
    let now = leader.sample();
    let passed = leader.sweep().passed(mark, now);
    // A commit decided before the scan begins and not final yet keeps its entry.
    let undecided = leader.oldest_undecided();
    // Every version up to the mark is of a table that the catalog lists by now.
    leader.row_tables().refresh().await?;
    let report = SweepReport { mark, ..SweepReport::default() };
    let extent = Extent { mark, settled: marks.entries, through, passed };
    let mut round =
        Round { leader, options, report, extent, next_expiry: None, lacks_replica: false };
    if marks.entries >= mark || !leader.sweep().is_due(marks.entries, mark, now) {
        return Ok(round.report);
    }
    round.persist(Marks { versions: mark, ..Marks::default() }).await?;
    for table in leader.table().cluster().tables().await? {
        round.sweep_table(KeyRange::table(table)).await?;
    }
    leader.sweep().set_next_expiry(round.next_expiry());
    let marks = round.persist(Marks { entries: mark, ..Marks::default() }).await?;
    let left_from = round.sweep_entries(marks.entries_from).await?.min(undecided);
    round.persist(Marks { entries_from: left_from, ..Marks::default() }).await?;
    Ok(round.report)
}

/// Reads the marks, and takes away the hold of a backup that was silent for too long.
async fn unheld_marks<C: Cluster>(leader: &Leader<C>) -> Result<Marks> {
    let cluster = leader.table().cluster();
    let (stored, marks) = read_marks(&**cluster).await?;
    let Some(hold) = marks.hold else { return Ok(marks) };
    if !leader.sweep().is_silent(hold, leader.timer().now()) {
        return Err(held());
    }
    tracing::warn!(backup = hold.id, "removing the hold of a backup that was silent for too long");
    let marks = Marks { hold: None, ..marks };
    match cluster.compare_and_set(Register::SweepMark, stored.as_ref(), &marks.encode()).await? {
        SetAnswer::Applied => Ok(marks),
        SetAnswer::Refused(_) => Err(held()),
    }
}

async fn read_marks<C: Cluster>(cluster: &C) -> Result<(Option<carnet_base::Bytes>, Marks)> {
    let stored = cluster.read_register(Register::SweepMark, ReadMode::Serial).await?;
    let marks = stored.as_deref().map(Marks::decode).transpose()?.unwrap_or_default();
    Ok((stored, marks))
}

fn over() -> Error {
    Error::unavailable("this process no longer leads, and only the leader can sweep")
}

fn held() -> Error {
    Error::unavailable("a backup holds the sweep until it has ended")
}

impl<C: Cluster> Round<'_, C> {
    fn row_tables(&self) -> &RowTables {
        self.leader.row_tables()
    }

    fn cluster(&self) -> &C {
        self.leader.table().cluster()
    }

    /// Raises the stored marks, unless a backup holds them.
    async fn persist(&self, to: Marks) -> Result<Marks> {
        for _ in 0..PERSIST_TRIES {
            let (stored, marks) = read_marks(self.cluster()).await?;
            if marks.hold.is_some() {
                return Err(held());
            }
            let raised = marks.raised(to);
            if raised == marks {
                return Ok(marks);
            }
            let (mark, raised_to) = (Register::SweepMark, raised.encode());
            match self.cluster().compare_and_set(mark, stored.as_ref(), &raised_to).await {
                Ok(SetAnswer::Applied) => return Ok(raised),
                Ok(SetAnswer::Refused(_)) => {}
                Err(fault) if fault.is_unknown() => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(Error::unavailable("the sweep mark could not be raised; the next round tries again"))
    }

    async fn sweep_table(&mut self, all_of_it: KeyRange) -> Result<()> {
        let limit = PageLimit { cells: self.options.page_cells.max(1), bytes: PAGE_BYTES };
        let mut rest = Some(all_of_it);
        while let Some(range) = rest {
            if self.leader.is_over() {
                return Err(over());
            }
            let begun = self.leader.timer().now();
            let page = self.cluster().scan_versions(&range, limit).await?;
            self.sweep_cells(page.cells).await?;
            rest = page.resume;
            self.pause(begun).await;
        }
        Ok(())
    }

    /// Pauses according to the duty cycle after the work since `begun`.
    async fn pause(&self, begun: Moment) {
        let duty = self.options.duty_percent.clamp(1, 100);
        let rest = self.leader.timer().now().since(begun) * (100 - duty) / duty;
        if rest > Duration::ZERO {
            self.leader.timer().wait(rest).await;
        }
    }

    async fn sweep_cells(&mut self, cells: Vec<CellVersions>) -> Result<()> {
        let outcomes = self.outcomes(&cells).await?;
        let outcome = |key: &CellKey, version: &Version| match version.commit {
            Some(commit) => VersionOutcome::Committed(commit),
            None => outcomes.get(&(key, version.start)).copied().unwrap_or(VersionOutcome::Open),
        };
        let mut plans = Vec::with_capacity(cells.len());
        for CellVersions { key, versions } in &cells {
            let versions: Vec<(Version, VersionOutcome)> =
                versions.iter().map(|version| (version.clone(), outcome(key, version))).collect();
            let has_deltas = self.row_tables().has_deltas(key.table());
            plans.push((key, plan(&versions, self.extent, has_deltas)?));
        }
        self.confirm_merged(&mut plans).await?;
        let mut work = Work::default();
        for (key, plan) in plans {
            self.report.expired += u64::from(plan.is_trimmed);
            let expiries = self.next_expiry.into_iter().chain(plan.next_expiry);
            self.next_expiry = expiries.min();
            work.add(key, plan);
        }
        self.report.cells += cells.len() as u64;
        self.carry_out(work).await
    }

    /// Reads the deltas again whose rows were made of a scan: a leader of another term may sweep beside
    /// this one, see [`DeltaChain`](carnet_store::DeltaChain).
    async fn confirm_merged(&self, plans: &mut [(&CellKey, Plan)]) -> Result<()> {
        let mut checks: Vec<Lookup<'_>> = Vec::new();
        let passed = self.extent.passed;
        for (key, plan) in plans {
            checks.push(Box::pin(async move {
                let Plan { row: Some(row), base: Some(base), .. } = plan else { return Ok(()) };
                let Some(chain) = &mut row.chain else { return Ok(()) };
                let again = self.leader.versions_of(key, chain.starts()).await?;
                if chain.confirm(&again) {
                    row.payload = trim(chain.row()?, passed).row;
                    base.is_tombstone = row.payload.is_none();
                } else {
                    // That leader has deleted the versions below a newer base.
                    (plan.row, plan.base) = (None, None);
                }
                Ok(())
            }));
        }
        all(checks, LOOKUPS_AT_ONCE).await
    }

    async fn carry_out(&mut self, work: Work) -> Result<()> {
        let Work { stamps, deletes, rows, bases, tombstones } = work;
        if !stamps.is_empty() {
            self.cluster().stamp_versions(&stamps).await?;
            self.report.stamped += stamps.len() as u64;
        }
        if !deletes.is_empty() {
            // A version that comes back is still aborted, and so invisible.
            self.cluster().delete_versions(&deletes, Acknowledge::Quorum).await?;
            self.report.aborted += deletes.len() as u64;
        }
        if !rows.is_empty() {
            self.cluster().write_versions(&Context::unbounded(), &rows).await?;
            self.report.merged += rows.len() as u64;
        }
        if !bases.is_empty() {
            // A version that comes back is hidden by the base, and deleted with the next base.
            self.cluster().delete_older(&bases, Acknowledge::Quorum).await?;
            self.report.cleared += bases.len() as u64;
        }
        self.delete_tombstones(&tombstones).await
    }

    /// Deletes rows that are deleted or expired, with their older versions. Beside a replica that does
    /// not answer they stay for the next round, and the rest of the round goes on without them.
    async fn delete_tombstones(&mut self, tombstones: &[VersionName]) -> Result<()> {
        if tombstones.is_empty() {
            return Ok(());
        }
        if !self.lacks_replica {
            // Not at once: a tombstone must not be gone from a replica that still has the hidden versions.
            let deleted = match self.cluster().delete_older(tombstones, Acknowledge::All).await {
                Ok(()) => self.cluster().delete_versions(tombstones, Acknowledge::All).await,
                failed => failed,
            };
            match deleted {
                Ok(()) => {
                    self.report.tombstones += tombstones.len() as u64;
                    return Ok(());
                }
                Err(fault) => {
                    let error = fault.into_error();
                    if error.kind() == ErrorKind::Invalid || error.kind() == ErrorKind::Corrupted {
                        return Err(error);
                    }
                    tracing::warn!(%error, "deleted rows stay until all replicas answer");
                    self.lacks_replica = true;
                }
            }
        }
        // Their commit entries are deleted at the end of the round, so the older versions must not be
        // found again; one that comes back is hidden by the tombstone.
        self.cluster().delete_older(tombstones, Acknowledge::Quorum).await?;
        self.report.left += tombstones.len() as u64;
        Ok(())
    }

    /// Returns the time of the next round if nothing is committed until then.
    fn next_expiry(&self) -> Option<i64> {
        if self.report.left > 0 { Some(i64::MIN) } else { self.next_expiry }
    }

    /// Looks up the outcomes of the versions that are not stamped.
    async fn outcomes<'a>(
        &self,
        cells: &'a [CellVersions],
    ) -> Result<BTreeMap<(&'a CellKey, Timestamp), VersionOutcome>> {
        let found = Mutex::new(BTreeMap::new());
        let mut lookups: Vec<Lookup<'_>> = Vec::new();
        for CellVersions { key, versions } in cells {
            for version in versions.iter().filter(|version| version.commit.is_none()) {
                let (start, found) = (version.start, &found);
                lookups.push(Box::pin(async move {
                    let outcome = self.leader.outcome_of(key, version).await?;
                    lock(found).insert((key, start), outcome);
                    Ok(())
                }));
            }
        }
        all(lookups, LOOKUPS_AT_ONCE).await?;
        Ok(found.into_inner().unwrap_or_default())
    }

    /// Deletes the entries of commits up to the mark; returns the lowest start that may still have
    /// an entry.
    async fn sweep_entries(&mut self, from: Timestamp) -> Result<Timestamp> {
        let (mark, table) = (self.report.mark, self.leader.table());
        let mut left_from = mark;
        let mut resume = None;
        loop {
            if self.leader.is_over() {
                return Err(over());
            }
            let begun = self.leader.timer().now();
            let page = table.scan(from, mark, resume, ENTRIES_PAGE).await?;
            let mut columns: BTreeMap<CommitRow, Vec<carnet_base::Bytes>> = BTreeMap::new();
            for (start, entry) in page.entries {
                if matches!(entry, CommitEntry::Committed(commit) if commit > mark) {
                    left_from = left_from.min(start);
                    continue;
                }
                let place = table.place(start).await?;
                columns.entry(place.row).or_default().push(place.column);
            }
            for (row, columns) in columns {
                self.cluster().delete_entries(&row, &columns).await?;
                self.report.entries += columns.len() as u64;
            }
            resume = page.resume;
            if resume.is_none() {
                return Ok(left_from);
            }
            self.pause(begun).await;
        }
    }
}
