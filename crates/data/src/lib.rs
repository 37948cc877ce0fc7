//! The data of tables: values and their types, rows, and keys, with Cassandra's own serialization,
//! text forms and orders. No I/O.
//!
//! Stores keep byte strings, and know none of this. Read [`row`] first: it defines what a cell's value
//! holds; [`key`] encodes clustering keys so that byte order is Cassandra's order, [`partition`] the
//! partition keys whose tokens drivers compute.

mod composite;
mod duration;
pub mod folding;
pub mod key;
mod key_form;
pub mod keyword;
pub mod partition;
pub mod row;
pub mod serial;
pub mod text;
mod type_name;
pub mod value;
mod value_order;
pub mod vector;

#[cfg(test)]
#[path = "../../base/src/testing.rs"]
mod testing;

#[cfg(test)]
use carnet_base::{Rng, SeededRng};

pub use duration::CqlDuration;
pub use folding::Folding;
pub use key::Order;
pub use num_bigint::BigInt;
pub use row::{Change, Column, Marker, RowColumns, RowDelta, RowImage, RowReader, RowWriter};
pub use value::{Composite, DataType, FieldKeys, TYPE_DEPTH_MAX, TypeReference, UserType, Value};
