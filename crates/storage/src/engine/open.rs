//! Opening a database: reads its files, and removes leftovers of a crash.
//!
//! ```text
//!  lock → manifest → remove orphans → open tables → replay the log, truncate its torn tail
//!       → start a new segment → start the workers
//! ```
//!
//! With [`Durability::Memory`] no segment is started. The log of earlier processes stays until its
//! records are flushed; the edit of that flush sets `unlogged` in the manifest, and the files are
//! removed. A process with a log that finds `unlogged` starts a segment durably, and clears
//! `unlogged` durably before it writes a record.
//!
//! A directory without a manifest is a new database only if it contains no data files, because the
//! manifest is durable before the first record.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use carnet_base::{BytePermits, Clock, Error, Result, Spawn, Timestamp};

use super::append::{OVERSHOOT_BYTES, insert};
use super::checkpoint;
use super::compactions::Compactions;
use super::compactor::Compactor;
use super::core::{Core, Engine, EntryCell, Order};
use super::flush::MemtableFlusher;
use super::flushes::Flushes;
use super::io::Io;
use super::log::Flusher;
use super::open_log::Log;
use super::publication::Publication;
use super::shortages::Shortages;
use super::view::View;
use crate::batch::{Adoption, Changes};
use crate::disk::{Disk, During, ReadOnlyDisk};
use crate::inspect;
use crate::manifest::{self, Identity, Manifest, TableMeta};
use crate::marks;
use crate::memory::Budget;
use crate::memtable::{Chunks, Memtable};
use crate::metrics::Counters;
use crate::options::{Durability, Options};
use crate::sstable::cache::Cache;
use crate::sstable::{self, Table};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, lock};
use crate::usage::Usage;
use crate::wal::recovery::{self, Recovered};
use crate::wal::segment::{self, HEADER_BYTES};
use crate::wal::{Lsn, Record, Spares, Tail, Writer};

impl Engine {
    /// Opens the database in a directory, or creates one.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process uses the directory, naming it, or if the disk fails;
    /// `Corrupted` if files are missing or damaged, naming the file and the offset; `Unsupported`
    /// if a newer program wrote them; `Invalid` if the options are inconsistent, or if there is no
    /// database to open read-only.
    ///
    /// The caller must complete the opening with [`Engine::adopt_recovered`] before it appends, or
    /// reads the last recovered commits.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
        mut options: Options,
        entry_cell: EntryCell,
    ) -> Result<Self> {
        let budget = Budget::of(&options)?;
        // A smaller memtable may grow to this size while others wait.
        options.compaction.memtable_bytes = budget.flush.max(OVERSHOOT_BYTES) as u64;
        let directory = disk.lock()?;
        let disk = if options.read_only { read_only(disk)? } else { disk };
        let counters = Arc::new(Counters::default());
        let io = Io::open(&disk, &clock, spawn, &options);
        let disk = io.disk();
        let cache = Cache::counted(budget.cache_beside(0), Arc::clone(&counters));
        let mut manifest = load_or_create(&disk, &counters, options.durability)?;
        let spares_max = if options.durability.has_log() { options.log_spares_max } else { 0 };
        let mut spares = Spares::new(spares_max, options.segment_bytes);
        let chunks = Chunks::new(budget.flush);
        let replayed = Replayed::read(&disk, &manifest, &cache, &chunks)?;
        remove_orphans(&*disk, &manifest, &replayed.unadopted, &mut spares)?;
        let tables = open_tables(&disk, &manifest, &cache)?;
        let last_commit = replayed.last_commit.max(manifest.flushed);
        record_opening(&*disk, &mut manifest, &options, last_commit)?;
        let recovered = replayed.recovered;
        let Recovered { segment, base, cut_bytes } = recovered;
        counters.recovered_records.store(replayed.records, std::sync::atomic::Ordering::Relaxed);
        counters.recovered_cut_bytes.store(cut_bytes, std::sync::atomic::Ordering::Relaxed);
        let (log, settled) =
            begin_log(&disk, &counters, &options, &mut manifest, recovered, spares)?;
        let unadopted = replayed.unadopted;
        let next_file = unadopted.iter().map(|(_, _, meta)| meta.number + 1);
        let next_file = next_file.fold(manifest.next_file, u64::max);
        let active = Arc::new(replayed.memtable);
        let sealed = unadopted.iter().rev().map(|(memtable, ..)| Arc::clone(memtable)).collect();
        let flushes = Flushes::new(chunks);
        let compactors = if options.read_only { 0 } else { options.compaction_threads.max(1) };
        let compactions = Compactions::new(compactors);
        let mut signals = vec![log.signal.clone(), flushes.signal.clone()];
        signals.extend(compactions.signals.iter().cloned());
        let usage = Arc::new(Usage::new(clock.now()));
        let core = Arc::new(Core {
            publication: Arc::new(Publication::new(last_commit, settled, signals)),
            order: Mutex::new(Order {
                tail: Tail::new(segment, base, options.segment_bytes),
                active: Arc::clone(&active),
                last_commit,
                closed: false,
            }),
            view: ArcSwap::from_pointee(
                View { number: 0, active, sealed, levels: Default::default() }
                    .with_levels(&manifest.levels, &tables),
            ),
            view_number: AtomicU64::new(0),
            changing_view: Mutex::new(()),
            log,
            flushes,
            compactions,
            shortages: Shortages::default(),
            adopts_recovered: AtomicBool::new(false),
            forgotten: AtomicU64::new(manifest.forgotten.get()),
            gc: OnceLock::new(),
            deltas: OnceLock::new(),
            removals: Mutex::default(),
            next_file: AtomicU64::new(next_file),
            manifest: Mutex::new(manifest),
            closing: AtomicBool::new(false),
            permits: BytePermits::new(options.reads_max.max(1), budget.reads),
            budget,
            disk,
            io,
            clock,
            options,
            entry_cell,
            counters,
            usage,
            cache,
        });
        for (memtable, place, meta) in unadopted {
            lock(&core.flushes.sealed).push_recovered(memtable, place, meta);
        }
        let mut workers = Vec::new();
        if core.log.exists() {
            let flusher = Box::new(Flusher::new(Arc::clone(&core)));
            workers.push(spawn.spawn("carnet-log", core.log.signal.clone(), flusher));
        }
        let memtables = core.io.niced(MemtableFlusher(Arc::clone(&core)));
        workers.push(spawn.spawn("carnet-flush", core.flushes.signal.clone(), memtables));
        for (at, signal) in core.compactions.signals.iter().enumerate() {
            let compactor = core.io.niced(Compactor::new(Arc::clone(&core), at > 0));
            workers.push(spawn.spawn("carnet-compact", signal.clone(), compactor));
        }
        Ok(Self { core, workers: Mutex::new(Some(workers)), _directory: directory })
    }
}

