//! Secondary indexes: entries in a table of their own, written with the row.
//!
//! A row has an *entry* for each indexed value: a cell whose key begins with the value and ends
//! with the key of the row, and whose payload is a row marker. The transaction that changes a row
//! writes and deletes its entries, so that no snapshot sees one without the other:
//!
//! ```text
//!   table accounts (id PRIMARY KEY, city)        index on city
//!     7 → Paris                                    Paris, token(7), 7
//!     8 → Lyon                                     Lyon,  token(8), 8
//!
//!   UPDATE accounts SET city = 'Lyon' WHERE id = 7
//!     7 → Lyon                                     deletes Paris, token(7), 7
//!                                                  writes  Lyon,  token(7), 7
//! ```
//!
//! Invariants, at every snapshot and for every index that is built:
//!
//! 1. A live row has exactly the entries of its indexed values; no other entries exist. To know the
//!    earlier values, the writer reads the row, and its commit depends on it. A statement that
//!    changes no indexed value reads nothing.
//! 2. An entry expires when its value does.
//! 3. A reader of a range of entries depends on the range: a later row with such a value conflicts,
//!    as it would in the table itself.
//!
//! Entries of equal values are in the order of their rows in the table. Embedded, all entries of an
//! index are one partition. A cluster would keep such a partition on one replica set; there the
//! entries are divided by the first bits of the row's token, which keeps their order.
//!
//! A new index is built while transactions run, see [`crate::derived`]. Readers may use it when it is
//! built.
//!
//! Deliberately absent: a read without the row. An entry holds no columns, so a reader always
//! fetches the row.

mod definition;
mod layout;

pub use definition::{add_index, drop_index, index_built, index_table};
pub use layout::{INDEX_VALUE_BYTES_MAX, IndexLayout, has_entries};

/// Number of token bits that divide the entries of a new index on a cluster, whose partitions
/// should stay below some hundred megabytes.
const CLUSTER_BITS: u8 = 4;

/// Returns the number of token bits that divide the entries of a new index by default.
#[must_use]
pub fn default_bits(tx: &crate::Tx) -> u8 {
    if tx.is_over_cluster() { CLUSTER_BITS } else { 0 }
}
