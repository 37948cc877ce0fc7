//! Keeps the examples of the pages, and of the help, true: each fenced block is checked by its
//! language, against the real binary. Words behind the language, which readers do not see, say more.
//!
//! | block | test |
//! | --- | --- |
//! | `sh`, `console` | the arguments of each command `carnet` are parsed by the program |
//! | `sh run` | the block runs as a script as well, beside the database `carnet-data` |
//! | `console run` | the commands behind `$` run, too, and print the lines below them: `…` stands for any text |
//! | `toml` | `carnet config check` takes it, beside the files that it names |
//! | `sql` | `carnet check` takes its statements |
//! | `cql` | it runs, and has the answers that it shows: test `docs` of `carnet-cql` |
//! | `text` | formats, grammars and drawings; it has no command of `carnet` |
//! | another language, with `elsewhere="TEST in FILE"` | the file has a test of this name |
//! | another language, with `unchecked="…"` | none, for this reason |

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{carnet, shell, succeed, text};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};

/// A line of a users file.
const USERS: &str =
    "ann:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$d17tMH7Q1CdaUEKQ4nz7hOTfxJW0p6Muqb0f8nJuJAE\n";

/// A fenced block of a page.
struct Block {
    page: String,
    line: usize,
    language: String,
    /// Words behind the language.
    marks: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the pages for users, by their paths. Decisions tell of earlier states.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for folder in ["", "docs", "docs/cql"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".md") && name != "CHANGELOG.md" {
                let page = Path::new(folder).join(name).to_str().unwrap().to_owned();
                pages.insert(page, fs::read_to_string(path).unwrap());
            }
        }
    }
    pages
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (page, content) in pages() {
        let mut is_open = false;
        for (number, line) in content.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match fence {
                Some(_) if is_open => is_open = false,
                Some(info) => {
                    let (language, marks) = info.split_once(' ').unwrap_or((info, ""));
                    let (language, marks) = (language.to_owned(), marks.to_owned());
                    let (page, line) = (page.clone(), number + 1);
                    blocks.push(Block { page, line, language, marks, text: String::new() });
                    is_open = true;
                }
                None if is_open => {
                    let block = blocks.last_mut().unwrap();
                    block.text += line;
                    block.text.push('\n');
                }
                None => {}
            }
        }
        assert!(!is_open, "{page} has a block without an end");
    }
    blocks
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// Returns the lines of the block, continued ones joined, without prompts and comments.
    fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ").replace("&&\n", "&& ");
        let command = |line: &str| {
            let line = line.trim().trim_start_matches("$ ");
            line.split("  #").next().unwrap().split(" # ").next().unwrap().trim().to_owned()
        };
        joined.lines().map(command).filter(|line| !line.is_empty()).collect()
    }
}

/// Splits a command into words as a shell does. Redirections and further commands end it.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => words.last_mut().unwrap().push(letter),
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter == ' ' => words.push(String::new()),
            None => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    let is_end = |word: &String| ["|", "&&", "<", ">", ">>", ";"].contains(&word.as_str());
    let end = words.iter().position(is_end).unwrap_or(words.len());
    words.truncate(end);
    words
}

/// Returns the arguments of each command `carnet` in a line.
fn arguments(line: &str) -> Vec<Vec<String>> {
    let of_binary = line.split(" && ").flat_map(|command| command.split(" | "));
    let command = |command: &str| {
        let words = words(command);
        let words = match words.first().map(String::as_str) {
            Some("carnet") => words[1..].to_vec(),
            Some("cargo")
                if words.starts_with(&["cargo", "run", "--release", "--"].map(str::to_owned)) =>
            {
                words[4..].to_vec()
            }
            _ => return None,
        };
        // The benchmark of other engines is run in another folder.
        (words.first().is_some_and(|first| !["write", "read", "--help"].contains(&first.as_str())))
            .then_some(words)
    };
    of_binary.filter_map(command).collect()
}

/// Lets the program parse arguments: `--help` behind them is answered if the ones before are known.
fn parse(arguments: &[String], place: &str) {
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    // A part that the reader chooses.
    let shown = arguments[..end].iter().map(|word| word.replace("PORT", "9042"));
    let output = carnet().args(shown).arg("--help").output().unwrap();
    assert!(
        output.status.success(),
        "{place}: carnet {}\n{}",
        arguments.join(" "),
        text(&output.stderr)
    );
}

