//! Options of the load workloads.

use std::path::PathBuf;

use clap::Args;

/// Options of read, write, mixed, scan and multi-get.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load (read, write, mixed, scan, multi-get)")]
pub(crate) struct LoadOptions {
    /// Rows of a multi-get, or of a scan.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(in crate::commands::stress) group: u16,
    /// Number of rows in the table, which is filled before the run.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(in crate::commands::stress) rows: u64,
    /// Bytes of each value.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(in crate::commands::stress) value_bytes: u32,
    /// Percentage of writes in mixed.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(in crate::commands::stress) writes: u8,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(in crate::commands::stress) json: bool,
    /// Write the latencies to this file, as a table of percentiles that HdrHistogram's plotter reads.
    #[arg(long, value_name = "FILE")]
    pub(in crate::commands::stress) hdr: Option<PathBuf>,
}
