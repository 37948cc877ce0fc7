//! Operations of a load, and the statements that carry them out. Pure.

use carnet_base::{Rng, SeededRng};

use super::options::LoadOptions;
use crate::commands::stress::load_kind::LoadKind;

/// Rows of a partition of the table that is scanned.
pub(super) const PARTITION_ROWS: u64 = 1000;

/// Statements that create the tables anew, in a keyspace that exists.
pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE carnet_stress.load (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE carnet_stress.load_rows (p bigint, c bigint, v blob, PRIMARY KEY (p, c))",
];
pub(super) const READ: &str = "SELECT v FROM carnet_stress.load WHERE k = ?";
pub(super) const WRITE: &str = "INSERT INTO carnet_stress.load (k, v) VALUES (?, ?)";
pub(super) const MULTI_GET: &str = "SELECT k, v FROM carnet_stress.load WHERE k IN ?";
pub(super) const SCAN: &str =
    "SELECT c, v FROM carnet_stress.load_rows WHERE p = ? AND c >= ? LIMIT ?";
pub(super) const WRITE_ROW: &str = "INSERT INTO carnet_stress.load_rows (p, c, v) VALUES (?, ?, ?)";

/// An operation of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::stress) enum Operation {
    Read(i64),
    Write(i64, Vec<u8>),
    MultiGet(Vec<i64>),
    /// Partition, first clustering key, and number of rows.
    Scan(i64, i64, i32),
    /// Fills the table that is scanned: partition, clustering key and value.
    WriteRow(i64, i64, Vec<u8>),
}

/// Source of a client's operations.
pub(super) struct Operations {
    kind: LoadKind,
    options: LoadOptions,
    rng: SeededRng,
}

impl Operations {
    pub(super) fn new(kind: LoadKind, options: &LoadOptions, seed: u64) -> Self {
        Self { kind, options: options.clone(), rng: SeededRng::new(seed) }
    }

    /// Draws the next operation.
    pub(super) fn next(&mut self) -> Operation {
        let writes = match self.kind {
            LoadKind::Write => true,
            LoadKind::Mixed => self.rng.below(100) < u64::from(self.options.writes),
            _ => false,
        };
        match self.kind {
            _ if writes => Operation::Write(self.key(), self.value()),
            LoadKind::MultiGet => self.multi_get(),
            LoadKind::Scan => self.scan(),
            _ => Operation::Read(self.key()),
        }
    }

    /// Returns the write that fills a row of the table.
    pub(super) fn fill(&mut self, row: u64) -> Operation {
        let value = self.value();
        let number = |number: u64| number.cast_signed();
        match self.kind {
            LoadKind::Scan => Operation::WriteRow(
                number(row / PARTITION_ROWS),
                number(row % PARTITION_ROWS),
                value,
            ),
            _ => Operation::Write(number(row), value),
        }
    }

    fn multi_get(&mut self) -> Operation {
        let mut keys = Vec::with_capacity(self.options.group.into());
        while keys.len() < usize::from(self.options.group) {
            let key = self.key();
            // IN counts equal keys once.
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Operation::MultiGet(keys)
    }

    fn scan(&mut self) -> Operation {
        let group = u64::from(self.options.group);
        let partition = self.rng.below(self.options.rows / PARTITION_ROWS);
        let first = self.rng.below(PARTITION_ROWS - group + 1);
        Operation::Scan(partition.cast_signed(), first.cast_signed(), self.options.group.into())
    }

    fn key(&mut self) -> i64 {
        self.rng.below(self.options.rows).cast_signed()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = self.options.value_bytes as usize;
        let mut value = Vec::with_capacity(len + 8);
        while value.len() < len {
            value.extend_from_slice(&self.rng.next_u64().to_le_bytes());
        }
        value.truncate(len);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(group: u16) -> LoadOptions {
        LoadOptions { group, rows: 3000, value_bytes: 11, writes: 25, json: false, hdr: None }
    }

    #[test]
    fn operations_stay_within_the_table() {
        for group in [1, 20, 1000] {
            for kind in [LoadKind::Scan, LoadKind::MultiGet] {
                let mut operations = Operations::new(kind, &options(group), 1);
                for _ in 0..200 {
                    match operations.next() {
                        Operation::Scan(partition, first, rows) => {
                            assert!((0..3).contains(&partition) && rows == i32::from(group));
                            assert!(first >= 0 && first + i64::from(rows) <= 1000, "{first}");
                        }
                        Operation::MultiGet(mut keys) => {
                            keys.sort_unstable();
                            keys.dedup();
                            assert_eq!(keys.len(), usize::from(group));
                            assert!(keys.iter().all(|key| (0..3000).contains(key)));
                        }
                        other => panic!("{other:?} is of another kind"),
                    }
                }
            }
        }
    }

    #[test]
    fn mixed_has_its_percentage_of_writes() {
        let mut operations = Operations::new(LoadKind::Mixed, &options(1), 7);
        let drawn: Vec<Operation> = (0..4000).map(|_| operations.next()).collect();
        let writes = drawn.iter().filter(|one| matches!(one, Operation::Write(..))).count();
        assert!((900..1100).contains(&writes), "{writes} of 4000");
        let is_long = |one: &Operation| matches!(one, Operation::Write(_, v) if v.len() != 11);
        assert!(!drawn.iter().any(is_long));
    }
}
