//! Items of a list or tuple in the native protocol's serialization.

use crate::cql_error::CqlError;
use crate::parser::IN_VALUES_MAX;

/// Splits a list in the native protocol's serialization: a count, then each item with its length,
/// which is −1 for null.
pub(super) fn items<'b>(bytes: &'b [u8], what: &str) -> Result<Vec<Option<&'b [u8]>>, CqlError> {
    let mut rest = Rest { bytes, what };
    let count = rest.number()?;
    let count = usize::try_from(count).map_err(|_| rest.wrong("the list has no length"))?;
    if count > IN_VALUES_MAX {
        return Err(rest.wrong(&format!(
            "the list behind IN has {count} values, more than the {IN_VALUES_MAX} that are allowed"
        )));
    }
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(rest.item()?);
    }
    rest.end()?;
    Ok(items)
}

/// Splits a tuple in the native protocol's serialization: each value with its length. Omitted
/// values at its end are null.
pub(super) fn parts<'b>(
    bytes: &'b [u8],
    count: usize,
    what: &str,
) -> Result<Vec<Option<&'b [u8]>>, CqlError> {
    let mut rest = Rest { bytes, what };
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(if rest.bytes.is_empty() { None } else { rest.item()? });
    }
    rest.end()?;
    Ok(parts)
}

/// Unread bytes of a list or tuple.
struct Rest<'b, 'w> {
    bytes: &'b [u8],
    what: &'w str,
}

impl<'b> Rest<'b, '_> {
    fn wrong(&self, why: &str) -> CqlError {
        CqlError::invalid(format!("{}: {why}", self.what))
    }

    fn number(&mut self) -> Result<i32, CqlError> {
        let (word, rest) =
            self.bytes.split_first_chunk().ok_or_else(|| self.wrong("the value is cut short"))?;
        self.bytes = rest;
        Ok(i32::from_be_bytes(*word))
    }

    fn item(&mut self) -> Result<Option<&'b [u8]>, CqlError> {
        let length = self.number()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length)
            .map_err(|_| self.wrong("an item of the value has no length"))?;
        let (item, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| self.wrong("the value is cut short"))?;
        self.bytes = rest;
        Ok(Some(item))
    }

    fn end(&self) -> Result<(), CqlError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.wrong("the value is too long")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_lists_are_refused() {
        let list = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 9];
        let (seven, nine): ([u8; 4], [u8; 4]) = ([0, 0, 0, 7], [0, 0, 0, 9]);
        assert_eq!(items(&list, "c").unwrap(), [Some(&seven[..]), Some(&nine[..])]);
        for end in 0..list.len() {
            assert!(items(&list[..end], "c").is_err());
        }
        assert!(items(&[list.as_slice(), &[0]].concat(), "c").is_err());
        assert_eq!(items(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff], "c").unwrap(), [None]);
        assert!(items(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe], "c").is_err());
        // A false count allocates nothing.
        assert!(items(&[0x7f, 0xff, 0xff, 0xff], "c").is_err());
        assert!(items(&[0xff; 4], "c").is_err());
    }

    #[test]
    fn omitted_tuple_values_are_null() {
        let tuple = [0, 0, 0, 1, 7];
        assert_eq!(parts(&tuple, 2, "c").unwrap(), [Some(&[7][..]), None]);
        assert_eq!(parts(&tuple, 1, "c").unwrap(), [Some(&[7][..])]);
        assert!(parts(&tuple, 0, "c").is_err());
        assert!(parts(&tuple[..4], 1, "c").is_err());
    }
}
