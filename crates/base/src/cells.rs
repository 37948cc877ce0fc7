//! The cells of a page, in one piece of memory.

use bytes::{Bytes, BytesMut};

use crate::cell::{CellKey, CellKeyRef, KeyRange, Version};
use crate::ids::Timestamp;

/// A page of a range, owned, whose cells are lent: a cell costs no memory and no count of its own.
#[derive(Clone, Debug, Default)]
pub struct CellPage {
    /// The newest version of each cell at the snapshot, in the order asked for. What is deleted is
    /// left out.
    pub cells: Cells,
    /// What is left of the range. A page may be short, even empty, and still have more.
    pub resume: Option<KeyRange>,
}

/// Cells that are there, keys and payloads one behind the other.
///
/// ```
/// use carnet_base::{CellKey, CellRef, Cells, CellsBuilder, PartitionKey, TableId, Timestamp};
///
/// let key = CellKey::new(TableId(1), &PartitionKey::new("p"), "c");
/// let mut cells = CellsBuilder::default();
/// let (start, commit) = (Timestamp::ZERO, Timestamp::MAX);
/// cells.push(&CellRef { key: key.as_key_ref(), start, commit, payload: b"value" });
/// let cells: Cells = cells.finish();
/// assert_eq!(cells.iter().next().map(|cell| cell.payload), Some(&b"value"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cells {
    bytes: Bytes,
    places: Vec<Place>,
}

/// A version of a cell, on loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// The cell.
    pub key: CellKeyRef<'a>,
    /// The start of the transaction that wrote it.
    pub start: Timestamp,
    /// When that committed.
    pub commit: Timestamp,
    /// The row image or byte string.
    pub payload: &'a [u8],
}

/// Where a cell stands: its payload behind its key.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    key_len: u32,
    payload_len: u32,
    start: Timestamp,
    commit: Timestamp,
}

impl Place {
    const fn middle(&self) -> usize {
        self.at + self.key_len as usize
    }

    const fn end(&self) -> usize {
        self.middle() + self.payload_len as usize
    }
}

impl Cells {
    /// How many cells there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Lends a cell; `None` from [`Cells::len`] on.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<CellRef<'_>> {
        self.places.get(at).map(|place| self.cell(place))
    }

    /// Lends the cells, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CellRef<'_>> + DoubleEndedIterator {
        self.places.iter().map(|place| self.cell(place))
    }

    /// Returns a cell that shares the page's memory; `None` from [`Cells::len`] on.
    #[must_use]
    pub fn share(&self, at: usize) -> Option<(CellKey, Version)> {
        self.places.get(at).map(|place| self.shared(place))
    }

    /// Returns the cells, which share the page's memory.
    #[must_use]
    pub fn share_all(&self) -> Vec<(CellKey, Version)> {
        self.places.iter().map(|place| self.shared(place)).collect()
    }

    fn cell(&self, place: &Place) -> CellRef<'_> {
        let &Place { at, start, commit, .. } = place;
        let key = CellKeyRef::of(&self.bytes[at..place.middle()]);
        CellRef { key, start, commit, payload: &self.bytes[place.middle()..place.end()] }
    }

    fn shared(&self, place: &Place) -> (CellKey, Version) {
        let key = CellKey::of_bytes(self.bytes.slice(place.at..place.middle()));
        let payload = Some(self.bytes.slice(place.middle()..place.end()));
        (key, Version { start: place.start, commit: Some(place.commit), payload })
    }
}

/// Gathers the cells of a page.
#[derive(Debug, Default)]
pub struct CellsBuilder {
    bytes: BytesMut,
    places: Vec<Place>,
}

impl CellsBuilder {
    /// How many cells there are so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many bytes keys and payloads take so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for so many further cells, and bytes.
    pub fn reserve(&mut self, cells: usize, bytes: usize) {
        self.places.reserve(cells);
        self.bytes.reserve(bytes);
    }

    /// Copies a cell.
    ///
    /// # Panics
    ///
    /// Where key or payload are as long as no cell's are: 4 GiB.
    #[inline]
    pub fn push(&mut self, cell: &CellRef<'_>) {
        let CellRef { key, start, commit, payload } = *cell;
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a cell is shorter than 4 GiB");
        let (key_len, payload_len) = (len(key.as_bytes()), len(payload));
        self.places.push(Place { at: self.bytes.len(), key_len, payload_len, start, commit });
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(payload);
    }

    /// Returns the cells. Whoever keeps a part of their memory keeps all of it: it is no longer than
    /// it has to be, or at most by as much again.
    #[must_use]
    pub fn finish(self) -> Cells {
        let bytes = match self.bytes.capacity() > 2 * self.bytes.len() {
            true => Bytes::copy_from_slice(&self.bytes),
            false => self.bytes.freeze(),
        };
        Cells { bytes, places: self.places }
    }
}
