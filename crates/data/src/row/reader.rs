//! Reads a row image in place.

use std::fmt;

use bytes::Buf;
use carnet_base::clock::WallTime;
use carnet_base::error::{Error, Result};
use carnet_base::ids::ColumnId;
use carnet_base::var_long;

use super::collection;
use super::flags::{
    COLLECTION, COLUMN_WRITTEN, EXPIRES, FORMAT, FORMAT_DELTA, MARKED, MARKER_EXPIRES,
    MARKER_WRITTEN, WRITTEN, WRITTEN_BEFORE,
};
use super::marker::Marker;

/// Minimum length of a column: id, flags, length.
const COLUMN_LEN_MIN: usize = 3;

/// Reader of the columns of an image, one after the other, without allocations.
#[derive(Clone, Debug)]
pub struct RowReader<'a> {
    schema_version: u32,
    marker: Option<Marker>,
    written: Option<WallTime>,
    rest: &'a [u8],
    columns_left: usize,
    last: Option<ColumnId>,
}

/// A column of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadColumn<'a> {
    /// Id of the column.
    pub id: ColumnId,
    /// The value as Cassandra serializes it, or an encoded [`Collection`](super::Collection).
    pub value: &'a [u8],
    /// See [`Column::expiry`](super::Column::expiry).
    pub expiry: Option<i64>,
    /// See [`Column::written`](super::Column::written).
    pub written: Option<WallTime>,
    /// Whether the value is a collection of elements.
    pub has_elements: bool,
}

impl<'a> ReadColumn<'a> {
    /// Returns the value at the second `now()` since 1970-01-01 UTC; `None` once it has expired. The
    /// time is requested only for columns that expire.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the value is a collection of elements.
    #[inline]
    pub fn value_at(&self, now: impl Fn() -> i64) -> Result<Option<&'a [u8]>> {
        if self.has_elements {
            return Err(no_value(self.id));
        }
        Ok(self.expiry.is_none_or(|expiry| expiry > now()).then_some(self.value))
    }

    /// Returns the second from which on the column is null; `None` if it does not expire.
    fn last_expiry(&self) -> Result<Option<i64>> {
        match self.has_elements {
            true => collection::last_expiry(self.value),
            false => Ok(self.expiry),
        }
    }
}

/// Lifetime of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifetime {
    /// The row does not exist: it has neither a marker nor a column.
    None,
    /// The row ceases to exist at this second since 1970-01-01 UTC, its last expiry.
    Until(i64),
    /// The row has a marker or a column that does not expire.
    Unlimited,
}

