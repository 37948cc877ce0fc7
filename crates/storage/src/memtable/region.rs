//! A region: some thousands of neighbouring cells, with the memory they lie in.
//!
//! ```text
//!  leaves   [ heads  | entries ]  [ heads | entries ] …     sorted; a head is 8 bytes of the key
//!               │        │
//!  entries      └ skip   └→ { key, payload: places in the arena, commit, start, older → entry }
//!  arena    [ key payload key payload … ] [ … ]             chunks, only ever appended to
//! ```
//!
//! All keys of a region share their first `skip` bytes, so that the next eight, as one number,
//! tell most keys apart: whole keys are compared only where these are equal. A cell costs no
//! allocation of its own, and dropping a region frees some dozen pieces of memory.

use carnet_base::Timestamp;

use super::CellRef;

/// Cells in a leaf: its heads fill 1 KiB.
pub(super) const LEAF_CELLS: usize = 128;
const CHUNK_BYTES_MIN: usize = 1 << 10;
const CHUNK_BYTES_MAX: usize = 64 << 10;
const NO_ENTRY: u32 = u32::MAX;
const TOMBSTONE: u32 = u32::MAX;
const NO_EXPIRY: u64 = u64::MAX;

/// See the module's essay.
#[derive(Debug, Default)]
pub(super) struct Region {
    skip: usize,
    leaves: Vec<Leaf>,
    entries: Vec<Entry>,
    chunks: Vec<Vec<u8>>,
    /// Bytes of keys and payloads.
    bytes: usize,
    /// Bytes asked of the allocator.
    allocated: usize,
    /// The last cell went behind all others.
    appended: bool,
}

#[derive(Debug)]
struct Leaf {
    heads: Vec<u64>,
    entries: Vec<u32>,
}

/// One version of a cell.
#[derive(Clone, Copy, Debug)]
struct Entry {
    chunk: u32,
    at: u32,
    key_len: u32,
    payload_len: u32,
    commit: u64,
    start: u64,
    expiry: u64,
    older: u32,
}

/// A version as it lies in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRef<'a> {
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) expiry: Option<u64>,
    pub(crate) payload: Option<&'a [u8]>,
}

/// The place of a cell: leaf, and index within it. The end has the number of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    leaf: usize,
    at: usize,
}

/// The eight bytes of a key behind `skip`, as a number in the order of keys.
pub(super) fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Leaf {
    fn new() -> Self {
        Self { heads: Vec::with_capacity(LEAF_CELLS), entries: Vec::with_capacity(LEAF_CELLS) }
    }

    const fn allocated() -> usize {
        size_of::<Self>() + LEAF_CELLS * (size_of::<u64>() + size_of::<u32>())
    }
}

impl Region {
    /// Bytes asked of the allocator.
    pub(super) const fn allocated(&self) -> usize {
        self.allocated
    }

    /// How many versions there are.
    pub(super) const fn versions(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys and payloads.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells whether there are at least two cells, so that the region can be split.
    pub(super) fn is_divisible(&self) -> bool {
        self.leaves.len() > 1 || self.leaves.first().is_some_and(|leaf| leaf.entries.len() > 1)
    }

    fn key(&self, entry: u32) -> &[u8] {
        let entry = &self.entries[entry as usize];
        &self.chunks[entry.chunk as usize][entry.at as usize..][..entry.key_len as usize]
    }

    fn version(&self, entry: &Entry) -> VersionRef<'_> {
        let at = (entry.at + entry.key_len) as usize;
        let payload = (entry.payload_len != TOMBSTONE)
            .then(|| &self.chunks[entry.chunk as usize][at..][..entry.payload_len as usize]);
        VersionRef {
            start: timestamp(entry.start),
            commit: timestamp(entry.commit),
            expiry: (entry.expiry != NO_EXPIRY).then_some(entry.expiry),
            payload,
        }
    }

    /// Finds the first cell that is not before `key`; tells whether it is that key's.
    pub(super) fn seek(&self, key: &[u8]) -> (Place, bool) {
        let Some(first) = self.leaves.first() else { return (Place { leaf: 0, at: 0 }, false) };
        let shared = &self.key(first.entries[0])[..self.skip];
        match key.get(..self.skip).unwrap_or(key).cmp(shared) {
            std::cmp::Ordering::Less => return (Place { leaf: 0, at: 0 }, false),
            std::cmp::Ordering::Greater => return (self.end(), false),
            std::cmp::Ordering::Equal => {}
        }
        let head = head(key, self.skip);
        // The last leaf that does not begin behind the key.
        let leaf = self
            .leaves
            .partition_point(|leaf| self.is_before_or_at(leaf.heads[0], leaf.entries[0], head, key))
            .saturating_sub(1);
        let (at, found) = self.seek_in(&self.leaves[leaf], head, key);
        if at == self.leaves[leaf].entries.len() {
            return (Place { leaf: leaf + 1, at: 0 }, false);
        }
        (Place { leaf, at }, found)
    }

