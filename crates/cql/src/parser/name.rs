//! Parser of names.

use carnet_data::keyword::is_reserved;

use super::{Parse, Parser};
use crate::ast::{Name, TableName};
use crate::error::Failure;
use crate::lexer::{TokenKind, shorten};
use crate::position::Position;

impl Parser<'_> {
    /// Parses a name; `what` describes it in the error message.
    pub(super) fn name(&mut self, what: &str) -> Parse<Name> {
        let token = self.peek();
        let text = self.text_of(token);
        match token.kind {
            TokenKind::QuotedName => {
                self.advance();
                quoted_name(text, token.start)
            }
            TokenKind::Word if !is_reserved(text) => {
                self.advance();
                Ok(Name { text: text.to_ascii_lowercase(), at: Position(token.start) })
            }
            TokenKind::Word => {
                let found = shorten(text);
                let message = format!(
                    "expected {what}, found {found}, a reserved word: \
                     in double quotes it is a name"
                );
                Err(Failure::syntax(token.start, message))
            }
            TokenKind::Symbol("?" | ":") => {
                let message =
                    format!("expected {what}, found a bind marker: it stands for a value");
                Err(Failure::syntax(token.start, message))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Parses `[keyspace.]name`.
    pub(super) fn table_name(&mut self, what: &str) -> Parse<TableName> {
        let first = self.name(what)?;
        if !self.eat_symbol(".") {
            return Ok(TableName { keyspace: None, table: first });
        }
        let table = self.name(what)?;
        Ok(TableName { keyspace: Some(first), table })
    }

    /// Parses `(column, …)` after its opening parenthesis.
    pub(super) fn column_names(&mut self) -> Parse<Vec<Name>> {
        let names = self.definitions(|parser| parser.name("a column"))?;
        self.expect_symbol(")")?;
        Ok(names)
    }
}

/// Returns a name without its double quotes.
fn quoted_name(text: &str, at: usize) -> Parse<Name> {
    let text = text[1..text.len() - 1].replace("\"\"", "\"");
    if text.is_empty() {
        return Err(Failure::syntax(at, "a name cannot be empty"));
    }
    Ok(Name { text, at: Position(at) })
}
