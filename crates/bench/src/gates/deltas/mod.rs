//! Versions that hold a part of a row: reads and slices of chains of deltas, updates with and
//! without a read of the row, a row that many clients change at the same time, and the cost for
//! tables that have no deltas.
//!
//! Statements run in the process, prepared, through the executor that also serves CQL drivers. *Cold*
//! operations begin with an empty cache, and the operating system's page cache is emptied as well.

mod client;
mod cluster;
mod load;
mod slices;
mod unused;

use std::path::Path;

use carnet::{Result, block_on};
use carnet_base::{Clock, Rng, SeededRng, SystemClock};
use clap::Args;

use self::client::{Client, failed, int, long};
use self::load::{Done, Load};
use super::files::Files;
use super::{median, processor_time};

/// Numbers of deltas above an image.
const CHAINS: [u32; 5] = [0, 1, 2, 4, 8];
/// Number of operations between two readings of the clocks.
const STRETCH: u32 = 1_000;

/// Measure chains of deltas, updates without a read, and a hot row.
#[derive(Args)]
pub(crate) struct Deltas {
    /// Number of rows of each length of chain, and of the updated table.
    #[arg(long, default_value_t = 20_000)]
    rows: u32,
    /// Number of passes; medians are printed.
    #[arg(long, default_value_t = 5)]
    passes: usize,
    /// Number of clients of the hot row.
    #[arg(long, default_value_t = 400)]
    clients: usize,
    /// Number of busy threads beside the clients of the hot row.
    #[arg(long, default_value_t = 10)]
    busy: usize,
    /// Duration of each measurement of the hot row, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    millis: u64,
    /// Only count the disk reads of updates of a cold table with this number of rows.
    #[arg(long)]
    count: Option<u32>,
    /// Only measure updates over a cluster. URL of the database, with a new keyspace:
    /// cassandra://HOST:PORT/KEYSPACE.
    #[arg(long)]
    cluster: Option<String>,
}

