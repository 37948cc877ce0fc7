//! Lists the entries of the commit tables, for people who look into a database.

use std::collections::HashSet;

use carnet_base::commit_encoding::CommitEntry;
use carnet_base::commit_encoding::v2::{quantum_of, rows_of_quantum};
use carnet_base::{
    CellPage, Encoding, KeyRange, PageLimit, PartitionKey, Result, Timestamp, block_on,
};
use carnet_store::CommitListing;

use crate::LocalStore;
use crate::commit_table::table_of;
use crate::encodings::below;

/// Number of entries that are read at once.
const PAGE: PageLimit = PageLimit { cells: 4096, bytes: 1 << 20 };

impl LocalStore {
    /// Calls `visit` with the entry of each commit whose start is in `from..to`, in any order. Entries
    /// that are not flushed yet come first. Blocks the calling thread. An embedded database has no
    /// entries of aborted transactions.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails; errors of
    /// `visit`.
    pub fn list_commits(
        &self,
        (from, to): (Timestamp, Timestamp),
        visit: &mut dyn FnMut(Encoding, Timestamp, CommitEntry) -> Result<()>,
    ) -> Result<CommitListing> {
        let published = self.engine.published();
        let mut unflushed = HashSet::new();
        for (start, commit) in self.engine.unflushed_commits() {
            if (from..to).contains(&start) && commit <= published && unflushed.insert(start) {
                visit(self.encodings.get(start)?, start, CommitEntry::Committed(commit))?;
            }
        }
        let map = self.encodings.map();
        let mut each = |encoding: Encoding, page: &CellPage| -> Result<()> {
            for cell in page.cells.iter() {
                let key = cell.key.to_key();
                let start = encoding.start_of(key.partition().bytes(), key.clustering())?;
                if (from..to).contains(&start) && !unflushed.contains(&start) {
                    visit(encoding, start, encoding.decode(start, cell.payload)?)?;
                }
            }
            Ok(())
        };
        let to = to.min(self.engine.timestamp_bound());
        let mut encodings: Vec<Encoding> = map.spans().map(|(_, encoding)| encoding).collect();
        encodings.dedup();
        encodings.sort_by_key(|encoding| encoding.version());
        encodings.dedup();
        for encoding in encodings {
            for range in ranges(encoding, from, to) {
                let mut rest = Some(range);
                while let Some(range) = rest {
                    let read = self.engine.range(&range, Timestamp::MAX, false, PAGE);
                    let page = block_on(read)?;
                    each(encoding, &page)?;
                    rest = page.resume;
                }
            }
        }
        Ok(CommitListing {
            encodings: map.spans().collect(),
            valid_through: map.valid_through().max(below(self.engine.timestamp_bound())),
            swept_below: self.engine.forgotten(),
        })
    }
}

/// Returns the ranges of cells with the entries of starts: rows of their quanta, or the whole table.
fn ranges(encoding: Encoding, from: Timestamp, to: Timestamp) -> Vec<KeyRange> {
    let table = table_of(encoding);
    let Some(last) = to.previous().filter(|last| *last >= from) else { return Vec::new() };
    if encoding == Encoding::V1 {
        return vec![KeyRange::table(table)];
    }
    let rows = (quantum_of(from)..=quantum_of(last)).flat_map(rows_of_quantum);
    rows.map(|row| KeyRange::partition(table, &PartitionKey::new(row))).collect()
}
