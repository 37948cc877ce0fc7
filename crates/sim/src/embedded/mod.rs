//! The embedded database, one process and one directory, on a simulated disk.
//!
//! ```text
//!  incarnation 1              │ incarnation 2      │ …  │ last incarnation
//!  prepare, clients, faults ──┴ settle, clients … ─┴ … ─┴ settle all, read all, judge
//!                             ▲ loss of power, kill or close; the disk as it remains
//! ```
//!
//! Beside the clients an administrator takes backups, which are restored and read, and migrates the
//! commit table.
//!
//! Every incarnation but the last ends by a fault while clients are at work. Each new one is asked
//! for the outcomes of all earlier transactions: acknowledged commits must exist, refused ones must
//! not.

mod admin;
mod broken_merges;
mod faults;
mod open;
mod scenario;
mod setup;
mod store;
mod world;

pub(crate) use scenario::run;
