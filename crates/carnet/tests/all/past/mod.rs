//! Time travel: wall times of commits, reads of the past, and garbage collection.

mod expiry;
mod sweep;
mod times;
mod world;
