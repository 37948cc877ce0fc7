//! Parser of terms.

use carnet_base::Uuid;
use carnet_data::keyword::is_reserved;

use super::{NUMBER_DIGITS_MAX, Names, Parse, Parser};
use crate::ast::{
    Arguments, ArithmeticOp, BindMarker, FunctionCall, FunctionName, Literal, Name, Reference,
    Slice, Term, TermPart, TypeName,
};
use crate::error::Failure;
use crate::lexer::{Token, TokenKind, shorten};

const SUMS: [ArithmeticOp; 2] = [ArithmeticOp::Add, ArithmeticOp::Subtract];
const PRODUCTS: [ArithmeticOp; 3] =
    [ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Remainder];

/// Words that may follow a term in parentheses without being a term, although they can be names.
const FOLLOWERS: [&str; 9] =
    ["as", "bypass", "contains", "else", "end", "group", "like", "per", "then"];

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Parse<Term> {
        self.nested(|parser| parser.chain(&SUMS, Self::product))
    }

    fn product(&mut self) -> Parse<Term> {
        self.chain(&PRODUCTS, Self::factor)
    }

    /// Parses operands joined by operators of one precedence.
    fn chain(
        &mut self,
        ops: &[ArithmeticOp],
        operand: fn(&mut Self) -> Parse<Term>,
    ) -> Parse<Term> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(op) = ops.iter().find(|op| self.is_symbol(op.symbol())) {
            self.advance();
            rest.push((*op, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Term::Arithmetic { first: Box::new(first), rest })
    }

    /// Parses a term without binary operators, with an optional sign.
    fn factor(&mut self) -> Parse<Term> {
        if !self.eat_symbol("-") {
            return self.simple_term();
        }
        let token = self.peek();
        if let Some(literal) = self.negative_number(token)? {
            self.new_term()?;
            self.advance();
            return Ok(Term::Literal(literal));
        }
        self.nested(|parser| Ok(Term::Negate(Box::new(parser.factor()?))))
    }

    fn negative_number(&self, token: Token) -> Parse<Option<Literal>> {
        let text = self.text_of(token);
        check_digits(text, token)?;
        Ok(match token.kind {
            TokenKind::Integer => Some(Literal::Integer(format!("-{text}"))),
            TokenKind::Float => Some(Literal::Float(format!("-{text}"))),
            TokenKind::Duration => Some(Literal::Duration(format!("-{text}"))),
            TokenKind::Word if text.eq_ignore_ascii_case("nan") => {
                Some(Literal::Float("NaN".to_owned()))
            }
            TokenKind::Word if text.eq_ignore_ascii_case("infinity") => {
                Some(Literal::Float("-Infinity".to_owned()))
            }
            TokenKind::Word if is_iso_duration(text) => Some(Literal::Duration(format!("-{text}"))),
            _ => None,
        })
    }

    fn simple_term(&mut self) -> Parse<Term> {
        let token = self.peek();
        self.new_term()?;
        match token.kind {
            TokenKind::Symbol("?" | ":") => self.marker().map(Term::Marker),
            TokenKind::Symbol("(") => self.parenthesised(),
            TokenKind::Symbol("[") => {
                self.advance();
                self.comma_separated_until("]", Self::term).map(Term::List)
            }
            TokenKind::Symbol("{") => {
                self.advance();
                self.braces()
            }
            TokenKind::Word => {
                let term = self.word_term(token)?;
                self.parts_of(term)
            }
            TokenKind::QuotedName => {
                let term = self.name_term()?;
                self.parts_of(term)
            }
            _ => match self.constant(token)? {
                Some(literal) => {
                    self.advance();
                    Ok(Term::Literal(literal))
                }
                None => Err(self.expected("a value")),
            },
        }
    }

    /// Returns the constant of a token, if it is one.
    pub(super) fn constant(&self, token: Token) -> Parse<Option<Literal>> {
        let text = self.text_of(token);
        check_digits(text, token)?;
        Ok(Some(match token.kind {
            TokenKind::String => Literal::String(unquote(text)),
            TokenKind::DollarString => Literal::String(text[2..text.len() - 2].to_owned()),
            TokenKind::Integer => Literal::Integer(text.to_owned()),
            TokenKind::Float => Literal::Float(text.to_owned()),
            TokenKind::Duration => Literal::Duration(text.to_owned()),
            TokenKind::Blob => Literal::Blob(blob(&text[2..], token.start)?),
            TokenKind::Uuid => match Uuid::try_parse(text) {
                Ok(uuid) => Literal::Uuid(uuid),
                Err(_) => return Err(self.expected("a UUID")),
            },
            TokenKind::Word => match text.to_ascii_lowercase().as_str() {
                "null" => Literal::Null,
                "true" => Literal::Boolean(true),
                "false" => Literal::Boolean(false),
                "nan" => Literal::Float("NaN".to_owned()),
                "infinity" => Literal::Float("Infinity".to_owned()),
                _ if is_iso_duration(text) => Literal::Duration(text.to_owned()),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// Parses `?` or `:name`.
    pub(super) fn marker(&mut self) -> Parse<BindMarker> {
        let at = self.position();
        if self.eat_symbol("?") {
            return self.new_marker(None, at);
        }
        self.expect_symbol(":")?;
        let name = self.name("a bind marker's name")?;
        self.new_marker(Some(name.text), at)
    }

    /// Parses a constant, function, cast or name that begins with a word.
    fn word_term(&mut self, token: Token) -> Parse<Term> {
        if let Some(literal) = self.constant(token)? {
            self.advance();
            return Ok(Term::Literal(literal));
        }
        if self.is_word("CAST") && self.is_symbol_at(1, "(") {
            return self.cast();
        }
        self.name_term()
    }

    fn cast(&mut self) -> Parse<Term> {
        self.expect_word("CAST")?;
        self.expect_symbol("(")?;
        let term = Box::new(self.term()?);
        self.expect_word("AS")?;
        let type_name = self.type_name()?;
        self.expect_symbol(")")?;
        Ok(Term::Cast(term, type_name))
    }

    /// Parses `name`, `name.field`, `name(…)` or `keyspace.name(…)`.
    fn name_term(&mut self) -> Parse<Term> {
        let name = if self.is_word("TOKEN") && self.is_symbol_at(1, "(") {
            let at = self.position();
            self.advance();
            Name { text: "token".to_owned(), at }
        } else if self.names == Names::Allowed || self.is_function_ahead() {
            self.name("a value or a name")?
        } else {
            return Err(self.no_value());
        };
        if self.eat_symbol("(") {
            return self.call(FunctionName { keyspace: None, name });
        }
        if !self.eat_symbol(".") {
            return self.reference(Reference { name, field: None });
        }
        let field = self.name("a field")?;
        if self.eat_symbol("(") {
            return self.call(FunctionName { keyspace: Some(name), name: field });
        }
        self.reference(Reference { name, field: Some(field) })
    }

    /// Parses `[element]` or `[from..to]` after a reference, if it is next.
    fn reference(&mut self, reference: Reference) -> Parse<Term> {
        if !self.eat_symbol("[") {
            return Ok(Term::Reference(reference));
        }
        Ok(match self.element_or_slice()? {
            TermPart::Element(element) => Term::Element(reference, Box::new(element)),
            TermPart::Slice(slice) => Term::Slice(reference, Box::new(slice)),
            TermPart::Field(field) => {
                Term::Reference(Reference { field: Some(field), ..reference })
            }
        })
    }

    /// Parses `element]` or `from..to]` after the opening bracket.
    fn element_or_slice(&mut self) -> Parse<TermPart> {
        if self.eat_symbol("..") {
            let slice = Slice { from: None, to: Some(self.term()?) };
            self.expect_symbol("]")?;
            return Ok(TermPart::Slice(slice));
        }
        let element = self.term()?;
        if self.eat_symbol("..") {
            let to = if self.is_symbol("]") { None } else { Some(self.term()?) };
            self.expect_symbol("]")?;
            return Ok(TermPart::Slice(Slice { from: Some(element), to }));
        }
        self.expect_symbol("]")?;
        Ok(TermPart::Element(element))
    }

    /// Parses the parts of a term that follow it: `.field`, `[element]` or `[from..to]`, of which each
    /// is a part of the one before.
    fn parts_of(&mut self, term: Term) -> Parse<Term> {
        let is_whole = !matches!(
            term,
            Term::Reference(_)
                | Term::Element(..)
                | Term::Slice(..)
                | Term::Call(_)
                | Term::Part(..)
        );
        let part = if is_whole {
            return Ok(term);
        } else if self.eat_symbol(".") {
            TermPart::Field(self.name("a field")?)
        } else if self.eat_symbol("[") {
            self.element_or_slice()?
        } else {
            return Ok(term);
        };
        let term = Term::Part(Box::new(term), Box::new(part));
        self.nested(|parser| parser.parts_of(term))
    }

    fn is_function_ahead(&self) -> bool {
        let is_qualified = self.is_symbol_at(1, ".") && self.is_symbol_at(3, "(");
        self.is_symbol_at(1, "(") || is_qualified
    }

    /// Returns the error for a name in place of a value, usually a string in the wrong quotes.
    fn no_value(&self) -> Failure {
        let token = self.peek();
        let text = self.text_of(token);
        let found = shorten(text);
        let message = if token.kind == TokenKind::QuotedName {
            let inner = shorten(text[1..text.len() - 1].trim());
            format!("expected a value, found the name {found}: a string is '{inner}'")
        } else if is_reserved(text) {
            return self.expected("a value");
        } else {
            format!("expected a value, found the name {found}: a string is '{found}'")
        };
        Failure::syntax(token.start, message)
    }

    /// Parses a function's arguments after the opening parenthesis.
    fn call(&mut self, function: FunctionName) -> Parse<Term> {
        let arguments = if self.is_symbol("*") && self.is_symbol_at(1, ")") {
            self.next += 2;
            Arguments::Star
        } else {
            Arguments::Terms(self.comma_separated_until(")", Self::term)?)
        };
        Ok(Term::Call(FunctionCall { function, arguments }))
    }

    /// Parses a type hint with its term, a term in parentheses, or a tuple.
    fn parenthesised(&mut self) -> Parse<Term> {
        if let Some(type_name) = self.eat_type_hint() {
            let term = self.nested(Self::factor)?;
            return Ok(Term::Hint(type_name, Box::new(term)));
        }
        self.expect_symbol("(")?;
        let mut terms = self.comma_separated(Self::term)?;
        self.expect_symbol(")")?;
        match terms.pop() {
            Some(only) if terms.is_empty() => Ok(only),
            last => {
                terms.extend(last);
                Ok(Term::Tuple(terms))
            }
        }
    }

    /// Parses `(value, …)` as a tuple, even with one value.
    pub(super) fn tuple(&mut self) -> Parse<Term> {
        self.expect_symbol("(")?;
        let terms = self.comma_separated(Self::term)?;
        self.expect_symbol(")")?;
        Ok(Term::Tuple(terms))
    }

    /// Consumes `(type)` if it is next and a term follows; otherwise nothing.
    pub(super) fn eat_type_hint(&mut self) -> Option<TypeName> {
        let before = self.next;
        self.advance();
        let type_name = match self.peek().kind {
            TokenKind::Word | TokenKind::QuotedName => self.type_name().ok(),
            _ => None,
        };
        let is_hint = type_name.as_ref().is_some_and(|type_name| {
            self.eat_symbol(")") && self.begins_term(matches!(type_name, TypeName::UserDefined(_)))
        });
        if !is_hint {
            self.next = before;
        }
        type_name.filter(|_| is_hint)
    }

    /// Returns `true` if a term is next. After `(name)` only tokens that cannot follow a name
    /// count: `(a) - 1` is a subtraction and `(a) AS b` has an alias.
    fn begins_term(&self, only_values: bool) -> bool {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("-") => !only_values,
            TokenKind::Symbol(symbol) => matches!(symbol, "?" | ":" | "(" | "[" | "{"),
            TokenKind::Word | TokenKind::QuotedName if only_values => false,
            TokenKind::Word => {
                let word = self.text_of(token).to_ascii_lowercase();
                let is_constant = matches!(
                    word.as_str(),
                    "null" | "true" | "false" | "nan" | "infinity" | "token"
                );
                is_constant || !(is_reserved(&word) || FOLLOWERS.contains(&word.as_str()))
            }
            TokenKind::End => false,
            _ => true,
        }
    }

    /// Returns `true` if the next token is a name and not a constant.
    fn is_name(&self) -> bool {
        let token = self.peek();
        let text = self.text_of(token);
        match token.kind {
            TokenKind::QuotedName => true,
            TokenKind::Word => !is_reserved(text) && !is_iso_duration(text),
            _ => false,
        }
    }

    /// Parses a set, map or user-defined type's value after the opening brace.
    fn braces(&mut self) -> Parse<Term> {
        if self.is_name() && self.is_symbol_at(1, ":") {
            let fields = self.comma_separated_until("}", |parser| {
                let name = parser.name("a field")?;
                parser.expect_symbol(":")?;
                Ok((name, parser.term()?))
            })?;
            return Ok(Term::Fields(fields));
        }
        if self.eat_symbol("}") {
            return Ok(Term::Set(Vec::new()));
        }
        let first = self.term()?;
        if !self.eat_symbol(":") {
            let mut terms = vec![first];
            while self.eat_symbol(",") {
                terms.push(self.term()?);
            }
            self.expect_symbol("}")?;
            return Ok(Term::Set(terms));
        }
        let mut pairs = vec![(first, self.term()?)];
        while self.eat_symbol(",") {
            let key = self.term()?;
            self.expect_symbol(":")?;
            pairs.push((key, self.term()?));
        }
        self.expect_symbol("}")?;
        Ok(Term::Map(pairs))
    }

    /// Parses an integer or a marker.
    pub(super) fn integer_or_marker(&mut self, what: &str) -> Parse<Term> {
        match self.peek().kind {
            TokenKind::Symbol("?" | ":") => self.marker().map(Term::Marker),
            TokenKind::Integer => self.factor(),
            TokenKind::Symbol("-") if self.peek_at(1).kind == TokenKind::Integer => self.factor(),
            _ => Err(self.expected(&format!("{what}, an integer or a bind marker"))),
        }
    }

    /// Parses a duration or a marker.
    pub(super) fn duration_or_marker(&mut self) -> Parse<Term> {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("?" | ":") => self.marker().map(Term::Marker),
            TokenKind::Duration => {
                self.advance();
                Ok(Term::Literal(Literal::Duration(self.text_of(token).to_owned())))
            }
            _ => Err(self.expected("a time-out as 500ms, or a bind marker")),
        }
    }
}

/// Refuses a number with too many digits.
fn check_digits(text: &str, token: Token) -> Parse<()> {
    let is_number = matches!(token.kind, TokenKind::Integer | TokenKind::Float);
    if is_number && text.len() > NUMBER_DIGITS_MAX {
        let message = format!(
            "the number has {} digits, more than the {NUMBER_DIGITS_MAX} that are allowed",
            text.len()
        );
        return Err(Failure::invalid(token.start, message));
    }
    Ok(())
}

/// Returns a string without its single quotes.
pub(super) fn unquote(text: &str) -> String {
    text[1..text.len() - 1].replace("''", "'")
}

fn blob(digits: &str, at: usize) -> Parse<Vec<u8>> {
    if digits.len() % 2 == 1 {
        let message = format!("a blob has two digits for each byte, this one has {}", digits.len());
        return Err(Failure::syntax(at, message));
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    };
    Ok(digits.as_bytes().chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect())
}

/// Returns `true` for an ISO 8601 duration with units, such as `P1Y2M3DT4H5M6S` and `P4W`.
fn is_iso_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    if let Some(weeks) = rest.strip_suffix('W') {
        return !weeks.is_empty() && weeks.bytes().all(|byte| byte.is_ascii_digit());
    }
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    let is_time = time.is_none_or(|time| !time.is_empty() && has_units(time, "HMS"));
    !rest.is_empty() && is_time && has_units(date, "YMD")
}

/// Returns `true` if a text consists of numbers, each followed by one of the units, in that order.
fn has_units(text: &str, units: &str) -> bool {
    let mut units = units.chars();
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(found) = unit.chars().next() else { return false };
        if unit.len() == rest.len() || !units.by_ref().any(|unit| unit == found) {
            return false;
        }
        rest = &unit[found.len_utf8()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_durations_are_distinguished_from_names() {
        for text in ["P1Y", "P1Y2M3D", "PT5H", "P1DT4H5M6S", "P12W"] {
            assert!(is_iso_duration(text), "{text}");
        }
        for text in ["P", "PT", "P1", "PY", "P1DT", "P1M1Y", "p1Y", "P1W2", "PW", "P1H"] {
            assert!(!is_iso_duration(text), "{text}");
        }
    }

    #[test]
    fn blobs_accept_both_cases() {
        assert_eq!(blob("00fF", 0).unwrap(), [0x00, 0xff]);
        assert!(blob("0", 0).is_err());
    }
}
