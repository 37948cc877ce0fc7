//! Results that consist of stored columns only.

use carnet::DataType;
use carnet::catalog::{ColumnKind, TableSchema};
use carnet_base::ColumnId;
use carnet_data::key::Order;

use crate::system::Compact;

/// The columns of a result whose values are copied from keys and payloads as they are: rows of it
/// need no decoding to columns.
#[derive(Clone, Debug)]
pub(crate) struct PlainColumns {
    pub(crate) outputs: Vec<PlainColumn>,
    /// Types of the partition key.
    pub(crate) partition: Vec<DataType>,
    /// Types of the clustering key.
    pub(crate) clustering: Vec<DataType>,
    pub(crate) orders: Vec<Order>,
    /// The regular columns among the outputs, by rising id.
    pub(crate) regular: Vec<ColumnId>,
}

/// Place of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainColumn {
    /// Column of the partition key, by its position in the key.
    Partition(usize),
    /// Column of the clustering key, by its position in the key.
    Clustering(usize),
    /// Regular column, by its position in [`PlainColumns::regular`].
    Regular(usize),
    Static(ColumnId),
}

impl PlainColumns {
    /// Returns the columns at positions in a table; `None` if a value is made of the elements of a
    /// collection, or if keys may be short.
    pub(super) fn of(table: &TableSchema, positions: &[usize]) -> Option<Self> {
        let column = |position: &usize| &table.columns[*position];
        let has_elements = positions.iter().any(|position| column(position).is_multi_cell);
        if has_elements || Compact::has_short_keys(table) {
            return None;
        }
        let columns = positions.iter().map(column);
        let regular = columns.filter(|column| column.kind == ColumnKind::Regular);
        let mut regular: Vec<_> = regular.map(|column| column.id).collect();
        regular.sort_unstable();
        regular.dedup();
        // Columns of a key stand in its order in the table.
        let before = |position: usize, counts: fn(&ColumnKind) -> bool| {
            table.columns[..position].iter().filter(|column| counts(&column.kind)).count()
        };
        let outputs = positions.iter().map(|position| match column(position).kind {
            ColumnKind::Partition => {
                let is_partition = |kind: &_| *kind == ColumnKind::Partition;
                PlainColumn::Partition(before(*position, is_partition))
            }
            ColumnKind::Clustering(_) => {
                let is_clustering = |kind: &_| matches!(kind, ColumnKind::Clustering(_));
                PlainColumn::Clustering(before(*position, is_clustering))
            }
            ColumnKind::Static => PlainColumn::Static(column(position).id),
            ColumnKind::Regular => {
                let id = column(position).id;
                PlainColumn::Regular(regular.partition_point(|other| *other < id))
            }
        });
        Some(Self {
            outputs: outputs.collect(),
            partition: table.partition_key().map(|column| column.data_type.clone()).collect(),
            clustering: table.clustering_key().map(|column| column.data_type.clone()).collect(),
            orders: table.clustering_orders(),
            regular,
        })
    }
}
