//! One round, driven.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{CellKey, CommitEntry, Error, KeyRange, Moment, Result, Timestamp, Version};
use carnet_store::cluster::{
    Acknowledge, CellVersions, Cluster, CommitRow, ReadMode, Register, SetAnswer, VersionName,
};
use carnet_store::{Context, PageLimit};

use super::marks::Marks;
use super::plan::{Base, Extent, Fate, Plan, plan};
use super::{SweepOptions, SweepReport, over};
use crate::futures::all;
use crate::leader::Leader;
use crate::oneshot::lock;

/// So many transactions are looked up at a time.
const LOOKUPS_AT_ONCE: usize = 16;
const PAGE_BYTES: usize = 1 << 20;
/// Entries are deleted by so many.
const ENTRIES_PAGE: usize = 1000;
const PERSIST_TRIES: u32 = 8;

/// A look-up under way.
type Lookup<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// What is to be done to the cells of a page.
#[derive(Default)]
struct Work {
    stamps: Vec<(VersionName, Timestamp)>,
    deletes: Vec<VersionName>,
    bases: Vec<VersionName>,
    tombstones: Vec<VersionName>,
}

impl Work {
    fn add(&mut self, key: &CellKey, plan: Plan) {
        let named = |start| VersionName { key: key.clone(), start };
        self.stamps.extend(plan.stamps.into_iter().map(|(start, commit)| (named(start), commit)));
        self.deletes.extend(plan.deletes.into_iter().map(named));
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
}

/// Sweeps all that no snapshot at `wanted` or later sees, as far as the snapshots in use let it.
pub(super) async fn run<C: Cluster>(
    leader: &Arc<Leader<C>>,
    options: SweepOptions,
    wanted: Timestamp,
) -> Result<SweepReport> {
    // Before it is known that nobody holds the sweep: whoever does so from then on begins his backup
    // above all that this round stamps.
    let through = leader.published();
    let marks = unheld_marks(leader).await?;
    // Marks beyond all that this term has published are of a later one, or of a restore that this
    // process slept through: what it decided may not have happened.
    if marks.versions > leader.published() {
        return Err(over());
    }
    let mark = leader.raise_mark(wanted);
    // What is decided before the scan begins and not final yet keeps its entry.
    let undecided = leader.oldest_undecided();
    let report = SweepReport { mark, ..SweepReport::default() };
    let extent = Extent { mark, settled: marks.entries, through };
    let mut round = Round { leader, options, report, extent };
    if marks.entries >= mark {
        return Ok(round.report);
    }
    round.persist(Marks { versions: mark, ..Marks::default() }).await?;
    for table in leader.table().cluster().tables().await? {
        round.sweep_table(KeyRange::table(table)).await?;
    }
    let marks = round.persist(Marks { entries: mark, ..Marks::default() }).await?;
    let left_from = round.sweep_entries(marks.entries_from).await?.min(undecided);
    round.persist(Marks { entries_from: left_from, ..Marks::default() }).await?;
    Ok(round.report)
}

/// Reads the marks, and takes away the hold of a backup that is not heard of any more.
async fn unheld_marks<C: Cluster>(leader: &Leader<C>) -> Result<Marks> {
    let cluster = leader.table().cluster();
    let (stored, marks) = read_marks(&**cluster).await?;
    let Some(hold) = marks.hold else { return Ok(marks) };
    if !leader.sweep().is_silent(hold, leader.timer().now()) {
        return Err(held());
    }
    tracing::warn!(backup = hold.id, "the hold of a backup that was given up is taken away");
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

fn held() -> Error {
    Error::unavailable("a backup holds the sweep back until it has ended")
}

impl<C: Cluster> Round<'_, C> {
    fn cluster(&self) -> &C {
        self.leader.table().cluster()
    }

    /// Raises what is stored, unless a backup holds it where it is.
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

    /// Rests for as long as the work since `begun` asks for.
    async fn pause(&self, begun: Moment) {
        let duty = self.options.duty_percent.clamp(1, 100);
        let rest = self.leader.timer().now().since(begun) * (100 - duty) / duty;
        if rest > Duration::ZERO {
            self.leader.timer().wait(rest).await;
        }
    }

    async fn sweep_cells(&mut self, cells: Vec<CellVersions>) -> Result<()> {
        let fates = self.fates(&cells).await?;
        let fate = |key: &CellKey, version: &Version| match version.commit {
            Some(commit) => Fate::Committed(commit),
            None => fates.get(&(key, version.start)).copied().unwrap_or(Fate::Open),
        };
        let mut work = Work::default();
        for CellVersions { key, versions } in &cells {
            let versions: Vec<(Version, Fate)> =
                versions.iter().map(|version| (version.clone(), fate(key, version))).collect();
            work.add(key, plan(&versions, self.extent));
        }
        self.report.cells += cells.len() as u64;
        self.carry_out(work).await
    }

    async fn carry_out(&mut self, work: Work) -> Result<()> {
        let Work { stamps, deletes, bases, tombstones } = work;
        if !stamps.is_empty() {
            self.cluster().stamp_versions(&stamps).await?;
            self.report.stamped += stamps.len() as u64;
        }
        if !deletes.is_empty() {
            // One that comes back is as invisible as it was.
            self.cluster().delete_versions(&deletes, Acknowledge::Quorum).await?;
            self.report.aborted += deletes.len() as u64;
        }
        if !bases.is_empty() {
            // What comes back is hidden by the base, and asked to go again with the next one.
            self.cluster().delete_older(&bases, Acknowledge::Quorum).await?;
            self.report.cleared += bases.len() as u64;
        }
        if !tombstones.is_empty() {
            self.cluster().delete_older(&tombstones, Acknowledge::All).await?;
            self.cluster().delete_versions(&tombstones, Acknowledge::All).await?;
            self.report.tombstones += tombstones.len() as u64;
        }
        Ok(())
    }

    /// Looks up what became of the versions that are not stamped.
    async fn fates<'a>(
        &self,
        cells: &'a [CellVersions],
    ) -> Result<BTreeMap<(&'a CellKey, Timestamp), Fate>> {
        let found = Mutex::new(BTreeMap::new());
        let mut lookups: Vec<Lookup<'_>> = Vec::new();
        for CellVersions { key, versions } in cells {
            for version in versions.iter().filter(|version| version.commit.is_none()) {
                let (start, found) = (version.start, &found);
                lookups.push(Box::pin(async move {
                    let fate = self.fate(key, start).await?;
                    lock(found).insert((key, start), fate);
                    Ok(())
                }));
            }
        }
        all(lookups, LOOKUPS_AT_ONCE).await?;
        Ok(found.into_inner().unwrap_or_default())
    }

    async fn fate(&self, key: &CellKey, start: Timestamp) -> Result<Fate> {
        let fate = self.leader.fate(start).await?;
        if fate != Fate::Aborted {
            return Ok(fate);
        }
        // Somebody else may have stamped it and swept its entry since it was scanned.
        let again = self.cluster().read_version(&Context::unbounded(), key, start).await?;
        let stamp = again.filter(|version| version.start == start).and_then(|again| again.commit);
        Ok(stamp.map_or(Fate::Aborted, Fate::Committed))
    }

    /// Deletes the entries of what the mark has passed; returns the start from which on some may
    /// be left.
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
