//! The root: the content of the mutable pointer.
//!
//! ```text
//! root ── history   transactor 7 at attempt 12 (move 40), transactor 9 at attempt 31 (move 41)
//!      ├─ buffer    k3 = x, k8 deleted, k5 = y          the newest writes, oldest first
//!      ├─ run ──► k2 = b, k8 = c                        writes that left the buffer
//!      └─ top ──► inner ──► leaf: k1 = a, k3 = old      all other keys
//! ```
//!
//! * **The buffer** contains the newest writes, so that most moves of the root put no nodes. The
//!   keys that were not written for longest leave it for *the run*, one node that is rewritten
//!   then; when the run is full, all its writes are applied to the tree, many of them on shared
//!   paths. A lookup checks the buffer, then the run, then the tree.
//! * **The history** contains, for each of the last transactors, its last attempt that moved the
//!   root. A transactor with an unresolved compare-and-set reads the root, and [`Root::judge`]
//!   determines the outcome. The outcome is final, because no two roots have the same bytes and an
//!   attempt expects exactly one root.

use carnet_base::{Bytes, Error, Result};

use crate::codec::{FieldReader, VERSION, put_id, put_number, seal};
use crate::id::{Attempt, NodeId, TransactorId};
use crate::node::{Pointer, Write};

/// Maximum length of a root, in bytes.
pub const ROOT_BYTES_MAX: usize = 4096;

/// Maximum number of transactors in the history.
pub(crate) const HISTORY_MAX: usize = 16;

const NAME: &[u8] = b"root";
const ABSENT: u8 = 2;
const RUN: u8 = 3;

/// A move of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The transactor that moved the root.
    pub transactor: TransactorId,
    /// The attempt of this transactor.
    pub attempt: Attempt,
    /// Number of the move, from 1.
    pub generation: u64,
}

/// References of a root to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// The run: a node with writes that are newer than the tree.
    pub run: Option<NodeId>,
    /// Top of the tree; `None` if it is empty.
    pub top: Option<Pointer>,
}

/// The state of all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Last moves of the last transactors, ascending by generation.
    pub history: Vec<Move>,
    /// Moves up to this generation may be missing in the history.
    pub forgotten: u64,
    /// References to the keys that are not in the buffer.
    pub below: Below,
    /// The newest writes, one per key; the key that was not written for longest is first.
    pub buffer: Vec<Write>,
}

/// Outcome of an attempt to move an earlier root, as judged by a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The attempt moved the root.
    Moved,
    /// The attempt did not move the root, and never will.
    Lost,
    /// The root has not moved yet: the attempt may still be in flight.
    Pending,
    /// The attempt may have been removed from the history by moves of other transactors.
    Forgotten,
}

