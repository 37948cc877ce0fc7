//! The `CREATE` statements of keyspaces, tables and views, as text.

use carnet::catalog::{ColumnKind, DroppedColumn};
use carnet_data::Order;

use crate::ast::{Literal, Name};
use crate::system::{
    IndexView, KeyspaceView, TableView, TypeView, ViewDefinition, map_of, short_class,
};

/// Writes `CREATE KEYSPACE`.
pub(super) fn keyspace(keyspace: &KeyspaceView) -> String {
    let name = Name::new(&keyspace.name);
    if keyspace.is_virtual {
        let structure = format!("VIRTUAL KEYSPACE {name};");
        return virtual_comment(&format!("Keyspace {name} is a virtual keyspace"), &structure);
    }
    let class = keyspace.replication.get_key_value("class");
    let class = class.map(|(key, class)| (key, short_class(class).to_owned()));
    let first = class.iter().map(|(key, class)| (*key, class));
    let others = keyspace.replication.iter().filter(|(key, _)| *key != "class");
    let replication = map_of(first.chain(others));
    let durable_writes = keyspace.durable_writes;
    // Cassandra writes two spaces here.
    format!(
        "CREATE KEYSPACE {name} WITH replication = {replication}  \
         AND durable_writes = {durable_writes};"
    )
}

/// Writes `CREATE TYPE`.
pub(super) fn user_type(user_type: &TypeView) -> String {
    let name = format!("{}.{}", Name::new(&user_type.keyspace), Name::new(&user_type.name));
    let field = |(name, text): &(String, String)| format!("{} {text}", Name::new(name));
    let fields = user_type.fields.iter().map(field).collect::<Vec<_>>().join(",\n    ");
    format!("CREATE TYPE {name} (\n    {fields}\n);")
}

/// Writes `CREATE INDEX`.
pub(super) fn index(table: &TableView, index: &IndexView) -> String {
    let on = format!("{}.{}", Name::new(&table.keyspace), Name::new(&table.name));
    let name = Name::new(&index.name);
    let Some(class) = &index.class else {
        return format!("CREATE INDEX {name} ON {on} ({});", index.target);
    };
    let class = Literal::String(class.clone());
    let mut text = format!("CREATE CUSTOM INDEX {name} ON {on} ({}) USING {class}", index.target);
    if !index.options.is_empty() {
        text.push_str(&format!(" WITH OPTIONS = {}", map_of(index.options.iter())));
    }
    text + ";"
}

/// Writes `CREATE TABLE`; for `internals` with the table's id and its dropped columns, which statements
/// behind it drop again.
pub(super) fn table(table: &TableView, internals: bool) -> String {
    let name = format!("{}.{}", Name::new(&table.keyspace), Name::new(&table.name));
    let keyword = if table.is_virtual { "VIRTUAL" } else { "CREATE" };
    let lines = definition_lines(table, internals).join(",\n    ");
    let options = options(table, internals).join("\n    AND ");
    let text = format!("{keyword} TABLE {name} (\n    {lines}\n) WITH {options};");
    if table.is_virtual {
        return virtual_comment(&format!("Table {name} is a virtual table"), &text);
    }
    let dropped = if internals { table.dropped.as_slice() } else { &[] };
    dropped.iter().fold(text, |text, column| text + &drop_again(table, &name, column))
}

/// Writes the statements that drop a column of a new table as it was dropped, and add it if it was
/// added again.
fn drop_again(table: &TableView, name: &str, dropped: &DroppedColumn) -> String {
    let (column, micros) = (quoted(&dropped.name), dropped.dropped_micros);
    let drop = format!("\nALTER TABLE {name} DROP {column} USING TIMESTAMP {micros};");
    match table.columns.iter().find(|added| added.name == dropped.name) {
        Some(added) => {
            let behind = if added.kind == ColumnKind::Static { " static" } else { "" };
            format!("{drop}\nALTER TABLE {name} ADD {column} {}{behind};", added.type_name)
        }
        None => drop,
    }
}

