//! Collections that are parts of a row: values of elements.
//!
//! ```text
//! collection  kind       1 byte      0 a list: a sequence of values
//!                                    1 a set: keys
//!                                    2 a map: keys with values
//!                                    3 fields of a user-defined type: a key is the field's place, u16 big-endian
//!             count      VAR_LONG    how many elements follow
//!             element × count; elements with keys ascending by the bytes of their keys, no key twice
//!
//! element     flags      1 byte      0x01 it expires
//!                                    0x02 it has a write time of its own
//!             [expiry]   8 bytes     where 0x01 is set
//!             [written]  8 bytes     where 0x02 is set
//!             [length]   VAR_LONG    of the key in bytes; not in lists
//!             [key]      length      as Cassandra serializes it
//!             [length]   VAR_LONG    of the value in bytes; not in sets
//!             [value]    length      as Cassandra serializes it
//! ```
//!
//! Elements are in the order of the bytes of their keys, so that merging needs no types. Readers
//! [serialize](Collection::serialize) them in the order of their type.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::bytes::{ends_early, put_bytes, put_len, take_bytes, take_i64, take_len, take_u8};
use super::flags::{ELEMENT_EXPIRES, ELEMENT_WRITTEN};
use crate::clock::WallTime;
use crate::error::{Error, Result};
use crate::value::{DataType, Value};

/// Maximum number of elements for which memory is reserved before they are read.
const CAPACITY_MAX: usize = 1024;

/// Kind of a collection that is not frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// A list: its elements have no keys.
    List,
    /// A set: its elements have no values.
    Set,
    /// Map from keys to values.
    Map,
    /// The fields of a user-defined type; a key is the place of a field.
    Record,
}

impl CollectionKind {
    /// Returns the kind of a type's values; `None` for scalars.
    #[must_use]
    pub const fn of_type(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::List(_) => Some(Self::List),
            DataType::Set(_) => Some(Self::Set),
            DataType::Map(_) => Some(Self::Map),
            data_type if data_type.is_record() => Some(Self::Record),
            _ => None,
        }
    }

    const fn has_keys(self) -> bool {
        !matches!(self, Self::List)
    }

    const fn has_values(self) -> bool {
        !matches!(self, Self::Set)
    }

    pub(super) const fn to_byte(self) -> u8 {
        match self {
            Self::List => 0,
            Self::Set => 1,
            Self::Map => 2,
            Self::Record => 3,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Result<Self> {
        Ok(match byte {
            0 => Self::List,
            1 => Self::Set,
            2 => Self::Map,
            3 => Self::Record,
            later => return Err(Error::unsupported(format!("collections of kind {later}"))),
        })
    }
}

/// Element of a [`Collection`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Key of a map, value of a set, or [place](Element::place_of) of a field; empty in a list.
    pub key: Bytes,
    /// Value; empty in a set.
    pub value: Bytes,
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
    /// Write time; `None` is that of the version.
    pub written: Option<WallTime>,
}

impl Element {
    /// Returns the key of a field of a user-defined type, by its place.
    ///
    /// # Panics
    ///
    /// If there are 65,536 fields before it; a type has fewer.
    #[must_use]
    pub fn place_of(field: usize) -> Bytes {
        let place = u16::try_from(field).expect("a type has fewer than 65,536 fields");
        Bytes::copy_from_slice(&place.to_be_bytes())
    }

    fn put(&self, kind: CollectionKind, out: &mut BytesMut) {
        let expires = if self.expiry.is_some() { ELEMENT_EXPIRES } else { 0 };
        let written = if self.written.is_some() { ELEMENT_WRITTEN } else { 0 };
        out.put_u8(expires | written);
        if let Some(expiry) = self.expiry {
            out.put_i64(expiry);
        }
        if let Some(written) = self.written {
            out.put_i64(written.0);
        }
        if kind.has_keys() {
            put_bytes(out, &self.key);
        }
        if kind.has_values() {
            put_bytes(out, &self.value);
        }
    }
}

/// An element in encoded bytes.
struct ReadElement<'a> {
    key: &'a [u8],
    value: &'a [u8],
    expiry: Option<i64>,
    written: Option<WallTime>,
}

