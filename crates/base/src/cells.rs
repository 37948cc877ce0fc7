//! The cells of a page, in one allocation.

use bytes::{Bytes, BytesMut};

use crate::cell::{CellKey, CellKeyRef, KeyRange};
use crate::ids::Timestamp;

/// An owned page of a range with borrowed cells: a cell has no allocation or reference count of its
/// own.
#[derive(Clone, Debug, Default)]
pub struct CellPage {
    /// Newest version of each cell at the snapshot, in the requested order. Deleted cells are
    /// omitted.
    pub cells: Cells,
    /// Rest of the range. A page may be short, even empty, although more follows.
    pub resume: Option<KeyRange>,
    /// Number of deleted cells that were read over.
    pub deleted: usize,
}

/// Maximum size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Maximum number of cells; 0 counts as 1.
    pub cells: usize,
    /// Bytes of keys and payloads from which no further cell is added.
    pub bytes: usize,
}

impl PageLimit {
    /// Creates a limit of `cells` cells and 1 MiB; a page always has room for one cell.
    #[must_use]
    pub const fn cells(cells: usize) -> Self {
        Self { cells, bytes: 1 << 20 }
    }
}

/// Existing cells, with keys and payloads one behind the other.
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

/// A borrowed version of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// Key of the cell.
    pub key: CellKeyRef<'a>,
    /// Start of the transaction that wrote it.
    pub start: Timestamp,
    /// Commit timestamp of that transaction; [`Timestamp::MAX`] for a write of the reading
    /// transaction itself.
    pub commit: Timestamp,
    /// Row image or byte string.
    pub payload: &'a [u8],
}

/// Position of a cell: its key, and behind it the payload.
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

    fn cell<'a>(&self, bytes: &'a [u8]) -> CellRef<'a> {
        let &Self { at, start, commit, .. } = self;
        let key = CellKeyRef::from_valid(&bytes[at..self.middle()]);
        CellRef { key, start, commit, payload: &bytes[self.middle()..self.end()] }
    }
}

impl Cells {
    /// Returns the number of cells.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns `true` if there are no cells.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Borrows a cell; `None` from [`Cells::len`] on.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<CellRef<'_>> {
        self.places.get(at).map(|place| place.cell(&self.bytes))
    }

    /// Borrows the last cell.
    #[must_use]
    pub fn last(&self) -> Option<CellRef<'_>> {
        self.places.last().map(|place| place.cell(&self.bytes))
    }

    /// Borrows the cells, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CellRef<'_>> + DoubleEndedIterator {
        self.places.iter().map(|place| place.cell(&self.bytes))
    }

    /// Returns a cell's key and payload, which share the page's memory; `None` from [`Cells::len`]
    /// on.
    #[must_use]
    pub fn share(&self, at: usize) -> Option<(CellKey, Bytes)> {
        let place = self.places.get(at)?;
        let key = CellKey::of_bytes(self.bytes.slice(place.at..place.middle()));
        Some((key, self.bytes.slice(place.middle()..place.end())))
    }

    /// Returns the keys and payloads of all cells, which share the page's memory.
    pub fn share_all(&self) -> impl ExactSizeIterator<Item = (CellKey, Bytes)> {
        (0..self.len()).map(|at| self.share(at).expect("the index is within the page"))
    }

    /// Returns the bytes of all keys and payloads.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Builder of the cells of a page.
#[derive(Debug, Default)]
pub struct CellsBuilder {
    bytes: BytesMut,
    places: Vec<Place>,
}

impl CellsBuilder {
    /// Returns the number of cells so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns `true` if there are no cells.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the bytes of keys and payloads so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Borrows the last cell.
    #[must_use]
    pub fn last(&self) -> Option<CellRef<'_>> {
        self.places.last().map(|place| place.cell(&self.bytes))
    }

    /// Reserves room for further cells and bytes.
    pub fn reserve(&mut self, cells: usize, bytes: usize) {
        self.places.reserve(cells);
        self.bytes.reserve(bytes);
    }

    /// Copies a cell.
    ///
    /// # Panics
    ///
    /// If the key or the payload has 4 GiB or more; no cell is that large.
    #[inline]
    pub fn push(&mut self, cell: &CellRef<'_>) {
        let CellRef { key, start, commit, payload } = *cell;
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a cell is shorter than 4 GiB");
        let (key_len, payload_len) = (len(key.as_bytes()), len(payload));
        self.places.push(Place { at: self.bytes.len(), key_len, payload_len, start, commit });
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(payload);
    }

    /// Returns the cells. A part of their memory keeps all of it alive; at most half of the memory
    /// is unused.
    #[must_use]
    pub fn finish(self) -> Cells {
        let bytes = match self.bytes.capacity() > 2 * self.bytes.len() {
            true => Bytes::copy_from_slice(&self.bytes),
            false => self.bytes.freeze(),
        };
        Cells { bytes, places: self.places }
    }
}
