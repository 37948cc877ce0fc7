//! Progress of a `COPY` on standard error, if that is a terminal.

use crate::bar::{Bar, Extent};

/// Rows and bytes that a `COPY` has moved.
pub(super) struct Progress(Bar);

impl Progress {
    /// Creates the progress of reading a file, whose length is known unless it is standard input.
    pub(super) fn of_file(bytes: Option<u64>) -> Self {
        Self(Bar::new(bytes.map_or(Extent::Unknown, Extent::Bytes)))
    }

    /// Creates the progress of reading a table. Without tokens of its rows the part that was read is unknown.
    pub(super) fn of_table(has_tokens: bool) -> Self {
        Self(Bar::new(if has_tokens { Extent::Part } else { Extent::Unknown }))
    }

    /// Creates the progress of rows that go to the same terminal.
    pub(super) fn hidden() -> Self {
        Self(Bar::hidden())
    }

    /// Counts rows, and bytes of the file.
    pub(super) fn set(&self, rows: u64, bytes: u64) {
        self.0.set_bytes(bytes, &format!("{rows} rows"));
    }

    /// Counts rows and bytes that were written, and the part of the table that was read.
    pub(super) fn set_part(&self, rows: u64, bytes: u64, part: f64) {
        self.0.set_part(part, &format!("{rows} rows, {}", Bar::bytes(bytes)));
    }
}
