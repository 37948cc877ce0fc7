//! Values of a prepared statement's markers in its frame, for admission.

/// Values of the markers in the order of the markers, still encoded: their count, then a length and bytes for
/// each, then the statement's other settings. Empty for values by name, which are not examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerValues<'f>(&'f [u8]);

impl<'f> MarkerValues<'f> {
    pub(super) const fn new(encoded: &'f [u8]) -> Self {
        Self(encoded)
    }

    /// Returns the number of elements of the list at this index; `None` if it is unknown. A value of
    /// another type has a meaningless number.
    #[must_use]
    pub fn list_len(self, index: usize) -> Option<usize> {
        let (count, mut values) = self.0.split_first_chunk::<2>()?;
        if index >= usize::from(u16::from_be_bytes(*count)) {
            return None;
        }
        (0..index).try_for_each(|_| value(&mut values).map(drop))?;
        usize::try_from(i32::from_be_bytes(*value(&mut values)?.first_chunk()?)).ok()
    }
}

/// Takes a value. One of negative length, which is null or unset, is empty.
fn value<'f>(values: &mut &'f [u8]) -> Option<&'f [u8]> {
    let (len, rest) = values.split_first_chunk()?;
    let len = usize::try_from(i32::from_be_bytes(*len).max(0)).ok()?;
    let (value, rest) = rest.split_at_checked(len)?;
    *values = rest;
    Some(value)
}