/// Writes `CREATE MATERIALIZED VIEW`, with the view's id for `internals`.
pub(super) fn view(view: &TableView, definition: &ViewDefinition, internals: bool) -> String {
    let keyspace = Name::new(&view.keyspace);
    let (name, base) = (Name::new(&view.name), Name::new(&definition.base));
    let columns: Vec<String> = view.columns.iter().map(|column| quoted(&column.name)).collect();
    let columns = if definition.has_all { "*".to_owned() } else { columns.join(", ") };
    // Data of a view expires with the data of the base table.
    let mut options = options(view, internals);
    options.retain(|option| !option.starts_with("default_time_to_live = "));
    // Cassandra writes a space before WITH.
    format!(
        "CREATE MATERIALIZED VIEW {keyspace}.{name} AS\n    SELECT {columns}\n    \
         FROM {keyspace}.{base}\n    WHERE {}\n    {}\n WITH {};",
        definition.filter,
        primary_key(view),
        options.join("\n    AND ")
    )
}

fn virtual_comment(what: &str, structure: &str) -> String {
    format!(
        "/*\nWarning: {what} and cannot be recreated with CQL.\n\
         Structure, for reference:\n{structure}\n*/"
    )
}

/// Writes the columns, and the key unless it is written beside its only column.
fn definition_lines(table: &TableView, with_dropped: bool) -> Vec<String> {
    let has_short_key = table.partition_key().count() == 1 && table.clustering_key().count() == 0;
    let is_dropped = |name: &str| table.dropped.iter().any(|dropped| dropped.name == name);
    let kept = table.columns.iter().filter(|column| !with_dropped || !is_dropped(&column.name));
    // The order of the columns: key, static columns by name, regular columns by name.
    let mut lines: Vec<(u8, &str, String)> = kept
        .map(|column| {
            let (rank, behind) = match column.kind {
                ColumnKind::Partition if has_short_key => (0, " PRIMARY KEY"),
                ColumnKind::Partition | ColumnKind::Clustering(_) => (0, ""),
                ColumnKind::Static => (1, " static"),
                ColumnKind::Regular => (2, ""),
            };
            let line = format!("{} {}{behind}", Name::new(&column.name), column.type_name);
            (rank, if rank == 0 { "" } else { column.name.as_str() }, line)
        })
        .collect();
    lines.sort_by(|(rank, name, _), (other_rank, other, _)| (rank, name).cmp(&(other_rank, other)));
    let mut lines: Vec<String> = lines.into_iter().map(|(_, _, line)| line).collect();
    // Dropped columns follow, in the order in which they were dropped.
    for column in table.dropped.iter().filter(|_| with_dropped) {
        let behind = if column.is_static { " static" } else { "" };
        lines.push(format!("{} {}{behind}", Name::new(&column.name), column.type_name));
    }
    if !has_short_key {
        lines.push(primary_key(table));
    }
    lines
}

fn primary_key(table: &TableView) -> String {
    let partition: Vec<_> = table.partition_key().map(|column| quoted(&column.name)).collect();
    let mut key = vec![match &partition[..] {
        [only] => only.clone(),
        _ => format!("({})", partition.join(", ")),
    }];
    key.extend(table.clustering_key().map(|(column, _)| quoted(&column.name)));
    format!("PRIMARY KEY ({})", key.join(", "))
}

fn options(table: &TableView, internals: bool) -> Vec<String> {
    let mut options = Vec::new();
    if internals {
        options.push(format!("ID = {}", table.uuid));
    }
    if table.compact.is_some() {
        options.push("COMPACT STORAGE".to_owned());
    }
    let order: Vec<_> = table
        .clustering_key()
        .map(|(column, order)| {
            let order = if order == Order::Desc { "DESC" } else { "ASC" };
            format!("{} {order}", quoted(&column.name))
        })
        .collect();
    if !order.is_empty() {
        options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    if table.is_virtual {
        options.push(format!("comment = {}", Literal::String(table.comment.clone())));
    } else {
        options.extend(table.options.terms().map(|(name, term)| format!("{name} = {term}")));
    }
    options
}

fn quoted(name: &str) -> String {
    Name::new(name).to_string()
}
