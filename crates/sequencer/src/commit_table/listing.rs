//! Lists entries for people who look into a database.

use carnet_base::{CommitEntry, Encoding, Error, Result, Timestamp};
use carnet_store::CommitListing;
use carnet_store::cluster::{Cluster, ReadMode};

use super::table::CommitTable;

/// Number of entries that are read at once.
const PAGE: usize = 1000;

impl<C: Cluster> CommitTable<C> {
    /// Calls `visit` with the entry of each decided transaction whose start is in `from..to`, row by
    /// row. Entries that are being written may be missing.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`; errors of `visit`.
    pub async fn list(
        &self,
        (from, to): (Timestamp, Timestamp),
        visit: &mut (dyn FnMut(Encoding, Timestamp, CommitEntry) -> Result<()> + Send),
    ) -> Result<CommitListing> {
        let map = self.read_map(ReadMode::Quorum).await?;
        let end = map.valid_through().checked_add(1).unwrap_or(Timestamp::MAX);
        let to = to.min(end);
        let mut from_page = None;
        if from < to {
            loop {
                let page = self.scan(from, to, from_page, PAGE).await?;
                for (start, entry) in page.entries {
                    let encoding = map.encoding_of(start).ok_or_else(|| {
                        Error::corrupted(format!("start {start} has an entry, and no encoding"))
                    })?;
                    visit(encoding, start, entry)?;
                }
                let Some(resume) = page.resume else { break };
                from_page = Some(resume);
            }
        }
        let marks = self.sweep_marks().await?;
        Ok(CommitListing {
            encodings: map.spans().collect(),
            valid_through: map.valid_through(),
            swept_below: marks.entries_from.max(marks.entries),
        })
    }
}
