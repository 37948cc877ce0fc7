//! Named workloads with fixed seeds: `cargo run --release -p carnet-bench -- --help`.
//!
//! Each figure is the median of several passes. Each pass runs on a new database, and the settings
//! alternate within a pass, so that a disturbance of the machine affects all of them alike.

mod check;
mod diagnose;
mod gates;
mod harm;
mod logins;
mod overload;
#[cfg(test)]
mod page_commands;
#[cfg(test)]
mod pages;
mod processors;
mod program;
mod server;
mod wire;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use carnet::Durability;
use clap::{Parser, ValueEnum};

use crate::gates::Gate;
use crate::workload::{Figures, Setting, Shape};

/// Measures transactions and reads of the embedded store.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// A program that measures one property of the engine.
    #[command(subcommand)]
    gate: Option<Gate>,
    /// The workloads to run, in this order; all of them by default.
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 8, 32])]
    threads: Vec<usize>,
    /// Durability settings to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Acknowledge::Always, Acknowledge::None])]
    durability: Vec<Acknowledge>,
    /// Duration of each setting in each pass, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    millis: u64,
    /// Number of passes; the median is printed.
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Directory for the databases; a temporary directory by default.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
}

/// Workloads of the embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Transactions of 8 blind puts of new keys, one partition per key.
    Put8Hashed,
    /// Transactions of 8 blind puts of new keys in one ordered table.
    Put8Raw,
    /// Reads of one row by its key, one partition per key.
    GetHashed,
    /// Reads of one key of an ordered table.
    GetRaw,
}

/// Durability of an acknowledged commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acknowledge {
    /// Sync the log before every acknowledgement.
    Always,
    /// No sync of the log.
    None,
    /// Without a log.
    Memory,
}

/// The allocator of the program `carnet`.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> carnet::Result<()> {
    let arguments = Arguments::parse();
    if let Some(gate) = &arguments.gate {
        return gate.run(arguments.dir.as_deref());
    }
    let workloads = if arguments.workloads.is_empty() {
        Workload::value_variants().to_vec()
    } else {
        arguments.workloads.clone()
    };
    println!(
        "{:<12} {:<7} {:>7} {:>12} {:>12} {:>9} {:>9}",
        "workload", "fsync", "threads", "tx/s", "keys/s", "p50 µs", "p99 µs"
    );
    for workload in workloads {
        for durability in settings_of(workload, &arguments.durability) {
            for (threads, figures) in run(&arguments, workload, durability)? {
                println!(
                    "{:<12} {:<7} {:>7} {:>12.0} {:>12.0} {:>9.1} {:>9.1}",
                    format!("{workload:?}"),
                    format!("{durability:?}"),
                    threads,
                    figures.transactions_per_second,
                    figures.keys_per_second,
                    figures.p50.as_secs_f64() * 1e6,
                    figures.p99.as_secs_f64() * 1e6,
                );
            }
        }
    }
    Ok(())
}

/// Returns the durability settings of a workload: reads need only one.
fn settings_of(workload: Workload, durability: &[Acknowledge]) -> Vec<Acknowledge> {
    match workload {
        Workload::GetHashed | Workload::GetRaw => vec![Acknowledge::None],
        Workload::Put8Hashed | Workload::Put8Raw => durability.to_vec(),
    }
}

fn run(
    arguments: &Arguments,
    workload: Workload,
    durability: Acknowledge,
) -> carnet::Result<Vec<(usize, Figures)>> {
    let mut passes: Vec<Vec<Figures>> = vec![Vec::new(); arguments.threads.len()];
    for pass in 0..arguments.passes.max(1) {
        for (figures, threads) in passes.iter_mut().zip(&arguments.threads) {
            let setting = Setting {
                shape: match workload {
                    Workload::Put8Hashed | Workload::GetHashed => Shape::Hashed,
                    Workload::Put8Raw | Workload::GetRaw => Shape::Raw,
                },
                durability: match durability {
                    Acknowledge::Always => Durability::Always,
                    Acknowledge::None => Durability::None,
                    Acknowledge::Memory => Durability::Memory,
                },
                threads: *threads,
                time: Duration::from_millis(arguments.millis),
                seed: u64::try_from(pass).unwrap_or(0),
                dir: arguments.dir.clone(),
            };
            figures.push(match workload {
                Workload::Put8Hashed | Workload::Put8Raw => workload::puts(&setting)?,
                Workload::GetHashed | Workload::GetRaw => workload::gets(&setting)?,
            });
        }
    }
    let medians = passes.into_iter().map(workload::median);
    Ok(arguments.threads.iter().copied().zip(medians).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of this program in `docs/documents.md` are parsed by its own parser.
    #[test]
    fn commands_of_the_documents_page_are_known() {
        let page = include_str!("../../../docs/documents.md");
        let commands: Vec<&str> = page
            .split('`')
            .filter_map(|text| text.strip_prefix("cargo run --release -p carnet-bench -- "))
            .collect();
        assert!(commands.len() >= 6, "{commands:?}");
        for command in commands {
            let words = std::iter::once("carnet-bench").chain(command.split_whitespace());
            if let Err(error) = Arguments::try_parse_from(words) {
                panic!("{command}: {error}");
            }
        }
    }
}
