//! The table of the workload, with its possible indexes and views.

use std::collections::BTreeMap;

use carnet::Uuid;
use carnet::catalog::{
    ColumnKind, ColumnSchema, IndexSchema, IndexedPart, TableKind, TableSchema, ViewRelation,
    ViewSchema, ViewTest,
};
use carnet_base::{CellKey, ColumnId, PartitionKey, TableId};
use carnet_data::DataType;
use carnet_data::key::Order;

/// Table of the catalog with the schemas of tables.
const SCHEMAS: TableId = TableId(3);
pub(super) const KEYSPACE: &str = "sim";
pub(super) const TABLE: &str = "t";
pub(super) const A: ColumnId = ColumnId(2);
pub(super) const B: ColumnId = ColumnId(3);

/// `CREATE TABLE t (k bigint, c bigint, a bigint, b bigint, PRIMARY KEY (k, c))`.
pub(super) fn table() -> TableSchema {
    let column = |id: u16, name: &str, kind| ColumnSchema {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type: DataType::Bigint,
        is_multi_cell: false,
        kind,
    };
    TableSchema {
        columns: vec![
            column(0, "k", ColumnKind::Partition),
            column(1, "c", ColumnKind::Clustering(Order::Asc)),
            column(A.0, "a", ColumnKind::Regular),
            column(B.0, "b", ColumnKind::Regular),
        ],
        next_column: 4,
        ..TableSchema::new(KEYSPACE, TABLE, TableKind::Rows, Uuid::from_u64_pair(1, 0))
    }
}

/// Returns the cell of the catalog with the schema of the table.
pub(crate) fn schema_cell() -> CellKey {
    CellKey::new(SCHEMAS, &PartitionKey::new(KEYSPACE), TABLE)
}

/// An index or a view that the table may have.
#[derive(Clone, Debug)]
pub(super) enum Definition {
    Index(IndexSchema),
    View(ViewSchema),
}

impl Definition {
    /// Returns an index on `a` in several partitions, an index on `b`, a view by `a`, and a view by
    /// `c` that has only `b`.
    pub(super) fn all() -> [Self; 4] {
        [
            Self::Index(index("by_a", A, 2)),
            Self::Index(index("by_b", B, 0)),
            Self::View(view("of_a", 1, A, &[0, 1], None)),
            Self::View(view("of_c", 2, ColumnId(1), &[0], Some(vec![B]))),
        ]
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Index(index) => &index.name,
            Self::View(view) => &view.name,
        }
    }
}

fn index(name: &str, column: ColumnId, bits: u8) -> IndexSchema {
    IndexSchema {
        name: name.to_owned(),
        id: TableId(0),
        column,
        part: IndexedPart::Value,
        class: None,
        options: BTreeMap::new(),
        bits,
        has_static_entries: false,
        is_built: false,
        failure: None,
    }
}

fn view(
    name: &str,
    number: u64,
    key: ColumnId,
    clustering: &[u16],
    columns: Option<Vec<ColumnId>>,
) -> ViewSchema {
    ViewSchema {
        name: name.to_owned(),
        id: TableId(0),
        uuid: Uuid::from_u64_pair(1, number),
        partition: vec![key],
        clustering: clustering.iter().map(|id| (ColumnId(*id), Order::Asc)).collect(),
        columns,
        filter: [0, 1, key.0]
            .map(|id| ViewRelation { column: ColumnId(id), test: ViewTest::NotNull })
            .to_vec(),
        options: BTreeMap::new(),
        is_built: false,
        failure: None,
    }
}
