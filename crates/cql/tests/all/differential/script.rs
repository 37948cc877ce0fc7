//! Recorded scripts: blocks separated by an empty line, each with a statement, `----`, and
//! Cassandra's answer; a known difference ends with a line `!= reason`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use carnet::{Bytes, DataType};

use crate::support::blocks;

const SEPARATOR: &str = "\n----\n";
const DIFFERENCE: &str = "!= ";

/// Answer of a statement without rows.
pub(crate) const OK: &str = "ok\n";

pub(crate) struct Block {
    pub(crate) statement: String,
    pub(crate) answer: String,
    /// Reason for which Carnet's answer differs.
    pub(crate) difference: Option<String>,
}

pub(crate) struct Script {
    name: String,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name)
}

/// Folders of the scripts whose statements are recorded.
const SOURCES: [&str; 2] = ["applications", "statements"];

/// Golden scripts of features and forms that Cassandra does not have.
const EXTENSIONS: [&str; 6] = ["explain", "levels", "open", "raise", "scylladb", "transactions"];

/// Returns the names and statements of all scripts that are recorded.
pub(crate) fn sources() -> Vec<(String, Vec<String>)> {
    let mut sources = Vec::new();
    for source in SOURCES {
        for entry in fs::read_dir(folder(source)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if EXTENSIONS.contains(&name.as_str()) {
                continue;
            }
            let mut statements = blocks::statements(&blocks::read(source, &name));
            // Carnet does not write to it, and each node reads other rows.
            statements.retain(|statement| !statement.contains("system.local"));
            sources.push((name, statements));
        }
    }
    sources.sort();
    sources
}

pub(crate) fn is_updated() -> bool {
    std::env::var_os("UPDATE_GOLDENFILES").is_some()
}

impl Script {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), blocks: Vec::new() }
    }

    pub(crate) fn read(name: &str) -> Self {
        let content = fs::read_to_string(folder("cassandra").join(name)).unwrap();
        let mut script = Self::new(name);
        for block in content.trim_end().split("\n\n") {
            let (statement, rest) = block.split_once(SEPARATOR).unwrap();
            let (answer, difference) = match rest.rsplit_once(DIFFERENCE) {
                Some((answer, reason)) if answer.ends_with('\n') => (answer, Some(reason)),
                _ => (rest, None),
            };
            script.blocks.push(Block {
                statement: statement.to_owned(),
                answer: answer.trim_end().to_owned() + "\n",
                difference: difference.map(str::to_owned),
            });
        }
        script
    }

    pub(crate) fn write(&self) {
        let mut content = String::new();
        for Block { statement, answer, difference } in &self.blocks {
            let _ = write!(content, "{statement}{SEPARATOR}{answer}");
            if let Some(reason) = difference {
                let _ = writeln!(content, "{DIFFERENCE}{reason}");
            }
            content.push('\n');
        }
        fs::write(folder("cassandra").join(&self.name), content.trim_end().to_owned() + "\n")
            .unwrap();
    }

    /// Takes the reasons of the recorded script, for the same statements in the same order.
    pub(crate) fn keep_reasons(&mut self) {
        if !folder("cassandra").join(&self.name).exists() {
            return;
        }
        let mut reasons: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for block in Self::read(&self.name).blocks.into_iter().rev() {
            reasons.entry(block.statement).or_default().push(block.difference);
        }
        for block in &mut self.blocks {
            block.difference = reasons.get_mut(&block.statement).and_then(Vec::pop).flatten();
        }
    }
}

/// Writes the rows of an answer, below the names and types of the columns.
pub(crate) fn rows(columns: &[(String, DataType)], rows: &[Vec<Option<Bytes>>]) -> String {
    let head: Vec<String> = columns.iter().map(|(name, of)| format!("{name} {of}")).collect();
    let mut out = head.join(" | ") + "\n";
    for row in rows {
        let cells: Vec<String> =
            columns.iter().zip(row).map(|((_, of), bytes)| cell(of, bytes.as_ref())).collect();
        let _ = writeln!(out, "{}", cells.join(" | "));
    }
    // An empty line ends a block.
    while out.contains("\n\n") {
        out = out.replace("\n\n", "\n \n");
    }
    out
}

fn cell(data_type: &DataType, bytes: Option<&Bytes>) -> String {
    let Some(bytes) = bytes else { return "null".to_owned() };
    let value = data_type.deserialize_result(bytes);
    value.map_or_else(|error| format!("{bytes:?}: {error}"), |value| value.to_literal())
}

/// Writes an error; only its code is compared.
pub(crate) fn failure(code: i32, message: &str) -> String {
    format!("error 0x{code:04X}: {}\n", message.replace('\n', " "))
}

/// Returns `true` if two answers are the same, or two errors with one code.
pub(crate) fn agree(one: &str, other: &str) -> bool {
    let code = |answer: &str| answer.strip_prefix("error ")?.split(':').next().map(str::to_owned);
    match (code(one), code(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.trim_end() == other.trim_end(),
    }
}
