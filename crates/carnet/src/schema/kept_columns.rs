//! Columns that a table still has, for rows that were written before others were dropped.

use std::sync::Arc;

use carnet_base::ColumnId;
use carnet_data::RowImage;

/// The columns of a table some of whose columns were dropped. Rows keep the values of dropped
/// columns until they are written again, and these values must not keep a row alive.
///
/// A table that never lost a column has no list: its rows are not searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptColumns(Option<Arc<[ColumnId]>>);

impl KeptColumns {
    /// Makes the list of the columns of a table that lost others.
    pub(crate) fn new(columns: impl Iterator<Item = ColumnId>) -> Self {
        let mut ids: Vec<ColumnId> = columns.collect();
        ids.sort_unstable();
        Self(Some(ids.into()))
    }

    /// Returns `true` if the table never lost a column.
    #[must_use]
    pub const fn are_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the image without dropped columns; `None` if nothing of the row is left.
    #[must_use]
    pub fn retain(&self, mut image: RowImage) -> Option<RowImage> {
        if let Some(ids) = &self.0 {
            image.retain(|id| ids.binary_search(&id).is_ok());
        }
        image.is_live().then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use carnet_data::Marker;
    use carnet_data::row::Column;

    use super::*;

    fn image(columns: &[u16], is_marked: bool) -> RowImage {
        let mut image = RowImage::new(1);
        image.marker = is_marked.then_some(Marker::expiring(None));
        for id in columns {
            image.set(ColumnId(*id), Column::new("x"));
        }
        image
    }

    #[test]
    fn row_of_dropped_columns_only_is_gone() {
        let kept = KeptColumns::new([ColumnId(0), ColumnId(2)].into_iter());
        assert_eq!(kept.retain(image(&[1], false)), None);
        assert_eq!(kept.retain(image(&[1], true)), Some(image(&[], true)));
        assert_eq!(kept.retain(image(&[1, 2], false)), Some(image(&[2], false)));
        let all = KeptColumns::default();
        assert_eq!(all.retain(image(&[1], false)), Some(image(&[1], false)));
        assert_eq!(all.retain(image(&[], false)), None);
    }
}
