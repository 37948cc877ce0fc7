//! Recursive-descent parser: tokens into a syntax tree.
//!
//! Each family of statements has its own file, which adds methods to [`Parser`]. `Parser` holds the
//! tokens and the position in them. Its helpers (`eat…` consumes an item if it is next, `expect…`
//! fails if it is not) make the methods read like the grammar.
//!
//! In CQL the next token decides almost everywhere. Otherwise a bounded lookahead decides (a type
//! hint or parentheses, a tuple or a relation in parentheses, a condition or a term). No production
//! is ever tried twice, so the time stays proportional to the text.

mod batch;
mod condition;
mod ddl;
mod describe;
mod index;
mod level;
mod marshal;
mod monitor;
mod name;
mod open;
mod options;
mod permission;
mod relation;
mod role;
mod select;
mod statement;
mod term;
mod transaction;
mod types;
mod unsupported;
mod view;
mod write;

use std::cell::Cell;

use crate::ast::{BindMarker, Statement};
use crate::error::{Failure, ParseError};
use crate::fingerprint;
use crate::lexer::{Lexer, Token, TokenKind, shorten};
use crate::position::Position;
use crate::redact::covered;
use crate::steps::SECTION_STEPS_MAX;

/// Maximum nesting depth of terms, types and conditions. With it the parser, `Display` and `Drop`
/// need at most 1 MiB of stack in a debug build (a thread usually has 2 MiB).
pub const NESTING_MAX: usize = 64;

/// Maximum number of bind markers per statement: the native protocol counts values in 16 bits.
pub const MARKERS_MAX: usize = 65_535;

/// Default maximum length of a statement, in bytes: that of a request of the native protocol.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// Maximum number of tokens of a statement. A token takes 24 times the memory of the shortest one.
const TOKENS_MAX: usize = 1 << 20;

/// Number of bytes of the text that count as a step.
const STEP_BYTES: usize = 64;

/// Maximum number of terms in a statement: constants, markers, names and calls that have a value.
/// The statements of a batch share it.
pub const TERMS_MAX: usize = 100_000;

/// Maximum number of values in a list after `IN`.
pub const IN_VALUES_MAX: usize = 10_000;

/// Maximum number of columns or fields in a list of a statement; more than any table or type has. This
/// list and the next ones are searched for each of their items.
const DEFINITIONS_MAX: usize = 2_000;

/// Maximum number of options after `WITH`.
const OPTIONS_MAX: usize = 100;

/// Maximum number of `LET`s of a transaction.
const LETS_MAX: usize = 256;

/// Maximum number of characters in a number: parsing its digits takes quadratic time.
pub const NUMBER_DIGITS_MAX: usize = 10_000;

/// Limits of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a statement in bytes. Default: [`STATEMENT_BYTES_MAX`].
    pub statement_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { statement_bytes_max: STATEMENT_BYTES_MAX }
    }
}

/// A statement and its bind markers.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The parsed statement.
    pub statement: Statement,
    /// Its bind markers in the order of the text; [`BindMarker::index`] is an index into them.
    pub markers: Vec<Marker>,
    /// Number of its terms, at most [`TERMS_MAX`].
    pub terms: usize,
    /// Number of tokens that the parser looked at.
    pub steps: u64,
    /// Fingerprint of the text, which statements have in common that differ only in values.
    pub fingerprint: u64,
}

/// A bind marker in its written form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Name of a `:name`, in lower case unless it was quoted.
    pub name: Option<String>,
    /// Position in the text.
    pub at: Position,
}

/// Parses one statement, with or without a semicolon at its end.
///
/// # Errors
///
/// The first mistake in the text, or a text that exceeds the limit.
pub fn parse(text: &str, limits: &Limits) -> Result<Parsed, ParseError> {
    Parser::new(text, limits)
        .and_then(|mut parser| {
            let statement = parser.whole_statement()?;
            let steps = parser.steps.get() + (text.len() / STEP_BYTES) as u64;
            let fingerprint = fingerprint::hash(text, &parser.tokens);
            let Parser { markers, terms, .. } = parser;
            Ok(Parsed { statement, markers, terms, steps, fingerprint })
        })
        .map_err(|failure| failure.locate_in(text, &covered(text)))
}

type Parse<T> = Result<T, Failure>;

/// Whether a bare name is a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// A bare name is a column or a `LET`.
    Allowed,
    /// Only values are terms.
    Refused,
}

