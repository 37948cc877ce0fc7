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

use std::sync::OnceLock;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::Result;

use super::bytes::{ends_early, put_len, take_u8};
use super::element::{CollectionKind, Element, ElementRef, no_collection, sort, take_count};
use super::encoded::{Encoded, move_time};
use crate::value::{DataType, Value};

/// Value of a column whose elements can be changed one by one.
///
/// ```
/// use carnet_data::row::{Collection, CollectionKind};
/// use carnet_data::{DataType, Value};
///
/// let set = DataType::set(DataType::Int);
/// let sorted = set.parse_text("{-1, 2}")?.serialize();
/// let elements = Collection::from_serialized(CollectionKind::Set, &sorted, None)?;
/// assert_eq!(elements.elements()[0].key[..], 2_i32.to_be_bytes());
/// assert_eq!(elements.serialize(&set)?, sorted);
/// # Ok::<_, carnet_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Collection {
    kind: CollectionKind,
    /// The elements as a row has them, until one changes. Most collections are only read from one
    /// end to the other; a list of small values takes some ten times as much memory as elements.
    encoded: Option<Encoded>,
    /// The elements, made of `encoded` when one of them is needed.
    elements: OnceLock<Vec<Element>>,
}

impl Clone for Collection {
    fn clone(&self) -> Self {
        let Self { kind, encoded, elements } = self;
        match encoded {
            // Elements that were made of it are made again.
            Some(encoded) => Self::of(*kind, Some(encoded.clone()), OnceLock::new()),
            None => Self::of(*kind, None, elements.clone()),
        }
    }
}

impl PartialEq for Collection {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Collection {}

impl Collection {
    /// Creates a collection of elements. Of elements with the same key, the last remains.
    #[must_use]
    pub fn new(kind: CollectionKind, mut elements: Vec<Element>) -> Self {
        if kind.has_keys() {
            sort(&mut elements);
        }
        Self::of(kind, None, OnceLock::from(elements))
    }

    /// Creates a list, and keeps it encoded.
    #[must_use]
    pub fn list(elements: impl IntoIterator<Item = Element>) -> Self {
        let (mut count, mut out) = (0, BytesMut::new());
        for element in elements {
            ElementRef::from(&element).put(CollectionKind::List, &mut out);
            count += 1;
        }
        let encoded = Encoded::of_bytes(count, out.freeze());
        Self::of(CollectionKind::List, Some(encoded), OnceLock::new())
    }

    /// Creates an empty collection.
    pub(super) const fn empty(kind: CollectionKind) -> Self {
        Self::of(kind, Some(Encoded::EMPTY), OnceLock::new())
    }

    /// Creates a collection of encoded elements, whose keys are in order.
    pub(super) fn of_ordered<'a>(
        kind: CollectionKind,
        elements: impl Iterator<Item = ElementRef<'a>>,
    ) -> Self {
        Self::of(kind, Some(Encoded::new(kind, elements)), OnceLock::new())
    }

    const fn of(
        kind: CollectionKind,
        encoded: Option<Encoded>,
        elements: OnceLock<Vec<Element>>,
    ) -> Self {
        Self { kind, encoded, elements }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> CollectionKind {
        self.kind
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.encoded.as_ref().map_or_else(|| self.elements().len(), Encoded::len)
    }

    /// Returns `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements one after the other: those of a list in its order, others by the bytes
    /// of their keys. Takes no memory for them.
    pub fn iter(&self) -> impl Iterator<Item = ElementRef<'_>> {
        let (encoded, elements) = match &self.encoded {
            Some(encoded) => (Some(encoded.iter(self.kind)), &[][..]),
            None => (None, self.elements()),
        };
        encoded.into_iter().flatten().chain(elements.iter().map(ElementRef::from))
    }

