//! What an audit log is told about statements.
//!
//! A statement is told once, after its end, by the server that its client is connected to. Its text is
//! made from the syntax tree: names are whole, passwords are `'***'`, and values of markers are not
//! part of it. A text that cannot be parsed has no effect and is not told; neither is `PREPARE`.

use std::sync::Arc;

use crate::ast::{
    Batch, Name, OpenStatement, ResourceName, RoleStatement, Statement, TableName, Write,
};

/// Category of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditCategory {
    /// Log-ins, refused ones included.
    Login,
    /// Changes of the schema, and `TRUNCATE`.
    Ddl,
    /// Statements about roles, permissions and identities.
    Dcl,
    /// Changes of rows, and the ends of open transactions.
    Dml,
    /// Reads of rows and of the schema.
    Query,
    /// Statements about service levels, other clients' transactions and the diagnosis.
    Admin,
}

impl AuditCategory {
    /// All categories, in the order of their values.
    pub const ALL: [Self; 6] =
        [Self::Login, Self::Ddl, Self::Dcl, Self::Dml, Self::Query, Self::Admin];

    /// Returns the name of the category.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Ddl => "ddl",
            Self::Dcl => "dcl",
            Self::Dml => "dml",
            Self::Query => "query",
            Self::Admin => "admin",
        }
    }

    /// Returns the category of a statement.
    #[must_use]
    pub fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Select(_)
            | Statement::Use(_)
            | Statement::Describe(_)
            | Statement::Explain(_) => Self::Query,
            Statement::Transaction(transaction) if transaction.writes().next().is_none() => {
                Self::Query
            }
            Statement::Write(_) | Statement::Batch(_) | Statement::Transaction(_) => Self::Dml,
            Statement::Open(OpenStatement::Kill(_))
            | Statement::Level(_)
            | Statement::KillStatement(_)
            | Statement::ShowBottleneck => Self::Admin,
            Statement::Open(_) => Self::Dml,
            Statement::Role(_) => Self::Dcl,
            // The others change the schema.
            _ => Self::Ddl,
        }
    }
}

/// An entry of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Category of the statement, or of a log-in.
    pub category: AuditCategory,
    /// Kind of the statement, such as `CREATE TABLE`, or `LOGIN`.
    pub operation: &'static str,
    /// User or role; `None` without a log-in.
    pub user: Option<Arc<str>>,
    /// Address and port of the client.
    pub client: String,
    /// Keyspaces that the statement names, or is in by the connection's keyspace, sorted.
    pub keyspaces: Vec<String>,
    /// Text of the statement without passwords, cut at a maximum length.
    pub statement: String,
    /// Why it failed; `None` if it succeeded.
    pub error: Option<String>,
}

/// A log that is told statements and log-ins. It must not block its callers.
pub trait AuditLog: Send + Sync {
    /// Returns `true` if entries of a category about a user are wanted, so that others are not made.
    fn wants(&self, category: AuditCategory, user: Option<&str>) -> bool;

    /// Writes an entry that is wanted, unless its keyspaces are not.
    fn write(&self, entry: AuditEntry);
}

