//! Parser of statements about what a server does.
//!
//! ```text
//! SHOW BOTTLENECK | SHOW STATEMENTS | SHOW TRANSACTIONS | SHOW STATISTICS | SHOW CONFLICTS
//! SHOW WAITS
//! KILL STATEMENT id
//! EXPLAIN statement      SELECT, INSERT, UPDATE, DELETE, BEGIN BATCH or BEGIN TRANSACTION
//! ```

use super::{Limits, Parse, Parser};
use crate::ast::{Literal, Statement, Term};
use crate::lexer::TokenKind;

/// Queries for which `SHOW` and a word are short.
const SHOWN: [(&str, &str); 5] = [
    (
        "STATEMENTS",
        "SELECT id, age_seconds, state, user_name, client, level, waits_for, rows_read, bytes_read, \
         table_name, statement FROM system_views.queries",
    ),
    (
        "TRANSACTIONS",
        "SELECT number, id, age_seconds, idle_seconds, client, isolation, statement \
         FROM system_views.transactions",
    ),
    (
        "STATISTICS",
        "SELECT rank, count, total_seconds, p50_micros, p95_micros, p99_micros, errors, conflicts, \
         rows_read, rows_returned, table_name, statement FROM system_views.statement_statistics",
    ),
    (
        "CONFLICTS",
        "SELECT number, at, table_name, key, attempts, outcome, user_name, client, statement \
         FROM system_views.conflicts",
    ),
    (
        "WAITS",
        "SELECT queue, place, state, table_name, key, age_seconds, user_name, client, query_id, statement \
         FROM system_views.row_waits",
    ),
];

impl Parser<'_> {
    /// Parses the rest of `SHOW`.
    pub(super) fn show(&mut self) -> Parse<Statement> {
        if self.eat_word("BOTTLENECK") {
            return Ok(Statement::ShowBottleneck);
        }
        for (word, query) in SHOWN {
            if self.eat_word(word) {
                return Parser::new(query, &Limits::default())?.whole_statement();
            }
        }
        Err(self.expected("BOTTLENECK, STATEMENTS, STATISTICS, TRANSACTIONS, CONFLICTS or WAITS"))
    }

    /// Parses the statement after `EXPLAIN`. Its first word decides, so that nothing is nested.
    pub(super) fn explained(&mut self) -> Parse<Statement> {
        let words = ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN"];
        let is_outcome = self.is_words(&["SELECT", "OUTCOME"]) && self.is_symbol_at(2, "(");
        if is_outcome || !words.iter().any(|word| self.is_word(word)) {
            return Err(
                self.expected("SELECT, INSERT, UPDATE, DELETE, BEGIN BATCH or BEGIN TRANSACTION")
            );
        }
        self.statement().map(|statement| Statement::Explain(Box::new(statement)))
    }

    /// Parses the id of a running statement.
    pub(super) fn statement_id(&mut self) -> Parse<Term> {
        let token = self.peek();
        if matches!(token.kind, TokenKind::Symbol("?" | ":")) {
            return self.marker().map(Term::Marker);
        }
        match self.constant(token)? {
            Some(id @ Literal::Integer(_)) => {
                self.advance();
                Ok(Term::Literal(id))
            }
            _ => Err(self.expected("the id of a statement, a number, or a bind marker")),
        }
    }
}
