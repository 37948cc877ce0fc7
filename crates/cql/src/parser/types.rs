//! Parser of type names.

use carnet_data::DataType;

use super::{Parse, Parser};
use crate::ast::TypeName;
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Parse<TypeName> {
        self.nested(|parser| {
            let token = parser.peek();
            let text = parser.text_of(token);
            match token.kind {
                TokenKind::String => {
                    parser.advance();
                    let class = super::term::unquote(text);
                    Ok(super::marshal::type_of(&class).unwrap_or(TypeName::Custom(class)))
                }
                TokenKind::Word if parser.is_symbol_at(1, "<") => parser.parameterised_type(text),
                TokenKind::Word if !parser.is_symbol_at(1, ".") => parser.simple_type(text),
                _ => parser.table_name("a type").map(TypeName::UserDefined),
            }
        })
    }

    fn simple_type(&mut self, text: &str) -> Parse<TypeName> {
        let found = if let Some(data_type) = DataType::from_name(text) {
            TypeName::Native(data_type)
        } else {
            return self.table_name("a type").map(TypeName::UserDefined);
        };
        self.advance();
        Ok(found)
    }

    fn parameterised_type(&mut self, text: &str) -> Parse<TypeName> {
        let at = self.at();
        self.advance();
        self.expect_symbol("<")?;
        let found = match text.to_ascii_lowercase().as_str() {
            "frozen" => TypeName::Frozen(Box::new(self.type_name()?)),
            "list" => TypeName::List(Box::new(self.type_name()?)),
            "set" => TypeName::Set(Box::new(self.type_name()?)),
            "tuple" => TypeName::Tuple(self.comma_separated(Self::type_name)?),
            "map" => {
                let key = Box::new(self.type_name()?);
                self.expect_symbol(",")?;
                TypeName::Map(key, Box::new(self.type_name()?))
            }
            "vector" => {
                let element = Box::new(self.type_name()?);
                self.expect_symbol(",")?;
                TypeName::Vector(element, self.dimensions()?)
            }
            other => {
                let message = format!(
                    "{other} takes no type parameters; frozen, list, set, map, tuple and vector do"
                );
                return Err(Failure::syntax(at, message));
            }
        };
        self.expect_symbol(">")?;
        Ok(found)
    }

    fn dimensions(&mut self) -> Parse<u16> {
        let (token, is_negative) = (self.peek(), self.is_symbol("-"));
        if token.kind != TokenKind::Integer && !is_negative {
            return Err(self.expected("a vector's number of dimensions"));
        }
        let end = if is_negative { self.peek_at(1).end } else { token.end };
        let digits = &self.text[token.start..end];
        let found = digits.parse::<u16>().ok().filter(|dimensions| *dimensions > 0);
        let dimensions = found.ok_or_else(|| {
            let message = match digits.trim_matches('0') {
                zero if zero.is_empty() || is_negative => {
                    format!("vectors may only have positive dimensions; given {digits}")
                }
                _ => format!("vectors have at most {} dimensions; given {digits}", u16::MAX),
            };
            Failure::invalid(token.start, message)
        })?;
        self.advance();
        Ok(dimensions)
    }
}
