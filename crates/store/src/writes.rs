//! The writes of a transaction in memory.
//!
//! ```text
//!  few     bytes  key │ payload │ key │ payload │ …     in the order written
//!          cells  (where, lengths) …                    in the order of keys
//!  many    key → payload                                for more cells, or large ones
//! ```
//!
//! Most transactions write a few small cells. These are copied one behind the other into one buffer
//! and found by binary search, so that a put allocates nothing. Overwritten values stay there and
//! count towards the limit of the buffer.
//!
//! The buffer passes from one transaction of a thread to the next: if it were allocated and freed
//! each time, threads would contend for the allocator's locks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

use carnet_base::{Bytes, CellKey, CellKeyRef, KeyRange, TableId};

use crate::write::Write;

/// Maximum number of cells in the buffer.
const FEW_CELLS: usize = 128;
/// Maximum number of bytes in the buffer.
const FEW_BYTES: usize = 32 << 10;

/// A cell and its last write.
type Held = (CellKey, Option<Bytes>);

/// Written cells, each with its last write. See the module documentation.
///
/// ```
/// use carnet_base::{CellKey, PartitionKey, TableId};
/// use carnet_store::Writes;
///
/// let cell = |name: &str| CellKey::new(TableId(20), &PartitionKey::new("p"), name);
/// let mut writes = Writes::default();
/// writes.put(cell("b").as_key_ref(), Some(b"value"));
/// writes.put(cell("a").as_key_ref(), None);
/// let written: Vec<_> = writes.iter().map(|(key, payload)| (key.to_key(), payload)).collect();
/// assert_eq!(written, [(cell("a"), None), (cell("b"), Some(&b"value"[..]))]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writes {
    // One of the two is empty.
    few: Few,
    many: BTreeMap<CellKey, Option<Bytes>>,
    /// Bytes of keys and payloads of the last writes.
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Few {
    bytes: Vec<u8>,
    cells: Vec<Slice>,
}

thread_local! {
    /// Buffer for the next transaction of this thread.
    static KEPT: Cell<(Vec<u8>, Vec<Slice>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Position of a cell in the buffer: its key, and behind it the payload.
#[derive(Clone, Copy, Debug)]
struct Slice {
    begin: u32,
    key_len: u32,
    /// `None` is a deletion.
    payload_len: Option<u32>,
}

impl Writes {
    /// Returns `true` if there are no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.few.cells.len() + self.many.len()
    }

    /// Returns the bytes of their keys and payloads.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of a write that counts towards limits: the bytes of its key and payload.
    #[must_use]
    pub fn weight(key: CellKeyRef<'_>, payload: Option<&[u8]>) -> u64 {
        weight(key.as_bytes(), payload)
    }

    /// Returns the counted size of the write to a cell, if there is one.
    pub fn bytes_of(&self, key: CellKeyRef<'_>) -> Option<u64> {
        if let Ok(at) = self.few.find(key.as_bytes()) {
            return Some(self.few.cells[at].weight());
        }
        let payload = self.many.get(key.as_bytes())?;
        Some(weight(key.as_bytes(), payload.as_deref()))
    }

    /// Returns the last write to a cell, if there is one.
    pub fn get(&self, key: &CellKey) -> Option<Option<Bytes>> {
        if let Ok(at) = self.few.find(key.as_bytes()) {
            return Some(self.few.payload(self.few.cells[at]).map(Bytes::copy_from_slice));
        }
        self.many.get(key).cloned()
    }

    /// Writes a cell by copying it.
    pub fn put(&mut self, key: CellKeyRef<'_>, payload: Option<&[u8]>) {
        if !self.put_few(key, payload) {
            self.put_many(key.to_key(), payload.map(Bytes::copy_from_slice));
        }
    }

    /// Writes a cell, keeping its memory if it is not small.
    pub fn put_owned(&mut self, key: CellKey, payload: Option<Bytes>) {
        if !self.put_few(key.as_key_ref(), payload.as_deref()) {
            self.put_many(key, payload);
        }
    }

    /// Writes a cell to the buffer if it fits; returns whether it did.
    fn put_few(&mut self, key: CellKeyRef<'_>, payload: Option<&[u8]>) -> bool {
        let key = key.as_bytes();
        let more = key.len() + payload.map_or(0, <[u8]>::len);
        let fits = self.few.bytes.len() + more <= FEW_BYTES && self.few.cells.len() < FEW_CELLS;
        if !fits || !self.many.is_empty() {
            return false;
        }
        let before = self.few.put(key, payload);
        self.bytes = self.bytes - before + weight(key, payload);
        true
    }

    fn put_many(&mut self, key: CellKey, payload: Option<Bytes>) {
        self.make_many();
        let more = weight(key.as_bytes(), payload.as_deref());
        let key_len = key.as_bytes().len() as u64;
        let before = self.many.insert(key, payload);
        let before = before.map_or(0, |old| key_len + old.map_or(0, |old| old.len() as u64));
        self.bytes = self.bytes - before + more;
    }

    /// Moves the cells of the buffer to the map.
    fn make_many(&mut self) {
        if !self.few.cells.is_empty() {
            let few = std::mem::take(&mut self.few);
            self.many.extend(few.cells.iter().map(|cell| few.copy(*cell)));
        }
    }

    /// Removes the cells of a table.
    pub fn forget_table(&mut self, table: TableId) {
        self.make_many();
        let bytes_left = &mut self.bytes;
        self.many.retain(|key, payload| {
            let stays = key.table() != table;
            if !stays {
                *bytes_left -= weight(key.as_bytes(), payload.as_deref());
            }
            stays
        });
    }

    /// Returns the writes in a range, in the requested order.
    pub fn range<'w>(
        &'w self,
        range: &KeyRange,
        reverse: bool,
    ) -> Box<dyn Iterator<Item = Held> + 'w> {
        let Some(bounds) = range.map_bounds() else { return Box::new(std::iter::empty()) };
        if self.many.is_empty() {
            let cells = self.few.within(&bounds).iter();
            let copied = |cell: &Slice| self.few.copy(*cell);
            return if reverse {
                Box::new(cells.rev().map(copied))
            } else {
                Box::new(cells.map(copied))
            };
        }
        let cells = self.many.range(bounds);
        let cloned = |(key, payload): (&CellKey, &Option<Bytes>)| (key.clone(), payload.clone());
        if reverse { Box::new(cells.rev().map(cloned)) } else { Box::new(cells.map(cloned)) }
    }

    /// Returns all writes, in the order of cells.
    pub fn iter(&self) -> impl Iterator<Item = (CellKeyRef<'_>, Option<&[u8]>)> + Clone {
        let few = self.few.cells.iter();
        let few = few.map(|cell| (self.few.key_ref(*cell), self.few.payload(*cell)));
        let many = self.many.iter().map(|(key, payload)| (key.as_key_ref(), payload.as_deref()));
        few.chain(many)
    }

    /// Removes all writes.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns all writes, in the order of cells.
    #[must_use]
    pub fn into_vec(self) -> Vec<Write> {
        let Self { few, many, .. } = self;
        let few = few.cells.iter().map(|cell| few.copy(*cell));
        few.chain(many).map(|(key, payload)| Write { key, payload }).collect()
    }
}

