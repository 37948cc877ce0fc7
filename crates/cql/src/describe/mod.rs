//! `DESCRIBE`: the schema as text, and lists of names.
//!
//! cqlsh sends the statement to the server and prints the answer. Columns, their names and the text
//! are Cassandra 5.0's:
//!
//! | statement | columns |
//! | --- | --- |
//! | `KEYSPACES`, `TABLES`, `TYPES`, `FUNCTIONS`, `AGGREGATES` | `keyspace_name`, `type`, `name` |
//! | `SCHEMA`, `KEYSPACE`, `TABLE`, a bare name | those and `create_statement` |
//! | `CLUSTER` | `cluster`, `partitioner`, `snitch`; `range_ownership` where a keyspace is in use |
//!
//! [`parse`](crate::parse) accepts a `create_statement`, unless its keyspace is virtual: then it is
//! a comment, because virtual keyspaces cannot be created. Names are quoted if CQL requires it, in
//! every column. Lists are sorted without regard to case. The types of a keyspace follow the types that
//! they use, so that the statements can be run in turn.
//!
//! The indexes and materialized views of a table follow it. Functions and aggregates are not
//! supported yet; describing one reports that it does not exist.

mod create;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use carnet::{DataType, Error, Result, Tx};
use carnet_base::Bytes;

use crate::ast::{Describe, DescribeTarget, Name, TableName};
use crate::result::{ColumnSpec, Rows};
use crate::system::{
    self, Cell, IndexView, KeyspaceView, NodeInfo, PARTITIONER, Peer, TableView, TypeView,
    is_system_keyspace,
};

/// Answers a `DESCRIBE` at a node with these peers. `current` is the current keyspace.
///
/// # Errors
///
/// `Invalid` if the object does not exist, or no keyspace is given and none is current; otherwise
/// see [`Tx::get_cell`].
pub async fn describe(
    tx: &Tx,
    node: &NodeInfo,
    peers: &[Peer],
    statement: &Describe,
    current: Option<&str>,
) -> Result<Rows> {
    let data_center = &node.data_center;
    let scope = Scope { tx, current, data_center, internals: statement.internals };
    match &statement.target {
        DescribeTarget::Cluster => Ok(cluster(node, peers, current)),
        DescribeTarget::Schema { full } => scope.schema(*full).await,
        DescribeTarget::Keyspaces => scope.keyspaces().await,
        DescribeTarget::Keyspace { only, name } => scope.keyspace(name.as_ref(), *only).await,
        DescribeTarget::Tables => scope.tables().await,
        DescribeTarget::Table(name) => scope.table(name).await,
        DescribeTarget::Types => scope.types().await,
        DescribeTarget::Type(name) => scope.user_type(name).await,
        DescribeTarget::Functions | DescribeTarget::Aggregates => scope
            .listed_keyspaces()
            .await
            .map(|_| Rows { columns: columns(&LIST).into(), ..Rows::default() }),
        DescribeTarget::Index(name) => scope.index(name).await,
        DescribeTarget::View(name) => scope.view(name).await,
        DescribeTarget::Function(name) => {
            scope.missing(name, "User defined function '{}' not found in '{}'").await
        }
        DescribeTarget::Aggregate(name) => {
            scope.missing(name, "User defined aggregate '{}' not found in '{}'").await
        }
        DescribeTarget::Any(name) => scope.any(name).await,
    }
}

const LIST: [&str; 3] = ["keyspace_name", "type", "name"];
const ELEMENT: [&str; 4] = ["keyspace_name", "type", "name", "create_statement"];

/// Context of a `DESCRIBE`.
struct Scope<'a> {
    tx: &'a Tx,
    current: Option<&'a str>,
    data_center: &'a str,
    internals: bool,
}