impl<'a> RowReader<'a> {
    /// Reads the fields before the columns of an image that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// See [`RowImage::decode`](super::RowImage::decode).
    #[expect(clippy::inline_always, reason = "a result that goes through memory is waited for")]
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut rest = bytes;
        match take_u8(&mut rest)? {
            FORMAT => {}
            other => return Err(no_format(other)),
        }
        let schema_version = u32::try_from(var_long::take_unsigned(&mut rest)?)
            .map_err(|_| no_image("the schema version is out of range"))?;
        let (marker, written) = take_marker(&mut rest)?;
        let count = var_long::take_unsigned(&mut rest)?;
        let columns_left = usize::try_from(count)
            .ok()
            .filter(|count| *count <= rest.len() / COLUMN_LEN_MIN)
            .ok_or_else(|| no_image(format_args!("{count} columns cannot follow")))?;
        Ok(Self { schema_version, marker, written, rest, columns_left, last: None })
    }

    /// Returns the schema version under which the image was written.
    #[must_use]
    pub const fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// Returns the row marker, if the row has one.
    #[must_use]
    pub const fn marker(&self) -> Option<Marker> {
        self.marker
    }

    /// Returns the write time of the columns without one of their own; `None` if it is not known.
    #[must_use]
    pub const fn written(&self) -> Option<WallTime> {
        self.written
    }

    /// Returns the reader if the row exists at the second `now()` since 1970-01-01 UTC. The time is
    /// requested only for rows that expire.
    ///
    /// # Errors
    ///
    /// See [`RowReader::next_column`].
    #[expect(clippy::inline_always, reason = "a result that goes through memory is waited for")]
    #[inline(always)]
    pub fn live(self, now: impl Fn() -> i64) -> Result<Option<Self>> {
        if matches!(self.marker, Some(Marker { expiry: None, .. })) {
            return Ok(Some(self));
        }
        let is_live = match self.clone().lifetime()? {
            Lifetime::None => false,
            Lifetime::Until(expiry) => expiry > now(),
            Lifetime::Unlimited => true,
        };
        Ok(is_live.then_some(self))
    }

    /// Returns the lifetime of the row. Reads columns up to the first one that does not expire.
    ///
    /// # Errors
    ///
    /// See [`RowReader::next_column`].
    pub fn lifetime(mut self) -> Result<Lifetime> {
        let mut lifetime = match self.marker {
            None => Lifetime::None,
            Some(Marker { expiry: None, .. }) => return Ok(Lifetime::Unlimited),
            Some(Marker { expiry: Some(expiry), .. }) => Lifetime::Until(expiry),
        };
        while let Some(column) = self.next_column()? {
            let Some(expiry) = column.last_expiry()? else { return Ok(Lifetime::Unlimited) };
            lifetime = lifetime.max(Lifetime::Until(expiry));
        }
        Ok(lifetime)
    }

    /// Returns the number of columns that follow.
    #[must_use]
    pub const fn columns_left(&self) -> usize {
        self.columns_left
    }

    /// Reads the next column; `None` at the end of the image.
    ///
    /// # Errors
    ///
    /// See [`RowReader::new`].
    #[expect(clippy::inline_always, reason = "a result that goes through memory is waited for")]
    #[inline(always)]
    pub fn next_column(&mut self) -> Result<Option<ReadColumn<'a>>> {
        if self.columns_left == 0 {
            return match self.rest.len() {
                0 => Ok(None),
                len => Err(no_image(format_args!("{len} bytes behind the last column"))),
            };
        }
        let column = take_column(&mut self.rest)?;
        if self.last.is_some_and(|last| last >= column.id) {
            return Err(no_image(format_args!("column {} is out of order", column.id)));
        }
        self.last = Some(column.id);
        self.columns_left -= 1;
        Ok(Some(column))
    }

    /// Reads up to a column and returns its value at the second `now()`; `None` is null.
    ///
    /// # Errors
    ///
    /// See [`RowReader::next_column`].
    #[inline]
    pub fn find(mut self, id: ColumnId, now: impl Fn() -> i64) -> Result<Option<&'a [u8]>> {
        while let Some(column) = self.next_column()? {
            if column.id >= id {
                return if column.id == id { column.value_at(now) } else { Ok(None) };
            }
        }
        Ok(None)
    }
}

/// Reads the values of selected columns of an image, without those of expired columns.
///
/// ```
/// use carnet_data::row::{Column, RowColumns, RowImage, RowReader};
/// use carnet_base::ColumnId;
///
/// let mut image = RowImage::new(1);
/// image.set(ColumnId(3), Column::new("three"));
/// let bytes = image.encode();
/// let ids = [ColumnId(2), ColumnId(3)];
/// let now = || 1_700_000_000;
/// let mut columns = RowColumns::new(RowReader::new(&bytes)?, &ids, &now);
/// assert_eq!(columns.take()?, None);
/// assert_eq!(columns.take()?, Some(&b"three"[..]));
/// columns.finish()?;
/// # Ok::<_, carnet_base::Error>(())
/// ```
#[derive(Clone)]
pub struct RowColumns<'a> {
    reader: RowReader<'a>,
    ids: std::slice::Iter<'a, ColumnId>,
    /// A column that was read while looking for an absent one.
    next: Option<ReadColumn<'a>>,
    /// Time in seconds since 1970-01-01 UTC, requested only for columns that expire.
    now: &'a dyn Fn() -> i64,
}

impl fmt::Debug for RowColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reader, ids, next, .. } = self;
        f.debug_struct("RowColumns")
            .field("reader", reader)
            .field("ids", ids)
            .field("next", next)
            .finish_non_exhaustive()
    }
}

impl<'a> RowColumns<'a> {
    /// Creates a reader of columns with rising ids, as they are at the second `now()` since
    /// 1970-01-01 UTC. The time is requested only for columns that expire.
    #[must_use]
    pub fn new(reader: RowReader<'a>, ids: &'a [ColumnId], now: &'a dyn Fn() -> i64) -> Self {
        debug_assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        Self { reader, ids: ids.iter(), next: None, now }
    }

