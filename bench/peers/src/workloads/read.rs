//! Reads of one row by its key, with the rows in four places.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::{Places, Rows};
use crate::engine::{Session, Setup, Store};
use crate::measure::{self, Meter, Sample};
use crate::page_cache::Dropper;

/// Location of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// Written and not flushed; in the cache of an engine without memtable.
    Memtable,
    /// Flushed, compacted, and in a cache that holds everything.
    Cache,
    /// Flushed, compacted, with a cache of a tenth of the data, the files' pages dropped.
    Disk,
    /// Like `cache`, but the requested keys were never written.
    Miss,
}

/// Smallest number of the rows that are never written.
const NEVER_WRITTEN: u64 = 1 << 48;

/// Size of a memtable that holds all rows; SurrealKV's arena ends at 4 GiB.
const MEMTABLE_BYTES: usize = 2 << 30;
/// Size of the memtable when files are filled.
const FLUSHED_MEMTABLE_BYTES: usize = 64 << 20;
/// Size of a cache that holds all rows, whatever an engine counts.
const CACHE_BYTES: usize = 1 << 30;

impl Place {
    /// Sets the budgets.
    pub(crate) fn budgets(self, setup: &mut Setup, data_bytes: usize) {
        setup.memtable_bytes = FLUSHED_MEMTABLE_BYTES;
        setup.cache_bytes = CACHE_BYTES;
        match self {
            Self::Memtable => setup.memtable_bytes = MEMTABLE_BYTES,
            Self::Cache | Self::Miss => {}
            Self::Disk => {
                setup.cache_bytes = data_bytes / 10;
                setup.cache_binds = true;
            }
        }
    }

    /// Fills an empty database and moves the rows to their place.
    pub(crate) fn prepare(self, store: &dyn Store, rows: Rows, count: u64) -> Result<()> {
        super::load(store, rows, count)?;
        if self != Self::Memtable {
            store.settle()?;
        }
        if self != Self::Disk {
            super::warm(store, rows, count)?;
        }
        Ok(())
    }
}

/// Settings of a sample.
pub(crate) struct Request<'a> {
    pub(crate) place: Place,
    pub(crate) rows: Rows,
    pub(crate) count: u64,
    pub(crate) threads: usize,
    /// Number of reads per snapshot; 1 uses the engine's API for single reads.
    pub(crate) per_snapshot: usize,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) setup: &'a Setup,
}

/// Takes a sample.
pub(crate) fn sample(store: &dyn Store, request: &Request<'_>) -> Result<Sample> {
    let dropper = match request.place {
        Place::Disk => Some(Dropper::start(&request.setup.dir)?),
        Place::Memtable | Place::Cache | Place::Miss => None,
    };
    let taken = measure::run(store, request.threads, request.time, |thread, session, meter| {
        let mut places = Places::new(request.seed ^ ((thread as u64 + 1) << 32));
        while read(session, request, &mut places, meter)? {}
        Ok(())
    });
    if let Some(dropper) = dropper {
        dropper.stop()?;
    }
    let (sample, seen) = taken?;
    let wrong = if request.place == Place::Miss { seen.rows } else { seen.absent };
    ensure!(
        wrong == 0,
        "{wrong} of {} reads found a missing row or missed an existing one",
        sample.keys
    );
    Ok(sample)
}

/// Reads once, or once per read of a snapshot; returns whether time is left.
fn read(
    session: &mut dyn Session,
    request: &Request<'_>,
    places: &mut Places,
    meter: &mut Meter,
) -> Result<bool> {
    let base = if request.place == Place::Miss { NEVER_WRITTEN } else { 0 };
    let mut next = || request.rows.key(base + places.below(request.count));
    if request.per_snapshot == 1 {
        session.get(&next(), &mut meter.seen)?;
        return Ok(meter.done(1));
    }
    let mut goes_on = true;
    session.snapshot(&mut |snapshot| {
        for _ in 0..request.per_snapshot {
            snapshot.get(&next(), &mut meter.seen)?;
            goes_on = meter.done(1);
            if !goes_on {
                break;
            }
        }
        Ok(())
    })?;
    Ok(goes_on)
}
