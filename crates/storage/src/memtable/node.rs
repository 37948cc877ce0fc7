//! A node of the tree: up to `N` entries in the order of their keys.
//!
//! ```text
//!            low ≤ every key < high            bounds of the node
//!  heads     8 bytes of each key after `skip`, as numbers
//!  links     leaf: the newest version of each cell     above: the child that begins at each key
//! ```
//!
//! All keys in `[low, high)` share their first `skip` bytes, so the next eight bytes distinguish
//! most of them: whole keys are compared only if these are equal. The last node of a level has no
//! `high`; its `skip` is the common prefix of its keys, so a key's prefix is compared with that of
//! `low` first.
//!
//! Readers take no lock. `version` is odd while a writer holds the node, and different afterwards.
//! A reader notes it before it reads ([`Node::begin`]) and compares afterwards
//! ([`Node::is_unchanged`]). Until then the values read may be torn and are not used, but every
//! link read refers to a valid value.
#![expect(unsafe_code, reason = "a link's type depends on the node's level")]

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::arena::{Arena, Cell, Link, Ref};

/// Number of polls of a locked node before the thread yields.
const SPINS: u32 = 64;

/// A node; see the module documentation.
pub(super) struct Node<const N: usize> {
    version: AtomicU32,
    /// Level of the node; leaves have level 0.
    level: u32,
    len: AtomicU32,
    skip: AtomicU32,
    low: Link<Cell>,
    high: Link<Cell>,
    /// The next node of the same level.
    next: Link<Self>,
    heads: [AtomicU64; N],
    /// Links to cells at level 0, otherwise to nodes; only [`Node::set`] stores them.
    links: [Link<()>; N],
}

/// Target of an entry.
#[derive(Clone, Copy)]
pub(super) enum Entry<const N: usize> {
    Cell(Ref<Cell>),
    Child(Ref<Node<N>>),
}

/// Returns the eight bytes of a key after `skip`, as a number that sorts like the key.
fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Converts a length to its stored form.
fn kept(len: usize) -> u32 {
    u32::try_from(len).expect("keys are far shorter than 4 GiB")
}

impl<const N: usize> Node<N> {
    /// Makes a node without entries.
    pub(super) fn new(level: u32) -> Self {
        Self {
            version: AtomicU32::new(0),
            level,
            len: AtomicU32::new(0),
            skip: AtomicU32::new(0),
            low: Link::new(None),
            high: Link::new(None),
            next: Link::new(None),
            heads: [const { AtomicU64::new(0) }; N],
            links: [const { Link::new(None) }; N],
        }
    }

    /// Makes the parent of a level's only node and the node that was split off it.
    pub(super) fn above(arena: &Arena, level: u32, left: Ref<Self>, right: Ref<Self>) -> Self {
        let node = Self::new(level);
        let separator = arena.get(right).low.load();
        let separator = separator.map_or(0, |cell| head(arena.key(cell), 0));
        node.set(0, 0, Entry::Child(left));
        node.set(1, separator, Entry::Child(right));
        node.len.store(2, Ordering::Relaxed);
        node
    }

    pub(super) const fn level(&self) -> u32 {
        self.level
    }

    pub(super) fn next(&self) -> Option<Ref<Self>> {
        self.next.load()
    }

