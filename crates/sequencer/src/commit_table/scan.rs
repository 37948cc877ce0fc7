//! Scans the entries of a range of starts, for restores, the sweep and diagnosis.

use carnet_base::commit_encoding::v2::{PARTITIONING_QUANTUM, quantum_of};
use carnet_base::{CommitEntry, Encoding, Result, Timestamp};
use carnet_store::cluster::{Cluster, CommitTable as Table};

use super::table::CommitTable;

/// A page of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Entries of one row, in the order of starts. A page may be empty although more follow.
    pub entries: Vec<(Timestamp, CommitEntry)>,
    /// Position of the next page; `None` at the end.
    pub resume: Option<ScanFrom>,
}

/// Position of a scan: behind a column of one of the rows of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanFrom {
    quantum: u64,
    row: usize,
    after: Option<carnet_base::Bytes>,
}

impl<C: Cluster> CommitTable<C> {
    /// Reads a page of at most `limit` entries of the starts in `from..to`.
    ///
    /// It visits the rows of each quantum one after the other, so it needs no order of rows and
    /// works under any partitioner. `resume` is `None` for the first page.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`.
    pub async fn scan(
        &self,
        from: Timestamp,
        to: Timestamp,
        resume: Option<ScanFrom>,
        limit: usize,
    ) -> Result<ScanPage> {
        if let Some(last) = to.previous() {
            self.know_map_through(last).await?;
        }
        let mut at =
            resume.unwrap_or_else(|| ScanFrom { quantum: quantum_of(from), row: 0, after: None });
        // A gap in the map spans thousands of quanta without rows; skip them within one page.
        let (row, first, end) = loop {
            let start = |number: u64| Timestamp::new(number).unwrap_or(Timestamp::MAX);
            let first = start(at.quantum.saturating_mul(PARTITIONING_QUANTUM));
            let end = start(first.get().saturating_add(PARTITIONING_QUANTUM)).min(to);
            let first = first.max(from);
            if first >= end {
                return Ok(ScanPage::default());
            }
            if let Some(row) = self.rows_between(first, end)?.into_iter().nth(at.row) {
                break (row, first, end);
            }
            at = ScanFrom { quantum: at.quantum + 1, row: 0, after: None };
        };
        let page = self.cluster.scan_entries(&row, at.after.as_ref(), limit).await?;
        let encoding = match row.table {
            Table::V2 => Encoding::V2,
            Table::V3 => Encoding::V3,
        };
        let mut entries = Vec::with_capacity(page.entries.len());
        for stored in page.entries {
            let start = encoding.start_of(&row.row, &stored.column)?;
            let Some(value) = stored.confirmed.or(stored.staged) else { continue };
            if (first..end).contains(&start) {
                entries.push((start, encoding.decode(start, &value)?));
            }
        }
        let resume = match page.resume_after {
            Some(after) => ScanFrom { after: Some(after), ..at },
            None => ScanFrom { row: at.row + 1, after: None, ..at },
        };
        Ok(ScanPage { entries, resume: Some(resume) })
    }
}
