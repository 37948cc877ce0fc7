//! Body of a log record: the changes of one transaction, encoded once.
//!
//! ```text
//! change := kind u8            0 put, 1 delete, 2 put with an expiry, 3 delete a range
//!           length, cell key   for a range: its lower bound
//!           if 2: expiry       seconds since 1970
//!           if 0, 2: length, payload
//!           if 3: length, upper bound of the range
//! ```
//!
//! Lengths and the expiry are `VAR_LONG`s. A batch knows the offset of each change in its bytes, so
//! the log and the memtable use the same bytes. Recovery finds the offsets by decoding.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::{CellKeyRef, Error, KeyRange, Result, var_long};

use crate::codec::{CELL_KEY_BYTES_MAX, Decoder, PAYLOAD_BYTES_MAX};

const PUT: u8 = 0;
const DELETE: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const DELETE_RANGE: u8 = 3;
const ADOPTION: u8 = 4;

/// A change to a cell or a range.
#[derive(Clone, Copy, Debug)]
pub enum Mutation<'a> {
    /// Writes a cell.
    Put {
        /// Key of the cell.
        key: CellKeyRef<'a>,
        /// Value of the cell.
        payload: &'a [u8],
        /// Expiry in seconds since 1970: from then on, garbage collection treats the cell as
        /// deleted. Earlier reads decide by the payload.
        expiry: Option<u64>,
    },
    /// Deletes a cell, whether it exists or not.
    Delete {
        /// Key of the cell.
        key: CellKeyRef<'a>,
    },
    /// Deletes every cell of a range that committed before, except for cells of the same record.
    DeleteRange {
        /// Range to delete.
        range: &'a KeyRange,
    },
}

impl<'a> Mutation<'a> {
    /// Returns the cell and its new value; `None` for a range.
    #[must_use]
    pub const fn cell(&self) -> Option<(CellKeyRef<'a>, Option<&'a [u8]>)> {
        match *self {
            Self::Put { key, payload, .. } => Some((key, Some(payload))),
            Self::Delete { key } => Some((key, None)),
            Self::DeleteRange { .. } => None,
        }
    }

    /// Writes a value, or deletes the cell if there is none.
    #[must_use]
    pub fn put_or_delete(key: impl Into<CellKeyRef<'a>>, payload: Option<&'a [u8]>) -> Self {
        let key = key.into();
        match payload {
            Some(payload) => Self::Put { key, payload, expiry: None },
            None => Self::Delete { key },
        }
    }
}

/// Body of a record that adds a table to the database, instead of changes.
///
/// ```text
/// adoption := kind u8          4
///             number, bytes    VAR_LONGs: of the table's file
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adoption {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

impl Adoption {
    pub(crate) fn put(self, out: &mut BytesMut) {
        out.put_u8(ADOPTION);
        var_long::put(out, self.number.cast_signed());
        var_long::put(out, self.bytes.cast_signed());
    }

    /// Decodes a body of this kind; `None` for a body of changes.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn decode(body: &Bytes) -> Result<Option<Self>> {
        let mut decoder = Decoder::new(body.clone());
        if body.first() != Some(&ADOPTION) {
            return Ok(None);
        }
        decoder.u8()?;
        let read = Self { number: decoder.var()?, bytes: decoder.var()? };
        if decoder.is_empty() {
            return Ok(Some(read));
        }
        Err(Error::corrupted("a record of an adopted table has trailing bytes"))
    }
}

/// A range of a batch's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    at: u32,
    len: u32,
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    kind: u8,
    key: Span,
    /// Payload, or upper bound of a range.
    other: Span,
    expiry: Option<u64>,
}

/// A decoded change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Cell { key: &'a [u8], payload: Option<&'a [u8]>, expiry: Option<u64> },
    Range { lower: &'a [u8], upper: &'a [u8] },
}

/// Offsets of the changes in a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(Vec<Place>);

impl Changes {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes; `body` must be the body of these offsets.
    pub(crate) fn of<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = Change<'a>> + Clone {
        self.0.iter().map(move |place| {
            let (key, other) = (place.key.of(body), place.other.of(body));
            match place.kind {
                DELETE_RANGE => Change::Range { lower: key, upper: other },
                DELETE => Change::Cell { key, payload: None, expiry: None },
                _ => Change::Cell { key, payload: Some(other), expiry: place.expiry },
            }
        })
    }

    /// Decodes the offsets of the changes in a body.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn decode(body: &Bytes) -> Result<Self> {
        let mut decoder = Decoder::new(body.clone());
        let mut places = Vec::new();
        while !decoder.is_empty() {
            places.push(place(&mut decoder, body.len())?);
        }
        Ok(Self(places))
    }
}

