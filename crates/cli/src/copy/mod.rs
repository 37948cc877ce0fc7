//! `COPY`: moves rows between a table and a CSV file.
//!
//! ```text
//!   file ─ csv ─▶ fields ─ parse_text ─▶ bytes ─▶ INSERT, CHUNKSIZE rows a transaction ─▶ table
//!   file ◀─ csv ─ fields ◀─── Display ── bytes ◀─ SELECT, CHUNKSIZE rows a page ◀──────── table
//! ```
//!
//! Types come from the prepared INSERT or SELECT, text forms from `carnet::base::text`, so that
//! `FROM` reads back the output of `TO`.
//!
//! # Invariants
//!
//! * Memory is bounded by a chunk, a record and the buffers, independent of the file's length.
//! * `TO` reads one snapshot, whatever its duration.
//! * `FROM` stops at the first row that it refuses; every row before it is in the table, and none
//!   after it. The error gives the number of rows written, so that the rest can follow after a
//!   repair.

mod export;
mod import;
mod meter;
mod progress;
mod statement;
mod target;

use anyhow::Result;
use carnet_cql::{Executor, Session};

pub(crate) use statement::{Copy, parse};
pub(crate) use target::spelled;

use crate::origin::Origin;
use statement::Direction;

/// Formats a number of rows.
fn rows(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} row{plural}")
}

/// Moves the rows, and returns a summary.
pub(crate) fn run(
    executor: &Executor,
    session: &Session,
    copy: &Copy,
    origin: &Origin,
) -> Result<String> {
    match copy.direction {
        Direction::From => import::run(executor, session, copy, origin),
        Direction::To => export::run(executor, session, copy, origin),
    }
}
