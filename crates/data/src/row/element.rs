//! Elements of a collection, and elements as they are encoded in a row.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::{Error, Result};

use super::bytes::{put_bytes, take_bytes, take_i64, take_len, take_u8};
use super::flags::{ELEMENT_EXPIRES, ELEMENT_WRITTEN};
use crate::value::DataType;

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

    pub(super) const fn has_keys(self) -> bool {
        !matches!(self, Self::List)
    }

    pub(super) const fn has_values(self) -> bool {
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

/// Element of a [`Collection`](super::Collection).
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
}

/// An element of a collection, whose key and value are borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRef<'a> {
    /// See [`Element::key`].
    pub key: &'a [u8],
    /// See [`Element::value`].
    pub value: &'a [u8],
    /// See [`Element::expiry`].
    pub expiry: Option<i64>,
    /// See [`Element::written`].
    pub written: Option<WallTime>,
}

impl<'a> ElementRef<'a> {
    pub(super) fn take(kind: CollectionKind, rest: &mut &'a [u8]) -> Result<Self> {
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

    pub(super) fn put(self, kind: CollectionKind, out: &mut BytesMut) {
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
            put_bytes(out, self.key);
        }
        if kind.has_values() {
            put_bytes(out, self.value);
        }
    }

    /// Returns the element as slices of `whole`, from which it was read.
    pub(super) fn to_element(self, whole: &Bytes) -> Element {
        let Self { key, value, expiry, written } = self;
        Element { key: whole.slice_ref(key), value: whole.slice_ref(value), expiry, written }
    }
}

impl<'a> From<&'a Element> for ElementRef<'a> {
    fn from(element: &'a Element) -> Self {
        let Element { key, value, expiry, written } = element;
        Self { key, value, expiry: *expiry, written: *written }
    }
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

pub(super) fn take_count(rest: &mut &[u8]) -> Result<usize> {
    // An element has at least its flags and a length.
    let count = take_len(rest)?;
    match count <= rest.len() / 2 {
        true => Ok(count),
        false => Err(no_collection(&format!("{count} elements cannot follow"))),
    }
}

pub(super) fn no_collection(why: &str) -> Error {
    Error::corrupted(format!("collection: {why}"))
}
