//! Keyspaces and tables, both stored and system ones, in the common form that the schema tables and
//! `DESCRIBE` show.

use std::collections::{BTreeMap, BTreeSet};

use carnet::catalog::{
    self, ColumnKind, DroppedColumn, IndexSchema, IndexedPart, KeyspaceSchema, TableKind,
    TableSchema, ViewRelation, ViewSchema, ViewTest,
};
use carnet::{DataType, Result, Tx, Uuid};
use carnet_data::{Order, UserType};

use super::column_view::ColumnView;
use super::compact::Compact;
use super::options::TableOptions;
use super::replication::{LOCATOR, Replication, repaired};
use super::table::{SystemTable, is_virtual_keyspace};
use super::tables::{self, is_system_keyspace};
use crate::ast::Name;

/// A keyspace with its tables.
#[derive(Debug)]
pub(crate) struct KeyspaceView {
    pub(crate) name: String,
    /// Replication in the form that drivers read, with the full name of the class.
    pub(crate) replication: Replication,
    pub(crate) durable_writes: bool,
    pub(crate) is_virtual: bool,
    /// User-defined types, sorted by name.
    pub(crate) types: Vec<TypeView>,
    /// Tables sorted by name.
    pub(crate) tables: Vec<TableView>,
}

/// User-defined type with its fields.
#[derive(Debug)]
pub(crate) struct TypeView {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    /// Names and types.
    pub(crate) fields: Vec<(String, String)>,
    /// Names of the types that fields use, but not those within other user-defined types.
    pub(crate) uses: BTreeSet<String>,
}

impl TypeView {
    fn new(user_type: &UserType) -> Self {
        let field = |(name, data_type): &(String, DataType)| {
            let is_frozen = data_type.takes_frozen();
            let text = data_type.to_string();
            (name.clone(), if is_frozen { format!("frozen<{text}>") } else { text })
        };
        let mut uses = BTreeSet::new();
        user_type.fields.iter().for_each(|(_, data_type)| add_used(data_type, &mut uses));
        Self {
            keyspace: user_type.keyspace.clone(),
            name: user_type.name.clone(),
            fields: user_type.fields.iter().map(field).collect(),
            uses,
        }
    }
}

/// Adds the names of the user-defined types in a type, but not those within them.
fn add_used(data_type: &DataType, uses: &mut BTreeSet<String>) {
    match data_type {
        DataType::Udt(used) => {
            uses.insert(used.name.clone());
        }
        other => other.parts().into_iter().for_each(|part| add_used(part, uses)),
    }
}

/// Table with its columns.
#[derive(Debug)]
pub(crate) struct TableView {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
    pub(crate) is_virtual: bool,
    pub(crate) comment: String,
    pub(crate) options: TableOptions,
    /// Columns: partition key, clustering key, static columns by name, regular columns by name.
    pub(crate) columns: Vec<ColumnView>,
    /// Indexes by name.
    pub(crate) indexes: Vec<IndexView>,
    pub(crate) dropped: Vec<DroppedColumn>,
    /// Definition, if it is a materialized view.
    pub(crate) definition: Option<ViewDefinition>,
    /// Kind, if it is a table of `COMPACT STORAGE`.
    pub(crate) compact: Option<Compact>,
}

/// Definition of a materialized view.
#[derive(Debug)]
pub(crate) struct ViewDefinition {
    /// Name of the base table.
    pub(crate) base: String,
    pub(crate) base_uuid: Uuid,
    /// Whether it selects all columns.
    pub(crate) has_all: bool,
    pub(crate) filter: String,
}

impl ViewDefinition {
    fn new(base: &TableSchema, view: &ViewSchema) -> Self {
        let relations: Vec<String> =
            view.filter.iter().map(|relation| relation_text(base, relation)).collect();
        Self {
            base: base.name.clone(),
            base_uuid: base.uuid,
            has_all: view.columns.is_none(),
            filter: relations.join(" AND "),
        }
    }
}

