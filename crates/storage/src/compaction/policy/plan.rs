//! Choices and plans of a policy.

use std::sync::Arc;

use crate::manifest::{Edit, FlatRange, LEVELS, Levels, TableMeta};

/// Next action of the compactors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// No compaction is due, or all due ones are running.
    Nothing,
    /// Read tables and replace them by new ones.
    Compact(Plan),
    /// Move tables to another level unread: they overlap no table there.
    Move {
        /// Numbers of the tables.
        tables: Vec<u64>,
        /// Level of the table now.
        from: u8,
        /// Level of the table afterwards.
        to: u8,
    },
    /// Drop tables: no reader needs their contents.
    Drop(Vec<u64>),
}

impl Choice {
    /// Returns the edit of a move or a drop; `None` for choices that need work first.
    ///
    /// Numbers of tables that do not exist any more stay in the edit, so that the manifest refuses
    /// it.
    #[must_use]
    pub fn edit(&self, levels: &Levels) -> Option<Edit> {
        match self {
            Self::Nothing | Self::Compact(_) => None,
            Self::Drop(tables) => Some(Edit { remove: tables.clone(), ..Edit::default() }),
            Self::Move { tables, to, .. } => {
                let moved = tables.iter().filter_map(|number| levels.find(*number));
                let add = moved.map(|table| TableMeta { level: *to, ..TableMeta::clone(table) });
                Some(Edit { add: add.collect(), remove: tables.clone(), ..Edit::default() })
            }
        }
    }
}

/// Reason for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Level 0 has too many tables: reads search all of them.
    Level0,
    /// A level exceeds its target size.
    Size,
    /// There are several runs of about the same size.
    Tier,
    /// Newer runs are so large that the oldest one may be mostly garbage.
    Space,
    /// A table has much garbage, or tombstones of data in deeper levels.
    Garbage,
    /// A manual compaction was requested.
    Manual,
}

/// Plan of a compaction: its inputs and the level of its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tables by level, ascending, each level's in its order.
    pub inputs: Vec<(u8, Vec<Arc<TableMeta>>)>,
    /// Level of the new tables.
    pub output_level: u8,
    /// Approximate size of a new table; `u64::MAX` for a single one.
    pub cut_bytes: u64,
    /// Maximum size of the grandparents that a new table may overlap.
    pub grandparent_bytes: u64,
    /// Range that contains every key of the inputs.
    pub hull: FlatRange,
    /// Reason for the compaction.
    pub reason: Reason,
}

impl Plan {
    /// Returns the numbers of all inputs.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.tables().map(|table| table.number)
    }

    /// Returns all inputs.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMeta>> {
        self.inputs.iter().flat_map(|(_, tables)| tables)
    }

    /// Returns the total size of all inputs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.bytes).sum()
    }

    /// Returns the number of versions in all inputs.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.tables().map(|table| table.contents.cells).sum()
    }

    /// Returns the first and the last level that the compaction reads or writes.
    #[must_use]
    pub fn levels(&self) -> (usize, usize) {
        let inputs = self.inputs.iter().map(|(level, _)| usize::from(*level));
        let first = inputs.min().unwrap_or(LEVELS);
        (first.min(self.output_level.into()), self.output_level.into())
    }
}
