//! Applies a batch's writes to a root: makes the next root and its new nodes. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Bytes, Result};

use crate::id::{Attempt, NodeId, TransactorId};
use crate::node::{Node, Stored, Write};
use crate::options::Shape;
use crate::root::{Below, Root};
use crate::shape::{Editor, Made, Maker, Nodes, needs, run};
use crate::view::Writes;

/// A root while it is changed.
pub(crate) struct Edited<'a> {
    base: &'a Root,
    transactor: TransactorId,
    attempt: Attempt,
    shape: &'a Shape,
    maker: Maker,
    buffer: Vec<Write>,
    /// Writes that leave the buffer.
    evicted: Vec<Write>,
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

    /// Adds writes to the buffer, and selects the writes to evict.
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
            self.buffer.push(Write { key, stored });
        }
        self.evict();
        Ok(())
    }

    fn evict(&mut self) {
        let limit = self.shape.buffer_bytes();
        let mut bytes: usize = self.buffer.iter().map(Write::encoded_len).sum();
        if bytes <= limit {
            return;
        }
        // Shrinks the buffer to half of the limit, so that the next batches put no nodes. A long
        // key is evicted first, so that it does not displace all others.
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

    /// Returns the nodes that have to be read before [`Edited::finish`]. Call it again after they
    /// were read.
    pub(crate) fn needs(&self, nodes: &Nodes) -> Result<BTreeSet<NodeId>> {
        let Below { run: id, top } = self.base.below;
        if self.evicted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let Some(writes) = run(id, nodes)? else { return Ok(id.into_iter().collect()) };
        let writes = self.merged(writes);
        if self.fits_a_run(&writes) {
            return Ok(BTreeSet::new());
        }
        let needed = writes.iter().map(|write| needs(top, nodes, &write.key));
        needed.filter_map(Result::transpose).collect()
    }

    /// Returns the writes that are newer than the tree and do not fit the buffer.
    fn merged(&self, run: &[Write]) -> Vec<Write> {
        let newest = run.iter().chain(&self.evicted).map(|write| (&write.key, write));
        let newest: BTreeMap<&Bytes, &Write> = newest.collect();
        newest.into_values().cloned().collect()
    }

    fn fits_a_run(&self, writes: &[Write]) -> bool {
        let bytes: usize = writes.iter().map(Write::encoded_len).sum();
        bytes <= self.shape.run_bytes_max
    }

    /// Returns the next root, and the nodes that have to be put before it is set.
    pub(crate) fn finish(mut self, nodes: &Nodes) -> Result<(Root, Made)> {
        let mut below = self.base.below;
        if !self.evicted.is_empty() {
            let writes = run(below.run, nodes)?.expect("the run was read");
            let writes = self.merged(writes);
            if self.fits_a_run(&writes) {
                below.run = Some(self.maker.make(Node::Run(writes))?);
            } else {
                let leaf_bytes_max = self.shape.leaf_bytes_max;
                let mut editor = Editor { nodes, maker: &mut self.maker, leaf_bytes_max };
                below = Below { run: None, top: editor.apply(below.top, writes)? };
            }
        }
        let root = self.base.moved(self.transactor, self.attempt, below, self.buffer);
        Ok((root, self.maker.finish()))
    }
}
