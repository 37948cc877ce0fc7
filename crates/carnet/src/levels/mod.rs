//! Service levels: limits and options of the statements of a user.
//!
//! ```text
//!   CREATE, ALTER, ATTACH … ─▶ Db::change_levels ─ transaction ─▶ rows of the catalog
//!                                     │                              │ refresh by other processes
//!   statement ─ user ─▶ Db::levels ◀──┴──────────────────────────────┘
//!                           └─▶ Effective: admission::Level, timeout, workload
//! ```
//!
//! [`Levels`] decides and does no I/O; `rows` is the stored form. A
//! change is a transaction, like every change of the catalog. The process that made it applies it
//! to its next statement; the others apply it after their next
//! [refresh](crate::Db::refresh_levels).
//!
//! A statement is admitted before it reads anything. So it runs by the levels that its process has
//! cached, and not by those of its snapshot.

mod rows;

pub use carnet_admission::levels::{
    ATTACHED_MAX, DEFAULT, DRIVER, Effective, EffectiveOption, LEVELS_MAX, Levels, NAME_BYTES_MAX,
    ServiceLevel, Setting, USER_BYTES_MAX, no_level,
};
pub use rows::Row;

pub(crate) use rows::{load, write};
