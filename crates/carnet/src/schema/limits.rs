//! Limits of the catalog: lengths of names, numbers of things, sizes of types and of records. The
//! table for users is in `docs/limits.md`.
//!
//! `CREATE` and `ALTER` check them at the same place: each record is checked as it is put, beside the
//! record that it replaces. Only new or grown things are refused, so that a schema of an earlier
//! version with more than the limits can be read, dropped and made smaller.

use std::collections::HashSet;
use std::sync::Arc;

use carnet_base::{Error, Result};
use carnet_data::{DataType, TYPE_DEPTH_MAX, UserType};

use super::table::{KeyspaceSchema, TableSchema};
use super::type_size::{Measure, TypeSize};

/// Maximum length of the name of a keyspace, as in Cassandra.
const KEYSPACE_NAME_BYTES_MAX: usize = 48;
/// Maximum length of the name of a table, view or index: that of tables in Cassandra.
const NAME_BYTES_MAX: usize = 222;
/// Number of characters of a name in messages.
const SHOWN_CHARS: usize = 48;
/// Maximum length of the name of a column, a type or a field of a type.
pub(crate) const PART_NAME_BYTES_MAX: usize = 255;
/// Maximum number of keyspaces.
pub(crate) const KEYSPACES_MAX: usize = 1_000;
/// Maximum number of tables and views of a keyspace.
pub(crate) const TABLES_MAX: usize = 4_000;
/// Maximum number of user-defined types of a keyspace.
const TYPES_MAX: usize = 1_000;
/// Maximum number of columns of a table: each row image names all its columns.
const COLUMNS_MAX: usize = 1_000;
/// Maximum number of fields of a tuple or user-defined type.
const FIELDS_MAX: usize = 1_000;
/// Maximum number of indexes of a table. Each write of a row writes entries of each.
const INDEXES_MAX: usize = 100;
/// Maximum number of views of a table. Each write of a row writes a row of each.
const VIEWS_MAX: usize = 100;
/// Maximum length of a type's description in the native protocol, with all the types that it uses.
const TYPE_BYTES_MAX: usize = 256 << 10;
/// Maximum length of the descriptions of all columns of a table.
const COLUMNS_BYTES_MAX: usize = 4 << 20;
/// Maximum length of the class name by which the native protocol describes a vector.
const CLASS_BYTES_MAX: usize = u16::MAX as usize;
/// Maximum length of a record of the catalog.
const RECORD_BYTES_MAX: usize = 8 << 20;

/// Refuses a number above a limit, unless the replaced record has one that is not smaller.
fn check(
    what: impl FnOnce() -> String,
    size: usize,
    max: usize,
    before: Option<usize>,
) -> Result<()> {
    if size <= max || before.is_some_and(|before| size <= before) {
        return Ok(());
    }
    Err(Error::invalid(format!("{}; at most {max} are allowed", what())))
}

/// Checks the name of a keyspace.
pub(crate) fn check_keyspace_name(name: &str) -> Result<()> {
    check_word("keyspace", name, KEYSPACE_NAME_BYTES_MAX)
}

/// Checks the name of a table, view or index.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    check_word(what, name, NAME_BYTES_MAX)
}

fn check_word(what: &str, name: &str, bytes_max: usize) -> Result<()> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !name.is_empty() && name.len() <= bytes_max && is_word {
        return Ok(());
    }
    let shown: String = name.chars().take(SHOWN_CHARS).collect();
    Err(Error::invalid(format!(
        "{what} name {shown:?} of {} bytes: letters, digits and underscores, 1 to {bytes_max} of them",
        name.len()
    )))
}

/// Checks the name of a column, a type or a field.
fn check_part_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("a {what}'s name is empty")));
    }
    let text = || {
        let shown: String = name.chars().take(SHOWN_CHARS).collect();
        format!("the name of {what} {shown}… has {} bytes", name.len())
    };
    check(text, name.len(), PART_NAME_BYTES_MAX, None)
}

