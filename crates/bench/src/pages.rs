//! The commands of this program on all pages are parsed by its own parser.

use clap::Parser as _;

use crate::{Arguments, page_commands};

#[test]
fn commands_of_all_pages_are_known() {
    let commands = page_commands::of_program("carnet-bench");
    assert!(commands.len() > 25, "{} commands", commands.len());
    for (page, words) in commands {
        if let Err(error) = Arguments::try_parse_from(&words)
            && error.use_stderr()
        {
            panic!("{}: {words:?}: {error}", page.display());
        }
    }
}
