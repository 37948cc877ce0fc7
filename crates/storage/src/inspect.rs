//! Inspection of a database that is not open: verification, and descriptions of its files.
//!
//! No function changes a file. The directory must not be in use: [`verify`] locks it.

use std::sync::Arc;

use carnet_base::{Error, Result, Timestamp};

use crate::batch::{Adoption, Change, Changes};
use crate::disk::{Disk, During};
use crate::manifest::{self, Manifest, TableMeta};
use crate::marks::{BACKUP, CHECKPOINT, refuse_log};
use crate::sstable::cache::Cache;
use crate::sstable::{self, Description, Table, Verified};
use crate::wal::{Lsn, recovery};

/// Progress of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of verified tables.
    pub table_bytes: u64,
    /// Bytes of all tables.
    pub table_bytes_total: u64,
    /// Number of verified tables.
    pub tables: u64,
    /// Number of versions in them.
    pub versions: u64,
    /// Number of log records.
    pub log_records: u64,
    /// Whether the log has a torn tail, which the next opening will truncate.
    pub log_torn: bool,
}

/// Verifies every byte of a database: the manifest, every table, also against the manifest, and the
/// log.
///
/// # Errors
///
/// `Corrupted` for the first damage, naming the file and the offset. `Unavailable` if the directory
/// is in use or cannot be read, `Unsupported` if another version of the program wrote it.
pub fn verify(disk: &Arc<dyn Disk>, mut tell: impl FnMut(&Progress)) -> Result<Progress> {
    let _directory = disk.lock()?;
    let manifest = load(&**disk)?;
    let table_bytes_total = manifest.levels.iter().map(|table| table.bytes).sum();
    let mut progress = Progress { table_bytes_total, ..Progress::default() };
    for meta in manifest.levels.iter() {
        let before = progress;
        let verified = verify_table(disk, meta, |verified| {
            progress.table_bytes = before.table_bytes + verified.bytes;
            tell(&progress);
        })?;
        progress.table_bytes = before.table_bytes + meta.bytes;
        progress.versions += verified.versions;
        progress.tables += 1;
        tell(&progress);
    }
    let has_no_log = |name: &String| name == CHECKPOINT || name == BACKUP;
    if let Some(name) = disk.list().during("list", &**disk, "")?.iter().find(|n| has_no_log(n)) {
        // An unopened checkpoint, or a backup.
        refuse_log(&**disk, name, &manifest)?;
        return Ok(progress);
    }
    if manifest.unlogged {
        recovery::refuse_records(&**disk, manifest::FILE_NAME, manifest.first_segment)?;
        return Ok(progress);
    }
    let base = Lsn(manifest.first_lsn);
    progress.log_torn = recovery::check(&**disk, manifest.first_segment, base, |record| {
        progress.log_records += 1;
        if Adoption::decode(&record.body)?.is_some() {
            return Ok(());
        }
        Changes::decode(&record.body).map(drop)
    })?;
    tell(&progress);
    Ok(progress)
}

/// Verifies every block of a table, and compares the table with its entry in the manifest.
///
/// # Errors
///
/// `Corrupted` for the first damage, naming the file and the offset; `Unsupported`, `Unavailable`.
pub(crate) fn verify_table(
    disk: &Arc<dyn Disk>,
    meta: &TableMeta,
    tell: impl FnMut(&Verified),
) -> Result<Verified> {
    // Each block is read once, so a small cache is enough.
    let table = meta.open(Arc::clone(disk), Cache::new(1 << 20))?;
    let verified = sstable::verify(&table, tell)?;
    if verified.versions != meta.contents.cells {
        return Err(Error::corrupted(format!(
            "{} holds {} versions where {} says {}",
            disk.path(&sstable::file_name(meta.number)),
            verified.versions,
            disk.path(manifest::FILE_NAME),
            meta.contents.cells
        )));
    }
    Ok(verified)
}

/// Reads a database's manifest.
///
/// # Errors
///
/// `Invalid` if there is none; `Corrupted`, `Unsupported` or `Unavailable` if it cannot be read.
pub fn load(disk: &dyn Disk) -> Result<Manifest> {
    Manifest::load(disk)?.ok_or_else(|| {
        Error::invalid(format!(
            "{} does not exist: this is not a database",
            disk.path(manifest::FILE_NAME)
        ))
    })
}

/// Describes a table's file.
///
/// # Errors
///
/// `Invalid` if the name is not that of a table; `Corrupted`, `Unsupported` or `Unavailable` if it
/// cannot be read.
pub fn table(disk: &Arc<dyn Disk>, name: &str) -> Result<Description> {
    let number = sstable::number_in(name)
        .ok_or_else(|| Error::invalid(format!("{name} is not the name of a table's file")))?;
    let file = disk.open(name).during("open", &**disk, name)?;
    let bytes = file.len().during("open", &**disk, name)?;
    sstable::describe(&Table::open(Arc::clone(disk), number, bytes, Cache::new(1 << 20))?)
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// LSN of the record.
    pub lsn: u64,
    /// Start timestamp of the transaction.
    pub start: Timestamp,
    /// Commit timestamp of the transaction.
    pub commit: Timestamp,
    /// Length of its body.
    pub bytes: usize,
    /// Number of cells that it writes.
    pub puts: usize,
    /// Number of cells that it deletes.
    pub deletes: usize,
    /// Number of ranges that it deletes.
    pub ranges: usize,
    /// Number of the adopted table with the writes of a large transaction, if any.
    pub adopted: Option<u64>,
}

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSegment {
    /// Number in its header.
    pub number: u64,
    /// LSN of its first byte.
    pub base: u64,
    /// LSN up to which the log was durable when the segment was started.
    pub durable: u64,
    /// Offset of the first bad record and the reason; `None` if the records end with the file or
    /// only zeros follow.
    pub stops: Option<(usize, &'static str)>,
}

/// Calls `visit` with every record of a segment's file.
///
/// # Errors
///
/// `Corrupted` if it is not a segment or a record cannot be decoded; `Unsupported`, `Unavailable`.
pub fn log(
    disk: &dyn Disk,
    name: &str,
    mut visit: impl FnMut(LogRecord) -> Result<()>,
) -> Result<LogSegment> {
    let (header, stops) = recovery::read_segment(disk, name, |record| {
        let adopted = Adoption::decode(&record.body)?.map(|adoption| adoption.number);
        let changes = match adopted {
            Some(_) => Changes::default(),
            None => Changes::decode(&record.body)?,
        };
        let (mut puts, mut deletes, mut ranges) = (0, 0, 0);
        for change in changes.of(&record.body) {
            match change {
                Change::Cell { payload: Some(_), .. } => puts += 1,
                Change::Cell { payload: None, .. } => deletes += 1,
                Change::Range { .. } => ranges += 1,
            }
        }
        let (lsn, bytes) = (record.lsn.0, record.body.len());
        visit(LogRecord {
            lsn,
            start: record.start,
            commit: record.commit,
            bytes,
            puts,
            deletes,
            ranges,
            adopted,
        })
    })?;
    Ok(LogSegment { number: header.number, base: header.base.0, durable: header.durable.0, stops })
}
