//! Rules of the repository. A binary for itself, which uses no crate and tells of a broken rule early.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod architecture;
mod circles;
mod language;
mod limits;
mod promises;
mod tidy;
