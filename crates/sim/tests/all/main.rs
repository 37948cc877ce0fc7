//! Tests of the simulator, in one binary: each binary would link all crates again.

mod seeds;
