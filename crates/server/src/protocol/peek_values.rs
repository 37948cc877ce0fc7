//! Values of a prepared statement's markers in its frame, for admission.

use carnet_cql::{Bound, Values};

use super::Version;
use super::request::param;

/// Values of the markers, in the order of the markers. Values by name are not examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekValues<'f> {
    /// No values in order.
    None,
    /// Values as they are in the frame: a length and bytes for each.
    Encoded(&'f [u8]),
    /// Values of a decoded request.
    Decoded(&'f [Bound]),
}

impl<'f> PeekValues<'f> {
    /// Examines the part of an EXECUTE's body behind the id of its statement.
    pub(super) fn from_body(version: Version, body: &'f [u8]) -> Self {
        Self::find(version, body).map_or(Self::None, Self::Encoded)
    }

    fn find(version: Version, mut body: &'f [u8]) -> Option<&'f [u8]> {
        if version == Version::V5 {
            short_bytes(&mut body)?; // the id of the result's columns
        }
        let _consistency: [u8; 2] = take(&mut body)?;
        let flags = match version {
            Version::V4 => u32::from(u8::from_be_bytes(take(&mut body)?)),
            Version::V5 => u32::from_be_bytes(take(&mut body)?),
        };
        let _count: [u8; 2] = take(&mut body)?;
        (flags & (param::VALUES | param::NAMES) == param::VALUES).then_some(body)
    }

    /// Returns the number of elements of the list at this index; `None` if it is unknown. A value of
    /// another type has a meaningless number.
    #[must_use]
    pub fn list_len(self, index: usize) -> Option<usize> {
        let value = match self {
            Self::None => None,
            Self::Encoded(mut values) => {
                (0..index).try_for_each(|_| value(&mut values).map(drop))?;
                value(&mut values)
            }
            Self::Decoded(values) => match values.get(index)? {
                Bound::Bytes(bytes) => Some(&bytes[..]),
                Bound::Null | Bound::Unset => None,
            },
        }?;
        usize::try_from(i32::from_be_bytes(*value.first_chunk()?)).ok()
    }
}

impl PeekValues<'_> {
    /// Returns `true` if the lists of decoded values have the same lengths here.
    pub(super) fn have_lens_of(self, decoded: PeekValues<'_>) -> bool {
        let count = match decoded {
            PeekValues::Decoded(values) => values.len(),
            _ => 0,
        };
        (0..count).all(|index| self.list_len(index) == decoded.list_len(index))
    }
}

impl<'f> From<&'f Values> for PeekValues<'f> {
    fn from(values: &'f Values) -> Self {
        match values {
            Values::Positional(values) => Self::Decoded(values),
            Values::Named(_) => Self::None,
        }
    }
}

/// Takes a value. One of negative length, which is null or unset, is empty.
fn value<'f>(values: &mut &'f [u8]) -> Option<&'f [u8]> {
    let len = i32::from_be_bytes(take(values)?).max(0);
    let (value, rest) = values.split_at_checked(usize::try_from(len).ok()?)?;
    *values = rest;
    Some(value)
}

pub(super) fn short_bytes<'f>(body: &mut &'f [u8]) -> Option<&'f [u8]> {
    let len = u16::from_be_bytes(take(body)?);
    let (bytes, rest) = body.split_at_checked(usize::from(len))?;
    *body = rest;
    Some(bytes)
}

pub(super) fn take<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = body.split_first_chunk::<N>()?;
    *body = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// An int, a null, a list of three elements and a truncated value.
    const VALUES: &[u8] =
        b"\0\x04\0\0\0\x04\0\0\0\x09\xff\xff\xff\xff\0\0\0\x0a\0\0\0\x03------\0\0\0\x63";

    fn lens(values: PeekValues<'_>) -> [Option<usize>; 5] {
        [0, 1, 2, 3, 4].map(|index| values.list_len(index))
    }

    #[test]
    fn length_of_a_bound_list_is_found() {
        let expected = [Some(9), None, Some(3), None, None];
        let body = |front: &[u8]| [front, VALUES].concat();
        assert_eq!(lens(PeekValues::from_body(Version::V4, &body(b"\0\x01\x01"))), expected);
        let body = body(b"\0\x02id\0\x01\0\0\0\x01");
        assert_eq!(lens(PeekValues::from_body(Version::V5, &body)), expected);
        let bytes = |bytes: &'static [u8]| Bound::Bytes(Bytes::from_static(bytes));
        let values = [bytes(b"\0\0\0\x09"), Bound::Null, bytes(b"\0\0\0\x03------"), Bound::Unset];
        assert_eq!(lens(PeekValues::from(&Values::Positional(values.to_vec()))), expected);
    }

    #[test]
    fn values_by_name_and_cut_bodies_have_no_length() {
        let named = [b"\0\x01\x41", VALUES].concat();
        for body in [&named[..], b"\0\x01\0", b"\0", b"\0\x01\x01\0\x01\0\0\0\x04\0"] {
            assert_eq!(lens(PeekValues::from_body(Version::V4, body)), [None; 5], "{body:?}");
        }
    }
}