/// Returns a disk that keeps writes in memory.
///
/// # Errors
///
/// `Invalid` if there is no database.
fn read_only(disk: Arc<dyn Disk>) -> Result<Arc<dyn Disk>> {
    inspect::load(&*disk)?;
    Ok(Arc::new(ReadOnlyDisk::new(disk)))
}

fn load_or_create(
    disk: &Arc<dyn Disk>,
    counters: &Arc<Counters>,
    durability: Durability,
) -> Result<Manifest> {
    // A killed process may have left renames that are not durable.
    disk.sync_dir().during("sync", &**disk, "")?;
    marks::refuse(&**disk)?;
    checkpoint::take_over(disk)?;
    if let Some(manifest) = Manifest::load(&**disk)? {
        return Ok(manifest);
    }
    refuse_headless(&**disk)?;
    let (identity, unlogged) = (Identity::random(), !durability.has_log());
    let manifest = Manifest { identity, unlogged, ..Manifest::empty() };
    if !unlogged {
        let (disk, counters) = (Arc::clone(disk), Arc::clone(counters));
        let base = Lsn(manifest.first_lsn);
        Writer::begin(disk, counters, manifest.first_segment, base, 0, None)?;
    }
    manifest.store(&**disk)?;
    Ok(manifest)
}

/// Starts the log after the recovered one, if the durability has a log. Returns it, and the LSN up
/// to which records are settled.
fn begin_log(
    disk: &Arc<dyn Disk>,
    counters: &Arc<Counters>,
    options: &Options,
    manifest: &mut Manifest,
    recovered: Recovered,
    mut spares: Spares,
) -> Result<(Log, Lsn)> {
    if !options.durability.has_log() {
        let names = disk.list().during("list", &**disk, "")?;
        let last = names.iter().filter_map(|name| segment::number_in(name)).max();
        return Ok((Log::absent(last.map_or(0, |last| last + 1)), Lsn(u64::MAX)));
    }
    // A crash may leave the first segment without the edit below; then it has no more than a header.
    let spare = if manifest.unlogged { None } else { spares.take() };
    let Recovered { segment, base, .. } = recovered;
    let (of, counters) = (Arc::clone(disk), Arc::clone(counters));
    let mut writer = Writer::begin(of, counters, segment, base, options.log_zeros_bytes(), spare)?;
    if manifest.unlogged {
        let logged = Manifest { unlogged: false, ..manifest.clone() };
        logged.store(&**disk)?;
        *manifest = logged;
    }
    if options.durability == Durability::Always {
        writer.keep_writes();
    }
    let settled = writer.written();
    Ok((Log::new(writer, spares), settled))
}

