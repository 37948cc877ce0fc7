//! Test: each command that a page cites for a figure has a form among those of `check`.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{ArgAction, CommandFactory as _};

use super::command::{arguments, program};
use super::groups::groups;
use super::tables::paths;

/// How pages write the programs, and their names in commands of `check`.
const PROGRAMS: [(&str, &str); 5] = [
    ("cargo run --release -p carnet-bench -- ", "carnet-bench "),
    ("carnet-bench -- ", "carnet-bench "),
    ("cd bench/peers && cargo run --release -- ", "bench/peers "),
    ("cargo run --release -p carnet-store-cql --example commit_rows", "commit_rows "),
    ("cargo run --release -p carnet-maelstrom-test -- ", "carnet-maelstrom-test "),
];

/// Options that do not change what a command measures.
const CONDITIONS: [&str; 2] = ["--pin", "--json"];

/// Pages on which each command of a program is cited for a figure; on others `carnet stress` is used as a test.
const STRESS_PAGE: &str = "documents.md";

/// Returns the commands on a page: between backquotes, or lines of a block.
fn commands(page: &str) -> Vec<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let lines = quoted.flat_map(|text| match text.split_once('\n') {
        // A block begins with its language.
        Some((language, block)) if !language.contains(' ') => block.lines().collect(),
        _ => vec![text],
    });
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    words.map(|line| named(&line)).collect()
}

/// Returns a command with the name of its program.
fn named(line: &str) -> String {
    let program = PROGRAMS.iter().find_map(|(begin, name)| Some((name, line.strip_prefix(begin)?)));
    program.map_or_else(|| line.to_owned(), |(name, rest)| format!("{name}{rest}"))
}

/// Returns what a command measures, without numbers: the program, its subcommand or workload, and options that
/// choose another measurement. `None` if it is no command that measures.
fn shape(command: &str) -> Option<String> {
    let words: Vec<&str> = arguments(command).collect();
    let first = words.first().copied().unwrap_or_default();
    let behind = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    let what = match program(command) {
        "carnet-bench" if ["check", "--help"].contains(&first) => return None,
        "carnet-bench" => bench_shape(&words),
        "carnet" if first == "stress" => behind("--workload").unwrap_or("list-append").to_owned(),
        "bench/peers" if first.starts_with('-') || first.is_empty() => return None,
        "bench/peers" => first.to_owned(),
        "commit_rows" | "carnet-maelstrom-test" => String::new(),
        script if script.starts_with("bench/peers/") && script.ends_with("/run") => String::new(),
        _ => return None,
    };
    Some(format!("{} {what}", program(command)).trim().to_owned())
}

fn bench_shape(words: &[&str]) -> String {
    let parser = crate::Arguments::command();
    let first = words.first().copied().unwrap_or_default();
    let Some(subcommand) = parser.find_subcommand(first) else { return String::new() };
    let mut shape = vec![first];
    for argument in subcommand.get_arguments() {
        let Some(long) = argument.get_long() else { continue };
        // Without a default, an option with a value chooses a measurement, or names a place.
        let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
        let chooses = is_flag || ["count", "cluster"].contains(&long);
        let found = words.iter().find(|word| word.strip_prefix("--") == Some(long));
        shape.extend(found.filter(|word| chooses && !CONDITIONS.contains(word)));
    }
    shape.join(" ")
}

fn listed() -> BTreeSet<String> {
    let groups = groups();
    let figures = groups.iter().flat_map(|group| &group.figures);
    figures.flat_map(super::group::Figure::commands).filter_map(shape).collect()
}

/// Returns the commands of a page that are not listed, and the number of its commands.
fn missing(name: &str, page: &str, listed: &BTreeSet<String>) -> (Vec<String>, usize) {
    let is_of_page =
        |command: &String| name == STRESS_PAGE || !command.starts_with("carnet stress");
    let cited: Vec<(String, String)> = commands(page)
        .into_iter()
        .filter(is_of_page)
        .filter_map(|command| Some((shape(&command)?, command)))
        .collect();
    let count = cited.len();
    let missing = cited.into_iter().filter(|(shape, _)| !listed.contains(shape));
    (missing.map(|(_, command)| command).collect(), count)
}

#[test]
fn cited_commands_are_checked() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let (listed, mut all) = (listed(), 0);
    for path in paths(&docs).unwrap() {
        let page = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        let (missing, count) = missing(&name, &page, &listed);
        assert!(missing.is_empty(), "{name} cites what check does not run: {missing:?}");
        all += count;
    }
    assert!(all > 15, "{all} commands are cited");
}

#[test]
fn command_without_a_form_is_missing() {
    let listed = listed();
    let of = |page: &str| missing("documents.md", page, &listed);
    assert_eq!(of("`carnet-bench -- overload --seconds 9 --factors 3`"), (vec![], 1));
    assert_eq!(
        of("`carnet-bench -- overload --pin\n  --shares`, `carnet-bench -- check`"),
        (vec![], 1)
    );
    assert_eq!(of("`carnet stress --dir DATA --workload scan --group 3`"), (vec![], 1));
    assert_eq!(
        of("```sh\ncd bench/peers && cargo run --release -- write --seconds 9\n```"),
        (vec![], 1)
    );
    assert_eq!(of("`--rate 5`, `bench/peers/README.md`, `carnet serve DATA`"), (vec![], 0));
    for unknown in [
        "carnet-bench manifest",
        "carnet-bench overload --shares --memory",
        "carnet stress --dir DATA --workload bank",
        "bench/peers report results",
        "bench/peers/other/run",
    ] {
        let page = format!("first `{unknown}` then\n```sh\n{unknown}\n```");
        assert_eq!(of(&page), (vec![unknown.to_owned(); 2], 2));
    }
    assert_eq!(missing("stress.md", "`carnet stress --workload bank`", &listed), (vec![], 0));
}
