use std::sync::Arc;

use carnet_base::{Uuid, WallTime};
use carnet_data::{DataType, FieldKeys, TYPE_DEPTH_MAX, TypeReference, UserType};

use super::*;
use crate::schema::IndexedPart;
use crate::schema::dropped_column::DROPPED_MAX;
use crate::schema::limits::check_table;

fn table(columns: &[(&str, DataType, bool)]) -> TableSchema {
    let mut table = TableSchema::new("ks", "t", TableKind::Rows, Uuid::from_u128(7));
    table.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
    for (name, data_type, is_multi_cell) in columns {
        let add = match is_multi_cell {
            true => TableSchema::add_collection,
            false => TableSchema::add_column,
        };
        add(&mut table, name, data_type.clone(), ColumnKind::Regular).unwrap();
    }
    table
}

/// Reads the record of a table of a keyspace with these types.
fn read(record: &[u8], keyspace: &KeyspaceSchema) -> Result<TableSchema> {
    let types = UserTypes::new(&keyspace.types);
    StoredTable::read("ks", "t", record)?.resolve("ks", "t", &types)
}

fn round_trip(schema: &TableSchema) -> TableSchema {
    read(&schema.encode(), &KeyspaceSchema::local("ks")).unwrap()
}

fn user_type(id: u32, name: &str, fields: &[(&str, DataType)]) -> Arc<UserType> {
    let fields = fields.iter().map(|(name, field)| ((*name).to_owned(), field.clone()));
    Arc::new(UserType {
        keyspace: "ks".to_owned(),
        name: name.to_owned(),
        fields: fields.collect(),
        reference: TypeReference { id, version: 1 },
        keys: FieldKeys::Open,
    })
}

fn keyspace(types: &[&Arc<UserType>]) -> KeyspaceSchema {
    let mut keyspace = KeyspaceSchema::local("ks");
    for found in types {
        keyspace.types.insert(found.name.clone(), Arc::clone(found));
        keyspace.next_type = keyspace.next_type.max(found.reference.id + 1);
    }
    keyspace
}

#[test]
fn stored_types_round_trip() {
    let nested = DataType::map(DataType::Text, DataType::list(DataType::Duration));
    let schema = table(&[
        ("a", DataType::Duration, false),
        ("b", nested.clone(), true),
        ("c", nested, false),
        ("d", DataType::tuple([DataType::Int, DataType::Text]), false),
        ("e", DataType::vector(DataType::Float, 3), false),
    ]);
    assert_eq!(round_trip(&schema), schema);
}

#[test]
fn dropped_columns_are_listed_once() {
    let mut schema = table(&[("a", DataType::Int, false), ("b", DataType::Text, false)]);
    for (micros, name) in [(1, "a"), (2, "b")] {
        schema.drop_column(name, WallTime(micros)).unwrap();
    }
    schema.add_collection("a", DataType::list(DataType::Text), ColumnKind::Regular).unwrap();
    schema.drop_column("a", WallTime(3)).unwrap();
    let listed = |schema: &TableSchema| {
        let columns = schema.dropped.iter();
        let shown = columns.map(|it| (it.name.clone(), it.type_name.clone(), it.dropped_micros));
        shown.collect::<Vec<_>>()
    };
    let expected = [("b".into(), "text".into(), 2), ("a".into(), "list<text>".into(), 3)];
    assert_eq!(listed(&schema), expected);
    assert_eq!(round_trip(&schema), schema);
    for n in 0..=DROPPED_MAX {
        let name = format!("c{n}");
        schema.add_column(&name, DataType::Int, ColumnKind::Regular).unwrap();
        schema.drop_column(&name, WallTime(4)).unwrap();
    }
    assert_eq!((schema.dropped.len(), &*schema.dropped[0].name), (DROPPED_MAX, "c1"));
}

