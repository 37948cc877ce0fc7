//! Statements about keyspaces and tables.

use super::name::{Name, TableName};
use super::select::Ordering;
use super::term::Literal;
use super::types::TypeName;

/// `WITH option = value AND …`, in the order given, each name once.
pub type Options = Vec<(Name, OptionValue)>;

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A constant; a bare word is a string.
    Literal(Literal),
    /// `{key: value, …}`, of constants.
    Map(Vec<(Literal, Literal)>),
}

/// A `CREATE KEYSPACE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the keyspace.
    pub name: Name,
    /// Options of the keyspace.
    pub options: Options,
}

/// An `ALTER KEYSPACE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the keyspace.
    pub name: Name,
    /// New options of the keyspace.
    pub options: Options,
}

/// A `DROP KEYSPACE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropKeyspace {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the keyspace.
    pub name: Name,
}

/// A `CREATE TABLE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the table.
    pub table: TableName,
    /// Columns, in the order of the text.
    pub columns: Vec<ColumnDefinition>,
    /// Primary key, from a column or from a clause of its own.
    pub key: PrimaryKey,
    /// Whether it has `COMPACT STORAGE`.
    pub is_compact: bool,
    /// Columns of `CLUSTERING ORDER BY`.
    pub clustering_order: Vec<Ordering>,
    /// Other options of the table.
    pub options: Options,
}

/// A `CREATE TABLE … LIKE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTable {
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the new table.
    pub table: TableName,
    /// Name of the table whose columns and options it gets.
    pub like: TableName,
    /// Options that replace those of the other table.
    pub options: Options,
}

/// A column with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Name of the column.
    pub name: Name,
    /// Type of the column.
    pub type_name: TypeName,
    /// Whether it has `STATIC`.
    pub is_static: bool,
}

/// `PRIMARY KEY ((partition, …), clustering, …)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// Columns of the partition key, at least one.
    pub partition: Vec<Name>,
    /// Columns of the clustering key, possibly none.
    pub clustering: Vec<Name>,
}

/// A `CREATE TYPE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateType {
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the type.
    pub name: TableName,
    /// Fields, at least one.
    pub fields: Vec<(Name, TypeName)>,
}

/// An `ALTER TYPE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the type.
    pub name: TableName,
    /// Change to the type.
    pub change: TypeChange,
}

/// Change by an `ALTER TYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeChange {
    /// `ADD` of a field.
    Add {
        /// Whether it has `IF NOT EXISTS`.
        if_not_exists: bool,
        /// Name of the field.
        name: Name,
        /// Type of the field.
        type_name: TypeName,
    },
    /// `RENAME old TO new AND …`.
    Rename {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Pairs of old and new names, at least one.
        fields: Vec<(Name, Name)>,
    },
}

/// A `DROP TYPE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropType {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the type.
    pub name: TableName,
}

/// An `ALTER TABLE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the table.
    pub table: TableName,
    /// Change to the table.
    pub change: TableChange,
}

/// Change by an `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD` of columns.
    Add {
        /// Whether it has `IF NOT EXISTS`.
        if_not_exists: bool,
        /// New columns, at least one.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP` of columns.
    Drop {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Dropped columns, at least one.
        columns: Vec<Name>,
        /// `USING TIMESTAMP`, an integer.
        timestamp: Option<Literal>,
    },
    /// `RENAME old TO new AND …`.
    Rename {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Pairs of old and new names, at least one.
        columns: Vec<(Name, Name)>,
    },
    /// `DROP COMPACT STORAGE`.
    DropCompactStorage,
    /// `ALTER column TYPE type`.
    Type(Name, TypeName),
    /// `WITH` and its options.
    Options(Options),
}

/// A `DROP TABLE` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the table.
    pub table: TableName,
}
