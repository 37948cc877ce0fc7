//! Opens the database, with its full API or with rules that may be broken.

use std::sync::Arc;

use carnet::{Builder, Db};
use carnet_base::{EncodingMap, Result, Timestamp};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::manifest::Manifest;
use carnet_storage::{Durability, Options};
use carnet_store::{Context, LogStart};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{CommitChecker, IdleLimits, IdleWatch, VersionOrder};

use super::broken_merges;
use super::store::Store;
use super::world::{DATABASE, World};
use crate::database::Bare;
use crate::executor::Process;
use crate::mutant::Mutant;
use crate::rules::{Known, Rules};
use crate::run_record::{Reported, RunRecord};
use crate::workload::raw_tables;

pub(super) fn open_facade(world: &World, disk: &SimDisk) -> Result<Db> {
    let idle = world.setup.idle.unwrap_or(IdleLimits::NONE);
    facade(world, DATABASE, idle).open_on(Arc::new(disk.clone()))
}

pub(super) fn facade(world: &World, process: Process, idle: IdleLimits) -> Builder {
    let Options { durability, memory_bytes, flush_bytes, cache_bytes, .. } = world.setup.options;
    Db::builder()
        .durability(durability)
        .memory_bytes(memory_bytes)
        .flush_bytes(flush_bytes)
        .cache_bytes(cache_bytes)
        .compaction_style(world.setup.options.compaction_style)
        .retention(world.setup.retention)
        .transaction_limits(world.setup.limits())
        // A periodic search for idle transactions keeps an otherwise idle world awake, so most runs
        // have none.
        .idle_timeout(idle.writer)
        .snapshot_idle_timeout(idle.reader)
        .sweep_warning(idle.warning)
        .clock(Arc::new(world.clock.clone()))
        .spawn(Arc::new(world.executor.spawner(process)))
}

pub(super) fn open_bare(world: &World, disk: &SimDisk) -> Result<Bare<Store>> {
    let mutant = world.order.mutant;
    match mutant {
        Some(Mutant::TableNotSynced) => disk.lie_about_syncs("sst-"),
        Some(Mutant::ManifestNotSynced) => disk.lie_about_syncs("MANIFEST"),
        _ => {}
    }
    let mut options = world.setup.options.clone();
    if mutant == Some(Mutant::AcknowledgedBeforeDurable) {
        options.durability = Durability::None;
    }
    options.replace_merges = broken_merges::of(mutant);
    if mutant == Some(Mutant::MapReadOnce) {
        forget_migrations(world, disk)?;
    }
    let known = Arc::new(Known::default());
    world.known.borrow_mut().push(Arc::clone(&known));
    let of_rules = Arc::clone(&known);
    let rules = |mut incarnation: LogStart| {
        if mutant == Some(Mutant::StartsHandedOutTwice) {
            incarnation.first = last_commit(&world.run_record).unwrap_or(incarnation.first);
        }
        let inner = CommitChecker::with_conflict_bytes(incarnation, world.setup.conflict_bytes)
            .with_version_order(VersionOrder::Commit);
        Box::new(Rules { inner: Box::new(inner), known: of_rules, mutant }) as _
    };
    let inner = LocalStore::open(
        Arc::new(disk.clone()),
        Arc::new(world.clock.clone()),
        &world.executor.spawner(DATABASE),
        options,
        world.setup.retention,
        DEFAULT_ENCODING,
        rules,
    )?;
    inner.row_tables().set_raw(raw_tables());
    let store = Arc::new(Store { inner, known, mutant });
    let watch = |limits| {
        let clock = Arc::new(world.clock.clone());
        Arc::new(IdleWatch::start(limits, clock, &world.executor.spawner(DATABASE)))
    };
    let idle = world.setup.idle.map(watch);
    Ok(Bare { store, context: Context::unbounded(), limits: world.setup.limits(), idle })
}

/// Makes the map give all starts the encoding that the first map gave its last start.
pub(super) fn forget_migrations(world: &World, disk: &SimDisk) -> Result<()> {
    let Some(manifest) = Manifest::load(disk)?.filter(|manifest| !manifest.notes.is_empty()) else {
        return Ok(());
    };
    let mut first = world.first_map.borrow_mut();
    let map = match &*first {
        Some(map) => map,
        None => first.insert(EncodingMap::decode(&manifest.notes)?),
    };
    let notes = map.extended(manifest.bound).encode();
    Manifest { notes, ..manifest }.store(disk)
}

pub(super) fn last_commit(run_record: &RunRecord) -> Option<Timestamp> {
    let reported =
        |reported| if let Reported::Committed(commit) = reported { Some(commit) } else { None };
    run_record.records().iter().filter_map(|record| reported(record.reported)).max()
}
