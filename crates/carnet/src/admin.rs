//! What is done to a store as a whole, for its own process or for another one through the
//! [`control`](crate::control) door.

use std::path::Path;

use carnet_base::{Encoding, Error, Result, Timestamp};
use carnet_store_local::LocalStore;

use crate::backup::{Backup, Progress, RealVault};
use crate::stores::AnyStore;

/// The version of this program, as labels of backups name it.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// What compacting by hand came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Tables before.
    pub tables_before: u64,
    /// Their bytes.
    pub bytes_before: u64,
    /// Tables after.
    pub tables_after: u64,
    /// Their bytes.
    pub bytes_after: u64,
}

fn local<'a>(store: &'a AnyStore, what: &str) -> Result<&'a LocalStore> {
    match store {
        AnyStore::Local(store) => Ok(store),
        AnyStore::Memory(_) => Err(Error::unsupported(format!("{what} of a database in memory"))),
    }
}

/// Takes a backup; an error of `tell` gives it up.
pub(crate) fn backup(
    store: &AnyStore,
    dest: &Path,
    mut tell: impl FnMut(&Progress) -> Result<()>,
) -> Result<Backup> {
    let store = local(store, "a backup")?;
    let vault = RealVault::open(dest)?;
    store.flush()?;
    let mut job = store.begin_backup(&vault, PROGRAM)?;
    loop {
        if let Some(backup) = job.step()? {
            return Ok(backup);
        }
        tell(&job.progress())?;
    }
}

pub(crate) fn compact(store: &AnyStore) -> Result<Compacted> {
    let store = local(store, "compaction")?;
    store.flush()?;
    let before = store.metrics();
    store.compact()?;
    let after = store.metrics();
    Ok(Compacted {
        tables_before: before.tables,
        bytes_before: before.table_bytes,
        tables_after: after.tables,
        bytes_after: after.table_bytes,
    })
}

pub(crate) fn migrate(store: &AnyStore, to: Encoding) -> Result<Option<Timestamp>> {
    local(store, "a migration")?.migrate(to)
}

pub(crate) fn encodings(store: &AnyStore) -> Vec<(Timestamp, Encoding)> {
    match store {
        AnyStore::Local(store) => store.encodings(),
        AnyStore::Memory(_) => Vec::new(),
    }
}
