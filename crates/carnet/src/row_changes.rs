//! Rows as cells of a transaction: images without expired columns, and changes of a part of a row.

use carnet_base::{Bytes, CellKey, Result, WallTime};
use carnet_data::row::RowReader;
use carnet_data::{RowDelta, RowImage};
use carnet_txn::Entry;

use crate::tx::Tx;

/// Change of a row that the transaction has read.
#[derive(Clone, Copy)]
pub(crate) enum RowChange<'a> {
    /// Changes that replace the stored values.
    Delta(&'a RowDelta),
    /// Changes that replace the stored values but later ones.
    ByTime(&'a RowDelta),
    /// Deletion of the parts that were written up to a time.
    DeleteByTime(WallTime),
}

/// Returns the moment at which the last part of a row expires; `None` is never.
pub(crate) fn row_expiry(image: &RowImage) -> Option<i64> {
    let columns = image.columns().iter().map(|(_, column)| column.expiry);
    let elements = image.collections().iter().flat_map(|(_, collection)| collection.iter());
    let marker = image.marker.map(|marker| marker.expiry).into_iter();
    let parts = marker.chain(columns).chain(elements.map(|element| element.expiry));
    parts.reduce(later).flatten()
}

/// Returns the later of two expiries; `None` is never.
pub(crate) fn later(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.max(other?))
}

/// Returns the earlier of two expiries; `None` is never.
pub(crate) fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Tx {
    /// Decodes the image of a row without the columns that have expired by the transaction's
    /// [wall time](Tx::wall_time); `None` if the row does not exist any more.
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unsupported`, see [`RowImage::decode`].
    pub fn row_image(&self, payload: &Bytes) -> Result<Option<RowImage>> {
        Ok(self.live_image(RowImage::decode(payload)?))
    }

    /// Removes the columns of an image that have expired by the transaction's
    /// [wall time](Tx::wall_time); `None` if the row does not exist any more.
    #[must_use]
    pub fn live_image(&self, mut image: RowImage) -> Option<RowImage> {
        if image.expires() {
            image.expire(self.wall_seconds());
        }
        image.is_live().then_some(image)
    }

    /// Decodes the image of a row for its next version. What a write stores depends neither on a
    /// client's clock nor on the moment that the transaction reads at, so parts stay until they have
    /// expired for every reader.
    fn next_image(&self, payload: &Bytes) -> Result<RowImage> {
        let mut image = RowImage::decode(payload)?;
        if image.expires() {
            image.expire(self.expired_second());
        }
        Ok(image)
    }

    /// Returns `true` if the row of an image exists at the transaction's [wall time](Tx::wall_time).
    ///
    /// # Errors
    ///
    /// `Corrupted` or `Unsupported`, see [`RowImage::decode`].
    pub fn is_live_row(&self, payload: &[u8]) -> Result<bool> {
        let live = RowReader::new(payload)?.live(|| self.wall_seconds())?;
        Ok(live.is_some())
    }

    /// Changes a part of a row. Reads the row only if the store takes no delta of it, see
    /// [`Tx::change_cell`].
    ///
    /// # Errors
    ///
    /// Same as [`Tx::rewrite_row`].
    pub async fn change_row(&self, key: CellKey, delta: &RowDelta) -> Result<()> {
        if delta.is_empty() || self.change_cell(&key, delta)? {
            return Ok(());
        }
        self.rewrite_row(key, delta).await
    }

    /// Reads a row, and writes it with the changes of a delta. Without a marker and columns, the row
    /// is deleted.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`], [`Tx::put_cell`] and [`Tx::row_image`].
    pub async fn rewrite_row(&self, key: CellKey, delta: &RowDelta) -> Result<()> {
        let existing = self.get_cell(&key).await?;
        self.write_next(key, existing.as_ref(), RowChange::Delta(delta)).map(|_| ())
    }

    /// Writes the next version of a row that the transaction has read, and returns its image, in which
    /// parts may have expired; `None` if nothing of the row remains.
    pub(crate) fn write_next(
        &self,
        key: CellKey,
        existing: Option<&Entry>,
        change: RowChange<'_>,
    ) -> Result<Option<RowImage>> {
        let mut image = match existing {
            Some(entry) => self.next_image(&entry.payload)?,
            None => RowImage::default(),
        };
        match change {
            RowChange::Delta(delta) => delta.apply(&mut image)?,
            RowChange::ByTime(delta) => delta.apply_by_time(&mut image)?,
            RowChange::DeleteByTime(time) => image.delete_by_time(time),
        }
        if image.is_live() {
            self.put_cell(key, image.encode())?;
            return Ok(Some(image));
        }
        if existing.is_some() {
            self.delete_cell(key)?;
        }
        Ok(None)
    }
}
