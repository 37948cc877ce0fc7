//! Parser of a complete statement.

use super::{Parse, Parser};
use crate::ast::{Attribute, Statement};
use crate::error::Failure;
use crate::lexer::TokenKind;

/// First words of the statements that are listed for a text that begins with none of them.
#[rustfmt::skip]
const STATEMENTS: [&str; 22] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "START", "COMMIT", "ROLLBACK", "CREATE", "ALTER",
    "DROP", "TRUNCATE", "USE", "DESCRIBE", "EXPLAIN", "GRANT", "REVOKE", "LIST", "ATTACH", "DETACH",
    "SHOW", "KILL",
];

/// Words that may follow the first one, where only these may.
#[rustfmt::skip]
const OBJECTS: [(&str, &[&str]); 7] = [
    ("START", &["TRANSACTION", "DETACHED TRANSACTION"]),
    ("ATTACH", &["SERVICE LEVEL"]),
    ("DETACH", &["SERVICE LEVEL"]),
    ("KILL", &["STATEMENT", "TRANSACTION"]),
    (
        "CREATE",
        &[
            "KEYSPACE", "TABLE", "TYPE", "INDEX", "MATERIALIZED VIEW", "ROLE", "USER", "SERVICE LEVEL",
        ],
    ),
    ("ALTER", &["KEYSPACE", "TABLE", "TYPE", "MATERIALIZED VIEW", "ROLE", "USER", "SERVICE LEVEL"]),
    (
        "DROP",
        &[
            "KEYSPACE", "TABLE", "TYPE", "INDEX", "MATERIALIZED VIEW", "ROLE", "USER", "SERVICE LEVEL",
            "IDENTITY",
        ],
    ),
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

    /// Returns the error of a text that begins like no statement.
    fn no_statement(&self) -> Failure {
        if let Some((verb, objects)) = OBJECTS.into_iter().find(|(verb, _)| self.is_word(verb)) {
            let after = self.peek_at(1);
            let found = match after.kind {
                TokenKind::End => "the end of the statement",
                _ => self.text_of(after),
            };
            let found = crate::lexer::shorten(found);
            let objects = one_of(objects);
            let message = format!("expected {objects} behind {verb}, found {found}");
            return self.unread_or(Failure::syntax(after.start, message));
        }
        self.expected(&format!("a statement ({})", STATEMENTS.join(", ")))
    }
}

/// Lists words as alternatives.
fn one_of(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        words => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Limits, parse};

    /// Returns the message for a text that a mistake follows.
    fn mistake(text: &str) -> String {
        parse(&format!("{text} ]"), &Limits::default()).expect_err(text).message().to_owned()
    }

    #[test]
    fn listed_statements_and_objects_are_known() {
        for word in super::STATEMENTS {
            let message = mistake(word);
            assert!(!message.starts_with("expected a statement"), "{word}: {message}");
        }
        for (verb, objects) in super::OBJECTS {
            assert!(mistake(verb).ends_with(&format!(" behind {verb}, found ]")), "{verb}");
            for object in objects {
                let message = mistake(&format!("{verb} {object}"));
                assert!(!message.contains(" behind "), "{verb} {object}: {message}");
            }
        }
    }
}
