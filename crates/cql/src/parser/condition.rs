//! Parser of a transaction's condition.

use super::{Parse, Parser};
use crate::ast::{Condition, Term};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses conditions joined by `OR`; `AND` binds closer.
    pub(super) fn condition(&mut self) -> Parse<Condition> {
        self.nested(|parser| {
            let mut parts = vec![parser.conjunction()?];
            while parser.eat_word("OR") {
                parts.push(parser.conjunction()?);
            }
            Ok(only_or(parts, Condition::Or))
        })
    }

    fn conjunction(&mut self) -> Parse<Condition> {
        let mut parts = vec![self.comparison()?];
        while self.eat_word("AND") {
            parts.push(self.comparison()?);
        }
        Ok(only_or(parts, Condition::And))
    }

    fn comparison(&mut self) -> Parse<Condition> {
        if self.is_word("NOT") {
            return Err(self.unsupported("NOT in a transaction's IF"));
        }
        if self.is_symbol("(") && self.is_condition_in_parentheses() {
            self.advance();
            let condition = self.condition()?;
            self.expect_symbol(")")?;
            return Ok(condition);
        }
        let left = self.term()?;
        if let Some(op) = self.eat_compare_op() {
            return Ok(Condition::Compare(left, op, self.term()?));
        }
        if self.eat_word("IN") {
            return self.in_values(Self::term).map(|values| Condition::In(left, values));
        }
        if self.eat_word("IS") {
            return self.null_test(left);
        }
        Err(self.expected("a comparison (=, !=, <, <=, >, >=), IN, IS NULL or IS NOT NULL"))
    }

    fn null_test(&mut self, term: Term) -> Parse<Condition> {
        let negated = self.eat_word("NOT");
        self.expect_word("NULL")?;
        Ok(Condition::IsNull { term, negated })
    }

    /// Returns `true` if an operator of conditions comes before the closing parenthesis.
    fn is_condition_in_parentheses(&self) -> bool {
        let (mut open, mut angles) = (0_usize, 0_usize);
        for (at, token) in self.tokens.iter().enumerate().skip(self.next) {
            match token.kind {
                TokenKind::Symbol("(") => open += 1,
                TokenKind::Symbol(")") if open == 1 => return false,
                TokenKind::Symbol(")") => open -= 1,
                TokenKind::Symbol("<") if self.is_type_parameter(at) => angles += 1,
                TokenKind::Symbol(">") if angles > 0 => angles -= 1,
                TokenKind::Symbol("=" | "!=" | "<" | "<=" | ">" | ">=") => return true,
                TokenKind::Symbol(";") | TokenKind::End => return false,
                TokenKind::Word if is_operator(self.text_of(*token)) => return true,
                _ => {}
            }
        }
        false
    }

    /// Returns `true` for the `<` of a type such as `list<`, not of a comparison such as `a.list
    /// <`.
    fn is_type_parameter(&self, at: usize) -> bool {
        const TYPES: [&str; 6] = ["frozen", "list", "map", "set", "tuple", "vector"];
        let before = |count: usize| at.checked_sub(count).map(|before| self.tokens[before]);
        let is_type = before(1).is_some_and(|token| {
            let text = self.text_of(token);
            token.kind == TokenKind::Word
                && TYPES.iter().any(|name| text.eq_ignore_ascii_case(name))
        });
        is_type && before(2).is_none_or(|token| token.kind != TokenKind::Symbol("."))
    }
}

fn is_operator(word: &str) -> bool {
    ["AND", "OR", "IS", "IN"].iter().any(|operator| word.eq_ignore_ascii_case(operator))
}

/// Joins conditions; a single condition stays itself.
fn only_or(mut parts: Vec<Condition>, joined: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            joined(parts)
        }
    }
}