    fn seek_in(&self, leaf: &Leaf, head: u64, key: &[u8]) -> (usize, bool) {
        let mut at = leaf.heads.partition_point(|&other| other < head);
        while at < leaf.heads.len() && leaf.heads[at] == head {
            match self.key(leaf.entries[at]).cmp(key) {
                std::cmp::Ordering::Less => at += 1,
                order => return (at, order.is_eq()),
            }
        }
        (at, false)
    }

    fn is_before_or_at(&self, head: u64, entry: u32, other_head: u64, other: &[u8]) -> bool {
        match head.cmp(&other_head) {
            std::cmp::Ordering::Equal => self.key(entry) <= other,
            order => order.is_lt(),
        }
    }

    /// The place behind the last cell.
    pub(super) const fn end(&self) -> Place {
        Place { leaf: self.leaves.len(), at: 0 }
    }

    /// The place of the next cell.
    pub(super) fn next(&self, place: Place) -> Place {
        if place.at + 1 < self.leaves[place.leaf].entries.len() {
            return Place { at: place.at + 1, ..place };
        }
        Place { leaf: place.leaf + 1, at: 0 }
    }

    /// The place of the cell before, or `None` at the first.
    pub(super) fn previous(&self, place: Place) -> Option<Place> {
        if place.at > 0 {
            return Some(Place { at: place.at - 1, ..place });
        }
        let leaf = place.leaf.checked_sub(1)?;
        Some(Place { leaf, at: self.leaves[leaf].entries.len() - 1 })
    }

    /// The cell at a place, and its versions, newest first; `None` at the end.
    pub(super) fn cell(&self, place: Place) -> Option<(&[u8], Versions<'_>)> {
        let newest = *self.leaves.get(place.leaf)?.entries.get(place.at)?;
        Some((self.key(newest), Versions { region: self, next: newest }))
    }