impl Root {
    /// Returns the number of moves so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.history.last().map_or(0, |last| last.generation)
    }

    /// Returns the last attempt of a transactor that moved the root, if the history contains it.
    #[must_use]
    pub fn last_attempt(&self, transactor: TransactorId) -> Option<Attempt> {
        self.history.iter().find(|moved| moved.transactor == transactor).map(|moved| moved.attempt)
    }

    /// Returns the nodes that this root refers to.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let top = self.below.top.map(|top| top.id);
        self.below.run.into_iter().chain(top).chain(self.buffer.iter().filter_map(Write::node))
    }

    /// Makes the successor of this root, with other references and another buffer.
    pub(crate) fn moved(
        &self,
        transactor: TransactorId,
        attempt: Attempt,
        below: Below,
        buffer: Vec<Write>,
    ) -> Self {
        let generation = self.generation() + 1;
        let mut history = self.history.clone();
        history.retain(|moved| moved.transactor != transactor);
        history.push(Move { transactor, attempt, generation });
        let mut forgotten = self.forgotten;
        while history.len() > HISTORY_MAX {
            forgotten = history.remove(0).generation;
        }
        Self { history, forgotten, below, buffer }
    }

    /// Determines the outcome of an attempt to move a root of generation `from`. This root was read
    /// after the attempt began.
    pub(crate) fn judge(&self, who: TransactorId, attempt: Attempt, from: u64) -> Verdict {
        match self.last_attempt(who) {
            Some(last) if last == attempt => Verdict::Moved,
            // Generations count moves, so this is the root that the attempt expects.
            _ if self.generation() <= from => Verdict::Pending,
            // A transactor begins an attempt only after it knows that the previous one was lost.
            Some(last) if last > attempt => Verdict::Lost,
            _ if self.forgotten <= from => Verdict::Lost,
            _ => Verdict::Forgotten,
        }
    }

    /// Encodes the root.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_number(&mut out, self.forgotten);
        put_number(&mut out, self.history.len() as u64);
        for moved in &self.history {
            out.extend_from_slice(&moved.transactor.0.to_be_bytes());
            put_number(&mut out, moved.attempt.0);
            put_number(&mut out, moved.generation);
        }
        match self.below.run {
            None => out.push(ABSENT),
            Some(run) => {
                out.push(RUN);
                put_id(&mut out, run);
            }
        }
        match self.below.top {
            None => out.push(ABSENT),
            Some(top) => top.encode(&mut out),
        }
        put_number(&mut out, self.buffer.len() as u64);
        for write in &self.buffer {
            write.encode(&mut out);
        }
        seal(out, NAME)
    }

    /// Decodes a root. Keys and values share the input's memory.
    ///
    /// # Errors
    ///
    /// `Corrupted` if [`Root::encode`] did not write these bytes.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        Self::parse(bytes)
            .map_err(|error| Error::corrupted("the root is damaged").with_source(error))
    }

    fn parse(bytes: &Bytes) -> Result<Self> {
        if bytes.len() > ROOT_BYTES_MAX {
            return Err(Error::corrupted(format!(
                "the length of {} bytes is above the limit",
                bytes.len()
            )));
        }
        let mut reader = FieldReader::open(bytes, NAME)?;
        let forgotten = reader.number()?;
        let history = decode_history(&mut reader)?;
        if history.first().is_none_or(|first| first.generation <= forgotten) {
            return Err(Error::corrupted("the history is empty or contains forgotten moves"));
        }
        let run = match reader.byte()? {
            ABSENT => None,
            RUN => Some(reader.id()?),
            other => return Err(Error::corrupted(format!("unknown kind of run: {other}"))),
        };
        let top = match reader.byte()? {
            ABSENT => None,
            0 => Some(Pointer { is_leaf: false, id: reader.id()? }),
            1 => Some(Pointer { is_leaf: true, id: reader.id()? }),
            other => return Err(Error::corrupted(format!("unknown kind of child: {other}"))),
        };
        let mut buffer: Vec<Write> = Vec::new();
        for _ in 0..reader.count()? {
            let write = Write::decode(&mut reader)?;
            if buffer.iter().any(|before| before.key == write.key) {
                return Err(Error::corrupted("a key is buffered twice"));
            }
            buffer.push(write);
        }
        reader.end()?;
        Ok(Self { history, forgotten, below: Below { run, top }, buffer })
    }
}

fn decode_history(reader: &mut FieldReader) -> Result<Vec<Move>> {
    let count = reader.count()?;
    if count > HISTORY_MAX {
        return Err(Error::corrupted(format!("the history has {count} moves")));
    }
    let mut history: Vec<Move> = Vec::with_capacity(count);
    for _ in 0..count {
        let moved = Move {
            transactor: TransactorId(u64::from_be_bytes(reader.fixed()?)),
            attempt: Attempt(reader.number()?),
            generation: reader.number()?,
        };
        let fits = history.iter().all(|before| {
            before.generation < moved.generation && before.transactor != moved.transactor
        });
        // These limits prevent an overflow of the counters at the next move.
        if !fits || moved.attempt > Attempt::MAX || moved.generation >= 1 << 62 {
            return Err(Error::corrupted("the history is out of order"));
        }
        history.push(moved);
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: TransactorId = TransactorId(1);

    fn after(root: &Root, who: u64, attempt: u64) -> Root {
        root.moved(TransactorId(who), Attempt(attempt), Below::default(), Vec::new())
    }

    #[test]
    fn root_determines_the_outcome_of_an_attempt() {
        let from = after(&Root::default(), 2, 9);
        let judge = |root: &Root| root.judge(ME, Attempt(5), from.generation());
        assert_eq!(judge(&from), Verdict::Pending);
        assert_eq!(judge(&after(&from, 1, 5)), Verdict::Moved);
        assert_eq!(judge(&after(&from, 2, 10)), Verdict::Lost);
        // A fence: the transactor's next attempt replaced the expected root.
        assert_eq!(judge(&after(&from, 1, 6)), Verdict::Lost);
        // Another transactor moved the root after the attempt.
        assert_eq!(judge(&after(&after(&from, 1, 5), 2, 10)), Verdict::Moved);
    }

    #[test]
    fn forgotten_attempt_is_neither_moved_nor_lost() {
        let from = after(&Root::default(), 2, 9);
        let others = |mut root: Root, count: u64| {
            for other in 0..count {
                root = after(&root, 100 + other, 1);
            }
            root
        };
        let judge = |root: &Root| root.judge(ME, Attempt(5), from.generation());
        let moved = after(&from, 1, 5);
        assert_eq!(judge(&others(moved.clone(), 15)), Verdict::Moved);
        assert_eq!(judge(&others(moved, 16)), Verdict::Forgotten);
        assert_eq!(judge(&others(from.clone(), 16)), Verdict::Lost);
        assert_eq!(judge(&others(from.clone(), 17)), Verdict::Forgotten);
    }
}
