//! Runs workloads. In each pass the engines alternate, and each pass begins with a different
//! engine, so that a disturbance of the machine affects all alike and no engine always follows the
//! same one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::data::{ROW_BYTES, Rows};
use crate::engine::{Compression, Direction, Durability, Kind, Setup, Shape, Store};
use crate::engines;
use crate::measure::Sample;
use crate::record::Record;
use crate::workloads::read::{self, Place};
use crate::workloads::transaction::{self, Access, Spread};
use crate::workloads::{scan, write};

/// A compared engine, with a shape if it has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    /// Whether the shape is raw instead of hashed; `false` for engines with one shape.
    raw: bool,
}

impl Subject {
    /// Lists all subjects of the given engines and shapes.
    pub(crate) fn all(engines: &[Kind], shapes: &[Shape]) -> Vec<Self> {
        let mut subjects = Vec::new();
        for &kind in engines {
            if kind.has_shapes() {
                let raws = shapes.iter().map(|shape| *shape == Shape::Raw);
                subjects.extend(raws.map(|raw| Self { kind, raw }));
            } else {
                subjects.push(Self { kind, raw: false });
            }
        }
        subjects
    }

    const fn shape(self) -> Shape {
        match (self.kind.has_shapes(), self.raw) {
            (false, _) => Shape::Ordered,
            (true, false) => Shape::Hashed,
            (true, true) => Shape::Raw,
        }
    }
}

/// Common settings of all workloads.
pub(crate) struct Plan<'a> {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) threads: Vec<usize>,
    pub(crate) time: Duration,
    pub(crate) passes: usize,
    pub(crate) dir: &'a Path,
    pub(crate) seed: u64,
    pub(crate) compression: Compression,
}

/// Receives results as they are ready: those of one configuration together.
pub(crate) type Take<'a> = dyn FnMut(&[Record]) + 'a;

/// Number of failed measurements; each was reported when it failed.
#[must_use]
pub(crate) struct Failures(pub(crate) usize);

impl Plan<'_> {
    fn setup(&self, subject: Subject, dir: &Path) -> Setup {
        Setup {
            dir: dir.to_owned(),
            durability: Durability::None,
            shape: subject.shape(),
            compression: self.compression,
            memtable_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            cache_binds: false,
            checks_conflicts: false,
        }
    }

    fn blank(&self, subject: Subject, workload: &str, threads: usize, setup: &Setup) -> Record {
        Record {
            engine: subject.kind.name(),
            workload: workload.to_owned(),
            threads,
            durability: setup.durability,
            keys_per_second: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            keys_per_second_min: 0.0,
            keys_per_second_max: 0.0,
            passes: 0,
            keys: 0,
            shape: setup.shape,
            memtable_bytes: setup.memtable_bytes,
            cache_bytes: setup.cache_bytes,
            place: None,
            direction: None,
            per_snapshot: None,
            access: None,
            spread: None,
            cpu_ns_per_key: 0.0,
            aborts_per_key: 0.0,
        }
    }

    /// Creates a directory, after the disk has written all data of earlier measurements.
    fn directory(&self) -> Result<TempDir> {
        rustix::fs::syncfs(File::open(self.dir)?)?;
        tempfile::Builder::new()
            .prefix("peers-")
            .tempdir_in(self.dir)
            .with_context(|| format!("no directory can be made in {}", self.dir.display()))
    }

    /// Calls `measure` for every subject in every pass. A failed subject is skipped from then on.
    fn interleave(&self, mut measure: impl FnMut(Subject, u64) -> Result<()>) -> Failures {
        let mut failed = Vec::new();
        for pass in 0..self.passes {
            for turn in 0..self.subjects.len() {
                let subject = self.subjects[(pass + turn) % self.subjects.len()];
                if failed.contains(&subject) {
                    continue;
                }
                if let Err(error) = measure(subject, pass as u64) {
                    eprintln!("{} ({:?}): {error:#}", subject.kind.name(), subject.shape());
                    failed.push(subject);
                }
            }
        }
        Failures(failed.len())
    }
}

