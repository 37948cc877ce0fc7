//! A transaction: a snapshot, its buffered writes, and its read set.
//!
//! ```text
//!  begin ─► handle ─┬─ read    own writes, then the store at R ─► read set
//!                   ├─ write   buffered; spilled to a file where memory ends
//!                   └─ commit  read set and writes as one request ─► C, or rollback
//! ```
//!
//! Handles of a transaction share its `state` behind a lock, which no call holds while it waits for
//! the store. The snapshot is held until the transaction has ended: by a commit, by a rollback, by
//! the idle watch, or with its last handle.

mod change;
mod commit;
mod handle;
mod merge;
mod narrow;
mod page;
mod read;
mod state;
mod write;

pub use handle::{Terms, Transaction};