impl<'a> ReadElement<'a> {
    fn take(kind: CollectionKind, rest: &mut &'a [u8]) -> Result<Self> {
        let flags = take_u8(rest)?;
        if flags & !(ELEMENT_EXPIRES | ELEMENT_WRITTEN) != 0 {
            return Err(no_collection(&format!("flags {flags:#04x} of an element")));
        }
        let expiry = if flags & ELEMENT_EXPIRES == 0 { None } else { Some(take_i64(rest)?) };
        let written =
            if flags & ELEMENT_WRITTEN == 0 { None } else { Some(WallTime(take_i64(rest)?)) };
        let key = if kind.has_keys() { take_bytes(rest)? } else { &[] };
        let value = if kind.has_values() { take_bytes(rest)? } else { &[] };
        if kind == CollectionKind::Record && key.len() != 2 {
            return Err(no_collection(&format!("a field's place of {} bytes", key.len())));
        }
        Ok(Self { key, value, expiry, written })
    }
}

/// Value of a column whose elements can be changed one by one.
///
/// ```
/// use carnet_base::row::{Collection, CollectionKind};
/// use carnet_base::{DataType, Value};
///
/// let set = DataType::set(DataType::Int);
/// let sorted = set.parse_text("{-1, 2}")?.serialize();
/// let elements = Collection::from_serialized(CollectionKind::Set, &sorted, None)?;
/// assert_eq!(elements.elements()[0].key[..], 2_i32.to_be_bytes());
/// assert_eq!(elements.serialize(&set)?, sorted);
/// # Ok::<_, carnet_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    kind: CollectionKind,
    elements: Vec<Element>,
}

impl Collection {
    /// Creates a collection of elements. Of elements with the same key, the last remains.
    #[must_use]
    pub fn new(kind: CollectionKind, mut elements: Vec<Element>) -> Self {
        if kind.has_keys() {
            sort(&mut elements);
        }
        Self { kind, elements }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> CollectionKind {
        self.kind
    }

    /// Returns the elements of a list in their order, others in the order of the bytes of their keys.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    pub(super) const fn elements_mut(&mut self) -> &mut Vec<Element> {
        &mut self.elements
    }

    /// Returns the elements, like [`Collection::elements`].
    #[must_use]
    pub fn into_elements(self) -> Vec<Element> {
        self.elements
    }

