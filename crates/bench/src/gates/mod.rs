//! Programs that each measure one property, most of them of the storage engine alone.
//!
//! Their output distinguishes counts, which do not depend on the machine, from times.

pub(crate) mod commit_table;
pub(crate) mod cost;
pub(crate) mod deltas;
pub(crate) mod disk;
mod files;
pub(crate) mod interference;
pub(crate) mod large;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod merge;
pub(crate) mod order;
pub(crate) mod partition;
pub(crate) mod space;
pub(crate) mod sustained;
pub(crate) mod tables;
pub(crate) mod transfers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use carnet_base::commit_encoding::CommitEntry;
use carnet_base::{
    Bytes, CellKey, Encoding, Error, ErrorKind, PartitionKey, Result, Rng, SeededRng, SystemClock,
    TableId, ThreadSpawn, Timestamp, block_on,
};
use carnet_storage::disk::RealDisk;
use carnet_storage::{AppendError, Engine, EntryCell, Mutation, Options};
use clap::Subcommand;
use rustix::time::{ClockId, clock_gettime};

use crate::check::Check;
use crate::diagnose::Diagnose;
use crate::harm::Harm;
use crate::logins::Logins;
use crate::overload::{self, Multiget, Overload};
use crate::server::{self, Acknowledgement, ServerCost};

/// Programs that each measure one property.
#[derive(Subcommand)]
pub(crate) enum Gate {
    /// Measure the figures of the documents again, and compare them.
    Check(Check),
    /// Count reads of a wide partition, and time its pages in both directions.
    Partition(partition::Partition),
    /// Measure the size of commit-table entries on disk and in memory, under two layouts.
    CommitTable(commit_table::CommitTable),
    /// Write several times the memory budget for a while, with compaction.
    Sustained(sustained::Sustained),
    /// Count the bytes that overwriting leaves on disk after garbage collection.
    Space(space::Space),
    /// Compare unordered with ordered writes.
    Order(order::Order),
    /// Time begin, read and commit of a small transaction, by isolation level.
    TransactionCost(cost::Cost),
    /// Commit one large transaction, and measure its memory and time.
    Large(large::Large),
    /// Run transfers between accounts on a cluster, beside other databases.
    Transfers(transfers::Transfers),
    /// Load a server with multiples of its capacity, with and without admission gate.
    Overload(Overload),
    /// Check what SHOW BOTTLENECK says beside deliberate loads.
    Diagnose(Diagnose),
    Logins(Logins),
    /// Measure memory and point reads beside heavy clients.
    Harm(Harm),
    /// Server process of `overload`.
    #[command(hide = true)]
    OverloadServer {
        /// Admit statements through a gate.
        #[arg(long)]
        gate: bool,
        /// Maximum number of running statements per class.
        #[arg(long)]
        running: Option<usize>,
    },
    /// Measure the processor time of a server per operation, over the native protocol.
    Server(ServerCost),
    /// Server process of `server`.
    #[command(hide = true)]
    ServerProcess {
        /// Durability of the server's database.
        #[arg(long, value_enum)]
        durability: Acknowledgement,
    },
    /// Measure multi-gets of few and many keys, by few and many clients.
    Multiget(Multiget),
    /// Measure chains of deltas, updates without a read, and a hot row.
    Deltas(deltas::Deltas),
    /// Measure file access.
    Disk(disk::DiskAccess),
    /// Measure point reads from the device during a continuous compaction.
    Interference(interference::Interference),
    /// Measure syncs of the log with different kinds of files.
    Log(log::Log),
    /// Time edits of the manifest.
    Manifest(manifest::ManifestEdits),
    /// Time compaction's merge in memory, in nanoseconds per input entry (best of five).
    Merge,
    /// Measure the builder, reads and scans of one table.
    Tables(tables::Tables),
}

