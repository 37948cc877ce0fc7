//! Tests of CQL, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod as_of;
mod at_rest;
mod audit;
mod builds;
mod client_clocks;
mod cluster_deltas;
mod collections;
mod counters;
mod deltas;
mod describe_load;
mod differences;
mod differential;
mod docs;
mod edges;
mod element_times;
mod estimates;
mod golden;
mod groups;
mod indexes;
mod key_forms;
mod key_indexes;
mod limits;
mod multi_get;
mod mutations;
mod open;
mod open_cluster;
mod open_forward;
mod open_model;
mod pages;
mod prepared;
mod roles;
mod round_trip;
mod running;
mod schema_limits;
mod searched_lists;
mod statements;
mod statistics;
mod steps;
mod support;
mod swept;
mod system_tables;
mod time_to_live;
mod views;
mod warnings;
