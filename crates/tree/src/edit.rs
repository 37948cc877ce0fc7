//! What a batch's writes make of a root: the next root, and the nodes below it. No I/O.

use carnet_base::{Bytes, Result};

use crate::id::{Attempt, TransactorId};
use crate::node::{Node, Stored};
use crate::options::Shape;
use crate::root::{Buffered, Root};
use crate::shape::{Change, Editor, Made, Maker, Nodes};
use crate::view::Writes;

/// A root that is being changed.
pub(crate) struct Edited<'a> {
    base: &'a Root,
    transactor: TransactorId,
    attempt: Attempt,
    shape: &'a Shape,
    maker: Maker,
    buffer: Vec<Buffered>,
    /// What goes from the buffer down into the tree.
    evicted: Vec<Buffered>,
}

impl<'a> Edited<'a> {
    pub(crate) fn new(
        base: &'a Root,
        transactor: TransactorId,
        attempt: Attempt,
        shape: &'a Shape,
    ) -> Self {
        let (maker, buffer) = (Maker::new(transactor, attempt), base.buffer.clone());
        Self { base, transactor, attempt, shape, maker, buffer, evicted: Vec::new() }
    }

    /// Writes into the buffer, and chooses what has to leave it.
    pub(crate) fn write(&mut self, writes: Writes) -> Result<()> {
        self.buffer.retain(|write| !writes.contains_key(&write.key));
        for (key, value) in writes {
            let stored = match value {
                None => None,
                Some(value) if value.len() <= self.shape.inline_bytes_max => {
                    Some(Stored::Inline(value))
                }
                Some(value) => Some(Stored::Node(self.maker.make(Node::Value(value))?)),
            };
            self.buffer.push(Buffered { key, stored });
        }
        self.evict();
        Ok(())
    }

    fn evict(&mut self) {
        let limit = self.shape.buffer_bytes();
        let mut bytes: usize = self.buffer.iter().map(Buffered::encoded_len).sum();
        if bytes <= limit {
            return;
        }
        // To half of the limit, so that the next many batches put no node. One long key must not
        // push out all others.
        let mut kept = Vec::new();
        for write in self.buffer.drain(..) {
            let len = write.encoded_len();
            if bytes > limit / 2 || len > limit / 4 {
                bytes -= len;
                self.evicted.push(write);
            } else {
                kept.push(write);
            }
        }
        self.buffer = kept;
    }

    /// Returns the keys whose paths have to be read before [`Edited::finish`].
    pub(crate) fn evicted(&self) -> impl Iterator<Item = &Bytes> {
        self.evicted.iter().map(|write| &write.key)
    }

    /// Returns the next root, and the nodes that have to be put before it is set.
    pub(crate) fn finish(mut self, nodes: &Nodes) -> Result<(Root, Made)> {
        let changes = self.evicted.into_iter().map(|write| Change::new(write.key, write.stored));
        let changes: Vec<Change> = changes.collect();
        let mut top = self.base.top;
        if !changes.is_empty() {
            let leaf_bytes_max = self.shape.leaf_bytes_max;
            let mut editor = Editor { nodes, maker: &mut self.maker, leaf_bytes_max };
            top = editor.apply(top, changes)?;
        }
        let root = self.base.moved(self.transactor, self.attempt, top, self.buffer);
        Ok((root, self.maker.finish()))
    }
}
