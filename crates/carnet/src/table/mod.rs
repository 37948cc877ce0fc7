//! Tables of the Rust API: typed rows, and raw bytes.
//!
//! A [`Table`] maps a Rust type to the columns of a catalogue table, so that CQL sees the same
//! rows. A [`RawTable`] holds ordered byte keys in one partition.

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

/// Keyspace of table names without a keyspace.
pub const DEFAULT_KEYSPACE: &str = "main";

/// Splits `keyspace.table`; a name without a keyspace belongs to [`DEFAULT_KEYSPACE`].
fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((DEFAULT_KEYSPACE, name))
}