    /// Returns the elements, in the order of [`Collection::iter`].
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        self.elements.get_or_init(|| {
            let encoded = self.encoded.as_ref();
            encoded.map_or_else(Vec::new, |encoded| encoded.elements(self.kind))
        })
    }

    /// Adds the elements of other lists before and behind those of this one.
    pub(super) fn join(&mut self, front: &Self, back: &Self) {
        let kind = CollectionKind::List;
        let mut encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => Encoded::new(kind, self.iter()),
        };
        let of = |list: &Self| match &list.encoded {
            Some(encoded) => encoded.clone(),
            None => Encoded::new(kind, list.iter()),
        };
        encoded.join(&of(front), &of(back));
        *self = Self::of(kind, Some(encoded), OnceLock::new());
    }

    /// Lends the elements to a change.
    pub(super) fn elements_mut(&mut self) -> &mut Vec<Element> {
        if let Some(encoded) = self.encoded.take() {
            self.elements.get_or_init(|| encoded.elements(self.kind));
        }
        self.elements.get_mut().expect("a collection has elements that are encoded or not")
    }

    /// Makes the elements part of a version with another write time; they keep theirs. `older` is the
    /// time of the version that they are part of now.
    pub(super) fn begin_version(&mut self, older: WallTime, newer: WallTime) {
        match &mut self.encoded {
            Some(encoded) => {
                encoded.begin_version(older, newer);
                self.elements = OnceLock::new();
            }
            None => {
                let elements = self.elements_mut().iter_mut();
                elements.for_each(|element| move_time(&mut element.written, older, newer));
            }
        }
    }

    /// Returns the elements one after the other, without memory for all of them.
    pub fn into_elements(self) -> impl Iterator<Item = Element> {
        let Self { kind, encoded, elements } = self;
        let of_encoded = encoded.map(|encoded| encoded.into_elements(kind));
        let elements = if of_encoded.is_none() {
            elements.into_inner().unwrap_or_default()
        } else {
            Vec::new()
        };
        of_encoded.into_iter().flatten().chain(elements)
    }

    /// Returns the element with a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Element> {
        let elements = self.elements();
        let place = elements.binary_search_by(|element| element.key[..].cmp(key)).ok()?;
        Some(&elements[place])
    }

    /// Removes the elements that have expired at the second `now` since 1970-01-01 UTC.
    pub fn expire(&mut self, now: i64) {
        let is_gone = |expiry: Option<i64>| expiry.is_some_and(|expiry| expiry <= now);
        if self.iter().any(|element| is_gone(element.expiry)) {
            self.elements_mut().retain(|element| !is_gone(element.expiry));
        }
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
            let elements = collection.elements_mut();
            for element in &mut *elements {
                element.key = key_type.key_form(&element.key)?;
            }
            sort(elements);
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
        for element in self.elements() {
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
        put_count(&mut out, self.len())?;
        let mut put = |element: ElementRef<'_>| {
            if self.kind.has_keys() {
                put_part(&mut out, element.key);
            }
            if self.kind.has_values() {
                put_part(&mut out, element.value);
            }
        };
        if key_type(data_type).is_none_or(is_ordered_as_bytes) {
            self.iter().for_each(put);
        } else {
            self.in_order(data_type)?.into_iter().for_each(|element| put(element.into()));
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
            _ => Ok(self.elements().iter().collect()),
        }
    }

    /// Returns the elements with their keys, like [`Collection::in_order`].
    fn keyed(&self, data_type: &DataType) -> Result<Vec<(Value, &Element)>> {
        let Some(key_type) = key_type(data_type) else { return Ok(Vec::new()) };
        let elements = self.elements().iter();
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
        self.put_elements(out);
    }

    /// Returns the size of the elements if they are kept encoded; zero otherwise.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.encoded.as_ref().map_or(0, Encoded::bytes)
    }

    /// Writes the number of elements, and the elements.
    pub(super) fn put_elements(&self, out: &mut BytesMut) {
        put_len(out, self.len());
        match &self.encoded {
            Some(encoded) => encoded.put(self.kind, out),
            None => self.iter().for_each(|element| element.put(self.kind, out)),
        }
    }

    /// Decodes a collection that takes all of `bytes`, a slice of `whole`.
    pub(super) fn decode(mut bytes: &[u8], whole: &Bytes) -> Result<Self> {
        let kind = CollectionKind::from_byte(take_u8(&mut bytes)?)?;
        let collection = Self::take(kind, &mut bytes, whole)?;
        match bytes.len() {
            0 => Ok(collection),
            len => Err(no_collection(&format!("{len} bytes behind the last element"))),
        }
    }

    /// Takes the elements of a collection from the front of `rest`, a slice of `whole`.
    pub(super) fn take(kind: CollectionKind, rest: &mut &[u8], whole: &Bytes) -> Result<Self> {
        let encoded = Encoded::take(kind, rest, whole)?;
        Ok(Self::of(kind, Some(encoded), OnceLock::new()))
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

/// Reads the last expiry of the elements of an encoded collection; `None` if an element does not
/// expire.
pub(super) fn last_expiry(mut bytes: &[u8]) -> Result<Option<i64>> {
    let kind = CollectionKind::from_byte(take_u8(&mut bytes)?)?;
    let mut last = i64::MIN;
    for _ in 0..take_count(&mut bytes)? {
        let element = ElementRef::take(kind, &mut bytes)?;
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

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
