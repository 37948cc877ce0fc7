//! Builds indexes and views in the background, by [steps](crate::derived) that are transactions.

mod builder;
mod worker;

pub(super) use builder::is_needed;
