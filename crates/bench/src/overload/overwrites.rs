//! Steady writes within the server, which keep its compactions busy.

use std::time::Duration;
use std::{io, thread};

use carnet::{Db, RawTable};
use carnet_base::{Rng, SeededRng};

use super::load::pause;

/// Rows of the table that is compacted, and their bytes, which do not compress.
const ROWS: u64 = 100_000;
const ROW_BYTES: usize = 1_000;
const ROWS_PER_TRANSACTION: u64 = 500;
/// Rows of a transaction that overwrites random ones, and the interval of these: 10 MB/s. A large transaction would
/// keep its thread, which has the priority of the server's own threads, for milliseconds.
const ROWS_OVERWRITTEN: u64 = 20;
const WRITE_EVERY: Duration = Duration::from_millis(2);
const NICE: i32 = 10;

/// Fills a table, then overwrites it on a thread of its own until the process ends.
pub(super) fn start(db: &Db) -> carnet::Result<()> {
    let table = db.raw("compacted")?;
    let mut rng = SeededRng::new(7);
    for first in (0..ROWS).step_by(usize::try_from(ROWS_PER_TRANSACTION).unwrap_or(usize::MAX)) {
        write(db, &table, first..first + ROWS_PER_TRANSACTION, &mut rng)?;
    }
    db.compact()?;
    let db = db.clone();
    spawn(move || {
        // The writer stands for clients of another machine: it must not take the readers' slices.
        let _ = rustix::process::setpriority_process(None, NICE);
        loop {
            let rows: Vec<u64> = (0..ROWS_OVERWRITTEN).map(|_| rng.below(ROWS)).collect();
            if write(&db, &table, rows, &mut rng).is_err() {
                return;
            }
            pause(WRITE_EVERY);
        }
    })
    .map_err(|error| carnet::Error::unavailable("the writer does not start").with_source(error))
}

fn write(
    db: &Db,
    table: &RawTable,
    rows: impl IntoIterator<Item = u64>,
    rng: &mut SeededRng,
) -> carnet::Result<()> {
    let rows: Vec<(u64, Vec<u8>)> = rows.into_iter().map(|row| (row, bytes(rng))).collect();
    db.transact(|tx| {
        rows.iter().try_for_each(|(row, value)| table.put(tx, row.to_be_bytes(), value))
    })
}

fn bytes(rng: &mut SeededRng) -> Vec<u8> {
    (0..ROW_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// A name of its own tells the writer's thread from the server's in a trace.
fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("overwrites".to_owned()).spawn(run).map(drop)
}
