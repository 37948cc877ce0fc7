//! Rows of a result, in the form in which the native protocol sends them.

use std::fmt;

use carnet::Bytes;

/// Length that stands for null.
const NULL: i32 = -1;
/// Size in bytes above which rows grow by a quarter, and not to the double.
const LARGE_BYTES: usize = 1 << 20;

/// Rows one behind the other, in one allocation.
///
/// Of each value there is its length in four bytes, big-endian, −1 for null, and the value as
/// Cassandra serializes it: the form of section 4.2.5.2 of the native protocol. So a value is copied
/// once on its way from the store to the answer.
///
/// ```
/// use carnet_cql::result::RowSet;
///
/// let mut rows = RowSet::default();
/// rows.push([Some(&b"one"[..]), None]);
/// assert_eq!(rows.len(), 1);
/// assert_eq!(rows.encoded(), b"\0\0\0\x03one\xff\xff\xff\xff");
/// assert_eq!(rows.to_vec()[0][0].as_deref(), Some(&b"one"[..]));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RowSet {
    count: usize,
    /// Number of values of each row; zero without rows.
    width: usize,
    /// Number of values of the row that is not ended yet.
    begun: usize,
    bytes: Vec<u8>,
}

impl RowSet {
    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the encoded rows.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a row; `None` is null.
    ///
    /// # Panics
    ///
    /// If the row has another number of values than the rows before it.
    pub fn push<'v>(&mut self, row: impl IntoIterator<Item = Option<&'v [u8]>>) {
        row.into_iter().for_each(|value| self.push_value(value));
        self.end_row();
    }

    /// Appends a value to the row that is being made.
    pub(crate) fn push_value(&mut self, value: Option<&[u8]>) {
        self.begun += 1;
        let Some(value) = value else {
            self.bytes.extend_from_slice(&NULL.to_be_bytes());
            return;
        };
        let len = i32::try_from(value.len()).expect("no value is as long as 2 GiB");
        let more = size_of_val(&len) + value.len();
        let room = self.bytes.capacity() - self.bytes.len();
        if room < more && self.bytes.len() + more > LARGE_BYTES {
            self.bytes.reserve_exact(more.max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(value);
    }

    /// Ends a row of [pushed values](RowSet::push_value).
    ///
    /// # Panics
    ///
    /// If the row has another number of values than the rows before it.
    pub(crate) fn end_row(&mut self) {
        let width = std::mem::take(&mut self.begun);
        assert!(self.count == 0 || self.width == width, "{width} values of {}", self.width);
        self.width = width;
        self.count += 1;
    }

    /// Returns the rows, each as its values.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Option<&[u8]>>> {
        let mut rest = &self.bytes[..];
        (0..self.count).map(move |_| (0..self.width).map(|_| take(&mut rest)).collect())
    }

    /// Returns the values of the rows. They share one copy of the encoded rows.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Vec<Option<Bytes>>> {
        self.clone().into_vec()
    }

    /// Like [`RowSet::to_vec`], without a copy.
    #[must_use]
    pub(crate) fn into_vec(self) -> Vec<Vec<Option<Bytes>>> {
        let bytes = Bytes::from(self.bytes);
        let share = |value: Option<&[u8]>| value.map(|value| bytes.slice_ref(value));
        let mut rest = &bytes[..];
        let row = |_| (0..self.width).map(|_| share(take(&mut rest))).collect();
        (0..self.count).map(row).collect()
    }
}

/// Takes a value from the beginning of encoded rows.
fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (len, behind) = rest.split_first_chunk().expect("a value has a length");
    // The length of null is negative.
    let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
        *rest = behind;
        return None;
    };
    let (value, behind) = behind.split_at(len);
    *rest = behind;
    Some(value)
}

impl FromIterator<Vec<Option<Bytes>>> for RowSet {
    fn from_iter<T: IntoIterator<Item = Vec<Option<Bytes>>>>(rows: T) -> Self {
        let mut set = Self::default();
        rows.into_iter().for_each(|row| set.push(row.iter().map(Option::as_deref)));
        set
    }
}

impl From<Vec<Vec<Option<Bytes>>>> for RowSet {
    fn from(rows: Vec<Vec<Option<Bytes>>>) -> Self {
        rows.into_iter().collect()
    }
}

impl fmt::Debug for RowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_vec()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let rows = vec![vec![value("one"), None], vec![value(""), value("two")]];
        let set = RowSet::from(rows.clone());
        assert_eq!((set.len(), set.to_vec()), (2, rows.clone()));
        let borrowed: Vec<Vec<_>> = set.iter().collect();
        let owned: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(Option::as_deref).collect()).collect();
        assert_eq!(borrowed, owned);
        assert_ne!(set, RowSet::from(vec![vec![value("one"), None]]));
    }

    #[test]
    fn rows_without_values_are_counted() {
        let set = RowSet::from(vec![vec![], vec![]]);
        assert_eq!((set.len(), set.to_vec()), (2, vec![vec![], vec![]]));
        assert_eq!(RowSet::default().to_vec(), Vec::<Vec<_>>::new());
    }

    #[test]
    #[should_panic(expected = "1 values of 2")]
    fn rows_have_one_width() {
        let _ = RowSet::from(vec![vec![None, None], vec![None]]);
    }
}
