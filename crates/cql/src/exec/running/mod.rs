//! Statements that run or wait: `system_views.queries` lists them, `KILL STATEMENT` ends them.
//!
//! ```text
//!   arrives ── its first turn ends it ──▶ never listed: reads of rows in memory
//!      └── waits for its admission, a device, a log, another turn
//!              │ enter
//!              ▼
//!        registry: id → who, what, since when, permit ◀── KILL STATEMENT id
//!              │                                               │
//!              │ its next read, turn or commit fails ◀─────────┤ has begun
//!              └ dropped at once ◀─────────────────────────────┘ waits for its admission
//! ```
//!
//! A statement is registered when its first turn has not ended it, so that a read of rows in memory
//! pays nothing. A killed statement ends by itself where it would end at its deadline, with an error
//! that says that nothing was written. One that does not, for example because it waits for another
//! server, is dropped by its server after a while, like a statement whose client has disconnected.
//!
//! An id has the tag of the server, if the database has several: `KILL STATEMENT` at another server
//! must not end another statement.

mod entry;
mod handle;
mod registry;
mod source;

pub(super) use entry::{Entry, EntryState};
pub use handle::RunningStatement;
pub(super) use registry::Running;
pub use source::StatementSource;
