//! The decision record's three reads of many cells.

use carnet_base::{CellKey, PartitionKey, Rng as _, SeededRng, TableId, Timestamp, block_on};
use carnet_store::Context;
use carnet_store::cluster::{ClusterCells as _, Statement, VersionWrite};
use carnet_store_cql::CqlCluster;

/// Size of every payload.
const PAYLOAD_BYTES: usize = 64;

/// Number of columns of a row of dynamic columns; reads name some of them.
const DYNAMIC_COLUMNS: u64 = 2000;

/// Shape of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) table: TableId,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Whether each row is read at columns of its own.
    pub(crate) is_dynamic: bool,
}

/// The reads of the decision record.
pub(crate) const WORKLOADS: [Workload; 3] = [
    Workload { table: TableId(1), rows: 100, columns: 100, is_dynamic: false },
    Workload { table: TableId(2), rows: 1000, columns: 10, is_dynamic: false },
    Workload { table: TableId(3), rows: 16, columns: 500, is_dynamic: true },
];

impl Workload {
    pub(crate) fn name(&self) -> String {
        let kind = if self.is_dynamic { "dynamic" } else { "static" };
        format!("{} rows, {} {kind} columns", self.rows, self.columns)
    }

    fn key(&self, row: u64, column: u64) -> CellKey {
        let partition = PartitionKey::new(row.to_be_bytes().to_vec());
        CellKey::new(self.table, &partition, column.to_be_bytes())
    }

    /// Returns the cells of one read.
    pub(crate) fn cells(&self, rng: &mut SeededRng) -> Vec<CellKey> {
        let mut cells = Vec::new();
        for row in 0..self.rows {
            let mut columns: Vec<u64> = if self.is_dynamic {
                (0..DYNAMIC_COLUMNS).collect()
            } else {
                (0..self.columns).collect()
            };
            // The first columns after a partial shuffle.
            for place in (0..self.columns).filter(|_| self.is_dynamic) {
                let other = place + rng.below(DYNAMIC_COLUMNS - place);
                columns.swap(index(place), index(other));
            }
            cells
                .extend(columns[..index(self.columns)].iter().map(|column| self.key(row, *column)));
        }
        cells
    }

    /// Writes the cells to be read.
    pub(crate) fn fill(&self, cluster: &CqlCluster) {
        let columns = if self.is_dynamic { DYNAMIC_COLUMNS } else { self.columns };
        let start = Timestamp::new(1).unwrap();
        let statement = Statement(0);
        for row in 0..self.rows {
            let write = |column| VersionWrite {
                key: self.key(row, column),
                start,
                statement,
                payload: Some(vec![7; PAYLOAD_BYTES].into()),
            };
            let writes: Vec<VersionWrite> = (0..columns).map(write).collect();
            block_on(cluster.write_versions(&Context::unbounded(), &writes)).unwrap();
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}