#[test]
fn dropped_columns_are_limited_in_length() {
    let wide = DataType::tuple(vec![DataType::Timestamp; 60_000]);
    let mut schema = table(&[]);
    for n in 0..20 {
        let name = format!("c{n}");
        schema.add_column(&name, wide.clone(), ColumnKind::Regular).unwrap();
        schema.drop_column(&name, WallTime(1)).unwrap();
    }
    let names: Vec<&str> = schema.dropped.iter().map(|dropped| &*dropped.name).collect();
    assert_eq!(names, ["c17", "c18", "c19"]);
}

#[test]
fn user_defined_types_are_stored_once() {
    let fields = [("x", DataType::Int), ("tags", DataType::set(DataType::Text))];
    let point = user_type(1, "point", &fields);
    let udt = DataType::Udt(Arc::clone(&point));
    let line = user_type(2, "line", &[("from", udt.clone()), ("to", udt.clone())]);
    let nested = DataType::map(DataType::tuple([udt.clone()]), DataType::list(udt.clone()));
    let schema = table(&[
        ("a", udt.clone(), true),
        ("b", DataType::Udt(Arc::clone(&line)), false),
        ("c", nested.clone(), true),
        ("d", DataType::set(nested), false),
        ("e", DataType::vector(udt, 2), false),
    ]);
    let keyspace = keyspace(&[&point, &line]);
    let record = schema.encode();
    let text = std::str::from_utf8(&record).unwrap();
    assert!(text.starts_with(r#"{"format":5,"#), "{text}");
    assert!(text.contains(r#""name":"b","type":{"type":[2,1]}"#), "{text}");
    assert!(!text.contains("tags"), "{text}");
    assert_eq!(read(&record, &keyspace).unwrap(), schema);
    let stored = keyspace.encode();
    assert_eq!(KeyspaceSchema::decode("ks", &stored).unwrap(), keyspace);
    let decoded = KeyspaceSchema::decode("ks", &stored).unwrap();
    let DataType::Udt(shared) = &decoded.types["line"].fields[0].1 else { panic!("a type") };
    assert!(Arc::ptr_eq(shared, &decoded.types["point"]));
    let error = read(&record, &KeyspaceSchema::local("ks")).unwrap_err();
    assert!(error.message().contains("unknown type"), "{error}");
}

#[test]
fn types_without_open_keys_keep_their_format() {
    let open = user_type(1, "point", &[("x", DataType::Int)]);
    let all = Arc::new(UserType { keys: FieldKeys::All, ..(*open).clone() });
    for (user_type, format) in [(open, 6), (all, 5)] {
        let keyspace = keyspace(&[&user_type]);
        let stored = keyspace.encode();
        let text = std::str::from_utf8(&stored).unwrap();
        assert!(text.starts_with(&format!("{{\"format\":{format},")), "{text}");
        assert_eq!(KeyspaceSchema::decode("ks", &stored).unwrap(), keyspace);
    }
}

#[test]
fn other_version_of_a_type_is_refused() {
    let point = user_type(1, "point", &[("x", DataType::Int)]);
    let record = table(&[("a", DataType::Udt(Arc::clone(&point)), false)]).encode();
    let mut later = (*point).clone();
    later.reference.version = 2;
    assert!(read(&record, &keyspace(&[&point])).is_ok());
    assert!(read(&record, &keyspace(&[&Arc::new(later)])).is_err());
}

#[test]
fn type_that_contains_itself_is_not_read() {
    let record = br#"{"format":5,"replication":{},"durable_writes":true,"user_types":[
        {"id":1,"version":1,"name":"a","fields":[["b",{"type":[2,1]}]]},
        {"id":2,"version":1,"name":"b","fields":[["a",{"list":{"type":[1,1]}}]]}]}"#;
    assert!(KeyspaceSchema::decode("ks", record).is_err());
}

#[test]
fn tables_of_scalars_are_stored_as_before() {
    let scalars = table(&[("v", DataType::Varint, false)]).encode();
    let text = std::str::from_utf8(&scalars).unwrap();
    assert!(text.starts_with(r#"{"format":1,"#), "{text}");
    assert!(text.contains(r#""type":9,"kind":"partition""#), "{text}");
    let composite = table(&[("v", DataType::set(DataType::Int), true)]).encode();
    let text = std::str::from_utf8(&composite).unwrap();
    assert!(text.starts_with(r#"{"format":2,"#), "{text}");
    assert!(text.contains(r#""type":"set<int>""#), "{text}");
    let later = text.replace(r#""format":2"#, r#""format":8"#);
    let error = read(later.as_bytes(), &KeyspaceSchema::local("ks")).unwrap_err();
    assert!(error.message().contains("later version"), "{error}");
    assert!(KeyspaceSchema::local("ks").encode().starts_with(br#"{"format":1,"#));
}

#[test]
fn index_with_other_entries_has_a_format() {
    let mut indexed = table(&[("v", DataType::Int, false)]);
    indexed.indexes.push(IndexSchema {
        name: "i".to_owned(),
        id: TableId(1),
        column: ColumnId(0),
        part: IndexedPart::Value,
        class: None,
        options: BTreeMap::new(),
        bits: 0,
        has_static_entries: false,
        is_built: true,
        failure: None,
    });
    for (has_static_entries, format) in [(false, 3), (true, 6)] {
        indexed.indexes[0].has_static_entries = has_static_entries;
        let text = indexed.encode();
        assert!(text.starts_with(format!(r#"{{"format":{format},"#).as_bytes()));
        assert_eq!(round_trip(&indexed), indexed);
    }
    for (option, value, format) in [
        ("case_sensitive", "true", 6),
        ("case_sensitive", "FALSE", 7),
        ("normalize", "true", 7),
        ("ascii", "true", 7),
        ("ascii", "false", 6),
    ] {
        indexed.indexes[0].options = [(option.to_owned(), value.to_owned())].into();
        let text = indexed.encode();
        assert!(
            text.starts_with(format!(r#"{{"format":{format},"#).as_bytes()),
            "{option} {value}"
        );
        assert_eq!(round_trip(&indexed), indexed);
    }
}

#[test]
fn deep_types_are_refused() {
    let deep = |depth| (1..depth).fold(DataType::Int, |inner, _| DataType::list(inner));
    let at_most = table(&[("v", deep(TYPE_DEPTH_MAX), false)]);
    assert!(check_table(&at_most, None).is_ok());
    assert_eq!(round_trip(&at_most), at_most);
    let deeper = table(&[("v", deep(TYPE_DEPTH_MAX + 1), false)]);
    let error = check_table(&deeper, None).unwrap_err();
    assert!(error.message().contains("33 types deep"), "{error}");
    assert!(check_table(&deeper, Some(&deeper)).is_ok(), "a table of an earlier version");
}

/// Returns the copy of a type in a record of an earlier version.
fn copy(name: &str, fields: &[(&str, String)]) -> String {
    let fields = fields.iter().map(|(name, field)| format!(r#"["{name}",{field}]"#));
    let fields = fields.collect::<Vec<_>>().join(",");
    format!(r#"{{"keyspace":"ks","name":"{name}","fields":[{fields}]}}"#)
}

fn udt(copy: &str) -> String {
    format!(r#"{{"udt":{copy}}}"#)
}

/// Returns the record of a keyspace in the form of earlier versions.
fn old_keyspace(types: &[String]) -> String {
    let types = types.join(",");
    format!(r#"{{"format":2,"replication":{{}},"durable_writes":true,"types":[{types}]}}"#)
}

fn old_table(data_type: &str) -> String {
    format!(
        r#"{{"format":2,"id":1000,"version":1,"kind":"rows","next_column":2,"uuid":"{}",
        "columns":[{{"id":0,"name":"k","type":9,"kind":"partition"}},
        {{"id":1,"name":"v","type":{data_type},"kind":"regular","multi_cell":true}}],
        "options":{{}}}}"#,
        Uuid::nil()
    )
}

#[test]
fn copies_in_old_records_become_references() {
    let point = copy("point", &[("x", "9".to_owned())]);
    let line =
        copy("line", &[("from", udt(&point)), ("to", format!(r#"{{"set":{}}}"#, udt(&point)))]);
    let keyspace =
        KeyspaceSchema::decode("ks", old_keyspace(&[point.clone(), line.clone()]).as_bytes());
    let keyspace = keyspace.unwrap();
    let point = DataType::Udt(Arc::clone(&keyspace.types["point"]));
    let fields = [("from".to_owned(), point.clone()), ("to".to_owned(), DataType::set(point))];
    assert_eq!(keyspace.types["line"].fields, fields);
    let list = format!(r#"{{"list":{}}}"#, udt(&line));
    let table = read(old_table(&list).as_bytes(), &keyspace).unwrap();
    let column = table.column("v").unwrap();
    let expected = DataType::list(DataType::Udt(Arc::clone(&keyspace.types["line"])));
    assert_eq!((&column.data_type, column.is_multi_cell), (&expected, true));
    // The numbers are those of the next read of the old record, and of the record that replaces it.
    let upgraded = KeyspaceSchema::decode("ks", &keyspace.encode()).unwrap();
    assert_eq!(upgraded, keyspace);
    assert_eq!(read(&table.encode(), &upgraded).unwrap(), table);
    assert_eq!(upgraded.next_type, 3);
}

#[test]
fn old_types_that_contain_themselves_are_cut() {
    let r = copy("r", &[("a", "9".to_owned())]);
    let r = copy("r", &[("a", "9".to_owned()), ("me", udt(&r))]);
    let one = copy("one", &[("x", "9".to_owned())]);
    let other = copy("other", &[("one", udt(&one))]);
    let one = copy("one", &[("x", "9".to_owned()), ("other", udt(&other))]);
    let old = old_keyspace(&[r.clone(), one, other]);
    let keyspace = KeyspaceSchema::decode("ks", old.as_bytes()).unwrap();
    let field = |name: &str, field: usize| keyspace.types[name].fields[field].1.to_string();
    assert_eq!(field("r", 1), "tuple<int>");
    assert_eq!((&*field("one", 1), &*field("other", 0)), ("other", "tuple<int>"));
    assert_eq!(KeyspaceSchema::decode("ks", &keyspace.encode()).unwrap(), keyspace);
    let table = read(old_table(&udt(&r)).as_bytes(), &keyspace).unwrap();
    assert_eq!(table.column("v").unwrap().data_type.to_string(), "r");
}

#[test]
fn old_record_too_deep_for_its_version_is_read() {
    let mut deepest = copy("t0", &[("a", "9".to_owned())]);
    let mut types = vec![deepest.clone()];
    for n in 1..=31 {
        deepest = copy(&format!("t{n}"), &[("a", udt(&deepest))]);
        types.push(deepest.clone());
    }
    let old = old_keyspace(&types);
    assert!(json_depth(old.as_bytes()) > 127, "{}", json_depth(old.as_bytes()));
    let keyspace = KeyspaceSchema::decode("ks", old.as_bytes()).unwrap();
    assert_eq!(keyspace.types.len(), 32);
    let table = read(old_table(&udt(&deepest)).as_bytes(), &keyspace).unwrap();
    assert_eq!(table.column("v").unwrap().data_type.to_string(), "t31");
    let deeper = old_keyspace(&[copy("t", &[("a", udt(&"[".repeat(JSON_DEPTH_MAX)))])]);
    let error = KeyspaceSchema::decode("ks", deeper.as_bytes()).unwrap_err();
    assert!(error.message().contains("nested"), "{error}");
}
