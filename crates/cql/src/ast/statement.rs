//! A whole statement.

use super::ddl::{AlterKeyspace, AlterTable, CreateKeyspace, CreateTable, DropKeyspace, DropTable};
use super::describe::Describe;
use super::level::LevelStatement;
use super::name::{Name, TableName};
use super::select::Select;
use super::transaction::Transaction;
use super::write::{Using, Write};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the most frequent one is; statements are not kept in lists"
)]
pub enum Statement {
    /// `SELECT`.
    Select(Select),
    /// `INSERT`, `UPDATE` or `DELETE`.
    Write(Write),
    /// `BEGIN BATCH … APPLY BATCH`.
    Batch(Batch),
    /// `BEGIN TRANSACTION … COMMIT TRANSACTION`.
    Transaction(Transaction),
    /// `USE keyspace`.
    Use(Name),
    /// `CREATE KEYSPACE`.
    CreateKeyspace(CreateKeyspace),
    /// `ALTER KEYSPACE`.
    AlterKeyspace(AlterKeyspace),
    /// `DROP KEYSPACE`.
    DropKeyspace(DropKeyspace),
    /// `CREATE TABLE`.
    CreateTable(CreateTable),
    /// `ALTER TABLE`.
    AlterTable(AlterTable),
    /// `DROP TABLE`.
    DropTable(DropTable),
    /// `TRUNCATE [TABLE] table`.
    Truncate(TableName),
    /// `DESCRIBE`.
    Describe(Describe),
    /// A statement about service levels.
    Level(LevelStatement),
    /// The statement `SHOW BOTTLENECK`.
    ShowBottleneck,
    /// A statement of CQL that is not built yet.
    Unsupported(Unsupported),
}

impl Statement {
    /// Returns the kind of the statement, in a word or two of CQL.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Select(_) => "SELECT",
            Self::Write(Write::Insert(_)) => "INSERT",
            Self::Write(Write::Update(_)) => "UPDATE",
            Self::Write(Write::Delete(_)) => "DELETE",
            Self::Batch(_) => "BATCH",
            Self::Transaction(_) => "TRANSACTION",
            Self::Use(_) => "USE",
            Self::CreateKeyspace(_) => "CREATE KEYSPACE",
            Self::AlterKeyspace(_) => "ALTER KEYSPACE",
            Self::DropKeyspace(_) => "DROP KEYSPACE",
            Self::CreateTable(_) => "CREATE TABLE",
            Self::AlterTable(_) => "ALTER TABLE",
            Self::DropTable(_) => "DROP TABLE",
            Self::Truncate(_) => "TRUNCATE",
            Self::Describe(_) => "DESCRIBE",
            Self::Level(level) => level.kind(),
            Self::ShowBottleneck => "SHOW BOTTLENECK",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

/// `BEGIN BATCH … APPLY BATCH`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Which kind.
    pub kind: BatchKind,
    /// `USING TIMESTAMP`.
    pub using: Using,
    /// Its statements, perhaps none.
    pub writes: Vec<Write>,
}

/// Which kind of batch. In Carnet every batch is one transaction, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// `BEGIN BATCH` or `BEGIN LOGGED BATCH`.
    Logged,
    /// `BEGIN UNLOGGED BATCH`.
    Unlogged,
    /// `BEGIN COUNTER BATCH`.
    Counter,
}

/// A statement that is recognised by its first words, and not read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is, as `CREATE INDEX`: the words for "not supported yet: …".
    pub what: String,
    /// Its whole text.
    pub text: String,
}