impl Scope<'_> {
    async fn schema(&self, full: bool) -> Result<Rows> {
        let mut keyspaces = all(self.tx, self.data_center).await?;
        keyspaces.retain(|keyspace| full || !is_system_keyspace(&keyspace.name));
        let rows = keyspaces.iter().flat_map(|keyspace| self.elements(keyspace, false));
        Ok(elements(rows.collect()))
    }

    async fn keyspaces(&self) -> Result<Rows> {
        let keyspaces = all(self.tx, self.data_center).await?;
        Ok(list(keyspaces.iter().map(keyspace_entry).collect()))
    }

    async fn keyspace(&self, name: Option<&Name>, only: bool) -> Result<Rows> {
        let keyspace = self.named(name.map(Name::as_str)).await?;
        Ok(elements(self.elements(&keyspace, only)))
    }

    async fn tables(&self) -> Result<Rows> {
        let keyspaces = self.listed_keyspaces().await?;
        let tables = keyspaces.iter().flat_map(|keyspace| &keyspace.tables);
        let tables = tables.filter(|table| table.definition.is_none());
        Ok(list(tables.map(table_entry).collect()))
    }

    async fn types(&self) -> Result<Rows> {
        let keyspaces = self.listed_keyspaces().await?;
        Ok(list(keyspaces.iter().flat_map(|keyspace| &keyspace.types).map(type_entry).collect()))
    }

    async fn user_type(&self, name: &TableName) -> Result<Rows> {
        let keyspace = self.named(name.keyspace.as_ref().map(Name::as_str)).await?;
        let wanted = name.table.as_str();
        let found = keyspace.types.iter().find(|found| found.name == wanted).ok_or_else(|| {
            Error::invalid(format!("User defined type '{wanted}' not found in '{}'", keyspace.name))
        })?;
        Ok(elements(vec![type_element(found)]))
    }

    async fn table(&self, name: &TableName) -> Result<Rows> {
        let keyspace = self.named(name.keyspace.as_ref().map(Name::as_str)).await?;
        let wanted = name.table.as_str();
        let is_it = |table: &&TableView| table.name == wanted && table.definition.is_none();
        let table = keyspace.tables.iter().find(is_it).ok_or_else(|| {
            Error::invalid(format!("Table '{wanted}' not found in keyspace '{}'", keyspace.name))
        })?;
        Ok(elements(self.table_elements(&keyspace, table)))
    }

    async fn view(&self, name: &TableName) -> Result<Rows> {
        let keyspace = self.named(name.keyspace.as_ref().map(Name::as_str)).await?;
        let wanted = name.table.as_str();
        let mut named = keyspace.tables.iter().filter(|table| table.name == wanted);
        let found = named.find_map(|table| self.view_element(table)).ok_or_else(|| {
            Error::invalid(format!("Materialized view '{wanted}' not found in '{}'", keyspace.name))
        })?;
        Ok(elements(vec![found]))
    }

    async fn index(&self, name: &TableName) -> Result<Rows> {
        let keyspace = self.named(name.keyspace.as_ref().map(Name::as_str)).await?;
        let wanted = name.table.as_str();
        let found = index_elements(&keyspace, wanted);
        if found.is_empty() {
            return Err(Error::invalid(format!(
                "Table for existing index '{wanted}' not found in '{}'",
                keyspace.name
            )));
        }
        Ok(elements(found))
    }

    /// Describes a keyspace, or otherwise a type, table, view or index of the current keyspace.
    async fn any(&self, name: &TableName) -> Result<Rows> {
        let wanted = name.table.as_str();
        let keyspace = match &name.keyspace {
            Some(keyspace) => keyspace.as_str(),
            None => {
                if let Some(mut keyspace) =
                    system::keyspace(self.tx, wanted, self.data_center).await?
                {
                    sort(&mut keyspace.tables, |table| &table.name);
                    return Ok(elements(self.elements(&keyspace, false)));
                }
                self.current.unwrap_or(wanted)
            }
        };
        let keyspace = self.named(Some(keyspace)).await?;
        if let Some(found) = keyspace.types.iter().find(|found| found.name == wanted) {
            return Ok(elements(vec![type_element(found)]));
        }
        if let Some(table) = keyspace.tables.iter().find(|table| table.name == wanted) {
            let view = self.view_element(table).map(|view| vec![view]);
            return Ok(elements(view.unwrap_or_else(|| self.table_elements(&keyspace, table))));
        }
        let found = index_elements(&keyspace, wanted);
        if found.is_empty() {
            return Err(Error::invalid(format!(
                "'{wanted}' not found in keyspace '{}'",
                keyspace.name
            )));
        }
        Ok(elements(found))
    }

    /// Returns the error for an object of a kind that Carnet does not have.
    async fn missing(&self, name: &TableName, message: &str) -> Result<Rows> {
        let keyspace = self.named(name.keyspace.as_ref().map(Name::as_str)).await?;
        let message = message.replacen("{}", name.table.as_str(), 1);
        Err(Error::invalid(message.replacen("{}", &keyspace.name, 1)))
    }

    /// Returns the current keyspace, or all keyspaces.
    async fn listed_keyspaces(&self) -> Result<Vec<KeyspaceView>> {
        match self.current {
            Some(name) => Ok(vec![self.named(Some(name)).await?]),
            None => all(self.tx, self.data_center).await,
        }
    }

    /// Finds a keyspace by name, or the current one.
    async fn named(&self, name: Option<&str>) -> Result<KeyspaceView> {
        let name = name
            .or(self.current)
            .ok_or_else(|| Error::invalid("No keyspace specified and no current keyspace"))?;
        let mut keyspace = system::keyspace(self.tx, name, self.data_center)
            .await?
            .ok_or_else(|| Error::invalid(format!("'{name}' not found in keyspaces")))?;
        sort(&mut keyspace.tables, |table| &table.name);
        Ok(keyspace)
    }

    fn elements(&self, keyspace: &KeyspaceView, only: bool) -> Vec<[String; 4]> {
        let [name, kind, own_name] = keyspace_entry(keyspace);
        let own = [name, kind, own_name, create::keyspace(keyspace)];
        let types = by_dependency(&keyspace.types).into_iter();
        let types = types.filter(|_| !only).map(type_element);
        let is_shown = |table: &&TableView| !only && table.definition.is_none();
        let tables = keyspace.tables.iter().filter(is_shown);
        let tables = tables.flat_map(|table| self.table_elements(keyspace, table));
        std::iter::once(own).chain(types).chain(tables).collect()
    }

    /// Describes a table, its indexes and its views.
    fn table_elements(&self, all: &KeyspaceView, table: &TableView) -> Vec<[String; 4]> {
        let [keyspace, kind, name] = table_entry(table);
        let own = [keyspace, kind, name, create::table(table, self.internals)];
        let indexes = table.indexes.iter().map(|index| index_element(table, index));
        let views = all.tables.iter().filter(|view| view.is_view_of(&table.name));
        let views = views.filter_map(|view| self.view_element(view));
        std::iter::once(own).chain(indexes).chain(views).collect()
    }

    /// Describes a materialized view; `None` for a table.
    fn view_element(&self, table: &TableView) -> Option<[String; 4]> {
        let definition = table.definition.as_ref()?;
        let [keyspace, _, name] = table_entry(table);
        let text = create::view(table, definition, self.internals);
        Some([keyspace, "materialized_view".to_owned(), name, text])
    }
}