    pub(super) fn low(&self) -> Option<Ref<Cell>> {
        self.low.load()
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    fn skip(&self) -> usize {
        self.skip.load(Ordering::Relaxed) as usize
    }

    fn head_at(&self, at: usize) -> u64 {
        self.heads[at].load(Ordering::Relaxed)
    }

    /// Returns the cell of an entry; `None` above the leaves, or if the node changed during the
    /// read.
    pub(super) fn cell(&self, at: usize) -> Option<Ref<Cell>> {
        if self.level != 0 {
            return None;
        }
        // SAFETY: `set` stores links of cells, and only those, in a node of level 0.
        self.links.get(at)?.load().map(|link| unsafe { link.restore() })
    }

    /// Returns the child of an entry; `None` in a leaf, or if the node changed during the read.
    pub(super) fn child(&self, at: usize) -> Option<Ref<Self>> {
        if self.level == 0 {
            return None;
        }
        // SAFETY: `set` stores links of nodes, and only those, in a node above level 0.
        self.links.get(at)?.load().map(|link| unsafe { link.restore() })
    }

    fn set(&self, at: usize, head: u64, entry: Entry<N>) {
        let link = match entry {
            Entry::Cell(cell) if self.level == 0 => cell.erase(),
            Entry::Child(child) if self.level > 0 => child.erase(),
            _ => panic!("leaves hold cells, and nodes above them hold nodes"),
        };
        self.heads[at].store(head, Ordering::Relaxed);
        self.links[at].store(Some(link));
    }
}

/// Reads and writes of optimistic versions.
impl<const N: usize> Node<N> {
    /// Waits until no writer holds the node and returns its version.
    pub(super) fn begin(&self) -> u32 {
        let mut spins = 0;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            spins += 1;
            if spins % SPINS == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Returns `true` if the reads since [`Node::begin`] returned `version` are consistent.
    pub(super) fn is_unchanged(&self, version: u32) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// Locks the node if it still has this version.
    pub(super) fn lock<'a>(&'a self, arena: &'a Arena, version: u32) -> Option<Locked<'a, N>> {
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        self.version.compare_exchange(version, version + 1, order, failed).ok()?;
        fence(Ordering::Release);
        Some(Locked { arena, node: self, version })
    }
}

/// Searches. Results are valid only if the node did not change in between.
impl<const N: usize> Node<N> {
    /// Returns the key of an entry.
    fn key<'a>(&self, arena: &'a Arena, at: usize) -> Option<&'a [u8]> {
        let cell = if self.level == 0 {
            self.cell(at)
        } else {
            // A child begins at its separator from the child before it.
            self.child(at).and_then(|child| arena.get(child).low())
        };
        cell.map(|cell| arena.key(cell))
    }

    /// Returns the number of entries before a key; with `or_at`, at or before it.
    pub(super) fn rank(&self, arena: &Arena, key: &[u8], or_at: bool) -> usize {
        let len = self.len().min(N);
        let skip = self.skip();
        if skip > 0 && self.is_behind_prefix(arena, key, skip) {
            return len;
        }
        let head = head(key, skip);
        // Above the leaves, every key is at or after the first child.
        let first = usize::from(self.level > 0).min(len);
        let lower = self.partition(first, len, |other| other < head);
        if lower == len || self.head_at(lower) != head {
            return lower;
        }
        let upper = self.partition(lower, len, |other| other <= head);
        if upper - lower == 1
            && let Some(cell) = self.cell(lower)
        {
            // Most likely the cell itself: prefetch its payload with its key.
            arena.prefetch_cell(cell);
        }
        let is_before = |at: usize| {
            let order = self.key(arena, at).map_or(Less, |other| other.cmp(key));
            order == Less || (or_at && order == Equal)
        };
        partition(lower, upper, is_before)
    }

    fn partition(&self, from: usize, to: usize, is_before: impl Fn(u64) -> bool) -> usize {
        partition(from, to, |at| is_before(self.head_at(at)))
    }

    /// For the last node of a level: returns `true` if a key is after the node's prefix, so after
    /// all of its entries.
    fn is_behind_prefix(&self, arena: &Arena, key: &[u8], skip: usize) -> bool {
        let (Some(low), None) = (self.low.load(), self.high.load()) else { return false };
        let low = arena.key(low);
        let low = low.get(..skip).unwrap_or(low);
        key.get(..skip).unwrap_or(key).cmp(low) == Greater
    }

    /// Finds a key's entry in a leaf.
    pub(super) fn find(&self, arena: &Arena, key: &[u8]) -> Result<(usize, Ref<Cell>), usize> {
        let at = self.rank(arena, key, false);
        // Most inserted cells are new, and reading the next entry's key would be a cache miss.
        if at >= self.len().min(N) || self.head_at(at) != head(key, self.skip()) {
            return Err(at);
        }
        match self.cell(at) {
            Some(cell) if arena.key(cell) == key => Ok((at, cell)),
            _ => Err(at),
        }
    }
}

/// Returns the first index of a range for which `is_before` is false.
fn partition(from: usize, to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut base, mut len) = (from, to - from);
    while len > 0 {
        let half = len / 2;
        // Selected without a branch, because the direction is unpredictable.
        let (next, rest) = (base + half + 1, len - half - 1);
        (base, len) = if is_before(base + half) { (next, rest) } else { (base, half) };
    }
    base
}

/// A node that this thread has locked.
pub(super) struct Locked<'a, const N: usize> {
    arena: &'a Arena,
    node: &'a Node<N>,
    version: u32,
}

impl<const N: usize> Drop for Locked<'_, N> {
    fn drop(&mut self) {
        self.node.version.store(self.version.wrapping_add(2), Ordering::Release);
    }
}

