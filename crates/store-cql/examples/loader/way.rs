//! Ways to group many cells into requests.

use std::fmt;

use carnet_base::CellKey;
use carnet_store::loader::{Batch, Grouping, Limits, Planner, Setting};

/// Limits of the record's second loader.
const RECORD: Limits = Limits { merged_cells: 200, single_cells: 50_000 };

/// A limit that none of the reads reaches.
const MANY: usize = 50_000;

/// A way to group many cells into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The record's first loader: a request for the rows of each column, all concurrently.
    EachColumn,
    /// One request for all, or as few as CQL allows.
    FullBatching,
    /// The record's second loader: selective batching by columns, all concurrently.
    Selective,
    /// A request for each row, all concurrently.
    EachRow,
    /// Rows grouped up to a number of cells, with a number of lanes.
    Fixed { cells: usize, lanes: usize },
    /// The settings of this crate's loader.
    Learned,
}

impl Way {
    pub(crate) fn all() -> Vec<Self> {
        let fixed = [50, 200, 800, 3200];
        let fixed = fixed.iter().flat_map(|&cells| {
            [2, 4, 8, 16].into_iter().map(move |lanes| Self::Fixed { cells, lanes })
        });
        let first = [Self::EachColumn, Self::FullBatching, Self::Selective, Self::EachRow];
        first.into_iter().chain(fixed).chain([Self::Learned]).collect()
    }

    /// Returns the number of rounds between two turns: most of the record's ways are slow.
    pub(crate) const fn rarity(self) -> usize {
        match self {
            Self::Fixed { .. } | Self::Learned => 1,
            _ => 4,
        }
    }

    /// Returns the setting of a fixed way that the loader itself could choose.
    pub(crate) const fn setting(self) -> Option<Setting> {
        match self {
            Self::Fixed { cells, lanes } => Some(Setting { batch_cells: cells, lanes, sharers: 1 }),
            _ => None,
        }
    }

    /// Returns the batches and the number of lanes; `None` if the loader chooses them.
    pub(crate) fn plan(self, cells: &[CellKey]) -> Option<(Vec<Batch>, usize)> {
        let alone = Limits { merged_cells: 1, single_cells: MANY };
        let (grouping, limits, lanes) = match self {
            Self::EachColumn => (Grouping::Columns, alone, MANY),
            Self::FullBatching => (Grouping::Rows, Limits::both(MANY), 1),
            Self::Selective => (Grouping::Columns, RECORD, MANY),
            Self::EachRow => (Grouping::Rows, alone, MANY),
            Self::Fixed { cells, lanes } => (Grouping::Rows, Limits::both(cells), lanes),
            Self::Learned => return None,
        };
        let planner = Planner { grouping, limits, names_max: MANY, requests_max: MANY };
        Some((planner.plan(cells), lanes))
    }

    /// Returns the number of requests of a read.
    pub(crate) fn requests(self, cells: &[CellKey]) -> Option<usize> {
        let (batches, _) = self.plan(cells)?;
        Some(batches.iter().map(|batch| batch.requests.len()).sum())
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EachColumn => f.write_str("loader 1: a request a column"),
            Self::FullBatching => f.write_str("full batching"),
            Self::Selective => f.write_str("loader 2: selective, by columns"),
            Self::EachRow => f.write_str("a request a row"),
            Self::Fixed { cells, lanes } => write!(f, "{cells} cells, {lanes} lanes"),
            Self::Learned => f.write_str("learned"),
        }
    }
}
