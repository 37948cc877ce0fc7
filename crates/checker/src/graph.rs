//! Graph of the order of transactions, with reasons, in linear size.
//!
//! Some relations have a quadratic number of pairs: all transactions answered before all that were
//! invoked later, all readers of the newest version before all writers that no read shows. Their
//! edges pass through *joints*, nodes that are not transactions:
//!
//! ```text
//! T1 ─┐                 ┌─▶ T4        T1, T2, T3 before T4, T5, T6:
//! T2 ─┼──▶ joint ── via ┼─▶ T5        6 edges in place of 9
//! T3 ─┘                 └─▶ T6
//! ```
//!
//! *Invariant*: an edge *into* a joint has the kind of the relation; edges out of it are
//! [`EdgeKind::Via`]. No transaction is both a source and a target of the same joint, because it
//! would seem to come before itself.

/// Converts a number to a node id.
///
/// # Panics
///
/// From 2³² on, which [`crate::history::HISTORY_OPS_MAX`] rules out.
pub(crate) fn id(number: usize) -> u32 {
    u32::try_from(number).expect("a history is bounded")
}

/// Reason why one node comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum EdgeKind {
    /// It wrote a version that the other overwrote.
    Ww,
    /// It wrote the version that the other read.
    Wr,
    /// It read a version that the other overwrote: an anti-dependency.
    Rw,
    /// Like [`EdgeKind::Ww`], for versions that are in this order only if real time is respected.
    WwByTime,
    /// Like [`EdgeKind::Rw`], for versions that are in this order only if real time is respected.
    RwByTime,
    /// It is an earlier transaction of the same client.
    Session,
    /// It was answered before the other was invoked.
    RealTime,
    /// Second part of an edge through a joint.
    Via,
}

impl EdgeKind {
    pub(crate) const fn is_anti_dependency(self) -> bool {
        matches!(self, Self::Rw | Self::RwByTime)
    }
}

/// A set of kinds of edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeKinds(u8);

impl EdgeKinds {
    pub(crate) fn new(kinds: &[EdgeKind]) -> Self {
        Self(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8))
    }

    pub(crate) const fn contains(self, kind: EdgeKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// Key of an edge without an object.
pub(crate) const NO_KEY: u32 = u32::MAX;

/// An edge without its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    /// Object whose versions are the reason.
    pub(crate) key: u32,
    pub(crate) kind: EdgeKind,
}

/// Builder of a graph.
#[derive(Debug)]
pub(crate) struct GraphBuilder {
    transactions: u32,
    nodes: u32,
    edges: Vec<(u32, Edge)>,
    /// Marks of `relate`, by transaction; a mark is valid while it equals `round`.
    marks: Vec<u32>,
    round: u32,
}

impl GraphBuilder {
    pub(crate) fn new(transactions: usize) -> Self {
        let count = id(transactions);
        Self {
            transactions: count,
            nodes: count,
            edges: Vec::new(),
            marks: vec![0; transactions],
            round: 0,
        }
    }

    /// Adds an edge, unless it leads to its own source.
    pub(crate) fn edge(&mut self, from: u32, to: u32, kind: EdgeKind, key: u32) {
        if from != to {
            self.edges.push((from, Edge { to, key, kind }));
        }
    }

    pub(crate) fn joint(&mut self) -> u32 {
        let node = self.nodes;
        self.nodes = node.checked_add(1).expect("a history is bounded");
        node
    }

    /// Adds edges from all of `readers` to all of `writers` except themselves, in linear space.
    ///
    /// A transaction in both sets would seem to come before itself through a joint, so it gets
    /// separate edges. In a correct history there is at most one. If there are more, each two of
    /// them are a lost update; two are enough to prove that, and the others get no separate edges.
    pub(crate) fn relate(&mut self, readers: &[u32], writers: &[u32], kind: EdgeKind, key: u32) {
        const SMALL: usize = 8;
        if readers.len() * writers.len() <= SMALL.max(readers.len() + writers.len()) {
            for &reader in readers {
                writers.iter().for_each(|&writer| self.edge(reader, writer, kind, key));
            }
            return;
        }
        self.round += 1;
        for &writer in writers {
            self.marks[writer as usize] = self.round;
        }
        let is_both = |builder: &Self, reader: u32| builder.marks[reader as usize] == builder.round;
        let pure = readers.iter().copied().filter(|&reader| !is_both(self, reader));
        let pure: Vec<u32> = pure.collect();
        let both = readers.iter().copied().filter(|&reader| is_both(self, reader));
        for reader in both.take(2).collect::<Vec<_>>() {
            writers.iter().for_each(|&writer| self.edge(reader, writer, kind, key));
        }
        if !pure.is_empty() {
            let joint = self.joint();
            pure.into_iter().for_each(|reader| self.edge(reader, joint, kind, key));
            writers.iter().for_each(|&writer| self.edge(joint, writer, EdgeKind::Via, key));
        }
    }

    pub(crate) fn build(self) -> Graph {
        let mut starts = vec![0u32; self.nodes as usize + 1];
        for (from, _) in &self.edges {
            starts[*from as usize + 1] += 1;
        }
        for node in 0..self.nodes as usize {
            starts[node + 1] += starts[node];
        }
        let none = Edge { to: 0, key: NO_KEY, kind: EdgeKind::Via };
        let mut edges = vec![none; self.edges.len()];
        let mut next = starts.clone();
        for (from, edge) in self.edges {
            let slot = &mut next[from as usize];
            edges[*slot as usize] = edge;
            *slot += 1;
        }
        Graph { transactions: self.transactions, starts, edges }
    }
}

/// A graph with edges sorted by source.
#[derive(Debug)]
pub(crate) struct Graph {
    transactions: u32,
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Returns the number of nodes, including joints.
    pub(crate) fn nodes(&self) -> u32 {
        id(self.starts.len() - 1)
    }

    pub(crate) const fn is_joint(&self, node: u32) -> bool {
        node >= self.transactions
    }

    pub(crate) fn edges_of(&self, node: u32) -> &[Edge] {
        let at = |node: u32| self.starts[node as usize] as usize;
        &self.edges[at(node)..at(node + 1)]
    }
}