#[test]
fn every_block_has_a_test() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for block in blocks() {
        let place = block.place();
        *counts.entry(block.language.clone()).or_default() += 1;
        match (block.language.as_str(), block.marks.as_str()) {
            ("sh" | "console", "" | "run") | ("toml" | "sql" | "cql", "") => {}
            ("text", "") => {
                let is_command = |line: &str| line.trim_start_matches("$ ").starts_with("carnet ");
                let command = block.text.lines().find(|line| is_command(line));
                assert_eq!(command, None, "{place}: a block of commands is `sh`");
            }
            (_, marks) if marks.starts_with("unchecked=\"") => {
                assert!(marks.len() > "unchecked=\"\"".len() + 10, "{place}: why?");
            }
            (_, marks) => {
                let reason =
                    marks.strip_prefix("elsewhere=\"").and_then(|rest| rest.strip_suffix('"'));
                let reason = reason.unwrap_or_else(|| {
                    panic!(
                        "{place}: ```{} {marks}: elsewhere=\"TEST in FILE\" names its test",
                        block.language
                    )
                });
                let (test, file) = reason.split_once(" in ").unwrap_or((reason, ""));
                let source = fs::read_to_string(root().join(file)).unwrap_or_default();
                let has_test = source.contains(&format!("#[test]\nfn {test}()"))
                    || source.contains(&format!("#[test]\n    fn {test}()"));
                assert!(has_test, "{place}: there is no test {test} in {file:?}");
            }
        }
    }
    assert!(counts["sh"] > 20 && counts["toml"] >= 7 && counts["cql"] >= 15, "{counts:?}");
}

#[test]
fn commands_of_blocks_are_parsed() {
    let mut parsed = 0;
    for block in blocks() {
        if !["sh", "console"].contains(&block.language.as_str()) {
            continue;
        }
        for command in block.commands() {
            for arguments in arguments(&command) {
                parse(&arguments, &block.place());
                parsed += 1;
            }
        }
    }
    assert!(parsed > 35, "{parsed} commands");
}

/// Commands within sentences and tables have only words that the program's help knows.
#[test]
fn commands_within_sentences_are_known() {
    let mut known = 0;
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |command: &str| {
        let text = || {
            let output = carnet().args(command.split(' ')).arg("--help").output().unwrap();
            if output.status.success() { text(&output.stdout).to_owned() } else { String::new() }
        };
        helps.entry(command.to_owned()).or_insert_with(text).clone()
    };
    for (page, content) in pages() {
        for span in content.split('`').filter_map(|span| span.strip_prefix("carnet ")) {
            let words: Vec<&str> = span.split_whitespace().collect();
            let Some(command) = words.first().filter(|word| !word.starts_with('-')) else {
                continue;
            };
            let mut command = (*command).to_owned();
            let is_plain = |word: &&&str| {
                word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
            };
            if ["config", "inspect"].contains(&command.as_str())
                && let Some(second) = words.get(1).filter(is_plain)
            {
                command = format!("{command} {second}");
            }
            let help = help(&command);
            assert!(!help.is_empty(), "{page}: `carnet {span}`: there is no such command");
            for option in
                words.iter().take_while(|word| **word != "--").filter(|word| word.starts_with("--"))
            {
                let name = option.split('=').next().unwrap();
                let name = name.trim_end_matches([',', '.', '…']);
                let is_option_letter =
                    |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
                let is_known =
                    help.split(|letter| !is_option_letter(letter)).any(|word| word == name);
                assert!(is_known, "{page}: `carnet {span}`: there is no {name}");
            }
            known += 1;
        }
    }
    assert!(known > 80, "{known} commands");
}

/// The examples behind the help of each command.
#[test]
fn examples_of_the_help_are_parsed() {
    let help = succeed(carnet().arg("--help"));
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names = commands.lines().map_while(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    });
    let mut parsed = 0;
    for name in names.filter(|name| name != "help") {
        let help = succeed(carnet().args([&name, "--help"]));
        let Some((_, examples)) = help.split_once("Examples:\n") else { continue };
        for line in examples.replace("&&\n", "&& ").replace("\\\n", " ").lines() {
            for arguments in arguments(line.trim()) {
                parse(&arguments, &format!("carnet {name} --help"));
                parsed += 1;
            }
        }
    }
    assert!(parsed > 20, "{parsed} examples");
}