/// Lists all keyspaces and their tables in printing order.
async fn all(tx: &Tx, data_center: &str) -> Result<Vec<KeyspaceView>> {
    let mut keyspaces = system::all(tx, data_center).await?;
    sort(&mut keyspaces, |keyspace| &keyspace.name);
    for keyspace in &mut keyspaces {
        sort(&mut keyspace.tables, |table| &table.name);
    }
    Ok(keyspaces)
}

fn sort<T>(items: &mut [T], name: impl Fn(&T) -> &String) {
    items.sort_by_cached_key(|item| (name(item).to_lowercase(), name(item).clone()));
}

/// Orders types so that each follows the types that it uses, otherwise by name.
fn by_dependency(types: &[TypeView]) -> Vec<&TypeView> {
    let mut ordered: Vec<&TypeView> = Vec::with_capacity(types.len());
    let mut seen = HashSet::new();
    // A type stands on the stack until the types that it uses are ordered. No type contains itself.
    let mut stack: Vec<(&TypeView, bool)> = types.iter().rev().map(|it| (it, false)).collect();
    while let Some((user_type, is_ready)) = stack.pop() {
        if is_ready {
            ordered.push(user_type);
        } else if seen.insert(&user_type.name) {
            stack.push((user_type, true));
            let used = types.iter().rev().filter(|it| user_type.uses.contains(&it.name));
            stack.extend(used.map(|used| (used, false)));
        }
    }
    ordered
}

