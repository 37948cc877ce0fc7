//! `COPY`: moves rows between a table and a CSV file.
//!
//! ```text
//!   file ─ Reader ─▶ fields ─ field ─▶ values ─▶ INSERT or UPDATE, CHUNKSIZE rows a transaction ─▶ table
//!   file ◀─ Writer ─ fields ◀─ field ─ values ◀─ SELECT, PAGESIZE rows a page ◀─────────────────── table
//! ```
//!
//! The options, the order of the columns and the dialect are those of cqlsh's `COPY`, so that each
//! reads what the other wrote, with the exceptions named in `docs/from-cassandra.md`.
//!
//! # Invariants
//!
//! * Memory is bounded by a chunk, a record and the buffers, independent of the file's length.
//! * `TO` reads one snapshot, whatever its duration.
//! * `FROM` stops at the first row that it refuses, unless options let it pass over some; every row
//!   before it is in the table, and none after it. The error gives the number of rows written, so
//!   that the rest can follow after a repair.
//! * `FROM` reads back the output of `TO` as the same values, and never guesses: a field that could
//!   mean two things is refused, or a line on standard error says how it is read.

mod columns;
mod cqlsh_text;
mod datetime;
mod dialect;
mod export;
mod field;
mod import;
mod options;
mod progress;
mod reader;
mod rejects;
mod statement;
mod writer;

use anyhow::Result;

pub(crate) use columns::spelled;
pub(crate) use statement::{Copy, parse};

use crate::database::Database;
use crate::origin::Origin;
use statement::Direction;

/// Formats a number of rows.
fn rows(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} row{plural}")
}

/// Moves the rows, and returns a summary.
pub(crate) fn run(database: &Database, copy: &Copy, origin: &Origin) -> Result<String> {
    if !copy.options.without_effect.is_empty() {
        let names = copy.options.without_effect.join(", ");
        eprintln!("Without effect here: {names}. This COPY has one process and needs no tuning.");
    }
    match copy.direction {
        Direction::From => import::run(database, copy, origin),
        Direction::To => export::run(database, copy, origin),
    }
}
