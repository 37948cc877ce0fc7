//! A reader of the part of EDN (<https://github.com/edn-format/edn>) that histories use.
//!
//! Tags are dropped and their values kept; characters, symbols, fractions and large numbers are
//! skipped. Memory is bounded by the text's length, nesting by [`DEPTH_MAX`].

use std::borrow::Cow;

use crate::error::{BadHistory, Result};
use crate::format::datum::Datum;

/// Maximum nesting of lists and maps.
const DEPTH_MAX: usize = 64;

/// Calls `take` with each top-level datum of a text, or with each element of a single big vector.
pub(crate) fn read<'t>(text: &'t str, mut take: impl FnMut(Datum<'t>) -> Result<()>) -> Result<()> {
    let mut reader = EdnReader { text, at: 0 };
    let mut is_in_list = false;
    loop {
        reader.skip_space()?;
        let line = reader.at;
        match reader.peek() {
            None if is_in_list => return Err(reader.bad("the vector of events does not end")),
            None => return Ok(()),
            Some(b'[' | b'(') if !is_in_list => {
                reader.at += 1;
                is_in_list = true;
            }
            Some(b']' | b')') if is_in_list => {
                reader.at += 1;
                is_in_list = false;
            }
            Some(_) => {
                let datum = reader.datum(0)?;
                take(datum).map_err(|bad| bad.at(place(text, line)))?;
            }
        }
    }
}

fn place(text: &str, at: usize) -> String {
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("line {line}")
}

struct EdnReader<'t> {
    text: &'t str,
    at: usize,
}

/// Returns `true` if a byte ends a number, symbol or keyword.
const fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b',' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'"' | b';')
}

impl<'t> EdnReader<'t> {
    fn bad(&self, message: &str) -> BadHistory {
        BadHistory::new(format!("invalid EDN: {message}")).at(place(self.text, self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, commas, comments and discarded data.
    fn skip_space(&mut self) -> Result<()> {
        self.skip_space_at(0)
    }

    fn skip_space_at(&mut self, depth: usize) -> Result<()> {
        while let Some(byte) = self.peek() {
            match byte {
                b',' => self.at += 1,
                byte if byte.is_ascii_whitespace() => self.at += 1,
                b';' => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                b'#' if self.text.as_bytes().get(self.at + 1) == Some(&b'_') => {
                    self.at += 2;
                    self.datum(depth + 1)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn datum(&mut self, depth: usize) -> Result<Datum<'t>> {
        if depth > DEPTH_MAX {
            return Err(self.bad("it is nested too deeply"));
        }
        self.skip_space_at(depth)?;
        match self.peek() {
            None => Err(self.bad("it ends too early")),
            Some(b'[') => self.list(b']', depth).map(Datum::List),
            Some(b'(') => self.list(b')', depth).map(Datum::List),
            Some(b'{') => self.map(depth),
            Some(b'"') => self.string().map(Datum::Text),
            Some(b'#') => self.dispatch(depth),
            Some(b'\\') => {
                // The character may be a delimiter, and may have several bytes.
                self.at += 1;
                let first = self.text[self.at..].chars().next();
                self.at += first.ok_or_else(|| self.bad("a character is missing"))?.len_utf8();
                self.token();
                Ok(Datum::Other)
            }
            Some(b']' | b')' | b'}') => Err(self.bad("unmatched closing bracket")),
            Some(_) => Ok(atom(self.token())),
        }
    }

    fn token(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let length = rest.bytes().position(is_delimiter).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn list(&mut self, end: u8, depth: usize) -> Result<Vec<Datum<'t>>> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space_at(depth)?;
            if self.peek() == Some(end) {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.datum(depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Datum<'t>> {
        let mut items = self.list(b'}', depth)?.into_iter();
        let mut entries = Vec::with_capacity(items.len() / 2);
        while let Some(key) = items.next() {
            let value = items.next().ok_or_else(|| self.bad("a map's last key has no value"))?;
            entries.push((key, value));
        }
        Ok(Datum::Map(entries))
    }

    /// Reads a datum that begins with `#`: a set, or a tag and its value.
    fn dispatch(&mut self, depth: usize) -> Result<Datum<'t>> {
        self.at += 1;
        if self.peek() == Some(b'{') {
            return self.list(b'}', depth).map(Datum::List);
        }
        if self.token().is_empty() {
            return Err(self.bad("a tag has no name"));
        }
        self.datum(depth + 1)
    }

    fn string(&mut self) -> Result<Cow<'t, str>> {
        self.at += 1;
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let plain = plain.ok_or_else(|| self.bad("a string does not end"))?;
        self.at += plain;
        let mut text = Cow::Borrowed(&self.text[start..self.at]);
        loop {
            let mut rest = self.text[self.at..].chars();
            let c = rest.next().ok_or_else(|| self.bad("a string does not end"))?;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => {
                    let escape = rest.next().ok_or_else(|| self.bad("a string does not end"))?;
                    self.at += escape.len_utf8();
                    let c = self.unescape(escape)?;
                    text.to_mut().push(c);
                }
                c => text.to_mut().push(c),
            }
        }
    }

    fn unescape(&mut self, escape: char) -> Result<char> {
        Ok(match escape {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '\\' | '"' => escape,
            'u' => {
                let digits = self.text.get(self.at..self.at + 4);
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let code = code.ok_or_else(|| self.bad("\\u needs four hexadecimal digits"))?;
                self.at += 4;
                // Half of a surrogate pair is not a character.
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.bad("a string has an unknown escape")),
        })
    }
}

fn atom(token: &str) -> Datum<'_> {
    if let Some(name) = token.strip_prefix(':') {
        return Datum::Keyword(name);
    }
    if token == "nil" {
        return Datum::Nil;
    }
    // `7N` is a number with arbitrary precision, which may be small.
    let digits = token.strip_suffix('N').unwrap_or(token);
    digits.parse().map_or(Datum::Other, Datum::Int)
}