    /// Returns the element with a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Element> {
        let place = self.elements.binary_search_by(|element| element.key[..].cmp(key)).ok()?;
        Some(&self.elements[place])
    }

    /// Removes the elements that have expired at the second `now` since 1970-01-01 UTC.
    pub fn expire(&mut self, now: i64) {
        self.elements.retain(|element| element.expiry.is_none_or(|expiry| expiry > now));
    }

    /// Makes the elements of a value as Cassandra serializes it, all with the same expiry.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are no value of this kind.
    pub fn from_serialized(
        kind: CollectionKind,
        bytes: &Bytes,
        expiry: Option<i64>,
    ) -> Result<Self> {
        let mut rest = &bytes[..];
        let part = |rest: &mut &[u8]| -> Result<Option<Bytes>> {
            let len = rest.try_get_i32().map_err(|_| ends_early())?;
            if len == -1 {
                return Ok(None);
            }
            let len = usize::try_from(len).map_err(|_| no_collection("a negative length"))?;
            Ok(Some(bytes.slice_ref(rest.split_off(..len).ok_or_else(ends_early)?)))
        };
        let mut elements = Vec::new();
        if kind == CollectionKind::Record {
            for place in 0..=usize::from(u16::MAX) {
                if rest.is_empty() {
                    break;
                }
                if let Some(value) = part(&mut rest)? {
                    let key = Element::place_of(place);
                    elements.push(Element { key, value, expiry, written: None });
                }
            }
        } else {
            let count = rest.try_get_i32().map_err(|_| ends_early())?;
            for _ in 0..count {
                let mut next = || part(&mut rest)?.ok_or_else(|| no_collection("a null element"));
                let key = if kind.has_keys() { next()? } else { Bytes::new() };
                let value = if kind.has_values() { next()? } else { Bytes::new() };
                elements.push(Element { key, value, expiry, written: None });
            }
        }
        match rest.len() {
            0 => Ok(Self::new(kind, elements)),
            len => Err(no_collection(&format!("{len} bytes behind the last element"))),
        }
    }

    /// Makes the elements of a value of a type. Keys get the [form](Value::key_form) of all equal ones.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are no value of the type; `Invalid` for a wrong key.
    pub fn of_value(data_type: &DataType, bytes: &Bytes, expiry: Option<i64>) -> Result<Self> {
        let kind = CollectionKind::of_type(data_type)
            .ok_or_else(|| no_collection(&format!("a value of type {data_type}")))?;
        let mut collection = Self::from_serialized(kind, bytes, expiry)?;
        if let Some(key_type) = key_type(data_type) {
            for element in &mut collection.elements {
                element.key = key_type.key_form(&element.key)?;
            }
            sort(&mut collection.elements);
        }
        Ok(collection)
    }

    /// Returns the element with a key, whatever form it was stored in.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the elements are no value of the type.
    pub fn find(&self, data_type: &DataType, key: &Value) -> Result<Option<&Element>> {
        if !key_type(data_type).is_some_and(DataType::has_many_forms) {
            return Ok(self.get(&key.key_form()));
        }
        let wanted = key.key_form();
        let found = self.keyed(data_type)?.into_iter().find(|(key, _)| key.key_form() == wanted);
        Ok(found.map(|(_, element)| element))
    }

    /// Returns the keys of elements that are equal to some keys and were stored in another form. The
    /// wanted keys have the [form](Value::key_form) of all equal ones.
    ///
    /// # Errors
    ///
    /// `Invalid` if a key is no value of the type.
    pub fn other_forms(
        &self,
        data_type: &DataType,
        is_wanted: impl Fn(&Bytes) -> bool,
    ) -> Result<Vec<Bytes>> {
        let mut found = Vec::new();
        let Some(key_type) = key_type(data_type).filter(|it| it.has_many_forms()) else {
            return Ok(found);
        };
        for element in &self.elements {
            let form = key_type.key_form(&element.key)?;
            if form != element.key && is_wanted(&form) {
                found.push(element.key.clone());
            }
        }
        Ok(found)
    }

    /// Serializes the elements as Cassandra does, in the order of their type.
    ///
    /// # Errors
    ///
    /// `Corrupted` if they are no value of the type.
    pub fn serialize(&self, data_type: &DataType) -> Result<Bytes> {
        if CollectionKind::of_type(data_type) != Some(self.kind) {
            return Err(no_collection(&format!("{:?} in a column of {data_type}", self.kind)));
        }
        let mut out = BytesMut::new();
        if self.kind == CollectionKind::Record {
            for place in 0..data_type.parts().len() {
                match self.get(&Element::place_of(place)) {
                    Some(field) => put_part(&mut out, &field.value),
                    None => out.put_i32(-1),
                }
            }
            return Ok(out.freeze());
        }
        if key_type(data_type).is_some_and(DataType::has_many_forms) {
            // Keys are written with all their fields.
            let keyed = self.keyed(data_type)?;
            put_count(&mut out, keyed.len())?;
            for (key, element) in keyed {
                put_part(&mut out, &key.serialize());
                if self.kind.has_values() {
                    put_part(&mut out, &element.value);
                }
            }
            return Ok(out.freeze());
        }
        put_count(&mut out, self.elements.len())?;
        for element in self.in_order(data_type)? {
            if self.kind.has_keys() {
                put_part(&mut out, &element.key);
            }
            if self.kind.has_values() {
                put_part(&mut out, &element.value);
            }
        }
        Ok(out.freeze())
    }

    /// Returns the elements in the order of their type. Of elements with equal keys in several forms, only
    /// the one that was written last is returned.
    ///
    /// # Errors
    ///
    /// `Corrupted` if they are no value of the type.
    pub fn in_order(&self, data_type: &DataType) -> Result<Vec<&Element>> {
        match key_type(data_type) {
            Some(key_type) if !is_ordered_as_bytes(key_type) => {
                Ok(self.keyed(data_type)?.into_iter().map(|(_, element)| element).collect())
            }
            _ => Ok(self.elements.iter().collect()),
        }
    }

    /// Returns the elements with their keys, like [`Collection::in_order`].
    fn keyed(&self, data_type: &DataType) -> Result<Vec<(Value, &Element)>> {
        let Some(key_type) = key_type(data_type) else { return Ok(Vec::new()) };
        let elements = self.elements.iter();
        let keyed = elements.map(|element| Ok((key_type.deserialize(&element.key)?, element)));
        let mut keyed = keyed
            .collect::<Result<Vec<_>>>()
            .map_err(|error| no_collection(&format!("a key: {}", error.message())))?;
        // An element without a write time has that of the version, which is the last.
        let written = |element: &Element| element.written.map_or(i64::MAX, |written| written.0);
        keyed.sort_by(|(a, one), (b, other)| {
            Value::compare(a, b).then_with(|| written(other).cmp(&written(one)))
        });
        if key_type.has_many_forms() {
            keyed.dedup_by(|(a, _), (b, _)| Value::compare(a, b).is_eq());
        }
        Ok(keyed)
    }

    pub(super) fn put(&self, out: &mut BytesMut) {
        out.put_u8(self.kind.to_byte());
        put_elements(self.kind, &self.elements, out);
    }

    /// Decodes a collection that takes all of `bytes`, a slice of `whole`.
    pub(super) fn decode(bytes: &[u8], whole: &Bytes) -> Result<Self> {
        let mut rest = bytes;
        let kind = CollectionKind::from_byte(take_u8(&mut rest)?)?;
        let elements = take_elements(kind, &mut rest, whole)?;
        match rest.len() {
            0 => Ok(Self { kind, elements }),
            len => Err(no_collection(&format!("{len} bytes behind the last element"))),
        }
    }
}

