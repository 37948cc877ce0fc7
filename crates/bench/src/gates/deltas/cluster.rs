//! Updates over a cluster, without and with a read of their rows.
//!
//! One process inserts the rows, and another changes them, so that no row is in its cell cache. Rows are chosen at
//! random among many, or all clients of both processes change one row.

use carnet::{Db, Result};
use carnet_base::Rng;

use super::client::{Client, int, long};
use super::load::{Done, Load};
use super::{UPDATES, median};

/// Prints statements per second and the median latency of updates.
pub(super) fn run(url: &str, rows: u32, passes: usize, millis: u64) -> Result<()> {
    let (one, other) = (Client::on(Db::open(url)?), Client::on(Db::open(url)?));
    one.create_tables()?;
    one.insert_rows(rows)?;
    println!("updates of {rows} rows, statements/s and p50 in ms");
    for clients in [1, 16, 64] {
        let load = Load { clients, busy: 0, millis };
        let random = move |rng: &mut carnet_base::SeededRng| {
            let k = u32::try_from(rng.below(u64::from(rows))).expect("rows are u32");
            vec![int(1), int(k)]
        };
        let runs = UPDATES.map(|update| (update, vec![other.clone()]));
        print(&load, passes, &runs, random)?;
    }
    println!("one row, changed by clients of two processes");
    let load = Load { clients: 64, busy: 0, millis };
    let both = vec![one, other];
    let set = ["UPDATE ks.t SET c0 = ? WHERE k = 0", "UPDATE ks.t SET c0 = c0 + ? WHERE k = 0"];
    print(&load, passes, &set.map(|update| (update, both.clone())), |_| vec![int(1)])?;
    let add = [("UPDATE ks.n SET n = n + ? WHERE k = 0", both)];
    print(&load, passes, &add, |_| vec![long(1)])
}

/// Runs statements in turn, and prints the median of their passes.
fn print(
    load: &Load,
    passes: usize,
    runs: &[(&str, Vec<Client>)],
    values: impl Fn(&mut carnet_base::SeededRng) -> Vec<Vec<u8>> + Clone + Send + 'static,
) -> Result<()> {
    let mut figures = vec![(Vec::new(), Vec::new(), 0, None); runs.len()];
    for pass in 0..passes {
        for turn in 0..runs.len() {
            let at = (pass + turn) % runs.len();
            let (statement, processes) = &runs[at];
            let Done { latencies, failed, failure } =
                load.run(processes, statement, values.clone())?;
            let (rates, middles, failures, text) = &mut figures[at];
            rates.push(latencies.len() as f64 * 1e3 / load.millis as f64);
            middles.extend(latencies.get(latencies.len() / 2).map(|it| it.as_secs_f64() * 1e3));
            *failures += failed;
            *text = text.take().or(failure);
        }
    }
    for ((statement, _), (rates, middles, failures, text)) in runs.iter().zip(figures) {
        let (rate, middle) = (median(rates), median(middles));
        let clients = load.clients;
        println!(
            "  {clients:>3} clients  {statement:<42} {rate:>7.0} {middle:>7.2}  {failures} failed"
        );
        if let Some(text) = text {
            println!("      {text}");
        }
    }
    Ok(())
}