impl Few {
    /// Returns the index of a key among the cells, or where it would be inserted.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.cells.binary_search_by(|cell| self.key(*cell).cmp(key))
    }

    /// Writes a cell; returns the size of the overwritten write.
    fn put(&mut self, key: &[u8], payload: Option<&[u8]>) -> u64 {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a few cells are small");
        let begin = len(&self.bytes);
        let cell = Slice { begin, key_len: len(key), payload_len: payload.map(len) };
        let place = self.find(key);
        if self.bytes.capacity() == 0 {
            (self.bytes, self.cells) = KEPT.try_with(Cell::take).unwrap_or_default();
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload.unwrap_or_default());
        match place {
            Ok(at) => std::mem::replace(&mut self.cells[at], cell).weight(),
            Err(at) => {
                self.cells.insert(at, cell);
                0
            }
        }
    }

    fn key(&self, cell: Slice) -> &[u8] {
        &self.bytes[cell.key()]
    }

    fn key_ref(&self, cell: Slice) -> CellKeyRef<'_> {
        CellKeyRef::new(self.key(cell)).expect("the bytes of a cell's key were put there")
    }

    fn payload(&self, cell: Slice) -> Option<&[u8]> {
        cell.payload().map(|payload| &self.bytes[payload])
    }

    fn copy(&self, cell: Slice) -> Held {
        (self.key_ref(cell).to_key(), self.payload(cell).map(Bytes::copy_from_slice))
    }

    /// Returns the cells within bounds that are not inverted.
    fn within(&self, (lower, upper): &(Bound<CellKey>, Bound<CellKey>)) -> &[Slice] {
        let before = |bound: &CellKey, or_at: bool| {
            let bound = bound.as_bytes();
            self.cells.partition_point(|cell| {
                let key = self.key(*cell);
                key < bound || (or_at && key == bound)
            })
        };
        let from = match lower {
            Bound::Included(lower) => before(lower, false),
            Bound::Excluded(lower) => before(lower, true),
            Bound::Unbounded => 0,
        };
        let to = match upper {
            Bound::Included(upper) => before(upper, true),
            Bound::Excluded(upper) => before(upper, false),
            Bound::Unbounded => self.cells.len(),
        };
        self.cells.get(from..to).unwrap_or_default()
    }
}

impl Drop for Few {
    fn drop(&mut self) {
        if self.bytes.capacity() == 0 {
            return;
        }
        let (mut bytes, mut cells) =
            (std::mem::take(&mut self.bytes), std::mem::take(&mut self.cells));
        bytes.clear();
        cells.clear();
        // A thread that ends keeps no buffer.
        let _ = KEPT.try_with(|kept| kept.set((bytes, cells)));
    }
}

