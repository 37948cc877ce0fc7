//! What sessions do beside reading and writing: open transactions, statements that run, and their record.
//!
//! The state is below, in [`open`](super::open), [`running`](super::running), [`statistics`](super::statistics) and
//! [`forward`](super::forward), which the executor holds. The methods of the executor that use it are here.
//!
//! | file | |
//! | --- | --- |
//! | `transactions` | `START`, `COMMIT`, `ROLLBACK`, and statements within a transaction |
//! | `forward` | statements of transactions that another server holds |
//! | `running` | the list of running statements, and `KILL` |
//! | `recording` | the figures of a statement that has ended, and the row that it lost |

mod forward;
mod recording;
mod running;
mod transactions;

pub(super) use recording::Recorded;
pub(super) use running::describe_kill;
pub(super) use transactions::describe;
