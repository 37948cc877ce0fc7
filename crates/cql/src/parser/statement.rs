//! Parser of a complete statement.

use super::{Parse, Parser};
use crate::ast::{Attribute, Statement};
use crate::error::Failure;
use crate::lexer::TokenKind;

/// First words of the statements.
const STATEMENTS: &str = "SELECT, INSERT, UPDATE, DELETE, BEGIN, START, COMMIT, ROLLBACK, CREATE, ALTER, DROP, \
                          TRUNCATE, USE, DESCRIBE, GRANT, REVOKE, LIST, ADD, ATTACH, DETACH, EXPLAIN, SHOW, KILL";

/// Words behind a first word that decide which statement it is.
const OBJECTS: [(&str, &str); 8] = [
    (
        "CREATE",
        "KEYSPACE, TABLE, TYPE, INDEX, CUSTOM INDEX, MATERIALIZED VIEW, ROLE, USER or SERVICE LEVEL",
    ),
    ("ALTER", "KEYSPACE, TABLE, TYPE, MATERIALIZED VIEW, ROLE, USER or SERVICE LEVEL"),
    (
        "DROP",
        "KEYSPACE, TABLE, TYPE, INDEX, MATERIALIZED VIEW, ROLE, USER, IDENTITY or SERVICE LEVEL",
    ),
    ("START", "TRANSACTION or DETACHED TRANSACTION"),
    ("ADD", "IDENTITY"),
    ("ATTACH", "SERVICE LEVEL"),
    ("DETACH", "SERVICE LEVEL"),
    ("KILL", "STATEMENT or TRANSACTION"),
];