fn place(decoder: &mut Decoder, body_len: usize) -> Result<Place> {
    let kind = decoder.u8()?;
    if kind > DELETE_RANGE {
        return Err(Error::corrupted(format!("a change has the unknown kind {kind}")));
    }
    let span = |decoder: &mut Decoder, max| {
        let bytes = decoder.bytes(max)?;
        let end = body_len - decoder.len();
        let number = |n| u32::try_from(n).map_err(|_| Error::corrupted("the body is too long"));
        Ok::<_, Error>((Span { at: number(end - bytes.len())?, len: number(bytes.len())? }, bytes))
    };
    let (key, bytes) = span(decoder, CELL_KEY_BYTES_MAX + 1)?;
    if kind != DELETE_RANGE {
        CellKeyRef::new(&bytes)?;
    }
    let expiry = if kind == PUT_EXPIRING { Some(decoder.var()?) } else { None };
    let other = match kind {
        DELETE => Span { at: 0, len: 0 },
        DELETE_RANGE => span(decoder, CELL_KEY_BYTES_MAX + 1)?.0,
        _ => span(decoder, PAYLOAD_BYTES_MAX)?.0,
    };
    Ok(Place { kind, key, other, expiry })
}

/// Encodes a body after `room` bytes, which are reserved for its header.
///
/// # Errors
///
/// `Invalid` if a key, a value, or the whole (at most `bytes_max` bytes) is too long.
pub(crate) fn encode<'a>(
    mutations: impl Iterator<Item = Mutation<'a>> + Clone,
    room: usize,
    bytes_max: usize,
) -> Result<(BytesMut, Changes)> {
    let (mut count, mut len) = (0, 0_usize);
    for mutation in mutations.clone() {
        count += 1;
        len = len.saturating_add(len_max(&mutation)?);
    }
    if len > bytes_max {
        return Err(Error::invalid(format!(
            "a transaction that writes {len} bytes is too long: at most {bytes_max} bytes are \
             stored at once; write in several transactions"
        )));
    }
    let mut out = BytesMut::with_capacity(room + len);
    out.resize(room, 0);
    let mut places = Vec::with_capacity(count);
    for mutation in mutations {
        if let Some(place) = put(&mut out, room, &mutation) {
            places.push(place);
        }
    }
    Ok((out, Changes(places)))
}

fn put(out: &mut BytesMut, room: usize, mutation: &Mutation<'_>) -> Option<Place> {
    let none = Span { at: 0, len: 0 };
    match mutation {
        Mutation::Put { key, payload, expiry } => {
            let kind = if expiry.is_some() { PUT_EXPIRING } else { PUT };
            out.put_u8(kind);
            let key = put_bytes(out, room, key.as_bytes());
            if let Some(expiry) = *expiry {
                var_long::put(out, expiry.cast_signed());
            }
            let other = put_bytes(out, room, payload);
            Some(Place { kind, key, other, expiry: *expiry })
        }
        Mutation::Delete { key } => {
            out.put_u8(DELETE);
            let key = put_bytes(out, room, key.as_bytes());
            Some(Place { kind: DELETE, key, other: none, expiry: None })
        }
        Mutation::DeleteRange { range } => {
            let (lower, upper) = range.byte_bounds()?;
            out.put_u8(DELETE_RANGE);
            let key = put_bytes(out, room, &lower);
            let other = put_bytes(out, room, &upper);
            Some(Place { kind: DELETE_RANGE, key, other, expiry: None })
        }
    }
}

fn put_bytes(out: &mut BytesMut, room: usize, bytes: &[u8]) -> Span {
    let len = u32::try_from(bytes.len()).expect("len_max() bounds every field");
    var_long::put(out, i64::from(len));
    let at = u32::try_from(out.len() - room).expect("encode() bounds the body far below 4 GiB");
    out.put_slice(bytes);
    Span { at, len }
}

/// Returns the maximum encoded size of a change.
fn len_max(mutation: &Mutation<'_>) -> Result<usize> {
    let fields = 1 + 3 * var_long::LEN_MAX;
    Ok(match mutation {
        Mutation::Put { key, payload, expiry } => {
            key.check_size(Some(payload))?;
            if expiry.is_some_and(|expiry| i64::try_from(expiry).is_err()) {
                return Err(Error::invalid("an expiry is at most 2^63 - 1 seconds after 1970"));
            }
            fields + key.as_bytes().len() + payload.len()
        }
        Mutation::Delete { key } => {
            key.check_size(None)?;
            fields + key.as_bytes().len()
        }
        Mutation::DeleteRange { range } => match range.byte_bounds() {
            None => 0,
            Some((lower, upper)) => {
                check_bound(lower.len())?;
                check_bound(upper.len())?;
                fields + lower.len() + upper.len()
            }
        },
    })
}

