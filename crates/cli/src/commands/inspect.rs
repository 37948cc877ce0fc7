//! `carnet inspect`: shows the contents of one file of a database, or its commit table.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{inspect, sstable};
use clap::{Args, Subcommand};

use super::inspect_commits::Commits;

/// What to inspect.
#[derive(Args)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A segment of the log: its records, one per line.
    Wal {
        /// The file, `wal-<n>.log`.
        file: PathBuf,
    },
    /// A table: its sections, index pages and statistics.
    Sst {
        /// The file, `sst-<n>.sst`.
        file: PathBuf,
    },
    /// The manifest: the tables of a database by level.
    Manifest {
        /// The file, `MANIFEST`.
        file: PathBuf,
    },
    Commits(Commits),
}

impl Inspect {
    /// Prints the file's contents.
    pub(crate) fn run(self) -> Result<()> {
        let out = &mut io::stdout().lock();
        match self.what {
            What::Wal { file } => wal(out, &file),
            What::Sst { file } => sst(out, &file),
            What::Manifest { file } => manifest(out, &file),
            What::Commits(commits) => commits.print(out),
        }
    }
}

/// Opens the directory that contains a file.
fn open(file: &Path) -> Result<(Arc<dyn Disk>, String)> {
    if !file.is_file() {
        bail!("{} is not a file", file.display());
    }
    let name = file.file_name().and_then(|name| name.to_str()).context("the name is not UTF-8")?;
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((Arc::new(RealDisk::open(directory)?), name.to_owned()))
}

fn wal(out: &mut impl Write, file: &Path) -> Result<()> {
    let (disk, name) = open(file)?;
    writeln!(out, "lsn\tstart\tcommit\tbytes\tputs\tdeletes\tranges\tadopts")?;
    let mut failed = None;
    let segment = inspect::log(&*disk, &name, |record| {
        let inspect::LogRecord { lsn, start, commit, bytes, puts, deletes, ranges, adopted } =
            record;
        let adopts = adopted.map(sstable::file_name).unwrap_or_default();
        let line = writeln!(
            out,
            "{lsn}\t{start}\t{commit}\t{bytes}\t{puts}\t{deletes}\t{ranges}\t{adopts}"
        );
        if let (None, Err(error)) = (&failed, line) {
            failed = Some(error);
        }
        Ok(())
    })?;
    failed.map_or(Ok(()), Err)?;
    let inspect::LogSegment { number, base, durable, stops } = segment;
    writeln!(out, "segment {number}, base {base}, durable through {durable} when it was begun")?;
    if let Some((offset, why)) = stops {
        writeln!(out, "its records end at byte {offset}: {why}")?;
    }
    Ok(())
}

fn sst(out: &mut impl Write, file: &Path) -> Result<()> {
    let (disk, name) = open(file)?;
    let table = inspect::table(&disk, &name)?;
    let statistics = &table.statistics;
    writeln!(out, "table {}, format {}, {} bytes", table.number, table.version, table.bytes)?;
    writeln!(
        out,
        "versions {}, tombstones {}, range tombstones {}, partitions {}",
        statistics.versions,
        statistics.tombstones,
        statistics.range_tombstones,
        statistics.partitions
    )?;
    writeln!(out, "commits {} to {}", statistics.commit_min, statistics.commit_max)?;
    writeln!(
        out,
        "blocks {} ({} bytes of {} before compression), index {} bytes, filters {} bytes of it, \
         top index {} bytes, {} bytes of memory while open",
        table.blocks,
        table.data_bytes,
        statistics.raw_bytes,
        table.index_bytes,
        table.filter_bytes,
        table.top_bytes,
        table.memory_bytes
    )?;
    writeln!(out, "index page at\tbytes\tblocks\tfilter bytes")?;
    for page in &table.pages {
        let filter = page.filter.map_or(0, |(_, bytes)| bytes);
        let (at, len, blocks) = (page.place.offset, page.place.len, page.blocks.len());
        writeln!(out, "{at}\t{len}\t{blocks}\t{filter}")?;
    }
    Ok(())
}

fn manifest(out: &mut impl Write, file: &Path) -> Result<()> {
    let (disk, name) = open(file)?;
    if name != "MANIFEST" {
        bail!("{name} is not a manifest: its file name must be MANIFEST");
    }
    let manifest = inspect::load(&*disk)?;
    writeln!(
        out,
        "database {}, incarnation {}, timestamps below {}, garbage-collected below {}, next file {}, log from segment {} at {}",
        manifest.identity,
        manifest.line.current,
        manifest.bound,
        manifest.swept,
        manifest.next_file,
        manifest.first_segment,
        manifest.first_lsn
    )?;
    if manifest.unlogged {
        writeln!(out, "no log: what was not flushed is lost in a crash")?;
    }
    writeln!(out, "level\ttable\tbytes\tversions\ttombstones\tcommits")?;
    for table in manifest.levels.iter() {
        let contents = &table.contents;
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{} to {}",
            table.level,
            table.number,
            table.bytes,
            contents.cells,
            contents.tombstones,
            contents.commit_min,
            contents.commit_max
        )?;
    }
    Ok(())
}
