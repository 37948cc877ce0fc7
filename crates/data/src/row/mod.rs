//! The row image: the complete contents of one version of a row.
//!
//! A statement that knows the whole row writes an image, so that a reader finds everything in the
//! newest visible version and merges nothing. Two facts must survive the rewriting and are stored
//! with a column: its expiry, and its write time. A statement that does not know the row writes a
//! [delta](RowDelta).
//!
//! ```text
//! image    format        1 byte      1
//!          schema        VAR_LONG    schema version that it was written under, 0 ..= 2³² − 1
//!          flags         1 byte      0x01 a row marker is present
//!                                    0x02 the marker expires
//!                                    0x04 the write time follows
//!                                    0x08 the marker has a write time of its own
//!          [expiry]      8 bytes     the marker's, where 0x02 is set
//!          [written]     8 bytes     where 0x04 is set: the write time of the version
//!          [written]     8 bytes     the marker's, where 0x08 is set
//!          count         VAR_LONG    how many columns follow, 0 ..= 65 536
//!          column × count, ascending by id, no id twice
//!
//! column   id            VAR_LONG    0 ..= 65 535
//!          flags         1 byte      0x01 the column expires
//!                                    0x02 it has a `version`, as older programs wrote it
//!                                    0x04 the value is a collection of elements; no other flag
//!                                    0x08 the column has a write time of its own
//!          [expiry]      8 bytes     where 0x01 is set
//!          [version]     VAR_LONG    where 0x02 is set: ignored
//!          [written]     8 bytes     where 0x08 is set
//!          length        VAR_LONG    of the value, in bytes
//!          value         length      as Cassandra serializes it, or a [`Collection`]
//! ```
//!
//! An expiry is in seconds since 1970-01-01 UTC, a write time in microseconds; both are two's
//! complement, big-endian. `VAR_LONG` is [`carnet_base::var_long`]. Nothing follows the last column. For example, version 3 of a schema, a row
//! with a marker and `int` column 2 set to 7 by this very version:
//!
//! ```text
//! 01  03  01  01   02  00  04  00 00 00 07
//! fmt sch mrk cnt  id  flg len value
//! ```
//!
//! * **Null is absent.** A row without a marker and without columns does not exist.
//! * `INSERT` writes the marker and `UPDATE` does not: a row with a marker continues to exist when
//!   its last column is deleted.
//! * A marker, column or element without a write time has that of the version. If the version has none, the
//!   time is not known, and neither is it where it is -2⁶³.
//! * Deliberately absent: a column's type (it is in the schema of that version), a checksum (the
//!   block or log record around the image has one), and the commit timestamp (the version's stamp).
//!
//! Decoding checks everything above and copies no value: columns are slices of the image.

mod by_time;
mod bytes;
mod collection;
mod collection_change;
mod delta;
mod element;
mod encoded;
mod flags;
mod image;
mod marker;
mod reader;
mod writer;

pub use self::collection::Collection;
pub use self::collection_change::CollectionChange;
pub use self::delta::{Change, RowDelta};
pub use self::element::{CollectionKind, Element, ElementRef};
pub use self::image::{Column, RowImage};
pub use self::marker::Marker;
pub use self::reader::{Lifetime, ReadColumn, RowColumns, RowReader};
pub use self::writer::RowWriter;
