//! Schemas of the system tables, by which statements on them are compiled as those on other tables.

use std::sync::{Arc, LazyLock};

use carnet::catalog::{ColumnSchema, TableKind, TableSchema};
use carnet_base::{ColumnId, TableId};

use super::table::{SystemColumn, SystemTable};
use super::tables::tables;

/// Id of the first system table. Ids of stored tables begin at 1,000 and rise by one.
const FIRST_ID: u32 = 0xffff_0000;

static SCHEMAS: LazyLock<Vec<Arc<TableSchema>>> = LazyLock::new(|| {
    (FIRST_ID..).zip(tables()).map(|(id, table)| Arc::new(schema(TableId(id), table))).collect()
});

/// Returns the schema of a system table.
pub(crate) fn find_schema(keyspace: &str, name: &str) -> Option<&'static Arc<TableSchema>> {
    SCHEMAS.iter().find(|schema| schema.keyspace == keyspace && schema.name == name)
}

/// Returns the system table with an id.
pub(crate) fn find_by_id(id: TableId) -> Option<&'static SystemTable> {
    let place = usize::try_from(id.0.checked_sub(FIRST_ID)?).ok()?;
    tables().get(place)
}

fn schema(id: TableId, table: &SystemTable) -> TableSchema {
    let column = |(id, column): (u16, &SystemColumn)| ColumnSchema {
        id: ColumnId(id),
        name: column.name.to_owned(),
        is_multi_cell: column.data_type.takes_frozen() && !column.is_frozen,
        data_type: column.data_type.clone(),
        kind: column.kind,
    };
    let columns: Vec<ColumnSchema> = (0..).zip(&table.columns).map(column).collect();
    TableSchema {
        id,
        next_column: u16::try_from(columns.len()).expect("a system table has few columns"),
        columns,
        ..TableSchema::new(table.keyspace, table.name, TableKind::Rows, table.uuid)
    }
}
