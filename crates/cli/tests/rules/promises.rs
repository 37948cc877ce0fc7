//! Compares `docs/promises.md` with the pages, and looks for the tests that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../../../../docs/promises.md");

/// Words of promises; *at most* is another.
const WORDS: [&str; 4] = ["never", "always", "every", "all"];

/// Pages without promises: figures, the list that is made from the code, and this list.
const OTHERS: [&str; 4] = ["documents", "metrics", "performance", "promises"];

/// Words for drawn sentences of which nothing can be tried.
const UNTRIED: [&str; 3] = ["definition", "figure", "pointer"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the pages by their names.
fn pages() -> BTreeMap<String, String> {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut pages = BTreeMap::from([("README".to_owned(), read(&root().join("README.md")))]);
    for (folder, prefix) in [("docs", ""), ("docs/cql", "cql/")] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "md") {
                let name = path.file_stem().unwrap().to_str().unwrap();
                pages.insert(format!("{prefix}{name}"), read(&path));
            }
        }
    }
    pages
}

/// Returns the sentences and cells of a page, without its blocks, comments and headings.
fn sentences(page: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![String::new()];
    let (mut in_block, mut in_comment) = (false, false);
    for line in page.lines() {
        let line = line.trim();
        in_block ^= line.starts_with("```");
        // A mark within a sentence may begin a line.
        in_comment |= line.starts_with("<!--") && (!line.contains("-->") || line.ends_with("-->"));
        let is_skipped = in_block || in_comment || line.starts_with("```");
        in_comment &= !line.ends_with("-->");
        if is_skipped {
            continue;
        }
        let item = line.strip_prefix("* ").or_else(|| {
            line.split_once(". ")
                .filter(|(number, _)| {
                    !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
                })
                .map(|(_, rest)| rest)
        });
        if line.starts_with('|') {
            parts.extend(line.trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()));
            parts.push(String::new());
        } else if line.is_empty() || line.starts_with('#') {
            parts.push(String::new());
        } else if let Some(item) = item {
            parts.push(item.to_owned());
        } else {
            let last = parts.last_mut().unwrap();
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(line);
        }
    }
    parts.iter().flat_map(|part| split(part)).collect()
}

/// Splits a paragraph behind `.`, `:` and `;`, where the next word begins like a sentence.
fn split(part: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut begin = 0;
    for (at, pair) in part.as_bytes().windows(2).enumerate() {
        let next = part.as_bytes().get(at + 2);
        let begins = |next: &u8| next.is_ascii_uppercase() || b"`*[".contains(next);
        if b".:;".contains(&pair[0]) && pair[1] == b' ' && next.is_some_and(begins) {
            found.push(part[begin..=at].to_owned());
            begin = at + 2;
        }
    }
    found.push(part[begin..].to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Returns `true` for a sentence that has a word of promises, outside of code and of the targets of links.
fn promises(sentence: &str) -> bool {
    let text: String = sentence.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut text = text.to_ascii_lowercase();
    while let Some((begin, length)) =
        text.find("](").and_then(|at| Some((at, text[at..].find(')')?)))
    {
        text.replace_range(begin..=begin + length, " ");
    }
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.any(|word| WORDS.contains(&word)) || text.contains("at most")
}

/// Rows of the list's tables below a heading: page, words, and tests or a word for the reason why there are none.
fn rows(heading: &str) -> Vec<[&'static str; 3]> {
    let (_, section) = LIST.split_once(&format!("# {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" |").map(str::trim).collect();
        [cells[0], cells[1], cells.get(2).copied().unwrap_or_default()]
    };
    let rows = section.lines().filter(|line| line.starts_with("| ")).map(row);
    rows.filter(|row| !["page", "---"].contains(&row[0])).collect()
}

/// Returns the sentences that a row lists: the one that is the same, or else the ones that contain its words.
fn listed<'s>(sentences: &'s [String], words: &str) -> BTreeSet<&'s str> {
    let same = sentences.iter().find(|sentence| *sentence == words);
    let containing = sentences.iter().filter(|sentence| same.is_none() && sentence.contains(words));
    same.into_iter().chain(containing).map(String::as_str).collect()
}

#[test]
fn pages_promise_what_is_listed() {
    let pages: BTreeMap<_, _> =
        pages().into_iter().map(|(name, page)| (name, sentences(&page))).collect();
    let mut known = BTreeSet::new();
    for heading in ["Promises", "Others", "Fifty drawn sentences"] {
        let rows = rows(heading);
        assert!(rows.len() >= 30, "{heading}: {} rows", rows.len());
        assert!(rows.is_sorted_by_key(|row| row[0]), "{heading}: rows stand in the order of pages");
        for [of, words, _] in rows {
            let page = pages.get(of).unwrap_or_else(|| panic!("there is no page {of}"));
            let found = listed(page, words);
            assert_eq!(found.len(), 1, "{of} should have one sentence with: {words}: {found:?}");
            let is_drawn = heading.starts_with("Fifty");
            let new = found.into_iter().filter(|_| !is_drawn).map(|sentence| (of, sentence));
            known.extend(new);
        }
    }
    let mut missing = Vec::new();
    for (name, page) in pages.iter().filter(|(name, _)| !OTHERS.contains(&name.as_str())) {
        let new =
            page.iter().filter(|sentence| !known.contains(&(name.as_str(), sentence.as_str())));
        for sentence in new.filter(|sentence| promises(sentence)) {
            missing.push(format!("{name}: {sentence}"));
        }
    }
    assert!(
        missing.is_empty(),
        "docs/promises.md lists these sentences with a test, or as others, or they are written without \
         never, always, every, all and at most:\n{}",
        missing.join("\n")
    );
}

#[test]
fn named_tests_exist() {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let mut named = 0;
    let drawn = rows("Fifty drawn sentences");
    let tried = drawn.into_iter().filter(|row| !UNTRIED.contains(&row[2]));
    for [of, words, tests] in rows("Promises").into_iter().chain(tried) {
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(names.len() >= 2 && names.len().is_multiple_of(2), "{of}: {words}: {tests}");
        for pair in names.chunks(2) {
            let folder = pair[0].strip_prefix("carnet-").unwrap_or(pair[0]);
            let source = sources.entry(folder.to_owned()).or_insert_with(|| source(folder));
            let is_there = source.contains(&format!("fn {}(", pair[1]));
            assert!(is_there, "{of}: {words}: {} has no test {}", pair[0], pair[1]);
            named += 1;
        }
    }
    assert!(named > 200, "{named} tests");
}

/// Returns the source of a crate, of its tests above all.
fn source(name: &str) -> String {
    let mut all = String::new();
    let mut folders = vec![root().join("crates").join(name)];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all += &fs::read_to_string(path).unwrap();
            }
        }
    }
    all
}

#[test]
fn sentences_are_told_apart() {
    let page = "# Never\n\nOne is *always* so. Two\nnever: `three`.\n\n* all of\n  it\n1. at most\n\n| a | b; C |\n";
    let found = sentences(page);
    assert_eq!(
        found,
        ["One is *always* so.", "Two never:", "`three`.", "all of it", "at most", "a", "b;", "C"]
    );
    let promised: Vec<bool> = found.iter().map(|sentence| promises(sentence)).collect();
    assert_eq!(promised, [true, true, false, true, true, false, false, false]);
    assert!(!promises("nevertheless") && !promises("see [this page](#every-row)"));
    assert!(!promises("run `a --all`, then `b every`") && promises("`a` is for all"));
}