impl Deltas {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        if let Some(url) = &self.cluster {
            return cluster::run(url, self.rows, self.passes, self.millis);
        }
        if let Some(rows) = self.count {
            return count_reads(&dir.join("count"), rows);
        }
        unused::run(&dir.join("unused"), self.passes)?;
        slices::run(&dir.join("slices"), self.passes)?;
        self.time_reads(&dir.join("reads"))?;
        self.time_updates(&dir.join("updates"))?;
        self.time_hot_row()
    }

    /// Prints the time of point reads by the number of deltas above the row's image.
    fn time_reads(&self, dir: &Path) -> Result<()> {
        println!("point reads, µs of processor (cold: µs)   {CHAINS:>6?} deltas");
        let client = Client::open(dir)?;
        client.create_tables()?;
        client.insert_rows(self.rows * 5)?;
        client.db().flush()?;
        self.write_chains(&client)?;
        self.print_reads("in memtables", &client)?;
        client.db().flush()?;
        self.print_reads("in tables, cached", &client)?;
        drop(client);
        let mut micros = CHAINS.map(|_| Vec::new());
        for pass in 0..self.passes {
            let files = Files::open(dir)?;
            let client = Client::open(dir)?;
            for turn in 0..CHAINS.len() {
                let group = (pass + turn) % CHAINS.len();
                files.leave_memory()?;
                let began = SystemClock.now();
                let mut rng = SeededRng::new(pass as u64);
                let keys = (0..200).map(|_| self.key(group, &mut rng));
                client.repeat("SELECT * FROM ks.t WHERE k = ?", keys, |k| vec![int(k)])?;
                let took = SystemClock.now().since(began);
                micros[group].push(took.as_secs_f64() * 1e6 / 200.0);
            }
        }
        print_row("in tables, cold", micros);
        let client = Client::open(dir)?;
        for _ in 0..2 {
            self.write_chains(&client)?;
            client.db().flush()?;
        }
        self.print_reads("thrice as many, in 3 tables", &client)?;
        client.db().compact()?;
        self.print_reads("compacted, cached", &client)
    }

    /// Writes deltas of each row, as many as its group's chain has.
    fn write_chains(&self, client: &Client) -> Result<()> {
        for (group, deltas) in (0..).zip(CHAINS) {
            for column in 0..deltas {
                let update = format!("UPDATE ks.t SET c{column} = ? WHERE k = ?");
                client.repeat(&update, self.group(group), |k| vec![int(k), int(k)])?;
            }
        }
        Ok(())
    }

    fn print_reads(&self, name: &str, client: &Client) -> Result<()> {
        let select = "SELECT * FROM ks.t WHERE k = ?";
        client.repeat(select, 0..self.rows * 5, |k| vec![int(k)])?;
        let mut micros = CHAINS.map(|_| Vec::new());
        for pass in 0..self.passes {
            for turn in 0..CHAINS.len() {
                let group = (pass + turn) % CHAINS.len();
                let mut rng = SeededRng::new(pass as u64);
                let keys = (0..10 * STRETCH).map(|_| self.key(group, &mut rng));
                let before = processor_time();
                client.repeat(select, keys, |k| vec![int(k)])?;
                let spent = processor_time().saturating_sub(before);
                micros[group].push(spent.as_secs_f64() * 1e6 / f64::from(10 * STRETCH));
            }
        }
        print_row(name, micros);
        Ok(())
    }

    /// Returns the keys of the rows with one length of chain.
    fn group(&self, group: u32) -> std::ops::Range<u32> {
        group * self.rows..(group + 1) * self.rows
    }

    fn key(&self, group: usize, rng: &mut SeededRng) -> u32 {
        let group = u32::try_from(group).expect("there are five groups");
        let within = u32::try_from(rng.below(u64::from(self.rows))).expect("rows are u32");
        group * self.rows + within
    }

    /// Prints the time of updates of one column of ten, with and without a read of the row.
    fn time_updates(&self, dir: &Path) -> Result<()> {
        println!(
            "updates of one column of ten, µs of processor (cold: µs)      without read   with read"
        );
        let client = Client::open(dir)?;
        client.create_tables()?;
        client.insert_rows(self.rows)?;
        client.db().flush()?;
        client.db().compact()?;
        drop(client);
        for is_cold in [false, true] {
            let mut micros = [Vec::new(), Vec::new()];
            for pass in 0..self.passes {
                for turn in 0..UPDATES.len() {
                    let at = (pass + turn) % UPDATES.len();
                    micros[at].push(self.time_update(dir, UPDATES[at], pass, is_cold)?);
                }
            }
            print_row(if is_cold { "cold" } else { "cached" }, micros);
        }
        Ok(())
    }

    fn time_update(&self, dir: &Path, update: &str, pass: usize, is_cold: bool) -> Result<f64> {
        let files = Files::open(dir)?;
        let client = Client::open(dir)?;
        let mut rng = SeededRng::new(pass as u64);
        if !is_cold {
            client.repeat("SELECT * FROM ks.t WHERE k = ?", 0..self.rows, |k| vec![int(k)])?;
        }
        files.leave_memory()?;
        let operations = if is_cold { 500 } else { 10 * STRETCH };
        let keys = (0..operations).map(|_| self.key(0, &mut rng));
        let before = (SystemClock.now(), processor_time());
        client.repeat(update, keys, |k| vec![int(1), int(k)])?;
        let took = SystemClock.now().since(before.0);
        let spent = processor_time().saturating_sub(before.1);
        Ok((if is_cold { took } else { spent }).as_secs_f64() * 1e6 / f64::from(operations))
    }

    /// Prints the number of statements per second of many clients that change one row.
    fn time_hot_row(&self) -> Result<()> {
        println!("{} clients change one row beside {} busy threads", self.clients, self.busy);
        for (name, statement) in [
            ("blind updates", "UPDATE ks.t SET c0 = ? WHERE k = 0"),
            ("additions to a counter", "UPDATE ks.n SET n = n + ? WHERE k = 0"),
            ("updates that read the row", "UPDATE ks.t SET c0 = c0 + ? WHERE k = 0"),
        ] {
            let (mut rates, mut failed) = (Vec::new(), 0);
            for _ in 0..self.passes {
                let (done, failures) = self.hot_row(statement)?;
                rates.push(done as f64 * 1e3 / self.millis as f64);
                failed += failures;
            }
            println!("  {name:<28} {:>10.0} statements/s, {failed} failed", median(rates));
        }
        Ok(())
    }

    fn hot_row(&self, statement: &str) -> Result<(u64, u64)> {
        let dir = super::directory(None)?;
        let client = Client::open(dir.path())?;
        client.create_tables()?;
        client.insert_rows(1)?;
        let amount = if statement.contains("ks.n") { long(1) } else { int(1) };
        let load = Load { clients: self.clients, busy: self.busy, millis: self.millis };
        let Done { latencies, failed, .. } =
            load.run(&[client], statement, move |_| vec![amount.clone()])?;
        Ok((latencies.len() as u64, failed))
    }
}

/// The same update without and with a read of its row.
const UPDATES: [&str; 2] =
    ["UPDATE ks.t SET c0 = ? WHERE k = ?", "UPDATE ks.t SET c0 = c0 + ? WHERE k = ?"];

/// Prints the number of disk reads of updates of a cold table.
fn count_reads(dir: &Path, rows: u32) -> Result<()> {
    let client = Client::open(dir)?;
    client.create_tables()?;
    client.insert_rows(rows)?;
    client.db().flush()?;
    client.db().compact()?;
    drop(client);
    for update in UPDATES {
        let client = Client::open(dir)?;
        let update = client.prepare(update)?;
        // It reads the schema.
        block_on(client.execute(&update, vec![int(1), int(rows)])).map_err(failed)?;
        let reads = || {
            let metrics = client.db().metrics().expect("a database on disk has metrics");
            metrics.block_reads + metrics.index_reads
        };
        let (before, mut rng, updates) = (reads(), SeededRng::new(7), 10_000);
        for _ in 0..updates {
            let k = u32::try_from(rng.below(u64::from(rows))).expect("rows are u32");
            block_on(client.execute(&update, vec![int(1), int(k)])).map_err(failed)?;
        }
        println!("{rows} rows, {updates} updates: {} disk reads", reads() - before);
    }
    Ok(())
}

fn print_row<const N: usize>(name: &str, micros: [Vec<f64>; N]) {
    let figures = micros.map(|micros| format!("{:>8.2}", median(micros)));
    println!("  {name:<28} {}", figures.join(" "));
}
