//! Compares the table of dependencies in `ARCHITECTURE.md` with the manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Names between backquotes.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Crates of the workspace that a crate uses in a section of its manifest.
fn used(name: &str, section: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
    let manifest = fs::read_to_string(path).unwrap();
    let lines = manifest.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    let own = names.filter(|name| name.starts_with("carnet"));
    let own = own.map(|name| name.strip_prefix("carnet-").unwrap_or(name).to_owned());
    own.filter(|name| name != "base").collect()
}

#[test]
fn table_has_the_dependencies_of_the_manifests() {
    let (_, table) = PAGE.split_once("| crate | uses |\n").unwrap();
    let mut crates = 0;
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let (program, tests) = cells[1].split_once("; in tests").unwrap_or((cells[1], ""));
        for name in names(cells[0]) {
            assert_eq!(names(program), used(&name, "dependencies"), "{name}");
            let of_tests = used(&name, "dev-dependencies");
            // A crate may use itself, with the features of its tests.
            let of_tests: BTreeSet<String> = of_tests
                .difference(&used(&name, "dependencies"))
                .filter(|other| **other != name)
                .cloned()
                .collect();
            assert_eq!(names(tests), of_tests, "tests of {name}");
            crates += 1;
        }
    }
    assert!(crates >= 15, "{crates} crates");
}