/// Updates the manifest for this opening: `lossy`, and the consequences of the last close or crash.
fn record_opening(
    disk: &dyn Disk,
    manifest: &mut Manifest,
    options: &Options,
    last_commit: Timestamp,
) -> Result<()> {
    let mut begun = manifest.clone();
    if begun.identity == Identity::UNKNOWN {
        begun.identity = Identity::random();
    }
    if begun.lossy {
        begun.swept = begun.swept.max(begun.bound);
    }
    // Compaction has dropped nothing above the last flushed commit.
    begun.forgotten = begun.forgotten.min(begun.flushed);
    begun.lossy = options.durability != Durability::Always;
    let has_changed = begun != *manifest;
    // The next edit stores the new incarnation otherwise.
    if begun.line.open(last_commit) || has_changed {
        begun.store(disk)?;
    }
    *manifest = begun;
    Ok(())
}

/// Returns an error if a directory has data but no manifest.
fn refuse_headless(disk: &dyn Disk) -> Result<()> {
    let names = disk.list().during("list", disk, "")?;
    let table = names.into_iter().find(|name| sstable::number_in(name).is_some());
    let data = match table {
        None => recovery::begun_segment(disk, Manifest::empty().first_segment)?,
        table => table,
    };
    let Some(name) = data else { return Ok(()) };
    Err(Error::corrupted(format!(
        "{} is missing but {name} exists: restore it, or the whole directory from a backup, or \
         open an empty directory",
        disk.path(manifest::FILE_NAME)
    )))
}

/// Removes files that the manifest does not name or no longer needs, except for segments that are
/// kept for recycling.
fn remove_orphans(
    disk: &dyn Disk,
    manifest: &Manifest,
    unadopted: &[(Arc<Memtable>, (u64, Lsn), TableMeta)],
    spares: &mut Spares,
) -> Result<()> {
    for name in disk.list().during("list", disk, "")? {
        let table = sstable::number_in(&name);
        let temporary = name.ends_with(".tmp") && checkpoint::is_ours(&name);
        let unnamed = table.is_some_and(|number| {
            let is_wanted = unadopted.iter().any(|(_, _, meta)| meta.number == number);
            !is_wanted && manifest.levels.find(number).is_none()
        });
        let flushed = segment::number_in(&name)
            .is_some_and(|number| number < manifest.first_segment && !spares.keep(number));
        if temporary || unnamed || flushed {
            disk.remove(&name).during("remove", disk, &name)?;
        }
    }
    Ok(())
}

/// Opens all tables of the manifest.
fn open_tables(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    cache: &Arc<Cache>,
) -> Result<Vec<Arc<Table>>> {
    let open = |meta: &Arc<TableMeta>| {
        let table = meta.open(Arc::clone(disk), Arc::clone(cache))?;
        Ok(Arc::new(table))
    };
    manifest.levels.iter().map(open).collect()
}

/// The log, replayed into memtables.
struct Replayed {
    /// Memtables that are followed by the commit of an adopted table: the memtable, the position of
    /// the log after it, and the table.
    unadopted: Vec<(Arc<Memtable>, (u64, Lsn), TableMeta)>,
    memtable: Memtable,
    records: u64,
    last_commit: Timestamp,
    recovered: Recovered,
}

impl Replayed {
    fn read(
        disk: &Arc<dyn Disk>,
        manifest: &Manifest,
        cache: &Arc<Cache>,
        chunks: &Chunks,
    ) -> Result<Self> {
        let mut memtable = Memtable::new(manifest.first_segment, chunks.clone());
        let mut unadopted = Vec::new();
        let (mut records, mut last_commit) = (0, Timestamp::ZERO);
        let base = Lsn(manifest.first_lsn);
        if manifest.unlogged {
            recovery::refuse_records(&**disk, manifest::FILE_NAME, manifest.first_segment)?;
            let recovered = Recovered { segment: manifest.first_segment, base, cut_bytes: 0 };
            return Ok(Self { unadopted, memtable, records, last_commit, recovered });
        }
        let recovered = recovery::recover(&**disk, manifest.first_segment, base, |record| {
            let Record { segment, lsn, start, commit, body } = record;
            if let Some(Adoption { number, bytes }) = Adoption::decode(&body)? {
                records += 1;
                last_commit = commit;
                // The log begins at this segment only if the edit with the table was applied.
                if segment > manifest.first_segment {
                    insert(&memtable, start, commit, Changes::default().of(&[]));
                    let table = Table::open(Arc::clone(disk), number, bytes, Arc::clone(cache))?;
                    let table = Arc::new(table);
                    let place = (segment, Lsn(lsn.0 - HEADER_BYTES as u64));
                    let next = Memtable::new(segment, chunks.clone());
                    let sealed = Arc::new(std::mem::replace(&mut memtable, next));
                    unadopted.push((sealed, place, TableMeta::adopted(&table, commit)));
                }
                return Ok(());
            }
            let changes = Changes::decode(&body).map_err(|error| {
                let log = disk.path("wal-*.log");
                Error::corrupted(format!("{log}: the record at LSN {lsn} cannot be decoded"))
                    .with_source(error)
            })?;
            records += 1;
            last_commit = commit;
            insert(&memtable, start, commit, changes.of(&body));
            Ok(())
        })?;
        Ok(Self { unadopted, memtable, records, last_commit, recovered })
    }
}
