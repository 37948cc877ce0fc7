//! Bytes that overwriting leaves on disk after garbage collection.

use std::path::Path;
use std::time::Duration;

use carnet::{Db, Durability, RawTable, Result};
use carnet_base::{Rng, SeededRng, Signal};
use clap::Args;

use super::noise;

/// Overwrite keys, one transaction each, then wait, then run a manual full compaction. Count the
/// bytes of tables, commit-table entries included; the log is not counted.
#[derive(Args)]
pub(crate) struct Space {
    /// Number of keys.
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Number of transactions, each of which writes one key.
    #[arg(long, default_value_t = 1_000_000)]
    writes: u64,
    /// Size of a value in bytes; values do not compress.
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Retention in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    retention_millis: u64,
    /// Pause without writes before the last full compaction, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    idle_millis: u64,
}

impl Space {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let retention = Duration::from_millis(self.retention_millis);
        let builder = Db::builder().durability(Durability::None).retention(retention);
        let db = builder.open(dir.join("overwritten"))?;
        let table = db.raw("t")?;
        let mut rng = SeededRng::new(1);
        let mut most = 0;
        for write in 0..self.writes {
            let (key, value) = (rng.below(self.keys), noise(&mut rng, self.value_bytes));
            db.transact(|tx| table.put(tx, key.to_be_bytes(), &value))?;
            if write % 10_000 == 0 {
                most = most.max(table_bytes(&db));
            }
        }
        let live = live_bytes(&db, &table, &dir.join("live"))?;
        let show = |when: &str, bytes: u64| {
            #[expect(clippy::cast_precision_loss, reason = "a ratio is shown")]
            let ratio = bytes as f64 / live as f64;
            println!("{when:<40} {bytes:>12} bytes of tables, {ratio:.2} x the live data");
        };
        println!("{} transactions of one put, {} keys", self.writes, self.keys);
        show("the live data, in a database of its own", live);
        show("the most while writing", most);
        db.flush()?;
        show("after the last write, flushed", table_bytes(&db));
        Signal::new().wait(Some(Duration::from_millis(self.idle_millis)));
        show("after a pause without writes", table_bytes(&db));
        db.compact()?;
        show("compacted by hand", table_bytes(&db));
        Ok(())
    }
}

fn table_bytes(db: &Db) -> u64 {
    db.metrics().map_or(0, |metrics| metrics.table_bytes)
}

/// Returns the bytes of the live rows alone.
fn live_bytes(db: &Db, table: &RawTable, dir: &Path) -> Result<u64> {
    let alone = Db::builder().durability(Durability::None).open(dir)?;
    let copy = alone.raw("t")?;
    let snapshot = db.snapshot()?;
    alone.transact(|tx| {
        table.prefix(&snapshot, "").try_for_each(|row| {
            let (key, value) = row?;
            copy.put(tx, key, value)
        })
    })?;
    alone.compact()?;
    Ok(table_bytes(&alone))
}
