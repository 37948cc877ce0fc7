//! Tests of the program `carnet`, in one binary: each binary would link all crates again.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod backup;
mod bottleneck;
mod bulk;
mod copy;
mod crash;
mod dashboard;
mod documents;
mod drivers;
mod first_hour;
mod idle_server;
mod logs;
mod maelstrom;
mod mappers;
mod metrics_page;
mod monitoring;
mod open_files;
mod page_examples;
mod page_faults;
mod questions;
mod readme;
mod scripts;
mod security_page;
mod serve;
mod shell;
mod shell_server;
mod stress;
mod suites;
mod support;
mod three_nodes;
mod tls;
mod tools;
mod top;
mod transactor;
