//! The deltas of a cell that a reader or a sweep merges, over stores that do not merge them themselves.
//!
//! A sweep writes the row of a delta on a majority, and then deletes the versions below the delta and their commit
//! entries. A reader whose reads lie before and after that misses versions, and cannot tell by which delta:
//!
//! ```text
//!            first read       the sweep                 second read, below S=31
//!   S=40     delta
//!   S=31     delta
//!   S=12     beyond its max   row of S=31 written,      nothing: a replica that answers has deleted it
//!                             S=12 deleted
//! ```
//!
//! So a reader that misses a version reads *all* deltas again, in one read that begins later. Versions are missing
//! only if the row of a delta was on a majority before, and then the second read finds that row. To read the oldest delta
//! alone is not enough: it may be missing from the replicas of one read and not from those of the next.

use carnet_base::{Bytes, Result, Timestamp, Version};
use carnet_data::RowDelta;

use crate::row_tables::looks_like_delta;

/// Deltas of a cell, newest first, and the image below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaChain {
    deltas: Vec<(Timestamp, Bytes)>,
    image: Option<(Timestamp, Bytes)>,
}

impl DeltaChain {
    /// Adds a delta below the others.
    pub fn push(&mut self, start: Timestamp, delta: Bytes) {
        self.deltas.push((start, delta));
    }

    /// Sets the image below the deltas; `None` if the cell has no row below them.
    pub fn end_at(&mut self, start: Timestamp, image: Option<Bytes>) {
        self.image = image.map(|image| (start, image));
    }

    /// Returns the starts of the newest and the oldest delta; `None` if there is no delta.
    #[must_use]
    pub fn starts(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.deltas.first()?.0, self.deltas.last()?.0))
    }

    /// Returns the number of versions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deltas.len() + usize::from(self.image.is_some())
    }

    /// Returns `true` if there is neither a delta nor an image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares the deltas with `again`, a read of all versions from the newest delta to the oldest that began after
    /// the reads of this chain. A row found in place of a delta becomes the image. Returns `false` if a delta is gone:
    /// the cell has to be read again.
    #[must_use]
    pub fn confirm(&mut self, again: &[Version]) -> bool {
        for (place, (start, _)) in self.deltas.iter().enumerate() {
            let Some(found) = again.iter().find(|version| version.start == *start) else {
                return false;
            };
            if !looks_like_delta(found) {
                self.image = found.payload.clone().map(|row| (*start, row));
                self.deltas.truncate(place);
                return true;
            }
        }
        true
    }

    /// Merges the chain; `None` if no row is left.
    ///
    /// # Errors
    ///
    /// `Corrupted` if a delta or the image cannot be read.
    pub fn row(&self) -> Result<Option<Bytes>> {
        let image = self.image.as_ref().map(|(start, payload)| (*start, payload));
        if let (true, Some((_, image))) = (self.deltas.is_empty(), image) {
            return Ok(Some(image.clone()));
        }
        let row = RowDelta::merge(image, &self.deltas)?;
        Ok(row.is_live().then(|| row.encode()))
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::ColumnId;
    use carnet_data::row::{Change, RowImage};

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn added(amount: i64) -> Bytes {
        let mut delta = RowDelta::new(1);
        delta.change(ColumnId(4), Change::Added(amount));
        delta.encode()
    }

    /// Makes the image of a counter.
    fn image(value: i64) -> Bytes {
        RowDelta::merge(None, &[(at(1), added(value))]).unwrap().encode()
    }

    fn version(start: u64, payload: Option<Bytes>) -> Version {
        Version { start: at(start), commit: None, payload }
    }

    fn counter(chain: &DeltaChain) -> Option<i64> {
        let row = RowImage::decode(&chain.row().unwrap()?).unwrap();
        Some(i64::from_be_bytes(row.value(ColumnId(4)).unwrap()[..].try_into().unwrap()))
    }

    fn chain() -> DeltaChain {
        let mut chain = DeltaChain::default();
        for (start, amount) in [(40, 1), (31, 20), (25, 300)] {
            chain.push(at(start), added(amount));
        }
        chain
    }

    #[test]
    fn row_in_place_of_a_delta_becomes_the_image() {
        let mut read = chain();
        let again = [
            version(40, Some(added(1))),
            version(35, Some(added(70_000))),
            version(31, Some(image(4320))),
            version(25, Some(added(300))),
        ];
        assert!(read.confirm(&again));
        assert_eq!(counter(&read), Some(4321), "the oldest delta is still there");
        assert_eq!((read.starts(), read.len()), (Some((at(40), at(40))), 2));
    }

    #[test]
    fn tombstone_in_place_of_a_delta_ends_the_chain() {
        let mut read = chain();
        read.end_at(at(12), Some(image(4000)));
        assert_eq!(counter(&read), Some(4321));
        let again = [version(40, Some(added(1))), version(31, None)];
        assert!(read.confirm(&again));
        assert_eq!(counter(&read), Some(1));
        assert!(read.confirm(&[version(40, None)]));
        assert_eq!((counter(&read), read.is_empty()), (None, true));
    }

    #[test]
    fn row_in_place_of_the_newest_delta_is_the_row() {
        let mut read = chain();
        assert!(read.confirm(&[version(40, Some(image(5)))]));
        assert_eq!(read.row().unwrap(), Some(image(5)));
        assert_eq!(read.starts(), None);
    }

    #[test]
    fn unchanged_chain_keeps_its_image() {
        let mut read = chain();
        read.end_at(at(12), Some(image(4000)));
        let again: Vec<Version> = [(40, 1), (31, 20), (25, 300)]
            .map(|(start, amount)| version(start, Some(added(amount))))
            .to_vec();
        assert!(read.confirm(&again));
        assert_eq!(counter(&read), Some(4321));
        assert!(!read.confirm(&again[..2]), "a delta is gone");
    }
}
