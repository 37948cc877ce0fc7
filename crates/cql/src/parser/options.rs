//! Parser of `WITH option = value AND …`.

use super::{OPTIONS_MAX, Parse, Parser};
use crate::ast::{Literal, OptionValue, Options};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses options after `WITH`.
    pub(super) fn options(&mut self) -> Parse<Options> {
        let mut options = Options::new();
        loop {
            self.option(&mut options)?;
            if !self.eat_word("AND") {
                return Ok(options);
            }
        }
    }

    /// Parses one option, which must not be given yet.
    pub(super) fn option(&mut self, options: &mut Options) -> Parse<()> {
        let name = self.name("an option")?;
        if options.iter().any(|(known, _)| *known == name) {
            return Err(Failure::invalid(name.at.0, format!("option {name} is given twice")));
        }
        self.expect_symbol("=")?;
        let value = if self.eat_symbol("{") {
            OptionValue::Map(self.comma_separated_until("}", |parser| {
                let key = parser.option_constant()?;
                parser.expect_symbol(":")?;
                Ok((key, parser.option_constant()?))
            })?)
        } else {
            OptionValue::Literal(self.option_constant()?)
        };
        self.push(options, (name, value), OPTIONS_MAX, "options")
    }

    /// Parses a constant; a bare word is a string.
    pub(super) fn option_constant(&mut self) -> Parse<Literal> {
        if matches!(self.peek().kind, TokenKind::Symbol("?" | ":")) {
            let message = "a schema cannot depend on a bind marker: write the value itself";
            return Err(Failure::syntax(self.at(), message));
        }
        let is_negative = self.eat_symbol("-");
        let token = self.peek();
        let constant = match self.constant(token)? {
            None | Some(Literal::Null) => None,
            Some(literal) if is_negative => negate(literal),
            Some(literal) => Some(literal),
        };
        if let Some(literal) = constant {
            self.advance();
            return Ok(literal);
        }
        if token.kind == TokenKind::Word && !is_negative {
            return self.name("a value").map(|name| Literal::String(name.text));
        }
        Err(self.expected("a constant"))
    }
}

fn negate(literal: Literal) -> Option<Literal> {
    match literal {
        Literal::Integer(digits) => Some(Literal::Integer(format!("-{digits}"))),
        Literal::Float(digits) if digits == "NaN" => Some(Literal::Float(digits)),
        Literal::Float(digits) => Some(Literal::Float(format!("-{digits}"))),
        Literal::Duration(digits) => Some(Literal::Duration(format!("-{digits}"))),
        _ => None,
    }
}
