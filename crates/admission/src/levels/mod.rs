//! Service levels: limits and options of the statements of a user.
//!
//! [`Levels`] decides and does no I/O. A database stores them as rows of its catalog.

mod service_level;
mod set;

pub use service_level::{ServiceLevel, Setting};
pub use set::{
    ATTACHED_MAX, DEFAULT, DRIVER, Effective, EffectiveOption, LEVELS_MAX, Levels, NAME_BYTES_MAX,
    USER_BYTES_MAX, check_name, no_level,
};