fn keyspace_entry(keyspace: &KeyspaceView) -> [String; 3] {
    let name = Name::new(&keyspace.name).to_string();
    [name.clone(), "keyspace".to_owned(), name]
}

fn type_entry(user_type: &TypeView) -> [String; 3] {
    let [keyspace, name] =
        [&user_type.keyspace, &user_type.name].map(|name| Name::new(name).to_string());
    [keyspace, "type".to_owned(), name]
}

fn type_element(user_type: &TypeView) -> [String; 4] {
    let [keyspace, kind, name] = type_entry(user_type);
    [keyspace, kind, name, create::user_type(user_type)]
}

fn table_entry(table: &TableView) -> [String; 3] {
    let [keyspace, name] = [&table.keyspace, &table.name].map(|name| Name::new(name).to_string());
    [keyspace, "table".to_owned(), name]
}

fn index_element(table: &TableView, index: &IndexView) -> [String; 4] {
    let [keyspace, name] = [&table.keyspace, &index.name].map(|name| Name::new(name).to_string());
    [keyspace, "index".to_owned(), name, create::index(table, index)]
}

/// Describes the index of this name, if the keyspace has one.
fn index_elements(keyspace: &KeyspaceView, name: &str) -> Vec<[String; 4]> {
    let indexes = |table: &'_ TableView| {
        let named = table.indexes.iter().filter(|index| index.name == name);
        named.map(|index| index_element(table, index)).collect::<Vec<_>>()
    };
    keyspace.tables.iter().flat_map(indexes).collect()
}

fn list(entries: Vec<[String; 3]>) -> Rows {
    Rows { columns: columns(&LIST).into(), rows: texts(entries).into(), paging_state: None }
}

fn elements(entries: Vec<[String; 4]>) -> Rows {
    Rows { columns: columns(&ELEMENT).into(), rows: texts(entries).into(), paging_state: None }
}

fn texts<const N: usize>(entries: Vec<[String; N]>) -> Vec<Vec<Cell>> {
    let row = |entry: [String; N]| entry.into_iter().map(|text| Some(Bytes::from(text))).collect();
    entries.into_iter().map(row).collect()
}

fn columns(names: &[&str]) -> Vec<ColumnSpec> {
    names.iter().map(|name| column(name, DataType::Text)).collect()
}

fn column(name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "system".to_owned(),
        table: "describe".to_owned(),
        name: name.to_owned(),
        data_type,
    }
}

fn cluster(node: &NodeInfo, peers: &[Peer], current: Option<&str>) -> Rows {
    let partitioner = PARTITIONER.rsplit('.').next().unwrap_or(PARTITIONER);
    let mut columns = columns(&["cluster", "partitioner", "snitch"]);
    let mut row: Vec<_> =
        [&node.cluster_name, partitioner, "SimpleSnitch"].into_iter().map(system::text).collect();
    if current.is_some_and(|keyspace| !is_system_keyspace(keyspace)) {
        let text = || DataType::Text;
        let owners = DataType::list(text());
        columns.push(column("range_ownership", DataType::map(text(), owners)));
        row.push(Some(ownership(node, peers)));
    }
    Rows { columns: columns.into(), rows: vec![row].into(), paging_state: None }
}

/// Maps the end of each token range to the nodes that own it: each range has one owner, the server
/// with that token.
fn ownership(node: &NodeInfo, peers: &[Peer]) -> Bytes {
    let own = SocketAddr::new(node.address, node.port);
    let others = peers.iter().map(|peer| (peer.address, peer.tokens()));
    let servers = [(own, node.tokens.clone())].into_iter().chain(others);
    let owners = servers.flat_map(|(address, tokens)| {
        let owners = system::texts([address.to_string().as_str()].into_iter()).unwrap_or_default();
        tokens.into_iter().map(move |token| (token, owners.clone()))
    });
    let owners: BTreeMap<String, Bytes> = owners.collect();
    let parts = owners.iter().flat_map(|(token, owners)| [token.as_bytes(), owners]);
    system::collection(owners.len(), parts)
}
