//! Writes histories in the formats of Elle.

use std::fmt;
use std::io::{self, Write};

use crate::history::{History, Key, Op, Outcome, Transaction};

/// Writes a history as EDN, with one event in each line.
///
/// # Errors
///
/// The errors of `out`.
pub fn write_edn(history: &History, out: &mut impl Write) -> io::Result<()> {
    for event in events(history) {
        let Event { transaction, index, nanos, kind, .. } = event;
        write!(out, "{{:index {index}, :type :{kind}, :process {}, ", transaction.process)?;
        write!(out, ":f :txn, :time {nanos}, :value [")?;
        for (number, op) in transaction.ops.iter().enumerate() {
            out.write_all(if number == 0 { b"" } else { b" " })?;
            write!(out, "[:{} {} ", function(op), EdnKey(op.key()))?;
            match event.value(op) {
                Value::Nil => write!(out, "nil]")?,
                Value::Number(number) => write!(out, "{number}]")?,
                Value::List(list) => {
                    out.write_all(b"[")?;
                    list_of(list, " ", out)?;
                    out.write_all(b"]]")?;
                }
            }
        }
        out.write_all(b"]}\n")?;
    }
    Ok(())
}

/// Writes a history as JSON, with one event in each line. Keywords become strings.
///
/// # Errors
///
/// The errors of `out`.
pub fn write_json(history: &History, out: &mut impl Write) -> io::Result<()> {
    for event in events(history) {
        let Event { transaction, index, nanos, kind, .. } = event;
        write!(out, "{{\"index\":{index},\"type\":\"{kind}\",")?;
        write!(out, "\"process\":{},\"f\":\"txn\",", transaction.process)?;
        write!(out, "\"time\":{nanos},\"value\":[")?;
        for (number, op) in transaction.ops.iter().enumerate() {
            out.write_all(if number == 0 { b"" } else { b"," })?;
            write!(out, "[\"{}\",", function(op))?;
            match op.key() {
                Key::Int(number) => write!(out, "{number},")?,
                Key::Text(text) | Key::Keyword(text) => {
                    serde_json::to_writer(&mut *out, text.as_ref())?;
                    out.write_all(b",")?;
                }
            }
            match event.value(op) {
                Value::Nil => write!(out, "null]")?,
                Value::Number(number) => write!(out, "{number}]")?,
                Value::List(list) => {
                    out.write_all(b"[")?;
                    list_of(list, ",", out)?;
                    out.write_all(b"]]")?;
                }
            }
        }
        out.write_all(b"]}\n")?;
    }
    Ok(())
}

struct Event<'h> {
    transaction: &'h Transaction,
    index: u64,
    nanos: i64,
    kind: &'static str,
    /// Whether read values are written.
    shows_reads: bool,
}

enum Value<'h> {
    Nil,
    Number(i64),
    List(&'h [i64]),
}

impl Event<'_> {
    fn value<'h>(&self, op: &'h Op) -> Value<'h> {
        match op {
            Op::Append { element: value, .. } | Op::Write { value, .. } => Value::Number(*value),
            _ if !self.shows_reads => Value::Nil,
            Op::ReadList { list, .. } => Value::List(list),
            Op::ReadRegister { value, .. } => value.map_or(Value::Nil, Value::Number),
        }
    }
}

/// Returns all invocations and completions in their order.
fn events(history: &History) -> Vec<Event<'_>> {
    let mut events = Vec::with_capacity(2 * history.transactions().len());
    for transaction in history.transactions() {
        let (index, nanos) = (transaction.invoked.index, transaction.invoked.nanos);
        events.push(Event { transaction, index, nanos, kind: "invoke", shows_reads: false });
        if let Some(at) = transaction.completed {
            let (kind, shows_reads) = match transaction.outcome {
                Outcome::Committed => ("ok", true),
                Outcome::Aborted => ("fail", false),
                Outcome::Unknown => ("info", false),
            };
            let (index, nanos) = (at.index, at.nanos);
            events.push(Event { transaction, index, nanos, kind, shows_reads });
        }
    }
    events.sort_by_key(|event| event.index);
    events
}

const fn function(op: &Op) -> &'static str {
    match op {
        Op::Append { .. } => "append",
        Op::Write { .. } => "w",
        Op::ReadList { .. } | Op::ReadRegister { .. } => "r",
    }
}

fn list_of(list: &[i64], between: &str, out: &mut impl Write) -> io::Result<()> {
    for (number, element) in list.iter().enumerate() {
        write!(out, "{}{element}", if number == 0 { "" } else { between })?;
    }
    Ok(())
}

struct EdnKey<'k>(&'k Key);

impl fmt::Display for EdnKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(key) = self;
        match key {
            Key::Int(number) => number.fmt(f),
            // Rust escapes control characters differently than EDN.
            Key::Text(text) => {
                f.write_str("\"")?;
                for c in text.chars() {
                    match c {
                        '"' | '\\' => write!(f, "\\{c}")?,
                        '\n' => f.write_str("\\n")?,
                        '\r' => f.write_str("\\r")?,
                        '\t' => f.write_str("\\t")?,
                        c => write!(f, "{c}")?,
                    }
                }
                f.write_str("\"")
            }
            Key::Keyword(name) => write!(f, ":{name}"),
        }
    }
}
