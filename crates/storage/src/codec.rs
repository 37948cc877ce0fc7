//! How cells are written: one run of cells, in the log's bodies and in the tables' blocks.
//!
//! ```text
//! cell := flags u8
//!         length, cell key (see `carnet_base::CellKey`)
//!         if VERSION: start, commit
//!         unless TOMBSTONE: length, payload
//! ```
//!
//! Lengths and timestamps are `VAR_LONG`s. A decoded cell shares the run's memory.

use bytes::{BufMut, Bytes};
use carnet_base::{CellKey, Error, Result, Timestamp, var_long};

const TOMBSTONE: u8 = 1;
const VERSION: u8 = 4;
const FLAGS: u8 = TOMBSTONE | VERSION;

/// An order-preserving key escapes bytes, so that it gets twice the room, and some for its frame.
pub(crate) const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);
/// The longest cell key: its frame, the longest partition key, the longest clustering key.
pub(crate) const CELL_KEY_BYTES_MAX: usize = 14 + u16::MAX as usize + CLUSTERING_KEY_BYTES_MAX;
/// The largest row image or value.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 32 << 20;

/// A cell as it stands in a run; the version's timestamps where the run carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) key: CellKey,
    pub(crate) version: Option<(Timestamp, Timestamp)>,
    pub(crate) payload: Option<Bytes>,
}

/// Refuses what no decoder would take back.
pub(crate) fn check_sizes(key: &CellKey, payload: Option<&Bytes>) -> Result<()> {
    let limits = [
        ("clustering key", key.clustering().len(), CLUSTERING_KEY_BYTES_MAX),
        ("value", payload.map_or(0, Bytes::len), PAYLOAD_BYTES_MAX),
    ];
    for (what, len, max) in limits {
        if len > max {
            return Err(Error::invalid(format!(
                "a {what} of {len} bytes is too long: at most {max} bytes are stored"
            )));
        }
    }
    Ok(())
}

/// How many bytes a cell takes at most.
pub(crate) fn len_max(key: &CellKey, payload: Option<&Bytes>) -> usize {
    1 + 4 * var_long::LEN_MAX + key.as_bytes().len() + payload.map_or(0, Bytes::len)
}

/// Appends a cell to a run.
pub(crate) fn put_cell(
    out: &mut impl BufMut,
    key: &CellKey,
    version: Option<(Timestamp, Timestamp)>,
    payload: Option<&[u8]>,
) {
    let mut flags = 0;
    flags |= if payload.is_none() { TOMBSTONE } else { 0 };
    flags |= if version.is_some() { VERSION } else { 0 };
    out.put_u8(flags);
    put_bytes(out, key.as_bytes());
    if let Some((start, commit)) = version {
        put_timestamp(out, start);
        put_timestamp(out, commit);
    }
    if let Some(payload) = payload {
        put_bytes(out, payload);
    }
}

/// Appends a length and that many bytes.
pub(crate) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    let len = i64::try_from(bytes.len()).expect("a slice is shorter than 2^63 bytes");
    var_long::put(out, len);
    out.put_slice(bytes);
}

/// Appends a timestamp.
pub(crate) fn put_timestamp(out: &mut impl BufMut, timestamp: Timestamp) {
    var_long::put(out, timestamp.get().cast_signed());
}

/// Takes fields off the front of a buffer; none is longer than what is left of it.
pub(crate) struct Decoder {
    rest: Bytes,
}

impl Decoder {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns everything that was not taken.
    pub(crate) fn rest(self) -> Bytes {
        self.rest
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<Bytes> {
        if len > self.rest.len() {
            return Err(Error::corrupted("the bytes end too early"));
        }
        Ok(self.rest.split_to(len))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(array) = self.rest.first_chunk().copied() else {
            return Err(Error::corrupted("the bytes end too early"));
        };
        bytes::Buf::advance(&mut self.rest, N);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn var(&mut self) -> Result<u64> {
        let mut slice = &self.rest[..];
        let value = var_long::take_unsigned(&mut slice)?;
        let used = self.rest.len() - slice.len();
        bytes::Buf::advance(&mut self.rest, used);
        Ok(value)
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp> {
        let number = self.var()?;
        Timestamp::new(number)
            .ok_or_else(|| Error::corrupted(format!("{number} is not a timestamp")))
    }

    /// Takes a length and that many bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<Bytes> {
        let len = self.var()?;
        match usize::try_from(len) {
            Ok(len) if len <= max => self.take(len),
            _ => Err(Error::corrupted(format!("a field of {len} bytes is longer than {max}"))),
        }
    }

    /// Takes the next cell of a run.
    pub(crate) fn cell(&mut self) -> Result<Cell> {
        let flags = self.u8()?;
        if flags & !FLAGS != 0 {
            return Err(Error::corrupted(format!("a cell has unknown flags: {flags:#x}")));
        }
        let key = CellKey::from_bytes(self.bytes(CELL_KEY_BYTES_MAX)?)?;
        let version = match flags & VERSION {
            0 => None,
            _ => Some((self.timestamp()?, self.timestamp()?)),
        };
        let payload = match flags & TOMBSTONE {
            0 => Some(self.bytes(PAYLOAD_BYTES_MAX)?),
            _ => None,
        };
        Ok(Cell { key, version, payload })
    }

    /// Takes all cells of a run.
    pub(crate) fn run(mut self) -> Result<Vec<Cell>> {
        let mut cells: Vec<Cell> = Vec::new();
        while !self.is_empty() {
            cells.push(self.cell()?);
        }
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{PartitionKey, Rng, SeededRng, TableId};
    use proptest::prelude::*;

    use super::*;

    fn cell() -> impl Strategy<Value = Cell> {
        let payload = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
        let version = proptest::option::of((0..u64::MAX / 2, 0..u64::MAX / 2));
        (0..3_u32, 0..4_u8, proptest::collection::vec(any::<u8>(), 0..5), version, payload)
            .prop_map(|(table, partition, clustering, version, payload)| Cell {
                key: CellKey::new(TableId(table), &PartitionKey::new(vec![partition]), clustering),
                version: version
                    .map(|(s, c)| (Timestamp::new(s).unwrap(), Timestamp::new(c).unwrap())),
                payload: payload.map(Bytes::from),
            })
    }

    fn encode(cells: &[Cell]) -> Vec<u8> {
        let mut out = Vec::new();
        for cell in cells {
            put_cell(&mut out, &cell.key, cell.version, cell.payload.as_deref());
        }
        out
    }

    proptest! {
        #[test]
        fn a_run_comes_back(cells in proptest::collection::vec(cell(), 0..20)) {
            let bytes = encode(&cells);
            let room: usize =
                cells.iter().map(|cell| len_max(&cell.key, cell.payload.as_ref())).sum();
            prop_assert!(bytes.len() <= room);
            prop_assert_eq!(Decoder::new(bytes.into()).run().unwrap(), cells);
        }

        #[test]
        fn mutated_runs_never_panic(
            cells in proptest::collection::vec(cell(), 1..10), seed in any::<u64>()
        ) {
            let mut bytes = encode(&cells);
            let mut rng = SeededRng::new(seed);
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
            bytes.truncate(usize::try_from(rng.below(bytes.len() as u64 * 2)).unwrap());
            // It may be another run; it must not be a panic or a huge allocation.
            let _ = Decoder::new(bytes.into()).run();
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Decoder::new(bytes.into()).run();
        }
    }
}
