//! Runs seeds, and hunts mutants. See the library's documentation.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use carnet_base::{Clock, SystemClock};
use carnet_sim::{Mutant, Order, Run, Scenario, Workload};
use clap::{Parser, Subcommand};

/// Runs Carnet in a deterministic simulator.
#[derive(Parser)]
#[command(name = "carnet-sim")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run seeds until one shows a violation; then exit with an error and the command that replays
    /// it
    Run {
        /// Number of seeds
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// Seed of the first run
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Simulated scenario [default: all scenarios, one after the other]
        #[arg(long)]
        scenario: Option<Scenario>,
        /// Only kind of transaction [default: all kinds, mixed]
        #[arg(long)]
        workload: Option<Workload>,
        /// Rule to break
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Mutant whose settings are used without breaking its rule
        #[arg(long, conflicts_with = "mutant")]
        suits: Option<Mutant>,
        /// Number of seeds that run concurrently, each on its own thread [default: number of
        /// processors]
        #[arg(long)]
        jobs: Option<usize>,
        /// Print a line for each seed
        #[arg(long, short)]
        verbose: bool,
    },
    /// Break one rule after the other; exit with an error if one is not found
    Mutants {
        /// Maximum number of seeds for each mutant
        #[arg(long, default_value_t = 500)]
        seeds: u64,
        /// Number of mutants hunted concurrently [default: number of processors]
        #[arg(long)]
        jobs: Option<usize>,
    },
}

fn main() -> Result<ExitCode> {
    let is_fine = match Arguments::parse().command {
        Command::Run { seeds, from, scenario, workload, mutant, suits, jobs, verbose } => {
            let scenarios = scenario.map_or(Scenario::ALL.to_vec(), |scenario| vec![scenario]);
            scenarios.into_iter().all(|scenario| {
                let order = |seed| Order { seed, scenario, workload, mutant, suits };
                run(from..from.saturating_add(seeds), &order, jobs, verbose)
            })
        }
        Command::Mutants { seeds, jobs } => mutants(seeds, jobs),
    };
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn threads(jobs: Option<usize>) -> usize {
    let machine = || thread::available_parallelism().map_or(1, NonZero::get);
    jobs.unwrap_or_else(machine).max(1)
}

/// Sums over all seeds of a command.
#[derive(Default)]
struct Total {
    seeds: u64,
    transactions: usize,
    committed: usize,
    faults: usize,
    events: u64,
    violation: Option<(u64, Run)>,
}

fn run(
    seeds: std::ops::Range<u64>,
    order: &(impl Fn(u64) -> Order + Sync),
    jobs: Option<usize>,
    verbose: bool,
) -> bool {
    let begun = SystemClock.now();
    let (next, total) = (AtomicU64::new(seeds.start), Mutex::new(Total::default()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads(jobs) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let run = order(seed).run();
                    if verbose {
                        tell(seed, &run);
                    }
                    let mut total = total.lock().expect("no thread panics while it holds the lock");
                    total.seeds += 1;
                    total.transactions += run.transactions;
                    total.committed += run.committed;
                    total.faults += run.faults;
                    total.events += run.events;
                    if run.verdict.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                        // Keep the smallest of the seeds that ran concurrently.
                        if total.violation.as_ref().is_none_or(|(other, _)| seed < *other) {
                            total.violation = Some((seed, run));
                        }
                    }
                }
            });
        }
    });
    let total = total.into_inner().expect("no run panicked");
    let seconds = SystemClock.now().since(begun).as_secs_f64();
    println!(
        "{}: {} seeds, {} transactions ({} committed), {} faults, {} events in {seconds:.1} s",
        order(0).scenario.name(),
        total.seeds,
        total.transactions,
        total.committed,
        total.faults,
        total.events
    );
    let Some((seed, run)) = total.violation else { return true };
    println!("\nseed {seed}: {}", run.verdict.err().unwrap_or_default());
    println!("\nsettings: {}", run.setup);
    let Order { scenario, workload, mutant, suits, .. } = order(seed);
    let scenario = scenario.name();
    let workload = workload.map(|workload| format!(" --workload {}", workload.name()));
    let mutant = mutant.map(|mutant| format!(" --mutant {}", mutant.name()));
    let suits = suits.map(|mutant| format!(" --suits {}", mutant.name()));
    println!(
        "\nreplay: cargo run --release -p carnet-sim -- run --seeds 1 --from {seed} \
         --scenario {scenario}{}{}{}",
        workload.unwrap_or_default(),
        mutant.unwrap_or_default(),
        suits.unwrap_or_default()
    );
    false
}

fn tell(seed: u64, run: &Run) {
    let Run { transactions, committed, faults, trace, events, virtual_time, .. } = run;
    let virtual_ms = virtual_time.as_millis();
    println!(
        "seed {seed}: {transactions} transactions ({committed} committed), {faults} faults, \
         {events} events, {virtual_ms} ms, trace {trace:016x}: {}",
        run.verdict.as_ref().err().map_or("fine", |wrong| wrong.lines().next().unwrap_or_default())
    );
}

/// A found mutant.
struct Caught {
    seeds: u64,
    by: String,
}

fn mutants(seeds: u64, jobs: Option<usize>) -> bool {
    let hunts: Vec<(Mutant, Scenario)> = Mutant::ALL
        .into_iter()
        .flat_map(|(mutant, scenarios)| scenarios.iter().map(move |scenario| (mutant, *scenario)))
        .collect();
    let (next, caught) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads(jobs) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let number = usize::try_from(number).unwrap_or(usize::MAX);
                    let Some(&(mutant, scenario)) = hunts.get(number) else { break };
                    let found = hunt(mutant, scenario, seeds);
                    caught
                        .lock()
                        .expect("no thread panics while it holds the lock")
                        .push((number, found));
                }
            });
        }
    });
    let mut caught = caught.into_inner().expect("no run panicked");
    caught.sort_by_key(|(number, _)| *number);
    println!("| mutant | scenario | seeds | found by |\n| --- | --- | --- | --- |");
    for (number, found) in &caught {
        let (mutant, scenario) = hunts[*number];
        let (mutant, scenario) = (mutant.name(), scenario.name());
        match found {
            Some(Caught { seeds, by }) => println!("| {mutant} | {scenario} | {seeds} | {by} |"),
            None => println!("| {mutant} | {scenario} | ESCAPED {seeds} | |"),
        }
    }
    caught.iter().all(|(_, found)| found.is_some())
}

fn hunt(mutant: Mutant, scenario: Scenario, seeds: u64) -> Option<Caught> {
    (0..seeds).find_map(|seed| {
        let order = Order::new(scenario, seed);
        let run = Order { mutant: Some(mutant), workload: mutant.workload(), ..order }.run();
        let wrong = run.verdict.err()?;
        let by = wrong.lines().next().unwrap_or_default().to_owned();
        Some(Caught { seeds: seed + 1, by })
    })
}

#[cfg(test)]
#[path = "../../bench/src/page_commands.rs"]
mod page_commands;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_all_pages_are_known() {
        page_commands::are_known::<Arguments>("carnet-sim", 8);
    }
}
