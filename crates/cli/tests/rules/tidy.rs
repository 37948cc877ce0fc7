//! Rules of the repository that a compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum length of a source file in lines: a longer one holds more than one concept.
const SOURCE_LINES_MAX: usize = 800;

/// Permitted dependencies between crates: the design's table with `docs/design/0001-arrows.md`.
/// Dependencies on `base` are always permitted and not listed; a crate that is missing here is
/// refused.
const ARROWS: [(&str, &[&str]); 20] = [
    ("admission", &[]),
    ("base", &[]),
    ("checker", &[]),
    ("data", &[]),
    ("sequencer", &["txn", "store", "data"]),
    ("storage", &[]),
    ("store", &["data"]),
    ("store-cql", &["store", "sequencer"]),
    ("store-local", &["store", "storage", "data"]),
    ("tree", &[]),
    ("tree-local", &["tree", "storage"]),
    ("txn", &["store", "data"]),
    (
        "carnet",
        &["admission", "txn", "sequencer", "store-cql", "store-local", "store", "storage", "data"],
    ),
    ("cql", &["carnet", "admission", "data"]),
    ("server", &["cql", "carnet", "admission", "data"]),
    ("maelstrom", &["tree"]),
    (
        "cli",
        &[
            "server",
            "cql",
            "carnet",
            "admission",
            "data",
            "storage",
            "checker",
            "maelstrom",
            "maelstrom-test",
            "tree-local",
        ],
    ),
    ("maelstrom-test", &["maelstrom", "checker"]),
    ("bench", &["server", "cql", "carnet", "admission", "storage"]),
    (
        "sim",
        &[
            "carnet",
            "admission",
            "checker",
            "data",
            "sequencer",
            "storage",
            "store",
            "store-local",
            "txn",
        ],
    ),
];

/// Permitted dependencies of tests alone: CQL's run on a simulated disk.
const ARROWS_OF_TESTS: [(&str, &str); 1] = [("cql", "storage")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the files that git tracks or would add; `None` outside of a clone.
fn tracked() -> Option<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    match git.current_dir(root()).output() {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8(output.stdout).unwrap();
            let paths = names.split('\0').filter(|name| !name.is_empty());
            Some(paths.map(|name| root().join(name)).filter(|path| path.is_file()).collect())
        }
        _ if env::var("CI").is_ok_and(|ci| ci == "true") => panic!("git cannot list the files"),
        _ => {
            // `eprintln` would be captured in a passing test.
            let _ = writeln!(io::stderr(), "skipped: this is no clone, or there is no git");
            None
        }
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Returns the lines of each section of a manifest.
fn sections(manifest: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => section = name,
            None => sections.entry(section).or_default().push(line),
        }
    }
    sections
}

/// Returns the crates of the workspace that a section of a manifest names.
fn uses<'m>(sections: &BTreeMap<&'m str, Vec<&'m str>>, section: &str) -> BTreeSet<&'m str> {
    let lines = sections.get(section).map_or(&[][..], Vec::as_slice);
    let name = |line: &&'m str| {
        let name = line.split(['.', ' ', '=']).next()?;
        if name == "carnet" { Some(name) } else { name.strip_prefix("carnet-") }
    };
    lines.iter().filter_map(name).filter(|name| *name != "base").collect()
}

fn manifests() -> Vec<(String, String)> {
    let mut manifests = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        manifests.push((name, fs::read_to_string(path.join("Cargo.toml")).unwrap()));
    }
    manifests.sort();
    manifests
}

#[test]
fn crate_dependencies_follow_the_design() {
    let manifests = manifests();
    let names: Vec<&str> = manifests.iter().map(|(name, _)| name.as_str()).collect();
    for (name, manifest) in &manifests {
        let Some((_, arrows)) = ARROWS.iter().find(|(row, _)| row == name) else {
            panic!("crates/{name} is not in the design");
        };
        let sections = sections(manifest);
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for used in uses(&sections, section) {
                // A crate's tests may depend on the crate itself, with features.
                let is_for_tests = used == name || ARROWS_OF_TESTS.contains(&(name, used));
                let is_allowed =
                    arrows.contains(&used) || section.starts_with("dev") && is_for_tests;
                assert!(
                    is_allowed,
                    "crates/{name} may use {arrows:?}, not {used}: docs/design/0001-arrows.md"
                );
            }
        }
        // `[dependencies.x]` would hide a dependency from this test.
        let hidden = sections.keys().find(|section| section.contains("dependencies."));
        assert_eq!(hidden, None, "crates/{name}: write it as a line of [dependencies]");
    }
    for (name, _) in ARROWS {
        assert!(names.contains(&name), "crates/{name} is gone: take it out of this table");
    }
}

