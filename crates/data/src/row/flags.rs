//! Version and flags of the encoding of rows.

/// Version of the encoding of images.
pub(super) const FORMAT: u8 = 1;

/// Version of the encoding of deltas.
pub(super) const FORMAT_DELTA: u8 = 2;

// Flags of a row.
pub(super) const MARKED: u8 = 0x01;
pub(super) const MARKER_EXPIRES: u8 = 0x02;
pub(super) const WRITTEN: u8 = 0x04;
pub(super) const MARKER_WRITTEN: u8 = 0x08;

// Flags of a column.
pub(super) const EXPIRES: u8 = 0x01;
pub(super) const WRITTEN_BEFORE: u8 = 0x02;
pub(super) const COLLECTION: u8 = 0x04;
pub(super) const COLUMN_WRITTEN: u8 = 0x08;

// Flags of an element of a collection.
pub(super) const ELEMENT_EXPIRES: u8 = 0x01;
pub(super) const ELEMENT_WRITTEN: u8 = 0x02;
