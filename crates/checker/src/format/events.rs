//! Turns invocations and completions into transactions.

use crate::error::{BadHistory, Result};
use crate::format::datum::Datum;
use crate::format::open::{Open, answers, stranger};
use crate::history::{History, Key, Moment, Op, Outcome, Transaction};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Invoke,
    Complete(Outcome),
}

#[derive(Debug)]
struct Event {
    phase: Phase,
    process: Option<i64>,
    index: Option<u64>,
    nanos: i64,
    /// A read of nil is treated as a read of an empty list until the workload is known.
    ops: Vec<Op>,
}

/// Collects the events of a file.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: Vec<Event>,
    has_registers: bool,
}

impl Events {
    /// Adds an event, unless it does not belong to a client's transaction.
    pub(crate) fn add(&mut self, datum: &Datum<'_>) -> Result<()> {
        if !matches!(datum, Datum::Map(_)) {
            return Err(BadHistory::new(format!("{datum} is not an event: an event is a map")));
        }
        if datum.field("f").is_some_and(|f| *f != Datum::Nil && f.name() != Some("txn")) {
            return Ok(());
        }
        let process = match datum.field("process") {
            None | Some(Datum::Nil) => None,
            Some(Datum::Int(process)) => Some(*process),
            // The nemesis, or another process that is not a client.
            Some(_) => return Ok(()),
        };
        let phase = match datum.field("type").and_then(Datum::name) {
            Some("invoke") => Phase::Invoke,
            Some("ok") => Phase::Complete(Outcome::Committed),
            Some("fail") => Phase::Complete(Outcome::Aborted),
            Some("info") => Phase::Complete(Outcome::Unknown),
            _ => {
                return Err(BadHistory::new(
                    "an event's `type` is `invoke`, `ok`, `fail` or `info`",
                ));
            }
        };
        let index = match datum.field("index") {
            None | Some(Datum::Nil) => None,
            Some(Datum::Int(index)) if *index >= 0 => Some(index.unsigned_abs()),
            Some(other) => return Err(BadHistory::new(format!("{other} is not an index"))),
        };
        let nanos = match datum.field("time") {
            Some(Datum::Int(nanos)) => *nanos,
            _ => 0,
        };
        let ops = self.ops(datum.field("value").unwrap_or(&Datum::Nil))?;
        self.events.push(Event { phase, process, index, nanos, ops });
        Ok(())
    }

    fn ops(&mut self, value: &Datum<'_>) -> Result<Vec<Op>> {
        match value {
            Datum::Nil => Ok(Vec::new()),
            Datum::List(items) => items.iter().map(|item| self.op(item)).collect(),
            other => Err(BadHistory::new(format!("{other} is not a list of operations"))),
        }
    }

    fn op(&mut self, datum: &Datum<'_>) -> Result<Op> {
        let Datum::List(parts) = datum else {
            return Err(BadHistory::new(format!(
                "{datum} is not an operation [function key value]"
            )));
        };
        let [function, key, value] = &parts[..] else {
            return Err(BadHistory::new(format!(
                "an operation is [function key value], not {datum}"
            )));
        };
        let key = match key {
            Datum::Int(number) => Key::Int(*number),
            Datum::Text(text) => Key::Text(text.as_ref().into()),
            Datum::Keyword(name) => Key::Keyword((*name).into()),
            other => {
                return Err(BadHistory::new(format!(
                    "not supported yet: {other} as a key; keys are numbers, strings or keywords"
                )));
            }
        };
        let op = match (function.name(), value) {
            (Some("append"), value) => Op::Append { key, element: number(value)? },
            (Some("w"), value) => Op::Write { key, value: number(value)? },
            (Some("r"), Datum::Nil) => Op::ReadList { key, list: Vec::new() },
            (Some("r"), Datum::List(items)) => {
                Op::ReadList { key, list: items.iter().map(number).collect::<Result<_>>()? }
            }
            (Some("r"), value) => Op::ReadRegister { key, value: Some(number(value)?) },
            _ => {
                return Err(BadHistory::new(format!(
                    "not supported yet: {function} as a function; there are `append`, `r` and `w`"
                )));
            }
        };
        self.has_registers |= matches!(op, Op::Write { .. } | Op::ReadRegister { .. });
        Ok(op)
    }

