//! Circles between files: files of a crate that import each other, directly or through others.
//!
//! Each circle is a set of files that can only be understood together. Move the names that two
//! files share below both. A folder's `mod.rs` is in a circle where it imports from its children and they
//! import from it.
//!
//! Circles between folders are weaker: their files are in order, but a reader who knows one folder has to
//! know the others, too. Move the file that closes the circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of re-exports that are followed to the file that defines a name.
const HOPS_MAX: usize = 8;

type Module = Vec<String>;

/// The modules of a crate: their files, and the paths that each imports, by the name it gives them.
#[derive(Default)]
struct Modules {
    files: BTreeMap<Module, PathBuf>,
    imports: BTreeMap<Module, Vec<(String, Module)>>,
}

impl Modules {
    fn of_crate(src: &Path) -> Self {
        let mut modules = Self::default();
        for file in rust_files(src) {
            let relative = file.strip_prefix(src).unwrap().with_extension("");
            let mut module: Module =
                relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                module.pop();
            }
            let is_test = module.iter().any(|part| part.contains("test") || part == "models");
            if !is_test {
                modules.files.insert(module, file);
            }
        }
        for (module, file) in &modules.files {
            let source = without_comments_and_tests(&fs::read_to_string(file).unwrap());
            modules.imports.insert(module.clone(), imports(&source, module));
        }
        modules
    }

    /// Returns the module whose file defines the item that a path names, following re-exports.
    fn defining(&self, path: &[String], hops: usize) -> Option<Module> {
        let known = (0..=path.len()).rev().find(|len| self.files.contains_key(&path[..*len]))?;
        let module = path[..known].to_vec();
        let Some(name) = path.get(known).filter(|_| hops < HOPS_MAX) else { return Some(module) };
        let imported = self.imports.get(&module)?.iter().find(|(as_name, _)| as_name == name);
        match imported {
            Some((_, path)) => self.defining(path, hops + 1),
            None => Some(module),
        }
    }

    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let targets = |module: &Module| {
            let imports = self.imports[module].iter();
            let targets = imports.filter_map(|(_, path)| self.defining(path, 0));
            targets.filter(|target| target != module).collect()
        };
        self.files.keys().map(|module| (module, targets(module))).collect()
    }

    /// Returns the circles: the files that reach each other.
    fn circles(&self) -> Vec<BTreeSet<PathBuf>> {
        let arrows = self.arrows();
        let arrows = arrows.iter().map(|(from, to)| ((*from).clone(), to.clone())).collect();
        let files =
            |circle: BTreeSet<Module>| circle.iter().map(|m| self.files[m].clone()).collect();
        circles(&arrows).into_iter().map(files).collect()
    }

    /// Returns the circles between the files and folders of each folder, as text: the folder, and their names.
    fn circles_of_folders(&self) -> Vec<String> {
        let mut by_folder: BTreeMap<&[String], BTreeMap<String, BTreeSet<String>>> =
            BTreeMap::new();
        for (from, targets) in self.arrows() {
            for to in &targets {
                let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                let (Some(child), Some(other)) = (from.get(shared), to.get(shared)) else {
                    continue;
                };
                let arrows = by_folder.entry(&from[..shared]).or_default();
                arrows.entry(child.clone()).or_default().insert(other.clone());
                arrows.entry(other.clone()).or_default();
            }
        }
        let shown = |(folder, arrows): (&[String], BTreeMap<_, _>)| {
            let folder = folder.join("/");
            let shown = move |circle: BTreeSet<String>| {
                format!("{folder}: {}", circle.into_iter().collect::<Vec<_>>().join(" "))
            };
            circles(&arrows).into_iter().map(shown).collect::<Vec<_>>()
        };
        by_folder.into_iter().flat_map(shown).collect()
    }
}

/// Returns the sets of more than one node that reach each other.
fn circles<N: Ord + Clone>(arrows: &BTreeMap<N, BTreeSet<N>>) -> Vec<BTreeSet<N>> {
    let reached = |from: &N| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(node) = left.pop() {
            let next = arrows[&node].iter().filter(|next| seen.insert((*next).clone()));
            left.extend(next.cloned());
        }
        seen
    };
    let reached: BTreeMap<&N, BTreeSet<N>> =
        arrows.keys().map(|node| (node, reached(node))).collect();
    let circle = |node: &N| -> BTreeSet<N> {
        reached[node].iter().filter(|other| reached[other].contains(node)).cloned().collect()
    };
    let circles: BTreeSet<_> = arrows.keys().map(circle).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// Returns the paths that a source names from its crate's root, with the name that each is known by.
