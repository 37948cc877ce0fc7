//! One client's connection: [`state`] decides, [`driver`] moves bytes and runs statements.

mod driver;
mod pace;
mod state;
mod unsent;

pub(crate) use driver::{Shared, serve};
