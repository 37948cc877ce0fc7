//! `carnet transactor`: transactions on a tree in a directory, which several processes share.

use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use carnet_base::{
    Bytes, Error, ErrorKind, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, block_on_one,
};
use carnet_storage::disk::{Backend, RealDisk};
use carnet_tree_local::{Answer, Directory, LocalTree, Op, options};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Run transactions on a tree of immutable nodes in a directory, without a server.
///
/// The tree is a map from keys to values and lists. Any number of processes of one machine may use
/// the directory at once: each transaction moves one root by compare-and-set. It is strictly
/// serializable, and durable when the command ends. It has no tables and no CQL: `carnet shell` and
/// `carnet serve` have them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Transactor {
    /// The directory of the tree. Commands that write create it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  carnet transactor ./tree put greeting hello
  carnet transactor ./tree get greeting
  carnet transactor ./tree append log first second
  carnet transactor ./tree txn '[[\"list\", \"log\"], [\"append\", \"log\", \"third\"]]'
  carnet transactor ./tree gc";

#[derive(Subcommand)]
enum What {
    /// Print the value of a key.
    Get { key: String },
    /// Print the elements of a list, one per line.
    List { key: String },
    /// Set the value of a key.
    Put {
        key: String,
        /// The value. Default: standard input.
        value: Option<String>,
    },
    /// Delete a key.
    Delete { key: String },
    /// Add elements to the end of a list, and print the number of its elements.
    Append {
        key: String,
        #[arg(required = true)]
        elements: Vec<String>,
    },
    /// Run operations as one transaction, and print their results as a JSON array.
    ///
    /// Operations are ["get", KEY], ["put", KEY, VALUE], ["delete", KEY], ["list", KEY] and
    /// ["append", KEY, ELEMENT]. Numbers are stored as their digits.
    Txn {
        /// A JSON array of operations. Default: each line of standard input is a transaction, and
        /// each is answered by one line.
        operations: Option<String>,
    },
    /// Remove nodes that crashed or defeated transactions left behind.
    Gc,
    /// Check each node, and show the size and shape of the tree.
    Inspect,
}

/// Maximum length of a transaction in JSON, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

impl Transactor {
    pub(crate) fn run(self) -> Result<()> {
        let out = &mut io::stdout().lock();
        let Self { directory, what } = self;
        let run = |creates, ops| transact(&open(&directory, creates)?.0, ops);
        match what {
            What::Get { key } => {
                let answers = run(false, vec![Op::Read(key.clone().into())])?;
                let Some(Answer::Value(Some(value))) = answers.first() else {
                    bail!("the key {key} has no value in {}", directory.display());
                };
                line(out, value)?;
            }
            What::List { key } => {
                let answers = run(false, vec![Op::ReadList(key.into())])?;
                elements(&answers).iter().try_for_each(|element| line(out, element))?;
            }
            What::Put { key, value } => {
                let value = value.map_or_else(whole_input, |value| Ok(value.into_bytes()))?;
                run(true, vec![Op::Write(key.into(), value.into())])?;
            }
            What::Delete { key } => drop(run(false, vec![Op::Delete(key.into())])?),
            What::Append { key, elements: added } => {
                let key = Bytes::from(key);
                let append = |element: String| Op::Append(key.clone(), element.into());
                let mut ops: Vec<Op> = added.into_iter().map(append).collect();
                ops.push(Op::ReadList(key.clone()));
                writeln!(out, "{}", elements(&run(true, ops)?).len())?;
            }
            What::Txn { operations: Some(text) } => {
                let ops = parsed(&text)?;
                let creates = ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Append(..)));
                writeln!(out, "{}", shown(&run(creates, ops)?))?;
            }
            What::Txn { operations: None } => session(&open(&directory, true)?.0, out)?,
            What::Gc => gc(&open(&directory, false)?.1, out)?,
            What::Inspect => inspect(&open(&directory, false)?.1, out)?,
        }
        Ok(())
    }
}

/// Opens the tree of a directory; commands that write create it.
fn open(directory: &Path, creates: bool) -> Result<(LocalTree, Directory)> {
    if !creates && !directory.is_dir() {
        let directory = directory.display();
        bail!("there is no directory {directory}; put, append and txn create a tree");
    }
    let disk = RealDisk::open_with(directory, Backend::Inline, Arc::new(ThreadSpawn))?;
    let timer = ThreadTimer::lazy(Arc::new(SystemClock), Arc::new(ThreadSpawn));
    let rng = Box::new(SeededRng::from_entropy());
    Ok(carnet_tree_local::open(Arc::new(disk), creates, Arc::new(timer), rng, options())?)
}

fn transact(tree: &LocalTree, ops: Vec<Op>) -> Result<Vec<Answer>> {
    Ok(block_on_one(tree.transact(ops))?)
}

/// Returns the elements of the list that was read last.
fn elements(answers: &[Answer]) -> &[Bytes] {
    match answers.last() {
        Some(Answer::List(elements)) => elements,
        _ => &[],
    }
}

