//! Runs README's program as printed. The test needs a process to itself, because it changes the working
//! directory.

use std::env;

mod program {
    include!("readme/program.rs");

    pub(super) fn run() -> carnet::Result<()> {
        main()
    }
}

#[test]
fn printed_program_runs_repeatedly() {
    let readme = include_str!("../../../README.md");
    let printed = readme.split("```rust ").nth(1).unwrap().split("```").next().unwrap();
    // The rest of the fence's line is for the test of all pages.
    let (_, printed) = printed.split_once('\n').unwrap();
    assert_eq!(printed, include_str!("readme/program.rs"), "README prints another program");
    let directory = tempfile::tempdir().unwrap();
    env::set_current_dir(directory.path()).unwrap();
    program::run().unwrap();
    program::run().unwrap();
    assert!(directory.path().join("ledger-data/MANIFEST").exists());
}
