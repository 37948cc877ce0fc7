//! Keyspaces and tables.

use super::name::{Name, TableName};
use super::select::Ordering;
use super::term::Literal;
use super::types::TypeName;

/// `WITH option = value AND …`, in the order given, each name once.
pub type Options = Vec<(Name, OptionValue)>;

/// An option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A constant; a bare word is a string.
    Literal(Literal),
    /// `{key: value, …}`, of constants.
    Map(Vec<(Literal, Literal)>),
}

/// `CREATE KEYSPACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its name.
    pub name: Name,
    /// Its options.
    pub options: Options,
}

/// `ALTER KEYSPACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Its name.
    pub name: Name,
    /// Its new options.
    pub options: Options,
}

/// `DROP KEYSPACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropKeyspace {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Its name.
    pub name: Name,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Its name.
    pub table: TableName,
    /// Its columns, in the order given.
    pub columns: Vec<ColumnDefinition>,
    /// Its key, wherever that was written.
    pub key: PrimaryKey,
    /// `CLUSTERING ORDER BY`.
    pub clustering_order: Vec<Ordering>,
    /// Its other options.
    pub options: Options,
}

/// A column with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub type_name: TypeName,
    /// `STATIC`.
    pub is_static: bool,
}

/// `PRIMARY KEY ((partition, …), clustering, …)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// At least one column.
    pub partition: Vec<Name>,
    /// Perhaps none.
    pub clustering: Vec<Name>,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Its name.
    pub table: TableName,
    /// What changes.
    pub change: TableChange,
}

/// What `ALTER TABLE` changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD`.
    Add {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// At least one.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP`.
    Drop {
        /// `IF EXISTS`.
        if_exists: bool,
        /// At least one.
        columns: Vec<Name>,
        /// `USING TIMESTAMP`, an integer.
        timestamp: Option<Literal>,
    },
    /// `RENAME old TO new AND …`.
    Rename {
        /// `IF EXISTS`.
        if_exists: bool,
        /// At least one pair of old and new.
        columns: Vec<(Name, Name)>,
    },
    /// `ALTER column TYPE type`.
    Type(Name, TypeName),
    /// `WITH`.
    Options(Options),
}

/// `DROP TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Its name.
    pub table: TableName,
}
