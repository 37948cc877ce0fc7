//! Tables as an application sees them: typed rows, and raw bytes.
//!
//! A [`Table`] maps a Rust type to the columns of a catalogue table, so that CQL sees the same
//! rows; a [`RawTable`] is ordered byte keys in one partition.

mod fetched;
mod key;
mod lens;
mod raw;
mod record;
mod rows;
mod scalar;
mod typed;

pub use key::{Key, KeyTuple, TableKey};
pub use raw::{RawRows, RawTable};
pub use record::{Field, Record};
pub use rows::{LentRow, Resume, Rows};
pub use scalar::Scalar;
pub use typed::Table;

/// The keyspace of tables that are named without one.
pub const DEFAULT_KEYSPACE: &str = "main";

/// Splits `keyspace.table`, or names a table of [`DEFAULT_KEYSPACE`].
fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((DEFAULT_KEYSPACE, name))
}
