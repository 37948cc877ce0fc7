//! Tables of the Rust API: typed rows, and raw bytes.
//!
//! A [`Table`] maps a Rust type to the columns of a catalog table, so that CQL sees the same
//! rows. A [`RawTable`] holds ordered byte keys in one partition.

mod cached_schema;
mod ensure;
mod fetched;
mod key;
mod mapping;
mod name;
mod raw;
mod record;
mod record_macro;
mod rows;
mod scalar;
mod typed;

pub use carnet_data::{RowColumns, RowWriter};
pub use key::{Key, KeyTuple, TableKey};
pub use name::DEFAULT_KEYSPACE;
pub use raw::{RawRows, RawTable};
pub use record::{Field, Record};
pub use rows::{LentRow, Resume, Rows};
pub use scalar::Scalar;
pub use typed::Table;
