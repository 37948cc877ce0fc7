//! Invocations that wait for their completion.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::history::Op;

/// Open invocations by process, or by operations for invocations without a process.
#[derive(Debug, Default)]
pub(crate) struct Open {
    by_process: HashMap<i64, usize>,
    by_ops: HashMap<String, Vec<usize>>,
}

impl Open {
    /// Adds an invocation with the number of its transaction.
    pub(crate) fn invoke(
        &mut self,
        process: Option<i64>,
        number: usize,
        ops: &[Op],
    ) -> Result<(), &'static str> {
        match process {
            Some(process) if self.by_process.insert(process, number).is_some() => {
                Err("its process invokes again before it was answered")
            }
            Some(_) => Ok(()),
            None => {
                self.by_ops.entry(signature(ops)).or_default().push(number);
                Ok(())
            }
        }
    }

    /// Removes the invocation that an event completes, and returns its transaction.
    pub(crate) fn complete(
        &mut self,
        process: Option<i64>,
        ops: &[Op],
    ) -> Result<usize, &'static str> {
        const NOT_INVOKED: &str = "it completes a transaction that was not invoked";
        if let Some(process) = process {
            return self.by_process.remove(&process).ok_or(NOT_INVOKED);
        }
        let mut signature = signature(ops);
        if ops.is_empty() && !self.by_ops.contains_key(&signature) {
            // A failure may omit its operations if there is a single open invocation.
            let mut open = self.by_ops.keys();
            if let (Some(only), None) = (open.next(), open.next()) {
                signature.clone_from(only);
            }
        }
        match self.by_ops.get(&signature).map(Vec::as_slice) {
            Some(&[number]) => {
                self.by_ops.remove(&signature);
                Ok(number)
            }
            Some([]) | None => Err(NOT_INVOKED),
            Some(_) => Err("several open invocations have its operations: give each event of \
                            theirs the client's `:process`"),
        }
    }
}

/// Returns operations as text without read values: the same for an invocation and its completion.
fn signature(ops: &[Op]) -> String {
    let mut text = String::new();
    for op in ops {
        // Writing to a string cannot fail.
        let _ = match op {
            op if op.is_read() => write!(text, "r {:?};", op.key()),
            op => write!(text, "{op:?};"),
        };
    }
    text
}

/// Returns `true` if operations match the invocation, with any read values.
pub(crate) fn answers(invoked: &[Op], completed: &[Op]) -> bool {
    let is_same = |(a, b): (&Op, &Op)| {
        a.key() == b.key() && (a.is_read() && b.is_read() || !a.is_read() && a == b)
    };
    invoked.len() == completed.len() && invoked.iter().zip(completed).all(is_same)
}

/// Returns a unique process for a transaction without one.
pub(crate) fn stranger(place: u64) -> i64 {
    i64::try_from(place).map_or(i64::MIN, |place| -1 - place)
}
