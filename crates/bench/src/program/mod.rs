//! The program `carnet` as a server of its own process, and clients that load it.

mod client;
mod process;
mod tally;

pub(crate) use client::Client;
pub(crate) use process::{Process, ServeOptions};
pub(crate) use tally::{Tally, repeat};
