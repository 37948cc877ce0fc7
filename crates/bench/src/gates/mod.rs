//! Programs that measure one promise each, most of them of the engine without transactions above it.
//!
//! They say what they count and what they time. What is counted does not depend on the machine.

pub(crate) mod commit_table;
pub(crate) mod cost;
pub(crate) mod large;
pub(crate) mod order;
pub(crate) mod partition;
pub(crate) mod space;
pub(crate) mod sustained;
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

use crate::overload::{self, Multiget, Overload};

/// One promise each.
#[derive(Subcommand)]
pub(crate) enum Gate {
    /// Counts reads of a wide partition, and times its pages in both directions.
    Partition(partition::Partition),
    /// Measures what entries of a commit table take on disk and in memory, under two layouts.
    CommitTable(commit_table::CommitTable),
    /// Writes for a while, with compaction, several times the memory budget.
    Sustained(sustained::Sustained),
    /// Counts what overwriting leaves on disk once it is swept.
    Space(space::Space),
    /// Compares unordered with ordered writes.
    Order(order::Order),
    /// Times begin, read and commit of a small transaction, by isolation level.
    TransactionCost(cost::Cost),
    /// Commits one large transaction, and says what it takes.
    Large(large::Large),
    /// Transfers between accounts on a cluster, beside other databases.
    Transfers(transfers::Transfers),
    /// Offers a server multiples of what it can do, with its gate and without.
    Overload(Overload),
    /// The server of `overload`, which starts it.
    #[command(hide = true)]
    OverloadServer {
        /// Admits statements through a gate.
        #[arg(long)]
        gate: bool,
        /// Statements of a class that run at a time.
        #[arg(long)]
        running: Option<usize>,
    },
    /// Multi-gets of few and of many keys, by few and by many clients.
    Multiget(Multiget),
}

impl Gate {
    pub(crate) fn run(&self, dir: Option<&Path>) -> Result<()> {
        let dir = directory(dir)?;
        match self {
            Self::Partition(partition) => partition.run(dir.path()),
            Self::CommitTable(commit_table) => commit_table.run(dir.path()),
            Self::Sustained(sustained) => sustained.run(dir.path()),
            Self::Space(space) => space.run(dir.path()),
            Self::Order(order) => order.run(dir.path()),
            Self::TransactionCost(cost) => cost.run(dir.path()),
            Self::Large(large) => large.run(dir.path()),
            Self::Transfers(transfers) => transfers.run(),
            Self::Overload(overload) => overload.run(),
            Self::OverloadServer { gate, running } => overload::serve(*gate, *running),
            Self::Multiget(multiget) => multiget.run(),
        }
    }
}

/// Where the commits are recorded.
const COMMITS: TableId = TableId(0);
/// The table that is measured.
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

/// A commit recorded in sixteen bytes.
fn plain_entries() -> EntryCell {
    Arc::new(|start, commit| {
        let partition = PartitionKey::new(start.get().to_be_bytes().to_vec());
        let value = Bytes::copy_from_slice(&commit.get().to_be_bytes());
        Ok((CellKey::new(COMMITS, &partition, ""), value))
    })
}

/// A commit recorded as an embedded database does by default.
fn entries() -> EntryCell {
    Arc::new(|start, commit| {
        let encoding = Encoding::V2;
        let cell = encoding.cell(start);
        let value = encoding.encode(start, CommitEntry::Committed(commit))?;
        Ok((CellKey::new(COMMITS, &PartitionKey::new(cell.row), cell.column), value))
    })
}

/// Appends one record, waiting where the engine holds writers back. `decide` runs under the
/// engine's lock and returns the commit.
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

/// Bytes that do not compress.
fn noise(rng: &mut SeededRng, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(len).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What the process has used so far, by itself and in the kernel.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