/// Checks the size of a type, named by `what`, that replaces none.
///
/// # Errors
///
/// `Invalid` if the type is too deep, too large, or has too many fields.
pub fn check_type(what: &str, data_type: &DataType) -> Result<()> {
    check_size(what, Measure::default().size(data_type), None)
}

fn check_size(what: &str, size: TypeSize, before: Option<TypeSize>) -> Result<()> {
    let depth = || format!("{what} is {} types deep", size.depth);
    check(depth, size.depth, TYPE_DEPTH_MAX, before.map(|before| before.depth))?;
    let fields = || format!("{what} has {} fields", size.fields);
    check(fields, size.fields, FIELDS_MAX, before.map(|before| before.fields))?;
    let class = || {
        format!("{what} has a vector, whose class has a name of {} bytes for drivers", size.vector)
    };
    check(class, size.vector, CLASS_BYTES_MAX, before.map(|before| before.vector))?;
    let bytes = || {
        format!(
            "{what}, as described to drivers with all the types that it uses, has {} bytes",
            size.bytes
        )
    };
    check(bytes, size.bytes, TYPE_BYTES_MAX, before.map(|before| before.bytes))
}

/// Checks the number of keyspaces or tables before another one is created.
pub(crate) fn check_count(what: &str, count: usize, max: usize) -> Result<()> {
    check(|| format!("{what}: this would be number {}", count + 1), count + 1, max, None)
}

/// Checks the length of a record.
pub(crate) fn check_record(what: &str, length: usize, before: Option<usize>) -> Result<()> {
    check(|| format!("{what} has {length} bytes"), length, RECORD_BYTES_MAX, before)
}

/// Checks the names, numbers and sizes of a table beside those of the table that it replaces.
pub(crate) fn check_table(table: &TableSchema, before: Option<&TableSchema>) -> Result<()> {
    check_name("table", &table.name)?;
    let at = || format!("table {}.{}", table.keyspace, table.name);
    type Count = fn(&TableSchema) -> usize;
    let counts: [(&str, usize, Count); 3] = [
        ("columns", COLUMNS_MAX, |table| table.columns.len()),
        ("indexes", INDEXES_MAX, |table| table.indexes.len()),
        ("views", VIEWS_MAX, |table| table.views.len()),
    ];
    for (things, max, count) in counts {
        let text = || format!("{} has {} {things}", at(), count(table));
        check(text, count(table), max, before.map(count))?;
    }
    check_columns(table, before)?;
    let bytes = columns_bytes(table);
    let text = || format!("the columns of {}, described to drivers, have {bytes} bytes", at());
    check(text, bytes, COLUMNS_BYTES_MAX, before.map(columns_bytes))
}

fn check_columns(table: &TableSchema, before: Option<&TableSchema>) -> Result<()> {
    let (mut sizes, mut earlier_sizes) = (Measure::default(), Measure::default());
    for column in &table.columns {
        let earlier = before.and_then(|before| before.column_by_id(column.id));
        if earlier.is_none_or(|earlier| earlier.name != column.name) {
            check_part_name("column", &column.name)?;
        }
        let earlier = earlier.map(|earlier| earlier_sizes.size(&earlier.data_type));
        let what = format!("the type of column {} of table {}", column.name, table.name);
        check_size(&what, sizes.size(&column.data_type), earlier)?;
    }
    Ok(())
}

fn columns_bytes(table: &TableSchema) -> usize {
    let mut sizes = Measure::default();
    let columns = table.columns.iter();
    columns.fold(0, |sum: usize, column| {
        sum.saturating_add(2 + column.name.len() + sizes.size(&column.data_type).bytes)
    })
}