fn line(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    writeln!(out)
}

fn whole_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A longer value is refused by the tree, which names its limit.
    io::stdin().lock().take(LINE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Runs each line of standard input as a transaction.
fn session(tree: &LocalTree, out: &mut impl Write) -> Result<()> {
    let mut input = io::stdin().lock();
    let mut failures = 0_u64;
    for number in 1_u64.. {
        let mut line = Vec::new();
        input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            bail!("line {number} is longer than {LINE_BYTES_MAX} bytes");
        }
        let Some(text) = Some(line.trim_ascii()).filter(|text| !text.is_empty()) else { continue };
        let answers = std::str::from_utf8(text)
            .map_err(|error| Error::invalid("it is not UTF-8").with_source(error))
            .and_then(parsed)
            .and_then(|ops| block_on_one(tree.transact(ops)));
        let answer = answers.map_or_else(
            |error| {
                failures += 1;
                refusal(&error)
            },
            |answers| shown(&answers),
        );
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    match failures {
        0 => Ok(()),
        1 => bail!("one transaction failed"),
        _ => bail!("{failures} transactions failed"),
    }
}

/// Returns the answer to a transaction that failed, or whose outcome is unknown.
fn refusal(error: &Error) -> Value {
    let is_unknown = matches!(error.kind(), ErrorKind::Unknown { .. });
    json!({
        "error": error.to_string(),
        "outcome": if is_unknown { "unknown" } else { "failed" },
    })
}

/// Parses a transaction.
fn parsed(text: &str) -> carnet_base::Result<Vec<Op>> {
    const FORM: &str = "expected an array of operations such as [[\"append\", \"log\", \"a\"], \
                        [\"list\", \"log\"]]";
    let value: Value =
        serde_json::from_str(text).map_err(|error| Error::invalid(FORM).with_source(error))?;
    let ops = value.as_array().ok_or_else(|| Error::invalid(FORM))?;
    ops.iter().map(op).collect()
}

fn op(op: &Value) -> carnet_base::Result<Op> {
    let parts: Option<Vec<&Value>> = op.as_array().map(|parts| parts.iter().collect());
    let parsed = match parts.as_deref() {
        Some([Value::String(name), key]) => match (name.as_str(), scalar(key)) {
            ("get", Some(key)) => Some(Op::Read(key)),
            ("list", Some(key)) => Some(Op::ReadList(key)),
            ("delete", Some(key)) => Some(Op::Delete(key)),
            _ => None,
        },
        Some([Value::String(name), key, value]) => {
            match (name.as_str(), scalar(key), scalar(value)) {
                ("put", Some(key), Some(value)) => Some(Op::Write(key, value)),
                ("append", Some(key), Some(value)) => Some(Op::Append(key, value)),
                _ => None,
            }
        }
        _ => None,
    };
    parsed.ok_or_else(|| {
        Error::invalid(format!(
            "there is no operation {op}: expected [\"get\", KEY], [\"put\", KEY, VALUE], \
             [\"delete\", KEY], [\"list\", KEY] or [\"append\", KEY, ELEMENT] with strings or numbers"
        ))
    })
}

fn scalar(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Number(number) => Some(Bytes::from(number.to_string())),
        _ => None,
    }
}

fn shown(answers: &[Answer]) -> Value {
    let text = |bytes: &Bytes| Value::from(String::from_utf8_lossy(bytes).into_owned());
    answers
        .iter()
        .map(|answer| match answer {
            Answer::Value(value) => value.as_ref().map_or(Value::Null, text),
            Answer::List(elements) => elements.iter().map(text).collect(),
            Answer::Done => Value::from("ok"),
        })
        .collect()
}

fn gc(store: &Directory, out: &mut impl Write) -> Result<()> {
    let collected = block_on_one(store.collect()).context("nothing was removed")?;
    writeln!(
        out,
        "removed {} nodes of {} bytes; kept {}, and {} of open transactors",
        collected.removed, collected.removed_bytes, collected.kept, collected.pending
    )?;
    Ok(())
}

fn inspect(store: &Directory, out: &mut impl Write) -> Result<()> {
    let found = block_on_one(store.inspect())?;
    writeln!(out, "keys {}, in {} bytes of nodes", found.keys, found.bytes)?;
    writeln!(
        out,
        "root {} bytes, moved {} times, {} writes in it, {} in the run",
        found.root_bytes, found.generation, found.buffered, found.in_run
    )?;
    writeln!(
        out,
        "nodes {} inner, {} leaves, {} values; at most {} on the path to a key",
        found.inner, found.leaves, found.values, found.depth
    )?;
    writeln!(
        out,
        "garbage {} nodes, and {} of {} open transactors",
        found.garbage, found.pending, found.writers
    )?;
    writeln!(out, "move\ttransactor\tattempt")?;
    for moved in &found.history {
        writeln!(out, "{}\t{}\t{}", moved.generation, moved.transactor, moved.attempt.0)?;
    }
    Ok(())
}
