//! Tests of Maelstrom's simulated environment, in one binary: each binary would link all crates again.

mod simulated;
