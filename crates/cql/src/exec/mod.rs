//! Execution of statements, each as a transaction.
//!
//! ```text
//!   text ── parse ─▶ syntax tree ── compile, with the tables' schemas ─▶ plan ── run in a Tx ─▶ Response
//!                        └───────── kept in a prepared statement ────────┘
//! ```
//!
//! * A `SELECT` reads one snapshot, also across its pages: the paging state contains the snapshot.
//! * A statement that writes runs in a transaction of its own and is retried on conflict; so do a
//!   batch and `BEGIN TRANSACTION`. All its reads (rows whose other columns it keeps, conditions,
//!   `LET`s) are in that transaction, so its decisions still hold at the commit.
//! * The schema of each table is read in that transaction as well. A plan for another version of a
//!   schema is compiled anew; a *prepared* statement is refused with "prepare again" before it
//!   runs, because its client encodes and decodes by the earlier description.

mod aggregates;
mod answer_memory;
mod applied;
mod audited;
mod authorize;
mod batch;
mod cell_queue;
mod cell_time;
mod column_type;
mod comparison;
mod condition;
mod condition_kind;
mod ddl;
mod ddl_target;
mod ddl_warnings;
mod describe;
mod executor;
mod explain;
mod first_build;
mod forward;
mod found;
mod grant;
mod group;
mod hashing;
mod index_scan;
mod indexes;
mod known_types;
mod large_answers;
mod level;
mod level_state;
mod lost_row;
mod merge;
mod moment;
mod named;
mod naming;
mod near;
mod open;
mod outline;
mod paging;
mod parameters;
mod plain_rows;
mod plan;
mod prepared;
mod project;
mod recent;
mod role_lists;
mod roles;
mod row;
mod row_change;
mod row_groups;
mod row_waits;
mod run;
mod running;
mod scan;
mod select;
mod select_reader;
mod service_levels;
mod session;
mod shown_row;
mod slow_log;
mod statement;
mod statistics;
mod stored_row;
mod system;
mod system_rows;
mod table_options;
mod targets;
mod terms;
mod thresholds;
mod timeout;
mod tracing_steps;
mod transaction;
mod user_types;
mod view_schema;
mod views;
mod warnings;
mod write;

pub use answer_memory::AnswerMemory;
pub use executor::Executor;
pub use found::Found;
pub use grant::{Grant, Timeouts};
pub use hashing::Hashing;
pub use open::{OpenLimits, OpenTotals};
pub use outline::Outline;
pub use parameters::{BatchItem, Parameters, Session};
pub use prepared::Prepared;
pub use running::{RunningStatement, StatementSource};
pub use statistics::StatementKind;
pub use terms::{RequestTimes, Terms};
pub use thresholds::WarnThresholds;

#[cfg(test)]
mod tests;
