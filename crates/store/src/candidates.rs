//! Pages of a range as a store reads them.

use carnet_base::{CellKey, CellPage, CellRef, CellsBuilder, KeyRange, Version};

/// A page of a range, with each cell's newest candidate.
#[derive(Clone, Debug, Default)]
pub struct CandidatePage {
    /// The cells whose newest candidate is certainly the visible version, without deleted ones.
    pub page: CellPage,
    /// The other cells, in the order of the page. A store with all commit timestamps has none.
    pub unsettled: Vec<Unsettled>,
}

/// A cell whose visible version a reader has to find: its newest candidate has no stamp, or is a
/// delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Number of cells of the page before this one.
    pub before: usize,
    /// Key of the cell.
    pub key: CellKey,
    /// Newest candidate of the cell.
    pub version: Version,
}

impl From<CellPage> for CandidatePage {
    fn from(page: CellPage) -> Self {
        Self { page, unsettled: Vec::new() }
    }
}

/// Builder of a page of candidates.
#[derive(Debug, Default)]
pub struct CandidatesBuilder {
    cells: CellsBuilder,
    unsettled: Vec<Unsettled>,
    deleted: usize,
}

impl CandidatesBuilder {
    /// Adds a cell's newest candidate; a stamped tombstone adds nothing.
    pub fn push(&mut self, key: CellKey, version: Version, is_delta: bool) {
        match version {
            Version { start, commit: Some(commit), payload: Some(payload) } if !is_delta => {
                let key = key.as_key_ref();
                self.cells.push(&CellRef { key, start, commit, payload: &payload });
            }
            Version { commit: Some(_), payload: None, .. } => self.deleted += 1,
            version => self.unsettled.push(Unsettled { before: self.cells.len(), key, version }),
        }
    }

    /// Returns the page, with the rest of the range behind it.
    #[must_use]
    pub fn finish(self, resume: Option<KeyRange>) -> CandidatePage {
        let page = CellPage { cells: self.cells.finish(), resume, deleted: self.deleted };
        CandidatePage { page, unsettled: self.unsettled }
    }
}
