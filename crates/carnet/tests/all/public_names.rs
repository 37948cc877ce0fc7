//! `public_names.txt` lists the names that an application may use, at the root of the crate and in its public
//! modules, so that a change of them shows in a diff. Rewrite the list with `UPDATE_GOLDENFILES=1 cargo test -p carnet
//! --test all public_names::`, and read the diff.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

const KINDS: [&str; 9] =
    ["const fn", "async fn", "fn", "struct", "enum", "trait", "const", "static", "type"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the file of a module.
fn file_of(folder: &Path, module: &str) -> PathBuf {
    let file = folder.join(module).with_extension("rs");
    if file.exists() { file } else { folder.join(module).join("mod.rs") }
}

/// Returns the first word that can be a name.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Adds the names that a tree of imports makes, such as `a::{b, c as d}`.
fn imported(tree: &str, path: &str, names: &mut BTreeSet<String>) {
    let tree = tree.trim();
    if let Some((_, group)) = tree.split_once('{') {
        let group = group.strip_suffix('}').unwrap();
        assert!(!group.contains('{'), "{tree}: write one import for each module");
        for part in group.split(',').filter(|part| !part.trim().is_empty()) {
            imported(part, path, names);
        }
        return;
    }
    let last = tree.rsplit([' ', ':']).next().unwrap();
    names.insert(format!("{path}::{last}"));
}

/// Adds the public names of a module, and of the public modules in it.
fn collect(file: &Path, folder: &Path, path: &str, names: &mut BTreeSet<String>) {
    let source = fs::read_to_string(file).unwrap();
    for (at, _) in source.match_indices("\npub ") {
        let item = &source[at + "\npub ".len()..];
        if let Some(tree) = item.strip_prefix("use ") {
            imported(tree.split_once(';').unwrap().0, path, names);
        } else if let Some(module) = item.strip_prefix("mod ") {
            let module = name(module);
            let below = format!("{path}::{module}");
            collect(&file_of(folder, module), &folder.join(module), &below, names);
        } else if let Some(rest) = KINDS.iter().find_map(|kind| item.strip_prefix(kind)) {
            names.insert(format!("{path}::{}", name(rest.trim_start())));
        }
    }
}

/// Adds the macros, which are all at the root.
fn macros(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            macros(&path, names);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        for exported in source.split("#[macro_export]\n").skip(1) {
            let rest = exported.split_once("macro_rules! ").unwrap().1;
            names.insert(format!("carnet::{}!", name(rest)));
        }
    }
}

#[test]
fn public_names_are_those_that_are_listed() {
    let sources = root().join("src");
    let mut names = BTreeSet::new();
    collect(&sources.join("lib.rs"), &sources, "carnet", &mut names);
    macros(&sources, &mut names);
    let found = names.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let list = root().join("public_names.txt");
    if env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(list, found).unwrap();
        return;
    }
    let listed = fs::read_to_string(list).unwrap();
    let [found, listed] = [&found, &listed].map(|text| text.lines().collect::<BTreeSet<_>>());
    let (new, gone) = (&found - &listed, &listed - &found);
    assert!(new.is_empty() && gone.is_empty(), "new names: {new:?}; names that are gone: {gone:?}");
}