fn relation_text(base: &TableSchema, relation: &ViewRelation) -> String {
    let column = base.column_by_id(relation.column);
    let name = column.map_or_else(String::new, |column| Name::new(&column.name).to_string());
    match &relation.test {
        ViewTest::NotNull => format!("{name} IS NOT NULL"),
        ViewTest::Compare { operator, text, .. } => format!("{name} {} {text}", operator.symbol()),
    }
}

/// Index of a table.
#[derive(Debug)]
pub(crate) struct IndexView {
    pub(crate) name: String,
    /// Indexed column, or its part: `v`, `keys(m)`.
    pub(crate) target: String,
    /// Class of `USING` as given.
    pub(crate) class: Option<String>,
    pub(crate) options: BTreeMap<String, String>,
}

impl IndexView {
    pub(super) fn new(table: &TableSchema, index: &IndexSchema) -> Self {
        let column = table.column_by_id(index.column);
        let name = column.map_or_else(String::new, |column| Name::new(&column.name).to_string());
        let is_collection = column.is_some_and(|column| {
            matches!(column.data_type, DataType::List(_) | DataType::Set(_) | DataType::Map(_))
        });
        let function = match index.part {
            IndexedPart::Value if is_collection => "full",
            IndexedPart::Value => "",
            IndexedPart::Keys => "keys",
            IndexedPart::Values => "values",
            IndexedPart::Entries => "entries",
        };
        Self {
            name: index.name.clone(),
            target: if function.is_empty() { name } else { format!("{function}({name})") },
            class: index.class.clone(),
            options: index.options.clone(),
        }
    }
}

impl TableView {
    /// Returns `true` for a materialized view of a table.
    pub(crate) fn is_view_of(&self, table: &str) -> bool {
        self.definition.as_ref().is_some_and(|definition| definition.base == table)
    }

    pub(crate) fn partition_key(&self) -> impl Iterator<Item = &ColumnView> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Partition)
    }

    pub(crate) fn clustering_key(&self) -> impl Iterator<Item = (&ColumnView, Order)> {
        self.columns.iter().filter_map(|column| match column.kind {
            ColumnKind::Clustering(order) => Some((column, order)),
            _ => None,
        })
    }

    /// Returns a column's position within its part of the key; −1 outside of the key.
    pub(crate) fn position(&self, column: &ColumnView) -> i32 {
        let among = match column.kind {
            ColumnKind::Partition => {
                self.partition_key().position(|other| other.name == column.name)
            }
            ColumnKind::Clustering(_) => {
                // The hidden column of a table of COMPACT STORAGE is the first one.
                self.clustering_key().position(|(other, _)| other.name == column.name).or(Some(0))
            }
            ColumnKind::Static | ColumnKind::Regular => None,
        };
        among.map_or(-1, |position| i32::try_from(position).expect("16 bits count columns"))
    }
}

/// Lists all keyspaces by name, at a node of this data centre.
pub(crate) async fn all(tx: &Tx, data_center: &str) -> Result<Vec<KeyspaceView>> {
    wanted(tx, data_center, &|_| true, &|_, _| true).await
}

/// Like [`all`], for the keyspaces whose names are wanted. Tables of the user that are not wanted may be
/// missing.
pub(super) async fn wanted(
    tx: &Tx,
    data_center: &str,
    wants: &(dyn Fn(&str) -> bool + Sync),
    wants_table: &(dyn Fn(&str, &str) -> bool + Sync),
) -> Result<Vec<KeyspaceView>> {
    let system = tables::KEYSPACES.into_iter().filter(|name| wants(name));
    let mut views: Vec<_> = system.map(of_system).collect();
    for schema in catalog::keyspaces(tx).await? {
        // A user keyspace may have the name of a later version's system keyspace; it is
        // inaccessible.
        if wants(&schema.name) && !is_system_keyspace(&schema.name) {
            views.push(of_user(tx, schema, data_center, wants_table).await?);
        }
    }
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(views)
}