impl Gate {
    pub(crate) fn run(&self, dir: Option<&Path>) -> Result<()> {
        let dir = directory(dir)?;
        match self {
            Self::Check(check) => check.run(),
            Self::Partition(partition) => partition.run(dir.path()),
            Self::CommitTable(commit_table) => commit_table.run(dir.path()),
            Self::Sustained(sustained) => sustained.run(dir.path()),
            Self::Space(space) => space.run(dir.path()),
            Self::Order(order) => order.run(dir.path()),
            Self::TransactionCost(cost) => cost.run(dir.path()),
            Self::Large(large) => large.run(dir.path()),
            Self::Transfers(transfers) => transfers.run(),
            Self::Overload(overload) => overload.run(),
            Self::Diagnose(diagnose) => diagnose.run(),
            Self::Logins(logins) => logins.run(),
            Self::Harm(harm) => harm.run(),
            Self::OverloadServer { gate, running } => overload::serve(*gate, *running),
            Self::Server(server) => server.run(),
            Self::ServerProcess { durability } => server::serve(*durability, dir.path()),
            Self::Multiget(multiget) => multiget.run(),
            Self::Deltas(deltas) => deltas.run(dir.path()),
            Self::Disk(disk) => disk.run(dir.path()),
            Self::Interference(interference) => interference.run(dir.path()),
            Self::Log(log) => log.run(dir.path()),
            Self::Manifest(manifest) => manifest.run(dir.path()),
            Self::Merge => merge::run(),
            Self::Tables(tables) => tables.run(dir.path()),
        }
    }
}

/// Table of the commit entries.
const COMMITS: TableId = TableId(0);
/// The measured table.
const TABLE: TableId = TableId(1);

fn directory(parent: Option<&Path>) -> Result<tempfile::TempDir> {
    parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in).map_err(|error| {
        Error::unavailable("cannot make a directory for the database").with_source(error)
    })
}

fn open(dir: PathBuf, options: Options, entry_cell: EntryCell) -> Result<Engine> {
    let disk = Arc::new(RealDisk::open(dir)?);
    Engine::open(disk, Arc::new(SystemClock), &ThreadSpawn, options, entry_cell)
}

/// Encoding of a commit entry in sixteen bytes.
fn plain_entries() -> EntryCell {
    Arc::new(|start, commit| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = Bytes::copy_from_slice(&commit.get().to_be_bytes());
        Ok((CellKey::new(COMMITS, &partition, ""), value))
    })
}

/// Default encoding of commit entries in an embedded database.
fn entries() -> EntryCell {
    Arc::new(|start, commit| {
        let encoding = Encoding::V2;
        let cell = encoding.cell(start);
        let value = encoding.encode(start, CommitEntry::Committed(commit))?;
        Ok((CellKey::new(COMMITS, &PartitionKey::new(cell.row), cell.column), value))
    })
}

/// Appends one record, waiting while the engine throttles writes. `decide` runs under the engine's
/// lock and returns the commit.
fn append<'a>(
    engine: &Engine,
    start: Timestamp,
    puts: &(impl Iterator<Item = Mutation<'a>> + Clone),
    decide: impl Fn() -> Timestamp,
) -> Result<()> {
    loop {
        let prepared = engine.prepare(start, puts.clone())?;
        let bytes = prepared.bytes();
        match engine.append(prepared, || Ok::<_, Error>(decide())) {
            Ok(appended) => {
                block_on(appended)?;
                return block_on(engine.ready(bytes));
            }
            Err(AppendError::Engine(error))
                if matches!(error.kind(), ErrorKind::Overloaded { .. }) =>
            {
                block_on(engine.ready(bytes))?;
            }
            Err(AppendError::Engine(error) | AppendError::Refused(error)) => return Err(error),
        }
    }
}

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).expect("no measurement counts to 2^63")
}

/// Returns bytes that do not compress.
fn noise(rng: &mut SeededRng, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(len).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the processor time of the process, in user and kernel mode.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
