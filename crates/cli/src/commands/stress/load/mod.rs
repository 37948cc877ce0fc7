//! `carnet stress` as a load generator: operations of one kind, timed and not checked.
//!
//! ```text
//!  Schedule ──due times──▶ clients (threads) ──▶ LoadTarget: in this process · servers
//!                              │
//!                              ▼ latency from the due time, and from the begin of the operation
//!                           Measured ──▶ text, JSON, percentiles as HdrHistogram prints them
//! ```
//!
//! Without a rate each client begins an operation when its last one has ended (closed loop): a stall
//! delays the operations behind it, and they do not show it. With a rate, operations are due at
//! fixed times, whatever the database does (open loop), and the latency counts from the due time.
//! So it has the time that an operation waited because others were late, which is known as the
//! correction for coordinated omission.

mod driver;
mod in_process;
mod load_target;
mod measured;
mod operation;
mod options;
mod remote;
mod report;
mod settings;

pub(super) use in_process::InProcess;
pub(super) use options::LoadOptions;
pub(super) use remote::Servers;
pub(super) use settings::Load;
