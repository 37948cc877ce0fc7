//! Maintenance of a store, for this process or for another one through the
//! [`control`](crate::control) socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Encoding, Error, Result, Timestamp, block_on};
use carnet_storage::backup::BackupJob;
use carnet_store_local::LocalStore;

use crate::backup::{self, Backup, Progress, RealVault, refuse_inside_database};
use crate::control::{ControlRequest, Done, Owner};
use crate::stores::AnyStore;

/// Version of this program, for the labels of backups.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

impl Owner for AnyStore {
    fn carry_out(
        &self,
        request: &ControlRequest,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done> {
        match request {
            ControlRequest::Backup { dest, keep, reread_after_days } => {
                back_up(self, dest, *keep, reread_after(*keep, *reread_after_days), tell)
            }
            ControlRequest::Compact {} => compact(self, tell),
            ControlRequest::Migrate { to } => {
                Ok(Done::migrated(migrate(self, ControlRequest::encoding(*to)?)?))
            }
        }
    }
}

fn back_up(
    store: &AnyStore,
    dest: &Path,
    keep: Option<usize>,
    reread_after: Duration,
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Done> {
    check_absolute(dest)?;
    let taken = take(store, dest, reread_after, tell)?;
    finish(dest, keep, taken)
}

/// Takes a backup of a store that this process has opened for it, and calls `close` when all tables
/// are linked; the store is dropped before.
pub(crate) fn back_up_and_release(
    store: Arc<AnyStore>,
    request: &ControlRequest,
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
    close: impl FnOnce() -> Result<()>,
) -> Result<Done> {
    let ControlRequest::Backup { dest, keep, reread_after_days } = request else {
        return store.carry_out(request, tell);
    };
    check_absolute(dest)?;
    let job = begin(&store, dest, reread_after(*keep, *reread_after_days))?;
    let release = |job: &mut BackupJob| {
        job.release();
        drop(store);
        close()
    };
    let taken = run(job, tell, release)?;
    finish(dest, *keep, taken)
}

fn check_absolute(dest: &Path) -> Result<()> {
    if dest.is_absolute() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is a relative path; give an absolute one, which means the same in every process",
        dest.display()
    )))
}

/// Removes older backups, and describes the new one.
fn finish(dest: &Path, keep: Option<usize>, taken: Backup) -> Result<Done> {
    let Backup { name, label, shared_files, shared_bytes } = taken;
    let removed = match keep {
        Some(keep) => backup::keep_newest_beside(dest, keep, &label)?,
        None => 0,
    };
    Ok(Done::Backup {
        name,
        commit: label.commit.get(),
        files: label.files.len() as u64,
        bytes: label.bytes(),
        shared_files,
        shared_bytes,
        removed: removed as u64,
    })
}

/// Returns for how long shared files are trusted: with `keep` not at all, because older backups are
/// removed.
fn reread_after(keep: Option<usize>, days: Option<u32>) -> Duration {
    let days = days.filter(|_| keep.is_none()).unwrap_or(0);
    Duration::from_hours(24 * u64::from(days))
}

/// Takes a backup; an error of `tell` aborts it.
pub(crate) fn take(
    store: &AnyStore,
    dest: &Path,
    reread_after: Duration,
    tell: impl FnMut(&Progress) -> Result<()>,
) -> Result<Backup> {
    let local = store.local_for("a backup")?;
    local.count_backup(|| run(begin(store, dest, reread_after)?, tell, |_| Ok(())))
}

fn begin(store: &AnyStore, dest: &Path, reread_after: Duration) -> Result<BackupJob> {
    let store = store.local_for("a backup")?;
    refuse_inside_database(dest)?;
    let vault = RealVault::open(dest)?;
    store.flush()?;
    store.begin_backup(&vault, PROGRAM, reread_after)
}

/// Runs a backup; calls `linked` when it needs the database no more.
fn run(
    mut job: BackupJob,
    mut tell: impl FnMut(&Progress) -> Result<()>,
    linked: impl FnOnce(&mut BackupJob) -> Result<()>,
) -> Result<Backup> {
    let mut linked = Some(linked);
    loop {
        let done = job.step()?;
        if (done.is_some() || job.is_linked())
            && let Some(linked) = linked.take()
        {
            linked(&mut job)?;
        }
        match done {
            Some(backup) => return Ok(backup),
            None => tell(&job.progress())?,
        }
    }
}

/// Compacts a store. A store that is closed meanwhile ends it by itself.
fn compact(store: &AnyStore, tell: &mut dyn FnMut(&Progress) -> Result<()>) -> Result<Done> {
    let store = store.local_for("compaction")?;
    store.flush()?;
    let before = store.metrics();
    store.compact_with(&mut |bytes, bytes_total| {
        let _ = tell(&Progress { bytes, bytes_total });
    })?;
    let after = store.metrics();
    Ok(Done::Compact {
        tables_before: before.tables,
        bytes_before: before.table_bytes,
        tables_after: after.tables,
        bytes_after: after.table_bytes,
    })
}

pub(crate) fn migrate(store: &AnyStore, to: Encoding) -> Result<Option<Timestamp>> {
    match store.cluster() {
        Some(store) => block_on(store.migrate(to)),
        None => store.local_for("a migration")?.migrate(to),
    }
}

pub(crate) fn encodings(store: &AnyStore) -> Vec<(Timestamp, Encoding)> {
    store.local().map_or_else(Vec::new, LocalStore::encodings)
}
