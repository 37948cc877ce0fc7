//! A complete statement.

use super::ddl::{
    AlterKeyspace, AlterTable, AlterType, CopyTable, CreateKeyspace, CreateTable, CreateType,
    DropKeyspace, DropTable, DropType,
};
use super::describe::Describe;
use super::index::{CreateIndex, DropIndex};
use super::level::LevelStatement;
use super::name::{Name, TableName};
use super::open::OpenStatement;
use super::role::RoleStatement;
use super::select::Select;
use super::term::Term;
use super::transaction::Transaction;
use super::view::{AlterView, CreateView, DropView};
use super::write::{Using, Write};

/// Statement of a client.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the most frequent one is; statements are not kept in lists"
)]
pub enum Statement {
    /// A `SELECT` statement.
    Select(Select),
    /// `INSERT`, `UPDATE` or `DELETE`.
    Write(Write),
    /// `BEGIN BATCH … APPLY BATCH`.
    Batch(Batch),
    /// `BEGIN TRANSACTION … COMMIT TRANSACTION`.
    Transaction(Transaction),
    /// A statement about transactions that stay open.
    Open(OpenStatement),
    /// A `USE keyspace` statement.
    Use(Name),
    /// A `CREATE KEYSPACE` statement.
    CreateKeyspace(CreateKeyspace),
    /// An `ALTER KEYSPACE` statement.
    AlterKeyspace(AlterKeyspace),
    /// A `DROP KEYSPACE` statement.
    DropKeyspace(DropKeyspace),
    /// A `CREATE TABLE` statement.
    CreateTable(CreateTable),
    /// `CREATE TABLE … LIKE`.
    CopyTable(CopyTable),
    /// An `ALTER TABLE` statement.
    AlterTable(AlterTable),
    /// A `DROP TABLE` statement.
    DropTable(DropTable),
    /// A `CREATE TYPE` statement.
    CreateType(CreateType),
    /// An `ALTER TYPE` statement.
    AlterType(AlterType),
    /// A `DROP TYPE` statement.
    DropType(DropType),
    /// A `CREATE INDEX` statement.
    CreateIndex(CreateIndex),
    /// A `DROP INDEX` statement.
    DropIndex(DropIndex),
    /// A `CREATE MATERIALIZED VIEW` statement.
    CreateView(CreateView),
    /// An `ALTER MATERIALIZED VIEW` statement.
    AlterView(AlterView),
    /// A `DROP MATERIALIZED VIEW` statement.
    DropView(DropView),
    /// `TRUNCATE [TABLE] table [USING TIMEOUT …]`.
    Truncate(TableName, Using),
    /// A `DESCRIBE` statement.
    Describe(Describe),
    /// A statement about service levels.
    Level(LevelStatement),
    /// A statement about roles and permissions.
    Role(RoleStatement),
    /// The statement `SHOW BOTTLENECK`.
    ShowBottleneck,
    /// `KILL STATEMENT id`: a literal or a marker.
    KillStatement(Term),
    /// `EXPLAIN` with the explained statement.
    Explain(Box<Self>),
    /// A CQL statement that is not supported yet.
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
            Self::Open(open) => open.kind(),
            Self::Use(_) => "USE",
            Self::CreateKeyspace(_) => "CREATE KEYSPACE",
            Self::AlterKeyspace(_) => "ALTER KEYSPACE",
            Self::DropKeyspace(_) => "DROP KEYSPACE",
            Self::CreateTable(_) | Self::CopyTable(_) => "CREATE TABLE",
            Self::AlterTable(_) => "ALTER TABLE",
            Self::DropTable(_) => "DROP TABLE",
            Self::CreateType(_) => "CREATE TYPE",
            Self::AlterType(_) => "ALTER TYPE",
            Self::DropType(_) => "DROP TYPE",
            Self::CreateIndex(_) => "CREATE INDEX",
            Self::DropIndex(_) => "DROP INDEX",
            Self::CreateView(_) => "CREATE MATERIALIZED VIEW",
            Self::AlterView(_) => "ALTER MATERIALIZED VIEW",
            Self::DropView(_) => "DROP MATERIALIZED VIEW",
            Self::Truncate(..) => "TRUNCATE",
            Self::Describe(_) => "DESCRIBE",
            Self::Level(level) => level.kind(),
            Self::Role(role) => role.kind(),
            Self::ShowBottleneck => "SHOW BOTTLENECK",
            Self::KillStatement(_) => "KILL STATEMENT",
            Self::Explain(_) => "EXPLAIN",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

impl Statement {
    /// Returns the clauses after `USING`, of a statement that may have some.
    #[must_use]
    pub const fn using(&self) -> Option<&Using> {
        match self {
            Self::Select(select) => Some(&select.using),
            Self::Write(write) => Some(write.using()),
            Self::Batch(batch) => Some(&batch.using),
            Self::Truncate(_, using) => Some(using),
            _ => None,
        }
    }

    /// Returns the name after `USING SERVICE LEVEL`.
    #[must_use]
    pub fn level(&self) -> Option<&str> {
        self.using()?.level()
    }

    /// Returns the statement that is planned: the explained one of an `EXPLAIN`.
    #[must_use]
    pub const fn planned(&self) -> &Self {
        match self {
            Self::Explain(statement) => statement,
            statement => statement,
        }
    }
}

/// A `BEGIN BATCH … APPLY BATCH` statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Attributes after `USING`, such as `TIMESTAMP`.
    pub using: Using,
    /// Statements of the batch, possibly none.
    pub writes: Vec<Write>,
}

/// Kind of a batch. In Carnet every batch is one transaction, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// `BEGIN BATCH` or `BEGIN LOGGED BATCH`.
    Logged,
    /// `BEGIN UNLOGGED BATCH`.
    Unlogged,
    /// `BEGIN COUNTER BATCH`.
    Counter,
}

/// A statement that is recognized by its first words, and not parsed further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Name of the statement, such as `CREATE TRIGGER`, for "not supported yet: …".
    pub what: String,
    /// Text of the whole statement.
    pub text: String,
    /// Whether it has no effect: it drops an object of a kind that Carnet does not have, if it exists.
    pub has_no_effect: bool,
}