/// One configuration of `write`.
pub(crate) struct Writes {
    pub(crate) durability: Durability,
    pub(crate) memtable_bytes: usize,
    pub(crate) threads: usize,
    pub(crate) keys: u64,
}

/// Runs one configuration of `write`, each measurement on a new database.
pub(crate) fn writes(plan: &Plan<'_>, writes: &Writes, take: &mut Take<'_>) -> Failures {
    let mut results: BTreeMap<Subject, (Record, Vec<Sample>)> = BTreeMap::new();
    let failures = plan.interleave(|subject, pass| {
        let dir = plan.directory()?;
        let mut setup = plan.setup(subject, dir.path());
        setup.durability = writes.durability;
        setup.memtable_bytes = writes.memtable_bytes;
        let store = engines::open(subject.kind, &setup)?;
        let rows = Rows::new(plan.seed.wrapping_add(pass));
        let sample = write::sample(&*store, rows, writes.keys, writes.threads, plan.time)?;
        let blank = || (plan.blank(subject, "write", writes.threads, &setup), Vec::new());
        results.entry(subject).or_insert_with(blank).1.push(sample);
        Ok(())
    });
    take(&finish(results.into_values()));
    failures
}

/// One kind of request to a filled database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    /// `true` for reversed scans.
    reversed: bool,
    per_snapshot: usize,
    threads: usize,
}

/// How databases for `read` and `scan` are filled.
pub(crate) struct Filling {
    pub(crate) count: u64,
    /// Whether each pass fills a new database, instead of one for all passes.
    pub(crate) fresh: bool,
    pub(crate) per_snapshot: Vec<usize>,
}

/// Runs `read` on rows in one place.
pub(crate) fn reads(
    plan: &Plan<'_>,
    filling: &Filling,
    place: Place,
    take: &mut Take<'_>,
) -> Failures {
    let probes = probes(plan, filling, &[false]);
    probe(plan, filling, Home::of_reads(place), &probes, take, |filled, probe, pass| {
        let request = read::Request {
            place,
            rows: filled.rows,
            count: filling.count,
            threads: probe.threads,
            per_snapshot: probe.per_snapshot,
            time: plan.time,
            seed: plan.seed.wrapping_add(pass),
            setup: &filled.setup,
        };
        let sample = read::sample(&*filled.store, &request)?;
        let mut record = plan.blank(filled.subject, "read", probe.threads, &filled.setup);
        record.place = Some(place);
        record.per_snapshot = Some(probe.per_snapshot);
        Ok((record, sample))
    })
}

/// Runs `scan` in the given directions.
pub(crate) fn scans(
    plan: &Plan<'_>,
    filling: &Filling,
    directions: &[Direction],
    take: &mut Take<'_>,
) -> Failures {
    let reversed: Vec<bool> = directions.iter().map(|d| *d == Direction::Reversed).collect();
    let probes = probes(plan, filling, &reversed);
    probe(plan, filling, Home::of_reads(Place::Cache), &probes, take, |filled, probe, pass| {
        let direction = if probe.reversed { Direction::Reversed } else { Direction::Forward };
        let request = scan::Request {
            rows: filled.rows,
            count: filling.count,
            threads: probe.threads,
            direction,
            per_snapshot: probe.per_snapshot,
            time: plan.time,
            seed: plan.seed.wrapping_add(pass),
        };
        let sample = scan::sample(&*filled.store, &request)?;
        let mut record = plan.blank(filled.subject, "scan", probe.threads, &filled.setup);
        record.direction = Some(direction);
        record.per_snapshot = Some(probe.per_snapshot);
        Ok((record, sample))
    })
}

/// One configuration of `transaction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transactions {
    access: Access,
    spread: Spread,
    threads: usize,
}

impl Transactions {
    /// Lists the requested configurations; read-only transactions use all rows only, because they
    /// conflict with none.
    pub(crate) fn all(plan: &Plan<'_>, accesses: &[Access], spreads: &[Spread]) -> Vec<Self> {
        let mut all = Vec::new();
        for &access in accesses {
            for &spread in spreads {
                if (access, spread) != (Access::Read, Spread::Hot) {
                    let threads = plan.threads.iter();
                    all.extend(threads.map(|&threads| Self { access, spread, threads }));
                }
            }
        }
        all
    }
}

