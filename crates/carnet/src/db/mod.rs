//! Database handle: opening, maintenance, and the ways to run a transaction.

mod backup;
mod builder;
mod building;
mod builds;
mod cluster;
mod commit_list;
mod database;
mod forwarding;
mod holders;
mod levels;
mod options;
mod retries;
mod roles;
mod set_memory;
mod time;
mod transactions;

pub use builder::{Builder, DEFAULT_ATTEMPTS_MAX, DEFAULT_RETENTION};
pub use carnet_storage::io::{Class as IoClass, ClassTotals as IoTotals};
pub use carnet_storage::{
    CompactionStyle, Durability, FilterKind, IoOptions, Metrics, TableOptions,
};
pub use database::Db;
pub use holders::Holder;
pub use options::TransactionOptions;