/// Returns the type of the elements of a set, or of the keys of a map; `None` for other types.
fn key_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Set(element) => Some(element),
        DataType::Map(pair) => Some(&pair.0),
        _ => None,
    }
}

/// Returns `true` if the serialized values of a type are in the order of the type.
const fn is_ordered_as_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Ascii | DataType::Text | DataType::Blob | DataType::Boolean)
}

/// Sorts elements by key. Of elements with the same key, the last remains.
pub(super) fn sort(elements: &mut Vec<Element>) {
    elements.sort_by(|a, b| a.key.cmp(&b.key));
    elements.dedup_by(|later, earlier| {
        let is_same = later.key == earlier.key;
        if is_same {
            std::mem::swap(later, earlier);
        }
        is_same
    });
}

pub(super) fn put_elements(kind: CollectionKind, elements: &[Element], out: &mut BytesMut) {
    put_len(out, elements.len());
    for element in elements {
        element.put(kind, out);
    }
}

pub(super) fn take_elements(
    kind: CollectionKind,
    rest: &mut &[u8],
    whole: &Bytes,
) -> Result<Vec<Element>> {
    let count = take_count(rest)?;
    let mut elements: Vec<Element> = Vec::with_capacity(count.min(CAPACITY_MAX));
    for _ in 0..count {
        let ReadElement { key, value, expiry, written } = ReadElement::take(kind, rest)?;
        if kind.has_keys() && elements.last().is_some_and(|last| last.key[..] >= *key) {
            return Err(no_collection("an element is out of order"));
        }
        let (key, value) = (whole.slice_ref(key), whole.slice_ref(value));
        elements.push(Element { key, value, expiry, written });
    }
    Ok(elements)
}

fn take_count(rest: &mut &[u8]) -> Result<usize> {
    // An element has at least its flags and a length.
    let count = take_len(rest)?;
    match count <= rest.len() / 2 {
        true => Ok(count),
        false => Err(no_collection(&format!("{count} elements cannot follow"))),
    }
}

/// Reads the last expiry of the elements of an encoded collection; `None` if an element does not
/// expire.
pub(super) fn last_expiry(mut bytes: &[u8]) -> Result<Option<i64>> {
    let kind = CollectionKind::from_byte(take_u8(&mut bytes)?)?;
    let mut last = i64::MIN;
    for _ in 0..take_count(&mut bytes)? {
        let element = ReadElement::take(kind, &mut bytes)?;
        let Some(expiry) = element.expiry else { return Ok(None) };
        last = last.max(expiry);
    }
    Ok(Some(last))
}

fn put_count(out: &mut BytesMut, count: usize) -> Result<()> {
    out.put_i32(i32::try_from(count).map_err(|_| no_collection("too long"))?);
    Ok(())
}

fn put_part(out: &mut BytesMut, part: &[u8]) {
    out.put_i32(i32::try_from(part.len()).expect("a row is shorter than 2 GiB"));
    out.put_slice(part);
}

pub(super) fn no_collection(why: &str) -> Error {
    Error::corrupted(format!("collection: {why}"))
}

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
