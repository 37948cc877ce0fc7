//! Reads of one row by its key, from four places.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::{Places, Rows};
use crate::engine::{Session, Setup, Store};
use crate::measure::{self, Meter, Sample};
use crate::page_cache::Dropper;

/// Where the rows are that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// Written and not flushed; in the cache of an engine without memtable.
    Memtable,
    /// Flushed, compacted, and in a cache that holds everything.
    Cache,
    /// Flushed, compacted, with a cache of a tenth of the data, the files' pages dropped.
    Disk,
    /// As `cache`, and the keys that are asked for were never written.
    Miss,
}

/// Numbers of rows that are never written begin here.
const NEVER_WRITTEN: u64 = 1 << 48;

/// A memtable that takes everything; SurrealKV's arena ends at 4 GiB.
const MEMTABLE_BYTES: usize = 2 << 30;
/// The memtable with which files are made.
const FLUSHED_MEMTABLE_BYTES: usize = 64 << 20;
/// A cache that holds everything, however an engine counts.
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

    /// Fills an empty database and brings the rows to their place.
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

/// What one sample is asked for.
pub(crate) struct Request<'a> {
    pub(crate) place: Place,
    pub(crate) rows: Rows,
    pub(crate) count: u64,
    pub(crate) threads: usize,
    /// Reads in one snapshot; 1 is a single read in whatever way the engine has for it.
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
    ensure!(wrong == 0, "{wrong} of {} reads found or missed what they should not", sample.keys);
    Ok(sample)
}

/// Reads once, or as often as one snapshot serves; returns whether there is time for more.
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