    /// Reads the value of the next selected column; `None` is null.
    ///
    /// # Errors
    ///
    /// See [`RowReader::next_column`].
    ///
    /// # Panics
    ///
    /// If there are no more selected columns.
    #[inline]
    pub fn take(&mut self) -> Result<Option<&'a [u8]>> {
        let id = *self.ids.next().expect("each column has an id");
        loop {
            let column = match self.next.take() {
                Some(column) => column,
                None => match self.reader.next_column()? {
                    Some(column) => column,
                    None => return Ok(None),
                },
            };
            if column.id == id {
                return column.value_at(self.now);
            }
            if column.id > id {
                self.next = Some(column);
                return Ok(None);
            }
        }
    }

    /// Checks the rest of the image.
    ///
    /// # Errors
    ///
    /// See [`RowReader::next_column`].
    pub fn finish(mut self) -> Result<()> {
        while self.reader.next_column()?.is_some() {}
        Ok(())
    }
}

#[expect(clippy::inline_always, reason = "a result that goes through memory is waited for")]
#[inline(always)]
pub(super) fn take_marker(rest: &mut &[u8]) -> Result<(Option<Marker>, Option<WallTime>)> {
    let flags = take_u8(rest)?;
    if flags == MARKED {
        return Ok((Some(Marker::expiring(None)), None));
    }
    if flags & !(MARKED | MARKER_EXPIRES | WRITTEN | MARKER_WRITTEN) != 0
        || (flags & MARKED == 0 && flags & (MARKER_EXPIRES | MARKER_WRITTEN) != 0)
    {
        return Err(no_image(format_args!("row flags {flags:#04x}")));
    }
    let expiry = if flags & MARKER_EXPIRES == 0 { None } else { Some(take_i64(rest)?) };
    let written = if flags & WRITTEN == 0 { None } else { Some(WallTime(take_i64(rest)?)) };
    let own = if flags & MARKER_WRITTEN == 0 { None } else { Some(WallTime(take_i64(rest)?)) };
    Ok(((flags & MARKED != 0).then_some(Marker { expiry, written: own }), written))
}

#[expect(clippy::inline_always, reason = "a result that goes through memory is waited for")]
#[inline(always)]
fn take_column<'a>(rest: &mut &'a [u8]) -> Result<ReadColumn<'a>> {
    let id = u16::try_from(var_long::take_unsigned(rest)?)
        .map_err(|_| no_image("a column id is out of range"))?;
    let flags = take_u8(rest)?;
    let (mut expiry, mut written) = (None, None);
    if flags & !COLLECTION != 0 {
        (expiry, written) = take_times(ColumnId(id), flags, rest)?;
    }
    let len = var_long::take_unsigned(rest)?;
    let value = usize::try_from(len).ok().and_then(|len| rest.split_off(..len));
    let value = value.ok_or_else(truncated)?;
    let has_elements = flags & COLLECTION != 0;
    Ok(ReadColumn { id: ColumnId(id), value, expiry, written, has_elements })
}

/// Reads the expiry and the write time of a column.
fn take_times(
    id: ColumnId,
    flags: u8,
    rest: &mut &[u8],
) -> Result<(Option<i64>, Option<WallTime>)> {
    // Elements have times of their own.
    if flags & !(EXPIRES | WRITTEN_BEFORE | COLUMN_WRITTEN) != 0 {
        return Err(no_image(format_args!("flags {flags:#04x} of column {id}")));
    }
    let expiry = if flags & EXPIRES == 0 { None } else { Some(take_i64(rest)?) };
    if flags & WRITTEN_BEFORE != 0 {
        var_long::take_unsigned(rest)?;
    }
    let written = if flags & COLUMN_WRITTEN == 0 { None } else { Some(WallTime(take_i64(rest)?)) };
    Ok((expiry, written))
}

#[inline]
fn take_u8(rest: &mut &[u8]) -> Result<u8> {
    rest.split_off_first().copied().ok_or_else(truncated)
}

fn take_i64(rest: &mut &[u8]) -> Result<i64> {
    rest.try_get_i64().map_err(|_| truncated())
}

fn truncated() -> Error {
    no_image("the bytes end too early")
}

// Errors are built in separate cold functions, and the decoding functions are inlined. Otherwise
// each result is stored to memory in small pieces and loaded in large ones, and the processor
// stalls on the store. See docs/design/0018-read-path.md.

#[cold]
#[inline(never)]
fn no_image(why: impl fmt::Display) -> Error {
    Error::corrupted(format!("row image: {why}"))
}

