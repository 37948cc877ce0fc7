//! What a statement runs by: its permit and its deadline.
//!
//! A server admits statements before it runs them (see [`carnet::admission`]). What a statement is
//! like is known before it is parsed, from its first words, or from when it was prepared.

use std::sync::Arc;
use std::time::Duration;

use carnet::TransactionOptions;
use carnet::admission::{Class, Permit};
use carnet::base::{Moment, YieldNow};

use super::answer_memory::AnswerMemory;
use super::{Executor, Prepared};
use crate::ast::{Name, Select, Selection, Statement, Term};
use crate::compile::is_aggregate;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::system::is_system_keyspace;

/// The admission of a statement.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// When it arrived: its timeout begins then. `None` for a statement without timeout.
    pub arrived: Option<Moment>,
    /// What it runs by.
    pub permit: Option<Arc<Permit>>,
    /// The memory that its answer may take.
    pub memory: Option<Arc<AnswerMemory>>,
    /// How it yields to others at the end of its time slices.
    pub yield_now: Option<YieldNow>,
}

impl Grant {
    /// Hands what a transaction needs of it to the transaction's settings.
    pub(super) fn apply<'d>(
        &self,
        options: TransactionOptions<'d>,
        deadline: Option<Moment>,
    ) -> TransactionOptions<'d> {
        options.deadline(deadline).permit(self.permit.clone()).yield_now(self.yield_now)
    }
}

/// How long statements may take from their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of statements that name what they read and write.
    pub statement: Duration,
    /// Of statements that read a table as a whole, that filter, and that aggregate.
    pub scan: Duration,
}

impl Executor {
    /// Returns when a statement has to be done.
    pub(super) fn deadline(&self, statement: &Statement, grant: &Grant) -> Option<Moment> {
        let timeouts = self.timeouts()?;
        let timeout = match statement {
            Statement::Select(select) if is_scan(select) => timeouts.scan,
            Statement::Truncate(_) => timeouts.scan,
            _ => timeouts.statement,
        };
        Some(grant.arrived?.after(timeout))
    }
}

/// Returns `true` for a query that may read much for few rows.
fn is_scan(select: &Select) -> bool {
    select.filter.is_empty() || select.allow_filtering || aggregates(select)
}

fn aggregates(select: &Select) -> bool {
    let Selection::Items(items) = &select.selection else { return false };
    items.iter().any(|item| match &item.term {
        Term::Call(call) => is_aggregate(call.function.name.as_str()),
        _ => false,
    })
}

/// Returns the class of a statement that is not parsed yet. A text that is no statement is cheap, and
/// of any class.
#[must_use]
pub fn class_of(text: &str) -> Class {
    let mut lexer = Lexer::new(text);
    let mut next = || lexer.next().ok().filter(|token| token.kind != TokenKind::End);
    let Some(first) = next() else { return Class::System };
    match word(text, first).to_ascii_uppercase().as_str() {
        "SELECT" => {
            while let Some(token) = next() {
                if token.kind == TokenKind::Word && word(text, token).eq_ignore_ascii_case("FROM") {
                    let table = next().map_or("", |token| word(text, token));
                    return class_of_query(&table.to_ascii_lowercase());
                }
            }
            Class::Read
        }
        "INSERT" | "UPDATE" | "DELETE" | "BEGIN" => Class::Write,
        _ => Class::System,
    }
}

fn word(text: &str, token: Token) -> &str {
    &text[token.start..token.end]
}

/// Returns the class of a query of a table in a keyspace.
fn class_of_query(keyspace: &str) -> Class {
    if is_system_keyspace(keyspace) { Class::System } else { Class::Read }
}

impl Prepared {
    /// Returns the class of the statement.
    #[must_use]
    pub fn class(&self) -> Class {
        match &self.statements.parsed.statement {
            Statement::Select(select) => {
                let named = select.from.keyspace.as_ref().map(Name::as_str);
                class_of_query(named.or(self.keyspace.as_deref()).unwrap_or_default())
            }
            Statement::Write(_) | Statement::Batch(_) | Statement::Transaction(_) => Class::Write,
            _ => Class::System,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_tell_the_class() {
        for (text, class) in [
            ("SELECT * FROM ks.t WHERE k = 1", Class::Read),
            ("  /* x */ select count(*) from t", Class::Read),
            ("SELECT peer FROM system.peers_v2", Class::System),
            ("select * from SYSTEM_schema.tables", Class::System),
            ("SELECT \"from\" FROM ks.system", Class::Read),
            ("INSERT INTO t (k) VALUES (1)", Class::Write),
            ("BEGIN TRANSACTION COMMIT TRANSACTION", Class::Write),
            ("update t set v = 1 where k = 1", Class::Write),
            ("DELETE FROM system.t WHERE k = 1", Class::Write),
            ("CREATE TABLE t (k int PRIMARY KEY)", Class::System),
            ("USE ks", Class::System),
            ("", Class::System),
            ("SELECT 'x", Class::Read),
            ("\u{1f600}", Class::System),
        ] {
            assert_eq!(class_of(text), class, "{text}");
        }
    }
}