impl<'a, const N: usize> Locked<'a, N> {
    /// Returns the locked node.
    pub(super) const fn node(&self) -> &'a Node<N> {
        self.node
    }

    pub(super) fn is_full(&self) -> bool {
        self.node.len() == N
    }

    /// Sets the newest version of the cell at `at`.
    pub(super) fn replace(&self, at: usize, newest: Ref<Cell>) {
        self.node.set(at, self.node.head_at(at), Entry::Cell(newest));
    }

    /// Inserts an entry at its key's position. The node must have room.
    pub(super) fn insert(&self, key: &[u8], entry: Entry<N>) {
        self.shorten_skip(key);
        let at = self.node.rank(self.arena, key, true);
        let len = self.node.len();
        for from in (at..len).rev() {
            self.node.heads[from + 1].store(self.node.head_at(from), Ordering::Relaxed);
            self.node.links[from + 1].store(self.node.links[from].load());
        }
        self.node.set(at, head(key, self.node.skip()), entry);
        self.node.len.store(kept(len + 1), Ordering::Relaxed);
    }

    /// Shortens the prefix of the last node of a level to the part that `key` shares with it.
    fn shorten_skip(&self, key: &[u8]) {
        let node = self.node;
        let (Some(low), None) = (node.low.load(), node.high.load()) else { return };
        let shared = common_prefix(self.arena.key(low), key);
        if shared < node.skip() {
            self.set_skip(shared);
        }
    }

    fn set_skip(&self, skip: usize) {
        let node = self.node;
        node.skip.store(kept(skip), Ordering::Relaxed);
        for at in 0..node.len() {
            let key = node.key(self.arena, at).unwrap_or_default();
            node.heads[at].store(head(key, skip), Ordering::Relaxed);
        }
    }

    /// Moves the upper half of a full node to a new node, and returns that with its lower bound. If
    /// `key`, which is about to be inserted, sorts last, as in a table that is appended to, then
    /// the full node keeps all entries and the new node begins with the cell `appended`.
    pub(super) fn split(
        &self,
        key: &[u8],
        appended: Option<Ref<Cell>>,
    ) -> (Ref<Node<N>>, Ref<Cell>) {
        let node = self.node;
        self.shorten_skip(key);
        let len = node.len();
        let (keep, separator) = match appended {
            Some(cell) if node.rank(self.arena, key, true) == len => (len, cell),
            _ => (len / 2, self.low_of(len / 2)),
        };
        let right = Node::new(node.level);
        for at in keep..len {
            right.heads[at - keep].store(node.head_at(at), Ordering::Relaxed);
            right.links[at - keep].store(node.links[at].load());
        }
        right.len.store(kept(len - keep), Ordering::Relaxed);
        right.skip.store(kept(node.skip()), Ordering::Relaxed);
        right.low.store(Some(separator));
        right.high.store(node.high.load());
        right.next.store(node.next.load());
        let right = self.arena.put(right);
        node.len.store(kept(keep), Ordering::Relaxed);
        node.high.store(Some(separator));
        node.next.store(Some(right));
        self.lengthen_skip();
        // No other thread knows the new node yet.
        let locked = self.arena.get(right).lock(self.arena, 0);
        locked.expect("a new node has version 0").lengthen_skip();
        (right, separator)
    }

    /// Returns the lower bound of an entry.
    fn low_of(&self, at: usize) -> Ref<Cell> {
        let cell = match self.node.child(at) {
            Some(child) => self.arena.get(child).low(),
            None => self.node.cell(at),
        };
        cell.expect("every entry but a level's first begins somewhere")
    }

    /// Recomputes `skip` and the heads after a split, if the first 32 bits of the heads are all
    /// equal: recomputing reads all keys.
    fn lengthen_skip(&self) {
        let (node, arena) = (self.node, self.arena);
        let len = node.len();
        let first = usize::from(node.level > 0);
        if len < first + 2 {
            return;
        }
        if (node.head_at(first) ^ node.head_at(len - 1)).leading_zeros() < 32 {
            return;
        }
        let (Some(low), last) = (node.low.load(), node.key(arena, len - 1)) else { return };
        let upper = node.high.load().map(|high| arena.key(high)).or(last);
        let shared = upper.map_or(0, |upper| common_prefix(arena.key(low), upper));
        if shared > node.skip() {
            self.set_skip(shared);
        }
    }
}