#[test]
fn every_crate_takes_the_workspaces_lints() {
    for (name, manifest) in manifests() {
        let lints = sections(&manifest).get("lints").cloned().unwrap_or_default();
        assert!(lints.contains(&"workspace = true"), "crates/{name} has lints of its own");
    }
}

#[test]
fn a_source_file_holds_one_concept() {
    let Some(files) = tracked() else { return };
    let mut seen = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|name| name == "rs")) {
        if !path.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        seen += 1;
        let lines = fs::read_to_string(path).unwrap().lines().count();
        let shown = shown(path);
        assert!(lines <= SOURCE_LINES_MAX, "{shown} has {lines} lines: split it");
    }
    assert!(seen > 50, "only {seen} source files were found");
}

#[test]
fn no_unfinished_code_remains() {
    // Split in two, so that this file passes.
    let unfinished = [concat!("todo", "!("), concat!("dbg", "!("), concat!("unimplemented", "!(")];
    let Some(files) = tracked() else { return };
    for path in files.iter().filter(|path| path.extension().is_some_and(|name| name == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        for word in unfinished {
            assert!(!text.contains(word), "{} has a {word}…)", shown(path));
        }
    }
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let homes = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let Some(files) = tracked() else { return };
    for path in files {
        // Bytes that are not text are fixtures, and contain no paths.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for home in homes {
                for (at, _) in line.match_indices(home) {
                    let before = line[..at].chars().next_back();
                    let is_inside = before
                        .is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}'));
                    assert!(
                        is_inside,
                        "{}, line {}: {home}… is a path of one machine",
                        shown(&path),
                        number + 1
                    );
                }
            }
        }
    }
}

/// Notes for oneself, which `git add -A` takes along.
#[test]
fn root_has_only_the_documents_of_the_project() {
    const KNOWN: [&str; 5] =
        ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
    let Some(tracked) = tracked() else { return };
    let strangers: Vec<String> = tracked
        .iter()
        .filter(|path| path.parent() == Some(&*root()))
        .map(|path| shown(path))
        .filter(|name| name.ends_with(".md") && !KNOWN.contains(&name.as_str()))
        .collect();
    assert!(strangers.is_empty(), "no documents of the project: {strangers:?}");
}

/// Every binary of tests links all crates again. A crate has one, `all`, and others only for tests that
/// need a process to themselves.
#[test]
fn tests_of_a_crate_are_one_binary() {
    for (name, _) in manifests() {
        let Ok(entries) = fs::read_dir(root().join("crates").join(name).join("tests")) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let file = if path.is_dir() { path.join("main.rs") } else { path.clone() };
            let is_known = ["all", "rules"].iter().any(|name| path.ends_with(name));
            if is_known || !file.exists() || file.extension().is_none_or(|name| name != "rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let head = text.lines().map_while(|line| line.strip_prefix("//!"));
            let head = head.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
            assert!(
                head.contains("a process to itself") || head.contains("a process to themselves"),
                "{}: move the tests to the folder `all`, or begin with the reason why they need a \
                 process to themselves",
                shown(&file)
            );
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let Some(files) = tracked() else { return };
    for path in files.iter().filter(|path| path.extension().is_some_and(|name| name == "md")) {
        let text = fs::read_to_string(path).unwrap();
        for target in links(&text) {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let found = path.parent().unwrap().join(file);
            assert!(found.exists(), "{}: {target} does not exist", shown(path));
        }
    }
}

/// Returns the targets of a document's links, without code.
fn links(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Text between backticks is code, too.
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let by_name = prose.lines().filter_map(|line| {
        let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
        (!name.contains(']')).then_some(target)
    });
    inline.chain(by_name).map(|link| link.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn links_are_distinguished_from_code() {
    let text = "See [a](b.md#c \"title\") and `[x](y)`.\n```\n[p](q)\n```\n[name]: target.md\n";
    assert_eq!(links(text), ["b.md#c", "target.md"]);
}

#[test]
fn dependencies_of_a_manifest_are_read() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\ncarnet-txn.workspace = true\n\
                    carnet = { workspace = true }\ncarnet-base.workspace = true\nbytes = \"1\"\n\
                    [dev-dependencies]\ncarnet-sim = \"1\"";
    let sections = sections(manifest);
    assert_eq!(uses(&sections, "dependencies"), BTreeSet::from(["carnet", "txn"]));
    assert_eq!(uses(&sections, "dev-dependencies"), BTreeSet::from(["sim"]));
}