/// Returns a keyspace, at a node of this data centre.
pub(crate) async fn keyspace(
    tx: &Tx,
    name: &str,
    data_center: &str,
) -> Result<Option<KeyspaceView>> {
    if let Some(name) = tables::KEYSPACES.into_iter().find(|known| *known == name) {
        return Ok(Some(of_system(name)));
    }
    match catalog::keyspace(tx, name).await? {
        Some(schema) => of_user(tx, schema, data_center, &|_, _| true).await.map(Some),
        None => Ok(None),
    }
}

async fn of_user(
    tx: &Tx,
    schema: KeyspaceSchema,
    data_center: &str,
    wants: &(dyn Fn(&str, &str) -> bool + Sync),
) -> Result<KeyspaceView> {
    let tables = catalog::tables(tx, &schema.name).await?;
    let mut slice = tx.time_slice();
    let mut views = Vec::new();
    // CQL cannot name the contents of a raw table.
    for table in tables.iter().filter(|table| table.kind == TableKind::Rows) {
        if wants(&schema.name, &table.name) {
            views.push(of_table(table, &tables));
        }
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
    }
    Ok(KeyspaceView {
        types: schema.types.values().map(|user_type| TypeView::new(user_type)).collect(),
        tables: views,
        name: schema.name,
        replication: repaired(&schema.replication, data_center),
        durable_writes: schema.durable_writes,
        is_virtual: false,
    })
}

/// Describes a table or view of a keyspace with these tables.
fn of_table(schema: &TableSchema, tables: &[TableSchema]) -> TableView {
    let base =
        schema.base.as_ref().and_then(|base| tables.iter().find(|table| table.name == base.table));
    let definition =
        base.and_then(|base| Some(ViewDefinition::new(base, base.view(&schema.name)?)));
    let mut columns: Vec<_> = schema.columns.iter().collect();
    columns.sort_by_key(|column| match column.kind {
        ColumnKind::Partition => (0, ""),
        ColumnKind::Clustering(_) => (1, ""),
        ColumnKind::Static => (2, column.name.as_str()),
        ColumnKind::Regular => (3, column.name.as_str()),
    });
    let columns = columns.into_iter().map(|column| ColumnView {
        name: column.name.clone(),
        kind: column.kind,
        type_name: column.cql_type(),
    });
    TableView {
        keyspace: schema.keyspace.clone(),
        name: schema.name.clone(),
        uuid: schema.uuid,
        is_virtual: false,
        comment: String::new(),
        dropped: schema.dropped.clone(),
        options: TableOptions::read(&schema.options),
        columns: columns.collect(),
        definition,
        compact: Compact::of(schema),
        indexes: {
            let mut indexes: Vec<_> =
                schema.indexes.iter().map(|index| IndexView::new(schema, index)).collect();
            indexes.sort_by(|a, b| a.name.cmp(&b.name));
            indexes
        },
    }
}

fn of_system(name: &'static str) -> KeyspaceView {
    let own = tables::tables().iter().filter(|table| table.keyspace == name);
    KeyspaceView {
        name: name.to_owned(),
        replication: [("class".to_owned(), format!("{LOCATOR}LocalStrategy"))].into(),
        durable_writes: true,
        is_virtual: is_virtual_keyspace(name),
        types: Vec::new(),
        tables: own.map(of_system_table).collect(),
    }
}

fn of_system_table(table: &SystemTable) -> TableView {
    let columns = table.columns.iter().map(|column| ColumnView {
        name: column.name.to_owned(),
        kind: column.kind,
        type_name: column.type_name(),
    });
    TableView {
        keyspace: table.keyspace.to_owned(),
        name: table.name.to_owned(),
        uuid: table.uuid,
        is_virtual: table.is_virtual(),
        comment: table.comment.to_owned(),
        options: TableOptions::of_system(table.keyspace, table.comment),
        columns: columns.collect(),
        indexes: Vec::new(),
        dropped: Vec::new(),
        definition: None,
        compact: None,
    }
}

/// Returns the short name of a replication strategy's class.
pub(crate) fn short_class(class: &str) -> &str {
    class.strip_prefix(LOCATOR).unwrap_or(class)
}
