//! Rows on their way from the source to the target.

use carnet::Bytes;

/// A row: for each column its bytes, `None` for null.
pub(super) type Row = Vec<Option<Bytes>>;
