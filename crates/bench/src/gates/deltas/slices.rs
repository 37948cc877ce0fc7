//! Slices of partitions whose rows have deltas.

use std::path::Path;

use carnet::Result;
use carnet_base::{Rng, SeededRng};

use super::super::processor_time;
use super::client::{Client, int};
use super::{CHAINS, print_row};

/// Number of rows of a partition, all of which a slice returns.
const SLICE_ROWS: u32 = 100;
/// Number of partitions of each length of chain.
const PARTITIONS: u32 = 100;
const SLICES: u32 = 1_000;

/// Prints the time of slices of 100 rows by the number of deltas of each row.
pub(super) fn run(dir: &Path, passes: usize) -> Result<()> {
    println!("slices of {SLICE_ROWS} rows, µs of processor       {CHAINS:>6?} deltas");
    let client = Client::open(dir)?;
    client.create_tables()?;
    let columns: Vec<String> = (0..10).map(|column| format!("c{column}")).collect();
    let markers = ["?"; 12].join(", ");
    let insert = format!("INSERT INTO ks.s (p, c, {}) VALUES ({markers})", columns.join(", "));
    let rows = PARTITIONS * SLICE_ROWS;
    let row = |number: u32| [int(number / SLICE_ROWS), int(number % SLICE_ROWS)];
    client.repeat(&insert, 0..5 * rows, |number| {
        row(number).into_iter().chain((0..10).map(|_| int(number))).collect()
    })?;
    client.db().flush()?;
    for (group, deltas) in (0..).zip(CHAINS) {
        for column in 0..deltas {
            let update = format!("UPDATE ks.s SET c{column} = ? WHERE p = ? AND c = ?");
            client.repeat(&update, group * rows..(group + 1) * rows, |number| {
                [int(number)].into_iter().chain(row(number)).collect()
            })?;
        }
    }
    time(&client, "in memtables", passes)?;
    client.db().flush()?;
    time(&client, "in tables, cached", passes)?;
    client.db().compact()?;
    time(&client, "compacted, cached", passes)
}

fn time(client: &Client, name: &str, passes: usize) -> Result<()> {
    let select = "SELECT * FROM ks.s WHERE p = ?";
    client.repeat(select, 0..5 * PARTITIONS, |p| vec![int(p)])?;
    let mut micros = CHAINS.map(|_| Vec::new());
    for pass in 0..passes {
        for turn in 0..CHAINS.len() {
            let group = (pass + turn) % CHAINS.len();
            let first = u32::try_from(group).expect("there are five groups") * PARTITIONS;
            let mut rng = SeededRng::new(pass as u64);
            let keys = (0..SLICES).map(|_| {
                first + u32::try_from(rng.below(u64::from(PARTITIONS))).expect("it is below u32")
            });
            let before = processor_time();
            client.repeat(select, keys, |p| vec![int(p)])?;
            let spent = processor_time().saturating_sub(before);
            micros[group].push(spent.as_secs_f64() * 1e6 / f64::from(SLICES));
        }
    }
    print_row(name, micros);
    Ok(())
}