/// Returns a list of revoked certificates, which has none, of an authority.
fn revocations() -> String {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::CrlSign];
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(4000, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
    list.signed_by(&issuer).unwrap().pem().unwrap()
}

/// A folder with the files that settings name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    succeed(carnet().args(["config", "tls-init", "tls"]).current_dir(folder.path()));
    fs::write(folder.path().join("token"), "a-token-of-more-than-16-letters").unwrap();
    fs::write(folder.path().join("tls/ca.crl"), revocations()).unwrap();
    let users = folder.path().join("users");
    fs::write(&users, USERS).unwrap();
    fs::set_permissions(users, fs::Permissions::from_mode(0o600)).unwrap();
    folder
}

#[test]
fn settings_are_taken() {
    let folder = folder();
    let mut taken = 0;
    for block in blocks().iter().filter(|block| block.language == "toml") {
        fs::write(folder.path().join("carnet.toml"), &block.text).unwrap();
        let mut check = carnet();
        let output =
            check.args(["config", "check", "carnet.toml"]).current_dir(folder.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}: {}", block.place(), text(&output.stderr));
        taken += 1;
    }
    assert!(taken >= 7, "{taken} files");
}

#[test]
fn statements_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted = 0;
    for block in blocks().iter().filter(|block| block.language == "sql") {
        let path = folder.path().join("page.cql");
        // The last statement of an example may lack its end.
        fs::write(&path, format!("{};\n", block.text.trim_end().trim_end_matches(';'))).unwrap();
        let output = carnet().args(["check", "--allow-missing"]).arg(&path).output().unwrap();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{}: {said}", block.place());
        accepted += 1;
    }
    assert!(accepted >= 4, "{accepted} blocks");
}

/// Blocks that need nothing but a database run as they are printed.
#[test]
fn scripts_run() {
    let mut run = 0;
    for block in blocks().iter().filter(|block| block.marks == "run" && block.language == "sh") {
        let folder = folder_with_database();
        // Another volume.
        run_script(&folder, &block.commands().join("\n").replace("/mnt/", "./"), &block.place());
        run += 1;
    }
    assert!(run >= 1, "{run} scripts");
}

/// A folder with the database `carnet-data`, which has the example's tables.
fn folder_with_database() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bank = fs::read_to_string(root().join("examples/bank.cql")).unwrap();
    succeed(&mut shell(&folder.path().join("carnet-data"), &bank));
    folder
}

/// Runs a script in a folder; returns its output.
fn run_script(folder: &tempfile::TempDir, script: &str, place: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_carnet")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut sh = Command::new("sh");
    sh.args(["-e", "-c", script]).current_dir(folder.path()).env("PATH", path).env_remove("HOME");
    let output = sh.output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{place}: {script}\n{said}");
    said
}

/// Returns `true` if a text has the parts of a pattern, whose `…` stands for any text.
fn has_form(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    true
}

#[test]
fn forms_are_compared() {
    for (text, pattern, expected) in [
        ("ann", "ann", true),
        ("anna", "ann", false),
        ("moved 3 times", "moved … times", true),
        ("moved 3 time", "moved … times", false),
        ("a 1 b 2", "a … b …", true),
        ("a 1 c 2", "a … b …", false),
    ] {
        assert_eq!(has_form(text, pattern), expected, "{text} {pattern}");
    }
}

/// Each command prints the lines that the page shows below it.
#[test]
fn commands_print_what_the_page_shows() {
    let mut run = 0;
    for block in blocks().iter().filter(|block| block.marks == "run" && block.language == "console")
    {
        let folder = folder_with_database();
        for step in block.text.split("$ ").filter(|step| !step.is_empty()) {
            let (command, expected) = step.split_once('\n').unwrap();
            let place = format!("{}: {command}", block.place());
            let printed = run_script(&folder, command, &place);
            let (printed, expected) = (printed.trim_end(), expected.trim_end());
            assert!(has_form(printed, expected), "{place}: expected\n{expected}\nbut\n{printed}");
            run += 1;
        }
    }
    assert!(run >= 11, "{run} commands");
}

/// The unit of systemd starts the server with options that it has.
#[test]
fn example_of_a_unit_starts_a_server() {
    let unit = fs::read_to_string(root().join("examples/carnet.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let (program, rest) = start.split_once(' ').unwrap();
    assert!(program.ends_with("/carnet"), "{start}");
    parse(&words(rest), "examples/carnet.service");
}
