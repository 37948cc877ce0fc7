//! Service levels: by which limits the statements of a user run.
//!
//! ```text
//!   CREATE, ALTER, ATTACH … ─▶ Db::change_levels ─ transaction ─▶ rows of the catalogue
//!                                     │                              │ other processes look
//!   statement ─ user ─▶ Db::levels ◀──┴──────────────────────────────┘
//!                           └─▶ Effective: admission::Level, timeout, workload
//! ```
//!
//! [`Levels`] decides and does no I/O; `rows` is how it is stored, `cache` what a process knows of it.
//! A change is a transaction, as every change of the catalogue is. The process that made it runs its
//! next statement by it; the others do as soon as they [look](crate::Db::refresh_levels).
//!
//! A statement is admitted before it reads anything. It runs by the levels that its process knows,
//! and not by those of its snapshot.

mod cache;
mod rows;
mod service_level;
mod set;

pub use rows::Row;
pub use service_level::{ServiceLevel, Setting};
pub use set::{
    ATTACHED_MAX, DEFAULT, DRIVER, Effective, EffectiveOption, LEVELS_MAX, Levels, NAME_BYTES_MAX,
    USER_BYTES_MAX, no_level,
};

pub(crate) use cache::LevelCache;
pub(crate) use rows::{load, write};
