use std::collections::BTreeMap;

use carnet_base::{Uuid, block_on};
use carnet_data::DataType;

use super::*;
use crate::Db;

/// Tables and views both ask for the number: a keyspace beyond it could not be described to a driver.
#[test]
fn keyspace_has_a_maximum_of_tables_and_views() {
    let db = Db::builder().in_memory();
    let tx = block_on(db.transaction().begin_async()).unwrap();
    let schema = |name: &str| {
        let mut schema = TableSchema::new("ks", name, TableKind::Rows, Uuid::from_u128(7));
        schema.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
        schema
    };
    let create = |name: &str| block_on(create_table(&tx, schema(name)));
    block_on(create_keyspace(&tx, &KeyspaceSchema::local("ks"))).unwrap();
    let base = create("base").unwrap();
    for number in 2..limits::TABLES_MAX {
        tx.put_cell(system_cell(TABLES, "ks", &format!("t{number}")), Bytes::new()).unwrap();
    }
    create("last").unwrap();
    let says = |error: Error| {
        let text = error.to_string();
        assert!(
            text.contains("tables and views of keyspace ks") && text.contains("4000"),
            "{text}"
        );
    };
    says(create("beyond").unwrap_err());
    let view = ViewSchema {
        name: "view".to_owned(),
        id: TableId(0),
        uuid: Uuid::from_u128(8),
        partition: vec![base.columns[0].id],
        clustering: Vec::new(),
        columns: None,
        filter: Vec::new(),
        options: BTreeMap::new(),
        is_built: false,
        failure: None,
    };
    says(block_on(crate::view::add_view(&tx, &base, view)).unwrap_err());
}
