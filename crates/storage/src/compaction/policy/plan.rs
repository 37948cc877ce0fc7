//! What a policy decides.

use std::sync::Arc;

use crate::manifest::{Edit, FlatRange, LEVELS, Levels, TableMeta};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The tables are in good shape, or everything that is not is being worked on.
    Nothing,
    /// Read tables and write others in their place.
    Compact(Plan),
    /// Put tables into another level as they are: nothing there overlaps them.
    Move {
        /// The tables' numbers.
        tables: Vec<u64>,
        /// Where they are.
        from: u8,
        /// Where they belong.
        to: u8,
    },
    /// Forget tables: nobody needs anything of what they hold.
    Drop(Vec<u64>),
}

impl Choice {
    /// Returns the edit that makes a move or a drop happen; `None` for what needs work first.
    ///
    /// Tables that are no longer there are removed all the same, so that the edit is refused.
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

/// Why a compaction is worth its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Level 0 has too many tables: reads look into all of them.
    Level0,
    /// A level is larger than its share.
    Size,
    /// There are several runs of about the same size.
    Tier,
    /// Newer runs hold so much that the oldest one may be mostly garbage.
    Space,
    /// A table holds much that can be dropped, or deletes much further down.
    Garbage,
    /// Somebody asked for it.
    Manual,
}

/// A compaction that was decided: which tables become what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tables by level, ascending, each level's in its order.
    pub inputs: Vec<(u8, Vec<Arc<TableMeta>>)>,
    /// Where the new tables belong.
    pub output_level: u8,
    /// A new table ends when it is about as long; `u64::MAX` for a single one.
    pub cut_bytes: u64,
    /// A new table ends before it overlaps this much of the level behind its own.
    pub grandparent_bytes: u64,
    /// Holds every key of the inputs.
    pub hull: FlatRange,
    /// Why.
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

    /// Returns the length of all inputs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.bytes).sum()
    }

    /// Returns the first and the last level that the compaction reads or writes.
    #[must_use]
    pub fn levels(&self) -> (usize, usize) {
        let inputs = self.inputs.iter().map(|(level, _)| usize::from(*level));
        let first = inputs.min().unwrap_or(LEVELS);
        (first.min(self.output_level.into()), self.output_level.into())
    }
}