impl From<Vec<Write>> for Writes {
    fn from(writes: Vec<Write>) -> Self {
        let mut all = Self::default();
        writes.into_iter().for_each(|Write { key, payload }| all.put_owned(key, payload));
        all
    }
}

impl PartialEq for Writes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Writes {}

impl Slice {
    const fn key(self) -> std::ops::Range<usize> {
        let begin = self.begin as usize;
        begin..begin + self.key_len as usize
    }

    fn payload(self) -> Option<std::ops::Range<usize>> {
        let begin = self.key().end;
        self.payload_len.map(|len| begin..begin + len as usize)
    }

    fn weight(self) -> u64 {
        u64::from(self.key_len) + u64::from(self.payload_len.unwrap_or_default())
    }
}

fn weight(key: &[u8], payload: Option<&[u8]>) -> u64 {
    (key.len() + payload.map_or(0, <[u8]>::len)) as u64
}

#[cfg(test)]
mod tests {
    use carnet_base::{PartitionKey, Token};
    use proptest::prelude::*;

    use super::*;

    fn key(table: u32, name: u16) -> CellKey {
        let partition = PartitionKey::first_at(Token(0));
        CellKey::new(TableId(table), &partition, name.to_be_bytes())
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put { key: CellKey, payload: Option<Bytes>, owned: bool },
        ForgetTable(u32),
    }

    fn any_payload() -> impl Strategy<Value = Option<Bytes>> {
        let len = prop_oneof![9 => 0..40_usize, 1 => 10_000..FEW_BYTES + 2];
        proptest::option::of(len.prop_map(|len| Bytes::from(vec![b'x'; len])))
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let name = prop_oneof![0..200_u16, 0..5_u16];
        let cell = (1..3_u32, name).prop_map(|(table, name)| key(table, name));
        prop_oneof![
            60 => (cell, any_payload(), any::<bool>())
                .prop_map(|(key, payload, owned)| Step::Put { key, payload, owned }),
            1 => (1..3_u32).prop_map(Step::ForgetTable),
        ]
    }

    fn any_bound() -> impl Strategy<Value = Bound<CellKey>> {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..200_u16).prop_map(|name| Bound::Included(key(1, name))),
            (0..200_u16).prop_map(|name| Bound::Excluded(key(1, name))),
        ]
    }

    proptest! {
        #[test]
        fn writes_match_a_map(
            steps in proptest::collection::vec(any_step(), 0..300),
            (lower, upper, reverse) in (any_bound(), any_bound(), any::<bool>()),
        ) {
            let (mut writes, mut map) = (Writes::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Put { key, payload, owned: true } => {
                        map.insert(key.clone(), payload.clone());
                        writes.put_owned(key, payload);
                    }
                    Step::Put { key, payload, owned: false } => {
                        writes.put(key.as_key_ref(), payload.as_deref());
                        map.insert(key, payload);
                    }
                    Step::ForgetTable(table) => {
                        writes.forget_table(TableId(table));
                        map.retain(|key, _| key.table() != TableId(table));
                    }
                }
                let count = |(key, payload): (&CellKey, &Option<Bytes>)| {
                    weight(key.as_bytes(), payload.as_deref())
                };
                prop_assert_eq!(writes.bytes(), map.iter().map(count).sum::<u64>());
                prop_assert_eq!((writes.len(), writes.is_empty()), (map.len(), map.is_empty()));
            }
            for name in 0..200 {
                let key = key(1, name);
                let old = map.get(&key);
                prop_assert_eq!(writes.get(&key), old.cloned());
                let weighs = old.map(|old| weight(key.as_bytes(), old.as_deref()));
                prop_assert_eq!(writes.bytes_of(key.as_key_ref()), weighs);
            }
            let range = KeyRange { table: TableId(1), lower, upper };
            let mut held: Vec<_> = map
                .iter()
                .filter(|(key, _)| range.contains(key))
                .map(|(key, payload)| (key.clone(), payload.clone()))
                .collect();
            if reverse {
                held.reverse();
            }
            prop_assert_eq!(writes.range(&range, reverse).collect::<Vec<_>>(), held);
            let all = map.into_iter().map(|(key, payload)| Write { key, payload });
            prop_assert_eq!(writes.into_vec(), all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn small_writes_share_one_buffer() {
        let mut writes = Writes::default();
        for name in 0..u16::try_from(FEW_CELLS).unwrap() {
            writes.put(key(1, name).as_key_ref(), Some(b"payload"));
        }
        assert!(writes.many.is_empty());
        writes.put(key(1, 1000).as_key_ref(), None);
        assert_eq!((writes.few.cells.len(), writes.many.len()), (0, FEW_CELLS + 1));

        // Overwritten values count, so that they do not pile up.
        let mut writes = Writes::default();
        let payload = vec![0; 100];
        for _ in 0..10 * FEW_BYTES / 100 {
            writes.put(key(1, 1).as_key_ref(), Some(&payload));
            assert!(writes.few.bytes.len() <= FEW_BYTES);
        }
        assert_eq!(writes.len(), 1);
    }
}