#[cold]
#[inline(never)]
fn no_value(column: ColumnId) -> Error {
    Error::unsupported(format_args!("the collection in column {column} as a single value"))
}

#[cold]
#[inline(never)]
fn no_format(format: u8) -> Error {
    match format {
        0 => no_image("format 0"),
        FORMAT_DELTA => no_image("a delta that was not merged with the versions below it"),
        later => Error::unsupported(format_args!("row images of format {later}")),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::row::{Column, RowImage};

    proptest! {
        #[test]
        fn selected_columns_match_the_image(
            columns in btree_map(0..12_u16, vec(any::<u8>(), 0..3), 0..8),
            asked in proptest::collection::btree_set(0..12_u16, 0..8),
        ) {
            let mut image = RowImage::new(1);
            for (id, value) in columns {
                image.set(ColumnId(id), Column::new(Bytes::from(value)));
            }
            let bytes = image.encode();
            let ids: Vec<ColumnId> = asked.into_iter().map(ColumnId).collect();
            let mut read = RowColumns::new(RowReader::new(&bytes).unwrap(), &ids, &|| 0);
            for id in &ids {
                let value = image.value(*id).map(|value| &value[..]);
                prop_assert_eq!(read.take().unwrap(), value);
                prop_assert_eq!(RowReader::new(&bytes).unwrap().find(*id, || 0).unwrap(), value);
            }
            read.finish().unwrap();
        }
    }

    #[test]
    fn a_row_exists_with_a_marker_or_a_column() {
        let exists = |image: &RowImage| {
            let bytes = image.encode();
            RowReader::new(&bytes).unwrap().live(|| panic!("no time is needed")).unwrap().is_some()
        };
        for schema_version in [0, 1, u32::MAX] {
            let image = RowImage::new(schema_version);
            assert!(!exists(&image));
            let mut marked = image.clone();
            marked.marker = Some(Marker::expiring(None));
            assert!(exists(&marked));
            let mut with_column = image;
            with_column.set(ColumnId(3), Column::new("three"));
            assert!(exists(&with_column));
        }
        let empty = RowImage::new(1).encode();
        let followed = [&empty[..], b"x"].concat();
        assert!(RowReader::new(&followed).unwrap().live(|| 0).is_err(), "a byte too many");
    }

    #[test]
    fn a_row_lives_until_its_last_expiry() {
        let mut image = RowImage::new(1);
        image.marker = Some(Marker::expiring(Some(10)));
        image.set(ColumnId(1), Column::new("one").expiring(Some(30)));
        image.set(ColumnId(2), Column::new("two").expiring(Some(20)));
        let bytes = image.encode();
        let reader = || RowReader::new(&bytes).unwrap();
        assert_eq!(reader().lifetime().unwrap(), Lifetime::Until(30));
        for now in [0, 9, 10, 19, 20, 29, 30, i64::MAX] {
            let mut expected = image.clone();
            expected.expire(now);
            assert_eq!(reader().live(|| now).unwrap().is_some(), expected.is_live(), "{now}");
            let ids = [ColumnId(1), ColumnId(2)];
            let clock = || now;
            let mut columns = RowColumns::new(reader(), &ids, &clock);
            for id in ids {
                let value = expected.value(id).map(|value| &value[..]);
                assert_eq!(columns.take().unwrap(), value, "{now}");
                assert_eq!(reader().find(id, || now).unwrap(), value, "{now}");
            }
        }
        image.set(ColumnId(3), Column::new("three"));
        let lifetime = RowReader::new(&image.encode()).unwrap().lifetime().unwrap();
        assert_eq!(lifetime, Lifetime::Unlimited);
    }

    #[test]
    fn unselected_columns_are_checked() {
        let mut image = RowImage::new(1);
        image.set(ColumnId(1), Column::new("one"));
        image.set(ColumnId(2), Column::new("two"));
        let bytes = image.encode();
        let ids = [ColumnId(1)];
        let read = |bytes: &[u8]| {
            let mut columns = RowColumns::new(RowReader::new(bytes)?, &ids, &|| 0);
            columns.take()?;
            columns.finish()
        };
        read(&bytes).unwrap();
        assert!(read(&[&bytes[..], b"x"].concat()).is_err(), "a byte too many");
        assert!(read(&bytes[..bytes.len() - 1]).is_err(), "a byte is missing");
    }
}
