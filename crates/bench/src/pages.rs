//! The commands of this program on all pages are parsed by its own parser.

use std::path::Path;

use clap::Parser as _;

use crate::Arguments;

/// Begin of the program's commands.
const PROGRAM: &str = "carnet-bench -- ";

#[test]
fn commands_of_all_pages_are_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut commands = 0;
    for folder in ["", "docs", "docs/design"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "md") || path.ends_with("CHANGELOG.md") {
                continue;
            }
            let page = std::fs::read_to_string(&path).unwrap();
            for (at, _) in page.match_indices(PROGRAM) {
                let (before, rest) = (&page[..at], &page[at + PROGRAM.len()..]);
                // Within backquotes a command may go on in the next line, and in a block it does not.
                let is_inline = before.lines().next_back().is_some_and(|line| line.contains('`'));
                let is_end = |letter: char| "`#|".contains(letter) || letter == '\n' && !is_inline;
                let text = rest.split(is_end).next().unwrap_or_default();
                let words = std::iter::once("carnet-bench").chain(text.split_whitespace());
                if let Err(error) = Arguments::try_parse_from(words)
                    && error.use_stderr()
                {
                    panic!("{}: {text}: {error}", path.display());
                }
                commands += 1;
            }
        }
    }
    assert!(commands > 25, "{commands} commands");
}
