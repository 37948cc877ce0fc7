//! Language of the comments: patterns that make them hard to read or to search, counted per crate.
//!
//! The ceilings only fall. A comment that names its subject ("the flusher", "the caller") needs none of
//! these words; CONTRIBUTING.md has the rules.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of occurrences in the Rust files of a folder.
const CEILINGS: [(&str, usize); 21] = [
    ("bench/peers", 0),
    ("crates/admission", 0),
    ("crates/base", 0),
    ("crates/bench", 0),
    ("crates/carnet", 0),
    ("crates/checker", 0),
    ("crates/cli", 0),
    ("crates/cql", 0),
    ("crates/data", 0),
    ("crates/maelstrom", 0),
    ("crates/maelstrom-test", 0),
    ("crates/sequencer", 0),
    ("crates/server", 0),
    ("crates/sim", 0),
    ("crates/storage", 0),
    ("crates/store", 0),
    ("crates/store-cql", 0),
    ("crates/store-local", 0),
    ("crates/tree", 0),
    ("crates/tree-local", 0),
    ("crates/txn", 0),
];

/// Persons instead of components, and nouns that are missing.
const WORDS: [&str; 8] =
    ["whoever", "nobody", "anybody", "somebody", "everybody", "he", "his", "him"];
const PAIRS: [[&str; 2]; 15] = [
    ["so", "many"],
    ["so", "long"],
    ["so", "often"],
    ["by", "hand"],
    ["those", "that"],
    ["tells", "whether"],
    ["what", "is"],
    ["what", "was"],
    ["what", "are"],
    ["what", "were"],
    ["what", "it"],
    ["what", "they"],
    ["what", "has"],
    ["what", "had"],
    ["what", "there"],
];

/// A block of comment lines, and the number of its first line.
struct Comment {
    line: usize,
    is_doc: bool,
    text: String,
}

/// Returns the comments of a file, consecutive lines of one kind together.
fn comments(source: &str) -> Vec<Comment> {
    let mut all: Vec<Comment> = Vec::new();
    let mut previous = None;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker));
        if let Some(marker) = marker {
            let text = &line[marker.len()..];
            match all.last_mut().filter(|_| previous == Some(marker)) {
                Some(comment) => {
                    comment.text.push('\n');
                    comment.text.push_str(text);
                }
                None => {
                    let is_doc = marker == "///";
                    all.push(Comment { line: number + 1, is_doc, text: text.to_owned() });
                }
            }
        }
        previous = marker;
    }
    all
}

/// Returns the patterns in a comment.
fn patterns(comment: &Comment) -> Vec<String> {
    let lower = comment.text.to_lowercase();
    // Words within one sentence: a pair over its end is none.
    let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let mut words: Vec<&str> = Vec::new();
    for part in lower.split_inclusive(|c: char| !is_letter(c)) {
        let word = part.trim_end_matches(|c| !is_letter(c));
        let end = &part[word.len()..];
        if !word.is_empty() {
            words.push(word);
        }
        if end.contains(['.', ':', ';', '`', ',', '"', '(']) {
            words.push("");
        }
    }
    let single = words.iter().filter(|word| WORDS.contains(word)).map(|word| (*word).to_owned());
    let pairs = words.windows(2).filter(|pair| PAIRS.iter().any(|known| known == pair));
    let mut found: Vec<String> = single.chain(pairs.map(|pair| pair.join(" "))).collect();
    if comment.is_doc {
        let text = comment.text.trim();
        if text.starts_with("As [`") {
            found.push("As [`…`]".to_owned());
        }
        if !text.contains('[') && text.split_whitespace().count() <= 2 {
            found.push("a doc comment of one or two words".to_owned());
        }
    }
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn comments_keep_to_plain_language() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let this = Path::new(file!()).file_name().unwrap();
    let mut report = String::new();
    for (folder, ceiling) in CEILINGS {
        let mut found = String::new();
        let mut count = 0;
        for file in rust_files(&root.join(folder)) {
            if file.file_name() == Some(this) {
                continue;
            }
            for comment in comments(&fs::read_to_string(&file).unwrap()) {
                for pattern in patterns(&comment) {
                    count += 1;
                    let file = file.strip_prefix(&root).unwrap().display();
                    writeln!(found, "  {file}:{}: {pattern}", comment.line).unwrap();
                }
            }
        }
        if count > ceiling {
            writeln!(report, "{folder}: {count}, and at most {ceiling} are allowed\n{found}")
                .unwrap();
        } else if count < ceiling {
            writeln!(report, "{folder}: {count}; lower its ceiling of {ceiling}").unwrap();
        }
    }
    assert!(report.is_empty(), "comments have words that hide their subject:\n{report}");
}

#[test]
fn patterns_are_found_in_whole_comments() {
    let source = "/// Its name.\nstruct A;\n// The rows, what\n// is read of them. So many rows.\n\
                  /// As [`x`], but he counts.\n/// Returns the number of rows.\n";
    let found: Vec<_> = comments(source).iter().flat_map(patterns).collect();
    let want = ["a doc comment of one or two words", "what is", "so many", "he", "As [`…`]"];
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    let mut want = want.to_vec();
    found.sort_unstable();
    want.sort_unstable();
    assert_eq!(found, want);
}
