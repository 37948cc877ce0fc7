//! Forms of the rows of a scan.

use std::sync::Arc;

use carnet::catalog::KeptColumns;
use carnet::{CellKey, Result, Tx};
use carnet_base::{Bytes, CellKeyRef};
use carnet_data::RowImage;

/// A row in its stored form.
#[derive(Clone, Debug)]
pub(crate) struct StoredRow<I = RowImage> {
    pub(crate) key: CellKey,
    /// Columns of the row itself; `None` for a partition that has static columns only.
    pub(crate) image: Option<I>,
    pub(crate) statics: Option<Arc<RowImage>>,
}

impl StoredRow {
    /// Changes the form of the row's columns.
    pub(super) fn into_form<I: From<RowImage>>(self) -> StoredRow<I> {
        let Self { key, image, statics } = self;
        StoredRow { key, image: image.map(I::from), statics }
    }
}

/// Form of a row's columns.
pub(crate) trait CellImage: From<RowImage> {
    /// Makes it of a cell's payload; `None` if the row does not exist.
    fn of(tx: &Tx, kept: &KeptColumns, payload: Bytes) -> Result<Option<Self>>;
}

impl CellImage for RowImage {
    fn of(tx: &Tx, kept: &KeptColumns, payload: Bytes) -> Result<Option<Self>> {
        let image = tx.row_image(&payload)?;
        Ok(image.and_then(|image| kept.retain(image)))
    }
}

/// Columns of a row that its statement copies: not decoded, unless some have to be left out.
#[derive(Clone, Debug)]
pub(super) enum PlainImage {
    Decoded(RowImage),
    Encoded(Bytes),
}

impl From<RowImage> for PlainImage {
    fn from(image: RowImage) -> Self {
        Self::Decoded(image)
    }
}

impl CellImage for PlainImage {
    fn of(tx: &Tx, kept: &KeptColumns, payload: Bytes) -> Result<Option<Self>> {
        if kept.are_all() {
            return Ok(tx.is_live_row(&payload)?.then_some(Self::Encoded(payload)));
        }
        Ok(RowImage::of(tx, kept, payload)?.map(Self::Decoded))
    }
}

/// A borrowed row, for a statement that copies its columns.
pub(super) struct LentRow<'r> {
    pub(super) key: CellKeyRef<'r>,
    pub(super) image: Option<LentImage<'r>>,
    pub(super) statics: Option<&'r RowImage>,
}

/// Columns of a borrowed row.
#[derive(Clone, Copy)]
pub(super) enum LentImage<'r> {
    Decoded(&'r RowImage),
    Encoded(&'r [u8]),
}

impl StoredRow<PlainImage> {
    /// Lends the row.
    pub(super) fn lend(&self) -> LentRow<'_> {
        let image = self.image.as_ref().map(|image| match image {
            PlainImage::Decoded(image) => LentImage::Decoded(image),
            PlainImage::Encoded(payload) => LentImage::Encoded(payload),
        });
        LentRow { key: self.key.as_key_ref(), image, statics: self.statics.as_deref() }
    }
}
