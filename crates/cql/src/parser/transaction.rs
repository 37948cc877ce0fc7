//! Parser of `BEGIN TRANSACTION … COMMIT TRANSACTION`.
//!
//! ```text
//! BEGIN TRANSACTION
//!   ( LET name = ( select ) ; )*
//!   ( select ; | SELECT name.column (, …)* ; )?       the first item may be applied()
//!   ( write ; )*  |  IF condition THEN branch ( ELSE branch )? END IF ;?
//! branch ::= ( write ; )* ( RAISE text ; )?
//! end
//! end ::= COMMIT TRANSACTION | APPLY TRANSACTION | COMMIT TRANSACTION APPLY BATCH | APPLY BATCH
//! ```
//!
//! The ends besides Accord's are for clients that know only batches: cqlsh waits for `APPLY …;` and
//! gocql prepares a `BEGIN` only if its last word is `BATCH`.

use super::{LETS_MAX, Names, Parse, Parser};
use crate::ast::{
    Body, Branch, Condition, InValues, Let, Selection, Term, Transaction, TransactionResult, Write,
};
use crate::error::Failure;
use crate::lexer::{TokenKind, shorten};

impl Parser<'_> {
    pub(super) fn transaction(&mut self) -> Parse<Transaction> {
        let at = self.at();
        self.expect_words(&["BEGIN", "TRANSACTION"])?;
        let transaction = self.with_names(Names::Allowed, |parser| {
            let lets = parser.lets()?;
            let (shows_applied, result) = parser.transaction_result(&lets)?;
            let body = parser.body(&lets)?;
            Ok(Transaction { lets, shows_applied, result, body })
        })?;
        self.transaction_end()?;
        let is_empty = transaction.lets.is_empty()
            && transaction.result.is_none()
            && transaction.writes().next().is_none()
            && !transaction.raises();
        if is_empty {
            return Err(Failure::invalid(at, "the transaction neither reads nor writes"));
        }
        Ok(transaction)
    }

    fn lets(&mut self) -> Parse<Vec<Let>> {
        let mut lets: Vec<Let> = Vec::new();
        while self.eat_word("LET") {
            let name = self.name("a name for what is read")?;
            if lets.iter().any(|read| read.name == name) {
                let message = format!("there is a LET {name} already");
                return Err(Failure::invalid(name.at.0, message));
            }
            self.expect_symbol("=")?;
            if !self.is_symbol("(") {
                return Err(self.expected("a SELECT in parentheses"));
            }
            self.advance();
            let select = self.select()?;
            self.expect_symbol(")")?;
            self.expect_symbol(";")?;
            self.push(&mut lets, Let { name, select }, LETS_MAX, "LETs")?;
        }
        Ok(lets)
    }

    /// Parses the `SELECT` of the result, if it is next. Returns `true` beside it if it begins with
    /// `applied()`.
    fn transaction_result(&mut self, lets: &[Let]) -> Parse<(bool, Option<TransactionResult>)> {
        if !self.eat_word("SELECT") {
            return Ok((false, None));
        }
        let shows_applied = self.is_word("APPLIED") && self.is_symbol_at(1, "(");
        if shows_applied {
            self.advance();
            self.expect_symbol("(")?;
            self.expect_symbol(")")?;
            if self.eat_symbol(";") {
                return Ok((true, None));
            }
            self.expect_symbol(",")?;
        }
        let (distinct, selection) = self.select_clause()?;
        let result = if self.is_word("FROM") {
            let select = self.select_from(distinct, selection)?;
            TransactionResult::Select(Box::new(select))
        } else {
            match selection {
                Selection::Items(items) if !distinct => {
                    items.iter().try_for_each(|item| self.known(&item.term, lets))?;
                    TransactionResult::Items(items)
                }
                _ => return Err(self.expected("FROM")),
            }
        };
        self.expect_symbol(";")?;
        let out_of_place = if self.is_word("LET") {
            "LET comes before SELECT"
        } else if self.is_word("SELECT") {
            "a transaction has one SELECT for its result; LET reads what its writes need"
        } else {
            return Ok((shows_applied, Some(result)));
        };
        Err(Failure::syntax(self.at(), out_of_place))
    }

    fn body(&mut self, lets: &[Let]) -> Parse<Body> {
        let plain = self.transaction_writes()?;
        if !self.is_word("IF") {
            return Ok(Body::Plain(plain));
        }
        if !plain.is_empty() {
            let message = "with IF, every write stands between THEN and END IF";
            return Err(Failure::syntax(self.at(), message));
        }
        self.advance();
        let condition = Box::new(self.condition()?);
        self.known_condition(&condition, lets)?;
        self.expect_word("THEN")?;
        let then = self.branch()?;
        let mut otherwise = None;
        if self.eat_word("ELSE") {
            otherwise = Some(self.branch()?);
        }
        if self.is_word("IF") {
            return Err(self.unsupported("IF inside IF"));
        }
        if !self.is_word("END") {
            return Err(self.expected("INSERT, UPDATE, DELETE, RAISE, ELSE or END IF"));
        }
        self.expect_words(&["END", "IF"])?;
        self.eat_symbol(";");
        if self.is_write() {
            let message = "with IF, every write stands between THEN and END IF";
            return Err(Failure::syntax(self.at(), message));
        }
        Ok(Body::If { condition, then, otherwise })
    }

    fn branch(&mut self) -> Parse<Branch> {
        let writes = self.transaction_writes()?;
        let mut raise = None;
        if self.eat_word("RAISE") {
            raise = Some(match self.peek().kind {
                TokenKind::String | TokenKind::DollarString | TokenKind::Symbol("?" | ":") => {
                    Box::new(self.term()?)
                }
                _ => return Err(self.expected("the text of an error, or a bind marker")),
            });
            self.expect_symbol(";")?;
            if self.is_write() {
                let message = "RAISE ends the transaction; no statement of its branch follows";
                return Err(Failure::syntax(self.at(), message));
            }
        }
        Ok(Branch { writes, raise })
    }

    fn transaction_writes(&mut self) -> Parse<Vec<Write>> {
        let mut writes = Vec::new();
        while self.is_write() {
            let at = self.at();
            let write = self.write()?;
            self.expect_symbol(";")?;
            if write.is_conditional() {
                let message = "a statement in a transaction has no IF of its own; \
                               put IF … THEN … END IF around it";
                return Err(Failure::invalid(at, message));
            }
            if !write.using().is_empty() {
                let message = "a statement in a transaction has no USING";
                return Err(Failure::invalid(at, message));
            }
            writes.push(write);
        }
        match ["SELECT", "LET"].into_iter().find(|word| self.is_word(word)) {
            Some(word) if !writes.is_empty() => {
                let message = format!("{word} comes before every write");
                Err(Failure::syntax(self.at(), message))
            }
            _ => Ok(writes),
        }
    }

    fn transaction_end(&mut self) -> Parse<()> {
        if self.eat_words(&["COMMIT", "TRANSACTION"]) {
            if self.eat_word("APPLY") {
                self.expect_word("BATCH")?;
            }
            return Ok(());
        }
        if self.eat_words(&["APPLY", "TRANSACTION"]) || self.eat_words(&["APPLY", "BATCH"]) {
            return Ok(());
        }
        Err(self.expected("INSERT, UPDATE, DELETE, IF or COMMIT TRANSACTION"))
    }

    /// Checks that a term refers to an existing `LET`. Used only where names are not columns; in a
    /// write a name may also be a column.
    fn known(&self, term: &Term, lets: &[Let]) -> Parse<()> {
        let Term::Reference(reference) = term else {
            return term.children().into_iter().try_for_each(|child| self.known(child, lets));
        };
        let name = &reference.name;
        if lets.iter().any(|read| read.name == *name) {
            return Ok(());
        }
        let shown = shorten(&name.text);
        let message = format!("there is no LET {shown} in this transaction");
        Err(Failure::invalid(name.at.0, message))
    }

    fn known_condition(&self, condition: &Condition, lets: &[Let]) -> Parse<()> {
        match condition {
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().try_for_each(|part| self.known_condition(part, lets))
            }
            Condition::Compare(left, _, right) => {
                self.known(left, lets)?;
                self.known(right, lets)
            }
            Condition::In(term, values) => {
                self.known(term, lets)?;
                match values {
                    InValues::List(terms) => {
                        terms.iter().try_for_each(|term| self.known(term, lets))
                    }
                    InValues::Marker(_) => Ok(()),
                }
            }
            Condition::IsNull { term, .. } => self.known(term, lets),
        }
    }
}
