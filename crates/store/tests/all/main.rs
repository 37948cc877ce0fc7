//! Tests of the stores, in one binary: each binary would link all crates again.

mod memory;
