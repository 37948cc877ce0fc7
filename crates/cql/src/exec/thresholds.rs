//! Sizes of batches, and the thresholds and words of Cassandra's warnings about them.

use std::collections::BTreeSet;

use carnet::{PartitionKey, Tx};

use super::targets::Targeted;
use crate::ast::BatchKind;

/// Sizes above which the answer of a statement comes with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarnThresholds {
    /// Bytes that a batch of several partitions writes.
    pub batch_bytes: u64,
    /// Partitions that an unlogged batch writes.
    pub unlogged_partitions: usize,
    /// Deleted rows that a statement reads over.
    pub tombstones: u64,
}

impl Default for WarnThresholds {
    fn default() -> Self {
        Self { batch_bytes: 5 << 10, unlogged_partitions: 10, tombstones: 1_000 }
    }
}

/// Size of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchSize {
    /// Tables, as `keyspace.name`.
    tables: BTreeSet<String>,
    partitions: usize,
    bytes: u64,
}

impl BatchSize {
    /// Counts the tables and partitions of statements.
    pub(super) fn count(&mut self, writes: &[Targeted<'_>]) {
        // As in Cassandra, the partitions of several tables with one key count once.
        let keys = writes.iter().flat_map(|write| &write.targets.partitions);
        self.partitions = keys.collect::<BTreeSet<&PartitionKey>>().len();
        let tables: BTreeSet<(&str, &str)> = writes
            .iter()
            .map(|write| (write.plan.table.keyspace.as_str(), write.plan.table.name.as_str()))
            .collect();
        self.tables =
            tables.into_iter().map(|(keyspace, name)| format!("{keyspace}.{name}")).collect();
    }

    /// Counts the bytes that a transaction has written since it had written `before`.
    pub(super) fn count_bytes(&mut self, tx: &Tx, before: u64) {
        self.bytes = tx.written_bytes().saturating_sub(before);
    }

    /// Returns Cassandra's warnings about the batch. It warns of several partitions only.
    pub(super) fn warnings(&self, kind: BatchKind, limits: &WarnThresholds) -> Vec<String> {
        let mut found = Vec::new();
        let tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        let (names, bytes, most) = (tables.join(", "), self.bytes, limits.batch_bytes);
        if self.partitions > 1 && bytes > most {
            found.push(format!(
                "Batch for [{names}] is of size {bytes}, exceeding specified threshold of {most} by {}.",
                bytes - most
            ));
        }
        if kind == BatchKind::Unlogged && self.partitions > limits.unlogged_partitions {
            found.push(format!(
                "Unlogged batch covering {} partitions detected against table{} [{names}]. You should \
                 use a logged batch for atomicity, or asynchronous writes for performance.",
                self.partitions,
                if tables.len() == 1 { "" } else { "s" },
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(partitions: usize, bytes: u64) -> BatchSize {
        BatchSize { tables: ["ks.t".to_owned()].into(), partitions, bytes }
    }

    #[test]
    fn batches_are_warned_of_above_their_thresholds() {
        let limits = WarnThresholds::default();
        let of = |size: BatchSize, kind| size.warnings(kind, &limits);
        assert_eq!(of(size(1, 1 << 20), BatchKind::Unlogged), [""; 0], "one partition");
        assert_eq!(of(size(2, 5 << 10), BatchKind::Logged), [""; 0]);
        assert_eq!(
            of(size(2, 6_000), BatchKind::Logged),
            ["Batch for [ks.t] is of size 6000, exceeding specified threshold of 5120 by 880."]
        );
        assert_eq!(of(size(11, 1), BatchKind::Logged), [""; 0]);
        assert_eq!(of(size(10, 1), BatchKind::Unlogged), [""; 0]);
        assert_eq!(
            of(size(11, 1), BatchKind::Unlogged),
            [
                "Unlogged batch covering 11 partitions detected against table [ks.t]. You should use a \
              logged batch for atomicity, or asynchronous writes for performance."
            ]
        );
    }
}