/// Returns the keyspaces that a statement concerns, sorted.
pub(crate) fn keyspaces(statement: &Statement, current: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut of = |table: &TableName| {
        let keyspace = table.keyspace.as_ref().map(Name::as_str).or(current);
        found.extend(keyspace.map(str::to_owned));
    };
    match statement.planned() {
        Statement::Select(select) => of(&select.from),
        Statement::Write(write) => of(write.table()),
        Statement::Batch(Batch { writes, .. }) => writes.iter().map(Write::table).for_each(of),
        Statement::Transaction(transaction) => {
            transaction.selects().map(|select| &select.from).for_each(&mut of);
            transaction.writes().map(Write::table).for_each(of);
        }
        Statement::CreateTable(create) => of(&create.table),
        Statement::CopyTable(copy) => {
            of(&copy.table);
            of(&copy.like);
        }
        Statement::AlterTable(alter) => of(&alter.table),
        Statement::DropTable(drop) => of(&drop.table),
        Statement::CreateType(create) => of(&create.name),
        Statement::AlterType(alter) => of(&alter.name),
        Statement::DropType(drop) => of(&drop.name),
        Statement::CreateIndex(create) => of(&create.table),
        Statement::DropIndex(drop) => of(&drop.name),
        Statement::CreateView(create) => of(&create.name),
        Statement::AlterView(alter) => of(&alter.name),
        Statement::DropView(drop) => of(&drop.name),
        Statement::Truncate(table, _) => of(table),
        Statement::Use(name) => found.push(name.text.clone()),
        Statement::CreateKeyspace(create) => found.push(create.name.text.clone()),
        Statement::AlterKeyspace(alter) => found.push(alter.name.text.clone()),
        Statement::DropKeyspace(drop) => found.push(drop.name.text.clone()),
        Statement::Role(role) => match granted_on(role) {
            Some(ResourceName::Keyspace(name) | ResourceName::Tables(name)) => {
                found.push(name.text.clone());
            }
            Some(ResourceName::Table(table)) => of(table),
            _ => {}
        },
        Statement::Describe(_)
        | Statement::Open(_)
        | Statement::Level(_)
        | Statement::ShowBottleneck
        | Statement::KillStatement(_)
        | Statement::Explain(_)
        | Statement::Unsupported(_) => {}
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the resource of a statement about permissions.
const fn granted_on(statement: &RoleStatement) -> Option<&ResourceName> {
    match statement {
        RoleStatement::Grant { on, .. } | RoleStatement::Revoke { on, .. } => Some(on),
        RoleStatement::ListPermissions { on, .. } => on.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Limits, parse};

    fn about(text: &str) -> (&'static str, String) {
        let statement = parse(text, &Limits::default()).unwrap().statement;
        let keyspaces = keyspaces(&statement, Some("ks")).join(" ");
        (AuditCategory::of(&statement).name(), keyspaces)
    }

    #[test]
    fn statements_have_a_category_and_keyspaces() {
        let cases = [
            ("SELECT v FROM t", "query", "ks"),
            ("DESCRIBE TABLES", "query", ""),
            ("USE other", "query", "other"),
            ("INSERT INTO o.t (k) VALUES (1)", "dml", "o"),
            (
                "BEGIN BATCH DELETE FROM t WHERE k = 1; DELETE FROM o.t WHERE k = 1; APPLY BATCH",
                "dml",
                "ks o",
            ),
            ("BEGIN TRANSACTION SELECT v FROM o.t WHERE k = 1; COMMIT TRANSACTION", "query", "o"),
            ("COMMIT", "dml", ""),
            ("KILL TRANSACTION 00000000-0000-0000-0000-000000000000", "admin", ""),
            ("KILL STATEMENT 7", "admin", ""),
            ("EXPLAIN DELETE FROM t WHERE k = 1", "query", "ks"),
            ("CREATE SERVICE LEVEL gold", "admin", ""),
            ("CREATE KEYSPACE n WITH replication = {'class': 'SimpleStrategy'}", "ddl", "n"),
            ("CREATE TABLE n LIKE o.t", "ddl", "ks o"),
            ("TRUNCATE t", "ddl", "ks"),
            ("DROP INDEX o.i", "ddl", "o"),
            ("CREATE ROLE ann", "dcl", ""),
            ("GRANT SELECT ON o.t TO ann", "dcl", "o"),
            ("GRANT SELECT ON KEYSPACE o TO ann", "dcl", "o"),
            ("LIST ALL PERMISSIONS", "dcl", ""),
        ];
        for (text, category, keyspaces) in cases {
            assert_eq!(about(text), (category, keyspaces.to_owned()), "{text}");
        }
    }
}
