//! Parser of statements about transactions that stay open.
//!
//! ```text
//! START [DETACHED] TRANSACTION (option (,? option)*)?
//! option ::= ISOLATION LEVEL? level | READ ONLY | READ WRITE | AS OF term      each once
//! level  ::= STRICT SERIALIZABLE | SERIALIZABLE | SNAPSHOT
//! COMMIT (TRANSACTION id?)?      ROLLBACK (TRANSACTION id?)?
//! KILL TRANSACTION (id | start)  SELECT outcome(id (, id)*)
//! ```

use super::{Parse, Parser};
use crate::ast::{IsolationLevel, Literal, OpenStatement, StartTransaction, Term};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses a statement about transactions that stay open, if the next one is.
    pub(super) fn eat_open_statement(&mut self) -> Parse<Option<OpenStatement>> {
        if self.is_words(&["SELECT", "OUTCOME"]) && self.is_symbol_at(2, "(") {
            self.next += 3;
            let id = self.term()?;
            let mut ids = vec![id];
            while self.eat_symbol(",") {
                ids.push(self.term()?);
            }
            self.expect_symbol(")")?;
            return Ok(Some(match ids.len() {
                1 => OpenStatement::Outcome(ids.remove(0)),
                _ => OpenStatement::Outcomes(ids),
            }));
        }
        if self.eat_words(&["START", "DETACHED"]) {
            self.expect_word("TRANSACTION")?;
            let start = self
                .start_options(StartTransaction { detached: true, ..StartTransaction::default() });
            return start.map(|start| Some(OpenStatement::Start(start)));
        }
        if self.eat_words(&["START", "TRANSACTION"]) {
            let start = self.start_options(StartTransaction::default());
            return start.map(|start| Some(OpenStatement::Start(start)));
        }
        if self.eat_word("COMMIT") {
            return self.named_transaction().map(|id| Some(OpenStatement::Commit(id)));
        }
        if self.eat_word("ROLLBACK") {
            return self.named_transaction().map(|id| Some(OpenStatement::Rollback(id)));
        }
        if self.eat_words(&["KILL", "TRANSACTION"]) {
            return self.killed_transaction().map(|id| Some(OpenStatement::Kill(id)));
        }
        Ok(None)
    }

    fn start_options(&mut self, mut start: StartTransaction) -> Parse<StartTransaction> {
        loop {
            let at = self.at();
            let is_new = if self.eat_word("ISOLATION") {
                self.eat_word("LEVEL");
                start.isolation.replace(self.isolation_level()?).is_none()
            } else if self.eat_words(&["READ", "ONLY"]) {
                start.read_only.replace(true).is_none()
            } else if self.eat_words(&["READ", "WRITE"]) {
                start.read_only.replace(false).is_none()
            } else if self.eat_words(&["AS", "OF"]) {
                start.as_of.replace(self.term()?).is_none()
            } else if self.is_symbol(";") || self.peek().kind == TokenKind::End {
                return Ok(start);
            } else {
                return Err(self.expected("ISOLATION LEVEL, READ ONLY, READ WRITE or AS OF"));
            };
            if !is_new {
                return Err(Failure::invalid(at, "each option is given once"));
            }
            if start.as_of.is_some() && start.read_only == Some(false) {
                let message = "a transaction AS OF a moment only reads";
                return Err(Failure::invalid(at, message));
            }
            self.eat_symbol(",");
        }
    }

    fn isolation_level(&mut self) -> Parse<IsolationLevel> {
        if self.eat_words(&["STRICT", "SERIALIZABLE"]) {
            Ok(IsolationLevel::StrictSerializable)
        } else if self.eat_word("SERIALIZABLE") {
            Ok(IsolationLevel::Serializable)
        } else if self.eat_word("SNAPSHOT") {
            Ok(IsolationLevel::Snapshot)
        } else {
            Err(self.expected("STRICT SERIALIZABLE, SERIALIZABLE or SNAPSHOT"))
        }
    }

    /// Parses `[TRANSACTION [id]]`.
    fn named_transaction(&mut self) -> Parse<Option<Term>> {
        let is_over = |parser: &Self| parser.is_symbol(";") || parser.peek().kind == TokenKind::End;
        if !self.eat_word("TRANSACTION") || is_over(self) {
            return Ok(None);
        }
        self.transaction_id().map(Some)
    }

    /// Parses the id of a transaction, or its start timestamp.
    fn killed_transaction(&mut self) -> Parse<Term> {
        let token = self.peek();
        if token.kind == TokenKind::Integer
            && let Some(start) = self.constant(token)?
        {
            self.advance();
            return Ok(Term::Literal(start));
        }
        self.transaction_id()
    }

    /// Parses the id of a transaction.
    pub(super) fn transaction_id(&mut self) -> Parse<Term> {
        let token = self.peek();
        if matches!(token.kind, TokenKind::Symbol("?" | ":")) {
            return self.marker().map(Term::Marker);
        }
        match self.constant(token)? {
            Some(id @ Literal::Uuid(_)) => {
                self.advance();
                Ok(Term::Literal(id))
            }
            _ => Err(self.expected("the id of a transaction, a uuid, or a bind marker")),
        }
    }
}
