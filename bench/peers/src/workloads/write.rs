//! Transactions of eight puts of new keys, until all keys are written or the time is over.

use std::time::Duration;

use anyhow::Result;

use super::Claims;
use crate::data::{Row, Rows};
use crate::engine::Store;
use crate::measure::{self, Sample};

/// Number of puts per transaction.
const BATCH: usize = 8;
/// Number of keys that a thread claims at a time: one access to the shared counter per 64
/// transactions.
const PIECE: u64 = 64 * BATCH as u64;

/// Takes a sample on an empty database.
pub(crate) fn sample(
    store: &dyn Store,
    rows: Rows,
    keys: u64,
    threads: usize,
    time: Duration,
) -> Result<Sample> {
    let claims = Claims::new(keys, PIECE);
    let (sample, _) = measure::run(store, threads, time, |_, session, meter| {
        let mut batch: Vec<Row> = Vec::new();
        while let Some(numbers) = claims.claim() {
            let mut numbers = numbers.peekable();
            while numbers.peek().is_some() {
                batch.clear();
                batch.extend(numbers.by_ref().take(BATCH).map(|n| rows.row(n)));
                session.write(&batch)?;
                if !meter.done(batch.len() as u64) {
                    return Ok(());
                }
            }
        }
        Ok(())
    })?;
    Ok(sample)
}