    /// The newest version of a cell that was committed at or before `read`.
    pub(super) fn get(&self, key: &[u8], read: Timestamp) -> Option<VersionRef<'_>> {
        let (place, true) = self.seek(key) else { return None };
        let (_, mut versions) = self.cell(place)?;
        versions.find(|version| version.commit <= read)
    }

    /// Inserts a version; the same one twice counts once.
    pub(super) fn insert(&mut self, start: Timestamp, commit: Timestamp, cell: &CellRef<'_>) {
        self.shorten_skip(cell.key);
        let (place, found) = self.seek(cell.key);
        if found {
            self.add_version(place, start, commit, cell);
            return;
        }
        let entry = self.push(start, commit, cell);
        let head = head(cell.key, self.skip);
        self.appended = place == self.end();
        if self.leaves.is_empty() {
            self.add_leaf(0, Leaf::new());
            self.leaves[0].heads.push(head);
            self.leaves[0].entries.push(entry);
            return;
        }
        // Behind the last cell of a leaf is in that leaf.
        let place = match place {
            Place { leaf, at: 0 } if leaf > 0 => {
                Place { leaf: leaf - 1, at: self.leaves[leaf - 1].entries.len() }
            }
            place => place,
        };
        let place = self.make_room(place);
        let leaf = &mut self.leaves[place.leaf];
        leaf.heads.insert(place.at, head);
        leaf.entries.insert(place.at, entry);
    }

    /// Makes sure that a leaf has room at a place; returns where the place is then.
    fn make_room(&mut self, place: Place) -> Place {
        let len = self.leaves[place.leaf].entries.len();
        if len < LEAF_CELLS {
            return place;
        }
        let mut right = Leaf::new();
        // Appended cells leave full leaves behind.
        let keep = if place.at == len { len } else { len / 2 };
        let left = &mut self.leaves[place.leaf];
        right.heads.extend(left.heads.drain(keep..));
        right.entries.extend(left.entries.drain(keep..));
        self.add_leaf(place.leaf + 1, right);
        if place.at >= keep && keep > 0 && (place.at > keep || keep == len) {
            return Place { leaf: place.leaf + 1, at: place.at - keep };
        }
        place
    }

    fn add_leaf(&mut self, at: usize, leaf: Leaf) {
        self.leaves.insert(at, leaf);
        self.allocated += Leaf::allocated();
    }

    /// Makes the shared prefix so short that `key` has it too.
    fn shorten_skip(&mut self, key: &[u8]) {
        let Some(first) = self.leaves.first() else {
            self.skip = key.len();
            return;
        };
        let shared = &self.key(first.entries[0])[..self.skip];
        if key.starts_with(shared) {
            return;
        }
        self.skip = common_prefix(shared, key);
        let mut leaves = std::mem::take(&mut self.leaves);
        for leaf in &mut leaves {
            for (head_of, &entry) in leaf.heads.iter_mut().zip(&leaf.entries) {
                *head_of = head(self.key(entry), self.skip);
            }
        }
        self.leaves = leaves;
    }

    fn add_version(
        &mut self,
        place: Place,
        start: Timestamp,
        commit: Timestamp,
        cell: &CellRef<'_>,
    ) {
        let newest = self.leaves[place.leaf].entries[place.at];
        let (mut newer, mut next) = (NO_ENTRY, newest);
        while next != NO_ENTRY && self.entries[next as usize].commit > commit.get() {
            (newer, next) = (next, self.entries[next as usize].older);
        }
        if next != NO_ENTRY && self.entries[next as usize].commit == commit.get() {
            return;
        }
        let entry = self.push(start, commit, cell);
        self.entries[entry as usize].older = next;
        if newer == NO_ENTRY {
            self.leaves[place.leaf].entries[place.at] = entry;
        } else {
            self.entries[newer as usize].older = entry;
        }
    }

    /// Copies a version into the arena.
    fn push(&mut self, start: Timestamp, commit: Timestamp, cell: &CellRef<'_>) -> u32 {
        let payload = cell.payload.unwrap_or_default();
        let len = cell.key.len() + payload.len();
        if self.chunks.last().is_none_or(|chunk| chunk.capacity() - chunk.len() < len) {
            let grown = self.chunks.last().map_or(CHUNK_BYTES_MIN, |last| last.capacity() * 2);
            let chunk = Vec::with_capacity(grown.min(CHUNK_BYTES_MAX).max(len));
            self.allocated += chunk.capacity() + size_of::<Vec<u8>>();
            self.chunks.push(chunk);
        }
        let number = |n: usize| u32::try_from(n).expect("a region is far smaller than 4 GiB");
        let chunk = self.chunks.len() - 1;
        let at = self.chunks[chunk].len();
        self.chunks[chunk].extend_from_slice(cell.key);
        self.chunks[chunk].extend_from_slice(payload);
        self.bytes += len;
        let entry = Entry {
            chunk: number(chunk),
            at: number(at),
            key_len: number(cell.key.len()),
            payload_len: cell.payload.map_or(TOMBSTONE, |payload| number(payload.len())),
            commit: commit.get(),
            start: start.get(),
            expiry: cell.expiry.unwrap_or(NO_EXPIRY),
            older: NO_ENTRY,
        };
        let before = self.entries.capacity();
        self.entries.push(entry);
        self.allocated += (self.entries.capacity() - before) * size_of::<Entry>();
        number(self.entries.len() - 1)
    }

    /// Moves the upper part into a region of its own. Called where [`Region::is_divisible`].
    pub(super) fn split(&mut self) -> Self {
        if self.appended && self.leaves.len() > 1 {
            // The lower part will not grow any more: leave it where it is.
            let last = self.leaves.pop().expect("there are several leaves");
            self.allocated -= Leaf::allocated();
            self.appended = false;
            return self.copy(&last.entries);
        }
        let entries: Vec<u32> =
            self.leaves.iter().flat_map(|leaf| leaf.entries.iter().copied()).collect();
        let (lower, upper) = entries.split_at(entries.len() / 2);
        let upper = self.copy(upper);
        *self = self.copy(lower);
        upper
    }

    /// Copies cells, in order, with their versions.
    fn copy(&self, cells: &[u32]) -> Self {
        let mut copy = Self::default();
        let (Some(&first), Some(&last)) = (cells.first(), cells.last()) else { return copy };
        // What the first and the last key share, all between them share too.
        copy.skip = common_prefix(self.key(first), self.key(last));
        for &newest in cells {
            let key = self.key(newest);
            let mut newer = None;
            for version in (Versions { region: self, next: newest }) {
                let VersionRef { start, commit, expiry, payload } = version;
                let entry = copy.push(start, commit, &CellRef { key, payload, expiry });
                match newer.replace(entry) {
                    None => copy.append(key, entry),
                    Some(newer) => copy.entries[newer as usize].older = entry,
                }
            }
        }
        copy
    }

    /// Adds a cell behind all others, leaving room in every leaf.
    fn append(&mut self, key: &[u8], entry: u32) {
        if self.leaves.last().is_none_or(|leaf| leaf.entries.len() >= LEAF_CELLS * 3 / 4) {
            self.add_leaf(self.leaves.len(), Leaf::new());
        }
        let head = head(key, self.skip);
        let leaf = self.leaves.last_mut().expect("a leaf was added where there was none");
        leaf.heads.push(head);
        leaf.entries.push(entry);
    }

    /// The first key.
    pub(super) fn first_key(&self) -> Option<&[u8]> {
        self.leaves.first().map(|leaf| self.key(leaf.entries[0]))
    }
}

/// The versions of a cell, newest first.
#[derive(Clone)]
pub(super) struct Versions<'a> {
    region: &'a Region,
    next: u32,
}

impl<'a> Iterator for Versions<'a> {
    type Item = VersionRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.region.entries.get(self.next as usize)?;
        self.next = entry.older;
        Some(self.region.version(entry))
    }
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("it was taken from a timestamp")
}
