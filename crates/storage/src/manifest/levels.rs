//! Levels: the tables of a database.

use std::collections::HashSet;
use std::sync::Arc;

use carnet_base::{Error, Result};

use super::edit::Edit;
use super::level::LEVELS;
use super::range::FlatRange;
use super::table::TableMeta;

/// All tables of a database, by level.
///
/// *Level 0* holds flushed tables. Their ranges may overlap; tables that overlap have disjoint
/// ranges of commits. The exception is a commit that an adopted table shares with the table flushed
/// before it: one has the cells, the other the commit's entry. Tables are in commit order, oldest
/// first. From *level 1* on, the tables of a level have disjoint ranges and are in key order. If
/// two levels hold versions of a key, the lower level number holds the newer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    levels: [Vec<Arc<TableMeta>>; LEVELS],
}

impl Levels {
    /// Returns a level's tables, in order.
    ///
    /// # Panics
    ///
    /// If `level` is [`LEVELS`] or greater.
    #[must_use]
    pub fn level(&self, level: usize) -> &[Arc<TableMeta>] {
        &self.levels[level]
    }

    /// Returns all tables, level by level.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableMeta>> {
        self.levels.iter().flatten()
    }

    /// Returns the number of tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// Returns `true` if there are no tables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(Vec::is_empty)
    }

    /// Returns the total size of a level's tables.
    ///
    /// # Panics
    ///
    /// If `level` is [`LEVELS`] or greater.
    #[must_use]
    pub fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|table| table.bytes).sum()
    }

    /// Finds a table by its number.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<&Arc<TableMeta>> {
        self.iter().find(|table| table.number == number)
    }

    /// Returns a level's tables that overlap with a range, in order.
    ///
    /// # Panics
    ///
    /// If `level` is [`LEVELS`] or greater.
    pub fn overlapping<'a>(
        &'a self,
        level: usize,
        range: &'a FlatRange,
    ) -> impl Iterator<Item = &'a Arc<TableMeta>> {
        let tables = &self.levels[level];
        let candidates = if level == 0 {
            &tables[..]
        } else {
            let from = tables.partition_point(|table| table.range.upper <= range.lower);
            let len = tables[from..].partition_point(|table| table.range.lower < range.upper);
            &tables[from..from + len]
        };
        candidates.iter().filter(|table| table.range.overlaps(range))
    }

    /// Applies an edit to the tables; after an error they are unchanged.
    ///
    /// # Errors
    ///
    /// `Invalid` if the edit contradicts the current tables or would break their order.
    pub fn edit(&mut self, edit: &Edit) -> Result<()> {
        let mut edited = self.clone();
        edited.remove(&edit.remove)?;
        let mut numbers: HashSet<u64> = edited.iter().map(|table| table.number).collect();
        for table in &edit.add {
            if !numbers.insert(table.number) {
                return Err(Error::invalid(format!("table {} exists already", table.number)));
            }
            edited.add(table)?;
        }
        *self = edited;
        Ok(())
    }

    fn remove(&mut self, numbers: &[u64]) -> Result<()> {
        let mut doomed: HashSet<u64> = numbers.iter().copied().collect();
        if doomed.len() != numbers.len() {
            return Err(Error::invalid("the edit removes a table twice"));
        }
        for level in &mut self.levels {
            level.retain(|table| !doomed.remove(&table.number));
        }
        match doomed.into_iter().min() {
            None => Ok(()),
            Some(number) => Err(Error::invalid(format!(
                "the edit removes table {number}, which does not exist"
            ))),
        }
    }

    fn add(&mut self, table: &TableMeta) -> Result<()> {
        table.check()?;
        let rival = self.overlapping(usize::from(table.level), &table.range).find(|other| {
            let (a, b) = (&table.contents, &other.contents);
            table.level > 0 || (a.commit_min < b.commit_max && b.commit_min < a.commit_max)
        });
        if let Some(rival) = rival {
            return Err(Error::invalid(format!(
                "tables {} and {} overlap in level {}",
                table.number, rival.number, table.level
            )));
        }
        let level = &mut self.levels[usize::from(table.level)];
        let at = if table.level == 0 {
            let order = |table: &TableMeta| {
                (table.contents.commit_max, table.contents.commit_min, table.number)
            };
            level.partition_point(|other| order(other) < order(table))
        } else {
            level.partition_point(|other| other.range.lower < table.range.lower)
        };
        level.insert(at, Arc::new(table.clone()));
        Ok(())
    }
}
