//! Carnet: a transactional wide-column database.
//!
//! Order is kept in one small place, the commit table, so that data can be written in any order;
//! readers still get strictly serializable transactions. This crate is the API for applications:
//! open a [`Db`], create tables, run transactions.
//!
//! ```
//! use carnet::{Db, Key, abort, record};
//!
//! record! {
//!     /// An account of the bank.
//!     #[derive(Debug, Clone, PartialEq)]
//!     pub struct Account {
//!         pub owner: String,
//!         pub balance: i64,
//!     }
//! }
//!
//! # fn main() -> carnet::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path().join("data");
//! let db = Db::open(&path)?;
//! let accounts = db.table::<Key<(i64,)>, Account>("bank.accounts")?;
//! db.transact(|tx| {
//!     accounts.put(tx, &Key((1,), ()), &Account { owner: "Ada".into(), balance: 10 })?;
//!     accounts.put(tx, &Key((2,), ()), &Account { owner: "Bob".into(), balance: 0 })
//! })?;
//!
//! // Retried automatically if another transaction changes one of the accounts meanwhile.
//! db.transact(|tx| {
//!     let mut ada = accounts.get(tx, &Key((1,), ()))?.ok_or_else(|| abort!("no such account"))?;
//!     let mut bob = accounts.get(tx, &Key((2,), ()))?.ok_or_else(|| abort!("no such account"))?;
//!     ada.balance -= 4;
//!     bob.balance += 4;
//!     accounts.put(tx, &Key((1,), ()), &ada)?;
//!     accounts.put(tx, &Key((2,), ()), &bob)
//! })?;
//!
//! let snapshot = db.snapshot()?;
//! let sum: i64 = accounts
//!     .scan(&snapshot)
//!     .map(|row| row.map(|(_, account)| account.balance))
//!     .sum::<carnet::Result<i64>>()?;
//! assert_eq!(sum, 10);
//! # Ok(())
//! # }
//! ```
//!
//! * [`Db::transact`] and [`Db::run`] run a closure as a transaction and retry it on conflicts.
//! * [`Db::snapshot`] is a read-only view that never conflicts.
//! * [`Table`] holds typed rows, [`RawTable`] ordered byte keys.
//! * The [kind](ErrorKind) of an [`Error`] determines how a caller can react.

mod admin;
mod as_of;
pub mod backup;
pub mod catalog;
pub mod cluster;
mod commit_counts;
pub mod control;
mod db;
pub mod derived;
mod handle;
pub mod index;
mod layout;
pub mod levels;
pub mod passwords;
mod retry_counts;
pub mod roles;
mod row_changes;
mod row_memory;
mod schema;
mod stores;
pub mod table;
pub mod table_statistics;
#[cfg(test)]
mod testing;
mod thread_handles;
mod tx;
pub mod view;

pub use as_of::AsOf;
pub use bytes::BytesMut;
pub use carnet_admission::{AdmissionLimits, GateLimits};
pub use carnet_base::CommitEntry;
pub use carnet_base::{
    Bytes, CellKey, Encoding, Error, ErrorKind, KeyRange, PartitionKey, Result, Timestamp, Token,
    Uuid, WallTime, block_on,
};
pub use carnet_data::{DataType, Value};
pub use carnet_storage::LevelTotals;
pub use carnet_store::{CommitListing, Outcome, PageLimit, pem};
pub use carnet_store_local::{BackupFigures, LastBackup};
pub use carnet_txn::{Entry, Isolation, Label, Limits as TransactionLimits, TurnQueue};
pub use commit_counts::CommitOutcome;
pub use db::{
    Builder, CompactionStyle, DEFAULT_ATTEMPTS_MAX, DEFAULT_RETENTION, Db, Durability, FilterKind,
    Holder, IoClass, IoOptions, IoTotals, Metrics, TableOptions, TransactionOptions,
};
pub use handle::{Handle, PointHandle, WriteHandle};
pub use retry_counts::RetryCause;
pub use table::{Key, RawTable, Record, Table};
pub use tx::{Snapshot, SyncTx, Tx};

/// Makes an error with which a closure aborts its transaction. Takes the arguments of `format!`.
///
/// ```
/// let error = carnet::abort!("account {} is empty", 7);
/// assert_eq!(error.kind(), carnet::ErrorKind::Aborted);
/// ```
#[macro_export]
macro_rules! abort {
    ($($message:tt)*) => {
        $crate::Error::aborted(::std::format!($($message)*))
    };
}