    /// Joins invocations with their completions.
    pub(crate) fn finish(mut self) -> Result<History> {
        if self.events.is_empty() {
            return Err(BadHistory::new(
                "there is no transaction in it: an event has a `:type` and a `:value`, and where \
                 it has them, `:f` is `:txn` and `:process` a number",
            ));
        }
        let has_registers = self.has_registers;
        self.number()?;
        let mut transactions = if self.events.iter().any(|event| event.phase == Phase::Invoke) {
            join(self.events)?
        } else {
            without_time(self.events)?
        };
        if has_registers {
            for op in transactions.iter_mut().flat_map(|transaction| &mut transaction.ops) {
                if let Op::ReadList { key, list } = op
                    && list.is_empty()
                {
                    *op = Op::ReadRegister { key: key.clone(), value: None };
                }
            }
        }
        History::new(transactions)
    }

    /// Numbers the events if they have no indices, and sorts them.
    fn number(&mut self) -> Result<()> {
        let given = self.events.iter().filter(|event| event.index.is_some()).count();
        if given == 0 {
            self.events.iter_mut().zip(0..).for_each(|(event, index)| event.index = Some(index));
        } else if given < self.events.len() {
            return Err(BadHistory::new("some events have an `:index`, some do not"));
        }
        self.events.sort_by_key(|event| event.index);
        Ok(())
    }
}

impl Event {
    fn moment(&self) -> Moment {
        Moment { index: self.index.expect("all events were numbered"), nanos: self.nanos }
    }
}

fn number(datum: &Datum<'_>) -> Result<i64> {
    match datum {
        Datum::Int(number) => Ok(*number),
        other => Err(BadHistory::new(format!(
            "not supported yet: {other} as a value; values are 64-bit numbers"
        ))),
    }
}

fn join(events: Vec<Event>) -> Result<Vec<Transaction>> {
    let mut transactions: Vec<Transaction> = Vec::with_capacity(events.len() / 2);
    let mut open = Open::default();
    for event in events {
        let moment = event.moment();
        let bad = |message: &str| BadHistory::new(message).at(format!("index {}", moment.index));
        match event.phase {
            Phase::Invoke => {
                let number = transactions.len();
                open.invoke(event.process, number, &event.ops).map_err(bad)?;
                transactions.push(Transaction {
                    process: event.process.unwrap_or_else(|| stranger(moment.index)),
                    invoked: moment,
                    completed: None,
                    outcome: Outcome::Unknown,
                    ops: event.ops,
                });
            }
            Phase::Complete(outcome) => {
                let number = open.complete(event.process, &event.ops).map_err(bad)?;
                let transaction = &mut transactions[number];
                transaction.completed = Some(moment);
                transaction.outcome = outcome;
                if outcome == Outcome::Committed {
                    if !answers(&transaction.ops, &event.ops) {
                        return Err(bad("the operations differ from the invoked ones"));
                    }
                    transaction.ops = event.ops;
                }
            }
        }
    }
    Ok(transactions)
}

/// Creates transactions from completions only: all may have been concurrent.
fn without_time(events: Vec<Event>) -> Result<Vec<Transaction>> {
    let count = u64::try_from(events.len()).expect("64 bits count all events in memory");
    let transaction = |(event, place): (Event, u64)| {
        let Phase::Complete(outcome) = event.phase else {
            return Err(BadHistory::new("an invocation among completions"));
        };
        let moment = |index| Moment { index, nanos: event.nanos };
        Ok(Transaction {
            process: event.process.unwrap_or_else(|| stranger(place)),
            invoked: moment(place),
            completed: Some(moment(count + place)),
            outcome,
            ops: event.ops,
        })
    };
    events.into_iter().zip(0..).map(transaction).collect()
}
