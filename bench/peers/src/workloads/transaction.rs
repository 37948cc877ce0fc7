//! Transactions that read a row and put one, on a filled database.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::{Places, Rows, Seen, value_of};
use crate::engine::{Outcome, ReadAndPut, Session, Store};
use crate::measure::{self, Sample};

/// Operations of a transaction.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Reads a row and puts it. Snapshot isolation and serializability detect the same conflicts.
    Update,
    /// Reads a row and puts another: only serializability detects a stale read.
    Pair,
    /// Reads a row in a read-only transaction.
    Read,
}

/// Distribution of the rows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spread {
    /// All rows, uniformly.
    Uniform,
    /// A hundred rows, so that transactions of several threads conflict.
    Hot,
}

/// Number of hot rows.
const HOT_ROWS: u64 = 100;

/// Settings of a sample.
pub(crate) struct Request {
    pub(crate) access: Access,
    pub(crate) spread: Spread,
    pub(crate) rows: Rows,
    pub(crate) count: u64,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// Takes a sample. An operation is a committed transaction with its aborted attempts.
pub(crate) fn sample(store: &dyn Store, request: &Request) -> Result<Sample> {
    let count = match request.spread {
        Spread::Uniform => request.count,
        Spread::Hot => HOT_ROWS.min(request.count),
    };
    let (sample, seen) =
        measure::run(store, request.threads, request.time, |thread, session, meter| {
            let mut places = Places::new(request.seed ^ ((thread as u64 + 1) << 32));
            loop {
                let (read, other) = (places.below(count), places.below(count));
                let numbers =
                    if request.access == Access::Pair { [read, other] } else { [read; 2] };
                meter.aborts += transact(session, request, numbers, &mut meter.seen)?;
                if !meter.done(1) {
                    return Ok(());
                }
            }
        })?;
    ensure!(seen.absent == 0, "{} of {} rows were not found", seen.absent, sample.keys);
    Ok(sample)
}

/// Runs a transaction until it commits; returns the number of aborts.
fn transact(
    session: &mut dyn Session,
    request: &Request,
    [read, put]: [u64; 2],
    seen: &mut Seen,
) -> Result<u64> {
    let read = request.rows.key(read);
    if request.access == Access::Read {
        session.get(&read, seen)?;
        return Ok(0);
    }
    let put = request.rows.key(put);
    let mut aborts = 0;
    loop {
        let keys = ReadAndPut { read: &read, put: &put };
        let outcome = session.update(keys, &mut |found| {
            seen.found(&read, found);
            value_of(&put)
        })?;
        if outcome == Outcome::Committed {
            return Ok(aborts);
        }
        aborts += 1;
    }
}
