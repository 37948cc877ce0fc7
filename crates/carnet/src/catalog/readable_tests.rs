use std::sync::Arc;

use carnet_base::{ErrorKind, Uuid, block_on};
use carnet_data::{DataType, FieldKeys, TypeReference, UserType};

use super::*;
use crate::Db;

fn type_of(keyspace: &str) -> Arc<UserType> {
    Arc::new(UserType {
        keyspace: keyspace.to_owned(),
        name: "y".to_owned(),
        fields: vec![("a".to_owned(), DataType::Int)],
        reference: TypeReference { id: 1, version: 1 },
        keys: FieldKeys::Open,
    })
}

fn is_not_stored<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("would be read as another one"), "{error}");
}

/// A record that could not be read would make its whole database unreadable.
#[test]
fn schema_that_would_be_read_otherwise_is_not_stored() {
    let db = Db::builder().in_memory();
    let tx = block_on(db.transaction().begin_async()).unwrap();
    let mut keyspace = KeyspaceSchema::local("ks");
    keyspace.types.insert("y".to_owned(), type_of("elsewhere"));
    keyspace.next_type = 2;
    is_not_stored(block_on(create_keyspace(&tx, &keyspace)));
    block_on(create_keyspace(&tx, &KeyspaceSchema::local("ks"))).unwrap();
    let mut table = TableSchema::new("ks", "t", TableKind::Rows, Uuid::from_u128(7));
    table.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
    // The keyspace does not have the type.
    table.add_column("v", DataType::Udt(type_of("ks")), ColumnKind::Regular).unwrap();
    is_not_stored(block_on(create_table(&tx, table)));
}
