//! Connection of a client: [`state`] decides, [`driver`] moves bytes, [`statement`] runs
//! statements. [`secure`] runs the TLS handshake that comes first, and [`stream`] is plain or over TLS.

mod alarm;
mod arrival;
mod backlog;
mod driver;
mod inline;
mod lag;
mod pace;
mod receive;
mod secure;
mod secured;
mod shared;
mod state;
mod statement;
mod stream;
mod unsent;

pub(crate) use backlog::Backlogs;
pub(crate) use driver::serve;
pub(crate) use lag::Lag;
pub(crate) use receive::request_stamps;
pub(crate) use shared::Shared;
pub(crate) use statement::{
    admission_of, answered, begin, check_answers, run, unless_killed, unless_panicked,
};