/// Runs `transaction`, in each pass on a new filled database.
pub(crate) fn transactions(
    plan: &Plan<'_>,
    count: u64,
    asked: &[Transactions],
    take: &mut Take<'_>,
) -> Failures {
    let filling = Filling { count, fresh: true, per_snapshot: Vec::new() };
    let home = Home { place: Place::Memtable, checks_conflicts: true };
    probe(plan, &filling, home, asked, take, |filled, asked, pass| {
        let Transactions { access, spread, threads } = asked;
        let request = transaction::Request {
            access,
            spread,
            rows: filled.rows,
            count,
            threads,
            time: plan.time,
            seed: plan.seed.wrapping_add(pass),
        };
        let sample = transaction::sample(&*filled.store, &request)?;
        let mut record = plan.blank(filled.subject, "transaction", threads, &filled.setup);
        (record.access, record.spread) = (Some(access), Some(spread));
        Ok((record, sample))
    })
}

fn probes(plan: &Plan<'_>, filling: &Filling, reversed: &[bool]) -> Vec<Probe> {
    let mut probes = Vec::new();
    for &reversed in reversed {
        for &per_snapshot in &filling.per_snapshot {
            let threads = plan.threads.iter();
            probes.extend(threads.map(|&threads| Probe { reversed, per_snapshot, threads }));
        }
    }
    probes
}

/// A filled database. The store is dropped before its directory.
struct Filled {
    subject: Subject,
    store: Box<dyn Store>,
    setup: Setup,
    rows: Rows,
    _dir: TempDir,
}

/// Location of the rows of a filled database, and the kind of access to them.
#[derive(Clone, Copy)]
struct Home {
    place: Place,
    checks_conflicts: bool,
}

impl Home {
    const fn of_reads(place: Place) -> Self {
        Self { place, checks_conflicts: false }
    }
}

fn fill(plan: &Plan<'_>, filling: &Filling, home: Home, subject: Subject) -> Result<Filled> {
    let Home { place, checks_conflicts } = home;
    let dir = plan.directory()?;
    let mut setup = plan.setup(subject, dir.path());
    place.budgets(&mut setup, usize::try_from(filling.count)? * ROW_BYTES);
    setup.checks_conflicts = checks_conflicts;
    let store = engines::open(subject.kind, &setup)?;
    let rows = Rows::new(plan.seed);
    place.prepare(&*store, rows, filling.count).context("filling")?;
    Ok(Filled { subject, store, setup, rows, _dir: dir })
}

fn probe<P: Copy + Ord>(
    plan: &Plan<'_>,
    filling: &Filling,
    home: Home,
    probes: &[P],
    take: &mut Take<'_>,
    mut sample: impl FnMut(&Filled, P, u64) -> Result<(Record, Sample)>,
) -> Failures {
    let mut kept: BTreeMap<Subject, Filled> = BTreeMap::new();
    let mut results: BTreeMap<(P, Subject), (Record, Vec<Sample>)> = BTreeMap::new();
    let failures = plan.interleave(|subject, pass| {
        let filled = match kept.entry(subject) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(free) => free.insert(fill(plan, filling, home, subject)?),
        };
        for &probe in probes {
            let (record, sample) = sample(filled, probe, pass)?;
            let entry = results.entry((probe, subject)).or_insert_with(|| (record, Vec::new()));
            entry.1.push(sample);
        }
        if filling.fresh {
            kept.remove(&subject);
        }
        Ok(())
    });
    for probe in probes {
        let of_probe = results.iter().filter(|((of, _), _)| of == probe);
        take(&finish(of_probe.map(|(_, result)| result.clone())));
    }
    failures
}

fn finish(results: impl Iterator<Item = (Record, Vec<Sample>)>) -> Vec<Record> {
    results.map(|(record, passes)| record.with_figures(passes)).collect()
}
