//! Finds cycles: first whether there are any (Tarjan), then a shortest one (breadth first).
//!
//! A model is broken by cycles in a [`View`] of the dependencies: some kinds of edges, with or
//! without adjacent anti-dependencies. Without them, the search runs on *states*: a node, and
//! whether the last edge was an anti-dependency. A closed walk through states is a closed walk
//! without adjacent anti-dependencies, which snapshot isolation forbids (Cerone and Gotsman, 2016,
//! theorem 9). So the search stays linear in that case as well.
//!
//! The shortest cycle through one node is exact. The shortest cycle of a component is exact until
//! `SEARCH_EDGES_MAX` is used up; after that it is the shortest of those found.

mod interference;
mod search;

pub(crate) use interference::Interference;
pub(crate) use search::{Search, Step, View};

#[cfg(test)]
mod tests;