fn check_bound(len: usize) -> Result<()> {
    const MAX: usize = CELL_KEY_BYTES_MAX + 1;
    if len > MAX {
        return Err(Error::invalid(format!(
            "a bound of a range of {len} bytes is too long: at most {MAX} bytes are stored"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, Rng, SeededRng, TableId};
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Owned {
        Cell(CellKey, Option<Vec<u8>>, Option<u64>),
        Range(KeyRange),
    }

    impl Owned {
        fn lend(&self) -> Mutation<'_> {
            match self {
                Self::Cell(key, Some(payload), expiry) => {
                    let key = key.as_key_ref();
                    Mutation::Put { key, payload, expiry: *expiry }
                }
                Self::Cell(key, None, _) => Mutation::Delete { key: key.as_key_ref() },
                Self::Range(range) => Mutation::DeleteRange { range },
            }
        }
    }

    fn any_mutation() -> impl Strategy<Value = Owned> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..9);
        let key = (0..3_u32, bytes.clone(), bytes.clone()).prop_map(|(table, key, clustering)| {
            CellKey::new(TableId(table), &PartitionKey::new(key), clustering)
        });
        let expiry = proptest::option::of(0..u64::MAX / 2);
        prop_oneof![
            4 => (key.clone(), proptest::option::of(bytes), expiry)
                .prop_map(|(key, payload, expiry)| Owned::Cell(key, payload, expiry)),
            1 => key.prop_map(|key| Owned::Range(KeyRange::partition(key.table(), &key.partition()))),
        ]
    }

    proptest! {
        #[test]
        fn body_round_trips(
            mutations in proptest::collection::vec(any_mutation(), 0..12), room in 0..60_usize
        ) {
            let lent = mutations.iter().map(Owned::lend);
            let (bytes, changes) = encode(lent, room, 1 << 20).unwrap();
            let body = bytes.freeze().slice(room..);
            prop_assert_eq!(&Changes::decode(&body).unwrap(), &changes);
            prop_assert_eq!(changes.len(), mutations.len());
            for (change, mutation) in changes.of(&body).zip(&mutations) {
                match (change, mutation) {
                    (Change::Cell { key, payload, expiry }, Owned::Cell(k, p, e)) => {
                        prop_assert_eq!((key, payload), (&k.as_bytes()[..], p.as_deref()));
                        prop_assert_eq!(expiry, e.filter(|_| p.is_some()));
                    }
                    (Change::Range { lower, upper }, Owned::Range(range)) => {
                        let (from, to) = range.byte_bounds().unwrap();
                        prop_assert_eq!((lower, upper), (&from[..], &to[..]));
                    }
                    _ => prop_assert!(false, "another kind of change came back"),
                }
            }
        }

        #[test]
        fn mutated_bodies_never_panic(
            mutations in proptest::collection::vec(any_mutation(), 1..6), seed in any::<u64>()
        ) {
            let (bytes, _) = encode(mutations.iter().map(Owned::lend), 0, 1 << 20).unwrap();
            let mut bytes = bytes.to_vec();
            let mut rng = SeededRng::new(seed);
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
            bytes.truncate(usize::try_from(rng.below(bytes.len() as u64 * 2)).unwrap());
            let body = Bytes::from(bytes);
            if let Ok(changes) = Changes::decode(&body) {
                prop_assert!(changes.of(&body).count() <= body.len());
            }
        }
    }

    /// The log would store them as negative numbers, which the next opening refuses.
    #[test]
    fn too_large_expiry_is_refused() {
        let key = CellKey::new(TableId(1), &PartitionKey::new("p"), "c");
        let put =
            |expiry| Mutation::Put { key: key.as_key_ref(), payload: b"", expiry: Some(expiry) };
        for expiry in [1 << 63, u64::MAX] {
            let error = encode(std::iter::once(put(expiry)), 0, 1000).unwrap_err().to_string();
            assert!(error.contains("2^63 - 1 seconds"), "{error}");
        }
        let latest = u64::MAX / 2;
        let (body, _) = encode(std::iter::once(put(latest)), 0, 1000).unwrap();
        let body = body.freeze();
        let changes = Changes::decode(&body).unwrap();
        let found = changes.of(&body).next();
        assert!(matches!(found, Some(Change::Cell { expiry: Some(e), .. }) if e == latest));
    }

    #[test]
    fn too_long_values_are_refused() {
        let key = CellKey::new(TableId(1), &PartitionKey::new("p"), "c");
        let payload = vec![0; PAYLOAD_BYTES_MAX + 1];
        let put = Mutation::Put { key: key.as_key_ref(), payload: &payload, expiry: None };
        let error = encode(std::iter::once(put), 0, usize::MAX).unwrap_err().to_string();
        assert!(error.contains("a value of 33554433 bytes is too long"), "{error}");
        let put = Mutation::Put { key: key.as_key_ref(), payload: &payload[1..], expiry: None };
        let error = encode(std::iter::once(put), 0, 1000).unwrap_err().to_string();
        assert!(error.contains("at most 1000 bytes are stored at once"), "{error}");
    }
}