/// Checks the types of a keyspace beside those of the keyspace that it replaces.
pub(crate) fn check_types(
    keyspace: &KeyspaceSchema,
    before: Option<&KeyspaceSchema>,
) -> Result<()> {
    let text = || format!("keyspace {} has {} types", keyspace.name, keyspace.types.len());
    check(text, keyspace.types.len(), TYPES_MAX, before.map(|before| before.types.len()))?;
    let (mut sizes, mut earlier_sizes) = (Measure::default(), Measure::default());
    for user_type in keyspace.types.values() {
        let earlier = before.and_then(|before| before.types.get(&user_type.name));
        check_field_names(user_type, earlier)?;
        let earlier = earlier.map(|earlier| earlier_sizes.user_type(earlier));
        let what = format!("type {}", user_type.name);
        check_size(&what, sizes.user_type(user_type), earlier)?;
    }
    Ok(())
}

fn check_field_names(user_type: &UserType, earlier: Option<&Arc<UserType>>) -> Result<()> {
    if earlier.is_none() {
        check_part_name("type", &user_type.name)?;
    }
    let known = earlier.iter().flat_map(|earlier| &earlier.fields);
    let known: HashSet<&String> = known.map(|(name, _)| name).collect();
    let mut new = user_type.fields.iter().filter(|(name, _)| !known.contains(name));
    new.try_for_each(|(name, _)| check_part_name("field", name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use carnet_base::{ColumnId, TableId, Uuid};

    use super::*;
    use crate::schema::{ColumnKind, IndexSchema, IndexedPart, TableKind, ViewSchema};

    /// Returns a table with some indexes and views.
    fn table(indexes: usize, views: usize) -> TableSchema {
        let mut table = TableSchema::new("ks", "t", TableKind::Rows, Uuid::nil());
        table.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
        let index = IndexSchema {
            name: "i".to_owned(),
            id: TableId(1000),
            column: ColumnId(0),
            part: IndexedPart::Value,
            class: None,
            options: BTreeMap::new(),
            bits: 0,
            has_static_entries: false,
            is_built: true,
            failure: None,
        };
        let view = ViewSchema {
            name: "v".to_owned(),
            id: TableId(1001),
            uuid: Uuid::nil(),
            partition: vec![ColumnId(0)],
            clustering: Vec::new(),
            columns: None,
            filter: Vec::new(),
            options: BTreeMap::new(),
            is_built: true,
            failure: None,
        };
        table.indexes = vec![index; indexes];
        table.views = vec![view; views];
        table
    }

    #[test]
    fn indexes_and_views_are_limited_in_number() {
        assert!(check_table(&table(INDEXES_MAX, VIEWS_MAX), None).is_ok());
        for (more, text) in [
            (table(INDEXES_MAX + 1, 0), "has 101 indexes; at most 100"),
            (table(0, VIEWS_MAX + 1), "has 101 views; at most 100"),
        ] {
            let error = check_table(&more, None).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
    }

    #[test]
    fn table_of_earlier_version_may_stay_beyond_limits() {
        let (before, after) = (table(INDEXES_MAX + 5, 0), table(INDEXES_MAX + 4, 1));
        assert!(check_table(&after, Some(&before)).is_ok());
        assert!(check_table(&before, Some(&after)).is_err());
        assert!(check_table(&table(0, 0), Some(&before)).is_ok());
        let mut long = table(0, 0);
        long.columns[0].name = "n".repeat(PART_NAME_BYTES_MAX + 1);
        let more = TableSchema { version: 2, ..long.clone() };
        assert!(check_table(&more, Some(&long)).is_ok());
        assert!(check_table(&long, Some(&table(0, 0))).is_err());
    }

    #[test]
    fn records_are_limited_in_length() {
        assert!(check_record("it", RECORD_BYTES_MAX, None).is_ok());
        assert!(check_record("it", RECORD_BYTES_MAX + 1, None).is_err());
        assert!(check_count("tables", TABLES_MAX - 1, TABLES_MAX).is_ok());
        assert!(check_count("tables", TABLES_MAX, TABLES_MAX).is_err());
    }
}
