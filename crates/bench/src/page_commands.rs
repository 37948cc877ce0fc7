//! Commands of a program on the pages; other programs' tests include this file, too.

use std::path::{Path, PathBuf};

/// Checks that the parser of a program takes each of its commands, of which there are at least some.
pub(crate) fn are_known<A: clap::Parser>(program: &str, at_least: usize) {
    let commands = of_program(program);
    assert!(commands.len() >= at_least, "{} commands", commands.len());
    for (page, words) in commands {
        if let Err(error) = A::try_parse_from(&words)
            && error.use_stderr()
        {
            panic!("{}: {words:?}: {error}", page.display());
        }
    }
}

/// Returns the words of each command that begins with `cargo run … -p PROGRAM -- `, with its page.
fn of_program(program: &str) -> Vec<(PathBuf, Vec<String>)> {
    let begin = format!("{program} -- ");
    let mut commands = Vec::new();
    for folder in ["", "docs", "docs/design"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "md") || path.ends_with("CHANGELOG.md") {
                continue;
            }
            let page = std::fs::read_to_string(&path).unwrap().replace("\\\n", " ");
            for (at, _) in page.match_indices(&begin) {
                let (before, rest) = (&page[..at], &page[at + begin.len()..]);
                // Within backquotes a command may go on in the next line, and in a block it does not.
                let is_inline = before.lines().next_back().is_some_and(|line| line.contains('`'));
                let is_end = |letter: char| "`#|".contains(letter) || letter == '\n' && !is_inline;
                let text = rest.split(is_end).next().unwrap_or_default();
                let words = std::iter::once(program).chain(text.split_whitespace());
                commands.push((path.clone(), words.map(str::to_owned).collect()));
            }
        }
    }
    commands
}