impl Parser<'_> {
    /// Parses the only statement of the text.
    pub(super) fn whole_statement(&mut self) -> Parse<Statement> {
        if self.peek().kind == TokenKind::End {
            return Err(self.unread_or(Failure::syntax(self.at(), "there is no statement")));
        }
        let statement = self.statement()?;
        let is_closed = self.eat_symbol(";");
        while self.eat_symbol(";") {}
        if self.peek().kind == TokenKind::End && self.unread.is_none() {
            return Ok(statement);
        }
        if is_closed && self.peek().kind != TokenKind::End {
            let message = "a second statement begins here; send one at a time, \
                           or several in BEGIN TRANSACTION … COMMIT TRANSACTION";
            return Err(Failure::syntax(self.at(), message));
        }
        Err(self.expected("the end of the statement"))
    }

    pub(super) fn statement(&mut self) -> Parse<Statement> {
        if let Some(statement) = self.eat_open_statement()? {
            return Ok(Statement::Open(statement));
        }
        if self.is_word("SELECT") {
            return self.select().map(Statement::Select);
        }
        if self.is_write() {
            return self.write().map(Statement::Write);
        }
        if self.is_words(&["BEGIN", "TRANSACTION"]) {
            return self.transaction().map(Statement::Transaction);
        }
        if self.is_word("BEGIN") {
            return self.batch().map(Statement::Batch);
        }
        if self.eat_word("USE") {
            return self.name("a keyspace").map(Statement::Use);
        }
        if self.eat_word("TRUNCATE") {
            if !self.eat_word("TABLE") {
                self.eat_word("COLUMNFAMILY");
            }
            let table = self.table_name("a table")?;
            return Ok(Statement::Truncate(table, self.using_of(&[Attribute::Timeout])?));
        }
        if self.eat_word("DESCRIBE") || self.eat_word("DESC") {
            return self.describe().map(Statement::Describe);
        }
        if self.eat_word("SHOW") {
            return self.show();
        }
        if self.eat_word("EXPLAIN") {
            return self.explained();
        }
        if self.eat_words(&["KILL", "STATEMENT"]) {
            return self.statement_id().map(Statement::KillStatement);
        }
        if let Some(statement) = self.definition()? {
            return Ok(statement);
        }
        if let Some(statement) = self.eat_index_statement()? {
            return Ok(statement);
        }
        if let Some(statement) = self.eat_view_statement()? {
            return Ok(statement);
        }
        if let Some(statement) = self.eat_level_statement()? {
            return Ok(Statement::Level(statement));
        }
        if let Some(statement) = self.eat_role_statement()? {
            return Ok(Statement::Role(statement));
        }
        match self.eat_unsupported()? {
            Some(statement) => Ok(statement),
            None => Err(self.no_statement()),
        }
    }

    /// Parses `CREATE`, `ALTER` or `DROP` of a keyspace, a table or a type, if it is next.
    fn definition(&mut self) -> Parse<Option<Statement>> {
        let is_table = self.is_word_at(1, "TABLE") || self.is_word_at(1, "COLUMNFAMILY");
        let is_keyspace = self.is_word_at(1, "KEYSPACE") || self.is_word_at(1, "SCHEMA");
        if !is_table && !is_keyspace && !self.is_word_at(1, "TYPE") {
            return Ok(None);
        }
        let verb = self.text_of(self.peek()).to_ascii_uppercase();
        let read = match (verb.as_str(), is_table, is_keyspace) {
            ("CREATE", true, _) => Self::create_table,
            ("CREATE", _, true) => Self::create_keyspace,
            ("CREATE", ..) => Self::create_type,
            ("ALTER", true, _) => Self::alter_table,
            ("ALTER", _, true) => Self::alter_keyspace,
            ("ALTER", ..) => Self::alter_type,
            ("DROP", true, _) => Self::drop_table,
            ("DROP", _, true) => Self::drop_keyspace,
            ("DROP", ..) => Self::drop_type,
            _ => return Ok(None),
        };
        self.next += 2;
        read(self).map(Some)
    }

    fn no_statement(&self) -> Failure {
        if let Some((verb, objects)) = OBJECTS.into_iter().find(|(verb, _)| self.is_word(verb)) {
            let after = self.peek_at(1);
            let found = match after.kind {
                TokenKind::End => "the end of the statement",
                _ => self.text_of(after),
            };
            let found = crate::lexer::shorten(found);
            let message = format!("expected {objects} behind {verb}, found {found}");
            return self.unread_or(Failure::syntax(after.start, message));
        }
        self.expected(&format!("a statement ({STATEMENTS})"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, parse};
    use super::*;

    /// A statement of each form that the grammar takes.
    const SAMPLES: [&str; 51] = [
        "SELECT a FROM t",
        "SELECT outcome(1)",
        "INSERT INTO t (a) VALUES (1)",
        "UPDATE t SET a = 1 WHERE b = 1",
        "DELETE FROM t WHERE a = 1",
        "BEGIN BATCH APPLY BATCH",
        "BEGIN TRANSACTION SELECT a FROM t; COMMIT TRANSACTION",
        "START TRANSACTION",
        "START DETACHED TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE TABLE t LIKE u",
        "CREATE TYPE t (a int)",
        "CREATE INDEX ON t (a)",
        "CREATE CUSTOM INDEX ON t (a) USING 'sai'",
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a IS NOT NULL PRIMARY KEY (a)",
        "CREATE ROLE r",
        "CREATE USER u",
        "CREATE SERVICE LEVEL l",
        "ALTER KEYSPACE k WITH durable_writes = true",
        "ALTER TABLE t ADD a int",
        "ALTER TYPE t ADD a int",
        "ALTER MATERIALIZED VIEW v WITH comment = ''",
        "ALTER ROLE r WITH LOGIN = true",
        "ALTER USER u SUPERUSER",
        "ALTER SERVICE LEVEL l WITH shares = 1",
        "DROP KEYSPACE k",
        "DROP TABLE t",
        "DROP TYPE t",
        "DROP INDEX i",
        "DROP MATERIALIZED VIEW v",
        "DROP ROLE r",
        "DROP USER u",
        "DROP IDENTITY 'i'",
        "DROP SERVICE LEVEL l",
        "TRUNCATE t",
        "USE k",
        "DESCRIBE TABLES",
        "GRANT SELECT ON t TO r",
        "REVOKE SELECT ON t FROM r",
        "LIST ROLES",
        "LIST ALL SERVICE LEVELS",
        "ADD IDENTITY 'i' TO ROLE r",
        "ATTACH SERVICE LEVEL l TO u",
        "DETACH SERVICE LEVEL FROM u",
        "EXPLAIN SELECT a FROM t",
        "SHOW BOTTLENECK",
        "KILL STATEMENT 1",
        "KILL TRANSACTION 1",
    ];

    #[test]
    fn errors_name_each_statement() {
        let verbs: Vec<&str> = STATEMENTS.split(", ").collect();
        let verb = |sample: &str| sample.split(' ').next().unwrap().to_owned();
        for sample in SAMPLES {
            parse(sample, &Limits::default()).unwrap_or_else(|error| panic!("{sample}: {error}"));
            let verb = verb(sample);
            assert!(verbs.contains(&&*verb), "{sample}");
            let Some((_, objects)) = OBJECTS.iter().find(|(known, _)| *known == verb) else {
                continue;
            };
            let mut known = objects.split(", ").flat_map(|part| part.split(" or "));
            assert!(
                known.any(|object| sample.starts_with(&format!("{verb} {object}"))),
                "{sample}"
            );
        }
        for named in verbs {
            assert!(SAMPLES.iter().any(|sample| verb(sample) == named), "{named}");
        }
        for (verb, objects) in OBJECTS {
            for object in objects.split(", ").flat_map(|part| part.split(" or ")) {
                let begin = format!("{verb} {object}");
                assert!(SAMPLES.iter().any(|sample| sample.starts_with(&begin)), "{begin}");
            }
        }
    }
}
