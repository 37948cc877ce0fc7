//! Statements that are recognized by their first words and not parsed further.

use super::{Parse, Parser};
use crate::ast::{Statement, Unsupported};
use crate::lexer::TokenKind;

/// First words of CQL statements that Carnet does not support yet. Longer ones come first.
const FAMILIES: [&[&str]; 13] = [
    &["CREATE", "OR", "REPLACE", "FUNCTION"],
    &["CREATE", "FUNCTION"],
    &["CREATE", "OR", "REPLACE", "AGGREGATE"],
    &["CREATE", "AGGREGATE"],
    &["CREATE", "TRIGGER"],
    &["DROP", "FUNCTION"],
    &["DROP", "AGGREGATE"],
    &["DROP", "TRIGGER"],
    &["COMMENT", "ON"],
    &["SECURITY", "LABEL"],
    &["PRUNE", "MATERIALIZED", "VIEW"],
    &["LET"],
    &["COPY"],
];

impl Parser<'_> {
    /// Consumes a whole statement of an unsupported family, if it is next.
    pub(super) fn eat_unsupported(&mut self) -> Parse<Option<Statement>> {
        let Some(words) = FAMILIES.into_iter().find(|words| self.is_words(words)) else {
            return Ok(None);
        };
        let what = match words {
            ["LET"] => "LET outside BEGIN TRANSACTION … COMMIT TRANSACTION".to_owned(),
            ["COPY"] => "COPY on the server; it is a command of the shell".to_owned(),
            words => words.join(" "),
        };
        let drops_none = matches!(words, ["DROP", "FUNCTION" | "AGGREGATE" | "TRIGGER"]);
        let has_no_effect = drops_none && self.is_word_at(2, "IF") && self.is_word_at(3, "EXISTS");
        let start = self.at();
        let mut end = start;
        while !self.is_symbol(";") && self.peek().kind != TokenKind::End {
            end = self.advance().end;
        }
        if let Some(unread) = self.unread.clone().filter(|_| self.peek().kind == TokenKind::End) {
            return Err(unread);
        }
        let text = self.text[start..end].to_owned();
        Ok(Some(Statement::Unsupported(Unsupported { what, text, has_no_effect })))
    }
}
