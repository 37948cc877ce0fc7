//! The tree's stores in one directory: several processes of one machine share it.

mod directory;

pub use directory::{Directory, NODE_BYTES_MAX};