fn imports(source: &str, module: &Module) -> Vec<(String, Module)> {
    let mut found = Vec::new();
    let mut line_at = 0;
    for line in source.split_inclusive('\n') {
        let words = line.trim_start();
        let public = words.strip_prefix("pub").map(|rest| rest.trim_start_matches(|c| c != ' '));
        if let Some(begin) = public.map_or(words, str::trim_start).strip_prefix("use ") {
            let at = line_at + line.len() - begin.len();
            let end = source[at..].find(';').map_or(source.len(), |end| at + end);
            tree(&source[at..end], &Vec::new(), &mut found);
        }
        line_at += line.len();
    }
    // Paths that are named where they are used.
    for root in ["crate::", "super::"] {
        for (at, _) in source.match_indices(root) {
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            // The path of a visibility names no definition.
            let begins = source[..at].chars().next_back().is_none_or(|c| !is_path(c))
                && !source[..at].ends_with("pub(in ");
            let text: String = source[at..].chars().take_while(|c| is_path(*c)).collect();
            if begins && !text.ends_with("::") {
                tree(&text, &Vec::new(), &mut found);
            }
        }
    }
    let absolute = |(name, path): (String, Module)| Some((name, from_root(&path, module)?));
    found.into_iter().filter_map(absolute).collect()
}

/// Returns a path from the crate's root; `None` for one of another crate.
fn from_root(path: &[String], module: &Module) -> Option<Module> {
    let mut base = module.clone();
    let mut rest = path;
    match rest.first().map(String::as_str) {
        Some("crate") => base.clear(),
        Some("self") => {}
        Some("super") => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
            base.extend(rest.iter().cloned());
            return Some(base);
        }
        // A child module, or another crate, which then names no file.
        _ => {
            base.extend(rest.iter().cloned());
            return Some(base);
        }
    }
    base.extend(rest[1..].iter().cloned());
    Some(base)
}

/// Takes a tree of imports apart.
fn tree(text: &str, prefix: &Module, found: &mut Vec<(String, Module)>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let mut prefix = prefix.clone();
        prefix.extend(parts(&text[..open]));
        let close = text.rfind('}').filter(|close| *close > open);
        let inner = &text[open + 1..close.unwrap_or(text.len())];
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    tree(&inner[begin..at], &prefix, found);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (path, name) = text.split_once(" as ").unwrap_or((text, ""));
    let mut path: Module = prefix.iter().cloned().chain(parts(path)).collect();
    if path.last().is_some_and(|last| last == "self" && path.len() > 1) {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    let name = if name.trim().is_empty() { last.clone() } else { name.trim().to_owned() };
    found.push((name, path));
}

fn parts(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn without_comments_and_tests(source: &str) -> String {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    // Inline tests stand at the end of a file.
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    code[..end].to_owned()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn no_files_are_in_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut report = String::new();
    for entry in fs::read_dir(&root).unwrap() {
        let src = entry.unwrap().path().join("src");
        for circle in Modules::of_crate(&src).circles() {
            let files =
                circle.iter().map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap());
            writeln!(report, "  {}", files.collect::<Vec<_>>().join(" ")).unwrap();
        }
    }
    assert!(report.is_empty(), "files import each other in a circle:\n{report}");
}

#[test]
fn no_folders_are_in_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let circles = Modules::of_crate(&path.join("src")).circles_of_folders();
        found.extend(circles.into_iter().map(|circle| format!("{name}/{circle}")));
    }
    assert!(found.is_empty(), "files and folders import each other in a circle: {found:#?}");
}

#[test]
fn trees_of_imports_are_taken_apart() {
    let module = ["a".to_owned(), "b".to_owned()].to_vec();
    let source = "pub use super::c::{D, e::{self, F as G}};\nfn f() { crate::x::y(); }";
    let found = imports(source, &module);
    let shown: Vec<String> =
        found.iter().map(|(name, path)| format!("{name}={}", path.join("/"))).collect();
    assert_eq!(shown, ["D=a/c/D", "e=a/c/e", "G=a/c/e/F", "y=x/y"]);
}
