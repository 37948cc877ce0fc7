//! `carnet maelstrom`: a node for the Maelstrom workbench, over standard input and output.

use std::io;
use std::time::Duration;

use anyhow::Result;
use carnet_maelstrom::{Options, Shape, run};
use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};

/// Run a node for Maelstrom: transactions over lww-kv, ordered by one root in lin-kv.
///
/// It serves the workloads txn-list-append, txn-rw-register, lin-kv, g-set and echo. Without
/// options it is strictly serializable and sends the fewest messages. Each option switches one
/// optimization off, so that its effect can be measured.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Maelstrom {
    /// Cache no nodes of the tree.
    #[arg(long)]
    no_cache: bool,
    /// Read the root before each batch.
    #[arg(long)]
    no_root_cache: bool,
    /// Do not notify the other nodes when the root moved.
    #[arg(long)]
    no_hints: bool,
    /// Maximum number of transactions per move of the root.
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = at_least_one)]
    batch: usize,
    /// Interval between batches in milliseconds; 0 begins a batch when the last one has ended.
    #[arg(long, value_name = "MILLIS", default_value_t = 10, value_parser = millis())]
    batch_delay: u64,
    /// Answer read-only transactions from the cache: serializable, but possibly stale.
    #[arg(long)]
    no_verify_reads: bool,
    /// Abort a transaction when another one moved the root first.
    #[arg(long)]
    no_retry: bool,
    /// Maximum wait after a lost move in milliseconds; it doubles with each further loss.
    #[arg(long, value_name = "MILLIS", default_value_t = 5, value_parser = millis())]
    backoff: u64,
    /// Read nodes one after the other instead of concurrently.
    #[arg(long)]
    sequential_reads: bool,
    /// Write nodes one after the other instead of concurrently.
    #[arg(long)]
    sequential_writes: bool,
    /// Layout of the keys.
    #[arg(long, value_enum, default_value = "buffered")]
    layout: Layout,
    /// The service that stores the tree's nodes.
    #[arg(long, value_name = "SERVICE", default_value = "lww-kv")]
    nodes_in: String,
    /// Repeat a request to a service after this many milliseconds without an answer; the time
    /// adapts to slower services. A late answer counts.
    #[arg(long, value_name = "MILLIS", default_value_t = 1000, value_parser = millis())]
    service_timeout: u64,
    /// Abort a transaction when the services have not answered for this many milliseconds.
    #[arg(long, value_name = "MILLIS", default_value_t = 4000, value_parser = millis())]
    retry_timeout: u64,
    /// WRONG ON PURPOSE: treat a node that is not there yet as empty.
    #[arg(long)]
    ignore_missing: bool,
}

const EXAMPLES: &str = "\
Example, with Maelstrom's own program:
  maelstrom test -w txn-list-append --bin $PWD/target/release/carnet --node-count 2 \\
    --concurrency 10n --rate 100 --time-limit 10 -- maelstrom";

/// Maximum wait in milliseconds: one day.
const MILLIS_MAX: u64 = 86_400_000;

fn millis() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=MILLIS_MAX)
}

/// Layout of the keys.
#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// A hash tree, with the newest writes in the root itself.
    Buffered,
    /// A hash tree.
    Tree,
    /// One map, with each value in a node of its own.
    Flat,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected 1 or more".to_owned())
}

impl Maelstrom {
    pub(crate) fn run(self) -> Result<()> {
        // The protocol uses standard output.
        tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_ansi(false)
            .with_target(false)
            .init();
        Ok(run(io::stdin(), io::stdout(), self.options())?)
    }

    fn options(self) -> Options {
        let mut options = Options { nodes_in: self.nodes_in, ..Options::default() };
        if self.no_hints {
            options.hint_peers_max = 0;
        }
        let tree = &mut options.tree;
        tree.batch_transactions_max = self.batch;
        tree.batch_interval = Duration::from_millis(self.batch_delay);
        tree.backoff = Duration::from_millis(self.backoff);
        tree.retry_timeout = Duration::from_millis(self.retry_timeout);
        tree.answer_timeout = Some(Duration::from_millis(self.service_timeout));
        tree.cache_root = !self.no_root_cache;
        tree.verify_reads = !self.no_verify_reads;
        tree.ignore_missing = self.ignore_missing;
        if self.no_cache {
            tree.cache_bytes = 0;
        }
        if self.no_retry {
            tree.attempts_max = 1;
        }
        if self.sequential_reads {
            tree.reads_in_flight = 1;
        }
        if self.sequential_writes {
            tree.writes_in_flight = 1;
        }
        match self.layout {
            Layout::Buffered => {}
            Layout::Tree => tree.shape = Shape::bare(),
            Layout::Flat => tree.shape = Shape::flat(),
        }
        options
    }
}