/// Tokens of a text, and the position of the parser.
struct Parser<'t> {
    text: &'t str,
    /// The last token is [`TokenKind::End`].
    tokens: Vec<Token>,
    next: usize,
    /// Lexical error at which the tokens end before the text does. It is reported when the parser
    /// gets there, so that the first mistake in the text wins.
    unread: Option<Failure>,
    markers: Vec<Marker>,
    /// Number of terms parsed.
    terms: usize,
    depth: usize,
    names: Names,
    /// Number of tokens that were looked at.
    steps: Cell<u64>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, limits: &Limits) -> Parse<Self> {
        if text.len() > limits.statement_bytes_max {
            let (bytes, bytes_max) = (text.len(), limits.statement_bytes_max);
            let message = format!(
                "the statement has {bytes} bytes, more than the {bytes_max} that are allowed"
            );
            return Err(Failure::invalid(0, message));
        }
        let mut parser = Self {
            text,
            tokens: Vec::new(),
            next: 0,
            unread: None,
            markers: Vec::new(),
            terms: 0,
            depth: 0,
            names: Names::Refused,
            steps: Cell::new(0),
        };
        parser.read_tokens();
        Ok(parser)
    }

    fn read_tokens(&mut self) {
        let mut lexer = Lexer::new(self.text);
        loop {
            let token = match lexer.next() {
                Ok(token) => token,
                Err(error) => {
                    self.unread = Some(error.failure);
                    Token { kind: TokenKind::End, start: self.text.len(), end: self.text.len() }
                }
            };
            let token = if self.tokens.len() < TOKENS_MAX { token } else { self.cut(token.start) };
            self.tokens.push(token);
            if token.kind == TokenKind::End {
                return;
            }
        }
    }

    /// Ends the tokens at an offset, because there are too many.
    fn cut(&mut self, at: usize) -> Token {
        let message = format!(
            "the statement has more than {TOKENS_MAX} words, numbers and symbols; split it into \
             several statements"
        );
        self.unread = Some(Failure::invalid(at, message));
        Token { kind: TokenKind::End, start: at, end: at }
    }

    /// Returns the token at `ahead` from the next one; after the end, the end token.
    fn peek_at(&self, ahead: usize) -> Token {
        self.steps.set(self.steps.get() + 1);
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    fn peek(&self) -> Token {
        self.peek_at(0)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.next += 1;
        }
        token
    }

    fn text_of(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// Returns the offset of the next token.
    fn at(&self) -> usize {
        self.peek().start
    }

    fn position(&self) -> Position {
        Position(self.at())
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        let token = self.peek_at(ahead);
        token.kind == TokenKind::Word && self.text_of(token).eq_ignore_ascii_case(word)
    }

    /// Returns `true` if the next tokens are these words.
    fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word_at(ahead, word))
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn is_symbol_at(&self, ahead: usize, symbol: &'static str) -> bool {
        self.peek_at(ahead).kind == TokenKind::Symbol(symbol)
    }

    fn is_symbol(&self, symbol: &'static str) -> bool {
        self.is_symbol_at(0, symbol)
    }

    fn eat_words(&mut self, words: &[&str]) -> bool {
        let is_there = self.is_words(words);
        if is_there {
            self.next += words.len();
        }
        is_there
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.eat_words(&[word])
    }

    fn eat_symbol(&mut self, symbol: &'static str) -> bool {
        let is_there = self.is_symbol(symbol);
        if is_there {
            self.next += 1;
        }
        is_there
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    /// Consumes these words; after the first one, the others are required.
    fn expect_words(&mut self, words: &[&str]) -> Parse<()> {
        words.iter().try_for_each(|word| self.expect_word(word))
    }

    fn expect_symbol(&mut self, symbol: &'static str) -> Parse<()> {
        if self.eat_symbol(symbol) { Ok(()) } else { Err(self.expected(symbol)) }
    }

    /// Consumes `IF NOT EXISTS` if it is next.
    fn eat_if_not_exists(&mut self) -> Parse<bool> {
        let is_there = self.eat_word("IF");
        if is_there {
            self.expect_words(&["NOT", "EXISTS"])?;
        }
        Ok(is_there)
    }

    /// Consumes `IF EXISTS` if it is next.
    fn eat_if_exists(&mut self) -> Parse<bool> {
        let is_there = self.eat_word("IF");
        if is_there {
            self.expect_word("EXISTS")?;
        }
        Ok(is_there)
    }

    /// Parses one or several items separated by commas.
    fn comma_separated<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.eat_symbol(",") {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// Parses definitions or names of columns, separated by commas.
    fn definitions<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut all = Vec::new();
        loop {
            let definition = one(self)?;
            self.push_definition(&mut all, definition)?;
            if !self.eat_symbol(",") {
                return Ok(all);
            }
        }
    }

    /// Adds a definition of a column or field, or its name, to a list.
    fn push_definition<T>(&self, list: &mut Vec<T>, definition: T) -> Parse<()> {
        self.push(list, definition, DEFINITIONS_MAX, "columns or fields")
    }

    /// Adds an item to a list in which later checks search for each item.
    fn push<T>(&self, list: &mut Vec<T>, item: T, max: usize, what: &str) -> Parse<()> {
        if list.len() == max {
            let message = format!("the statement has a list of more than {max} {what}");
            return Err(Failure::invalid(self.at(), message));
        }
        list.push(item);
        Ok(())
    }

    /// Parses items separated by commas, possibly none, up to a closing symbol.
    fn comma_separated_until<T>(
        &mut self,
        close: &'static str,
        one: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        if self.eat_symbol(close) {
            return Ok(Vec::new());
        }
        let all = self.comma_separated(one)?;
        self.expect_symbol(close)?;
        Ok(all)
    }

    /// Parses an item one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth == NESTING_MAX {
            let message = format!("nested more than {NESTING_MAX} levels deep");
            return Err(self.unread_or(Failure::invalid(self.at(), message)));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Parses an item with or without bare names as terms.
    fn with_names<T>(
        &mut self,
        names: Names,
        parse: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        let before = std::mem::replace(&mut self.names, names);
        let result = parse(self);
        self.names = before;
        result
    }

    /// Returns the error for an unexpected next token.
    fn expected(&self, what: &str) -> Failure {
        let found = self.shown_next();
        self.unread_or(Failure::syntax(self.at(), format!("expected {what}, found {found}")))
    }

    fn unsupported(&self, what: &str) -> Failure {
        Failure::unsupported(self.at(), what)
    }

    /// Returns the lexical error instead, if the tokens end there.
    fn unread_or(&self, failure: Failure) -> Failure {
        match &self.unread {
            Some(unread) if self.peek().kind == TokenKind::End => unread.clone(),
            _ => failure,
        }
    }

    /// Returns the next token's form in messages.
    fn shown_next(&self) -> String {
        let token = self.peek();
        match token.kind {
            TokenKind::End => "the end of the statement".to_owned(),
            TokenKind::DollarString => "a $$ string".to_owned(),
            _ => shorten(self.text_of(token)),
        }
    }

    /// Counts a term.
    fn new_term(&mut self) -> Parse<()> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            let message = format!(
                "the statement has more than {TERMS_MAX} terms; split it into several statements"
            );
            return Err(Failure::invalid(self.at(), message));
        }
        if self.steps.get() > SECTION_STEPS_MAX {
            let message = format!(
                "parsing the statement takes more than {SECTION_STEPS_MAX} steps; split it into \
                 several statements"
            );
            return Err(Failure::invalid(self.at(), message));
        }
        Ok(())
    }

    /// Counts a bind marker.
    fn new_marker(&mut self, name: Option<String>, at: Position) -> Parse<BindMarker> {
        let index = u16::try_from(self.markers.len()).ok().filter(|index| *index != u16::MAX);
        let Some(index) = index else {
            let message = format!("more than {MARKERS_MAX} bind markers");
            return Err(Failure::invalid(at.0, message));
        };
        self.markers.push(Marker { name: name.clone(), at });
        Ok(BindMarker { index, name, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_parsed_and_many_tokens_are_refused() {
        let long = format!("INSERT INTO t (k) VALUES ('{}')", "x".repeat(11 << 20));
        let parsed = parse(&long, &Limits::default()).unwrap();
        assert!(parsed.steps >= (11 << 20) / STEP_BYTES as u64, "{} steps", parsed.steps);
        let many = format!("SELECT k FROM t{}", ";".repeat(TOKENS_MAX));
        let error = parse(&many, &Limits::default()).unwrap_err();
        assert!(error.message().contains("more than 1048576 words"), "{error}");
        let fewer = format!("SELECT k FROM t{}", ";".repeat(TOKENS_MAX - 5));
        assert!(parse(&fewer, &Limits::default()).is_ok());
    }
}
