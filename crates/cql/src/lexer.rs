//! Lexer: splits a text into tokens.
//!
//! A token is a kind and a range of bytes; the parser computes its meaning (a name folded to lower
//! case, a string without its quotes) on use. Keywords are [`TokenKind::Word`]s: only the parser
//! knows whether `key` is a name or part of `PRIMARY KEY`.
//!
//! A sign is a token of its own, so `a-1` is a subtraction and not, as in Cassandra's lexer, a name
//! followed by a negative number. `--` begins a comment anyway.

use crate::error::Failure;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword or a name.
    Word,
    /// A name in double quotes.
    QuotedName,
    /// A string in single quotes.
    String,
    /// A string between double dollars.
    DollarString,
    /// Decimal digits without fraction.
    Integer,
    /// Digits with a fraction or an exponent.
    Float,
    /// Digits with units, such as `1h30m`, or `P0001-02-03T04:05:06`.
    Duration,
    /// Hexadecimal digits after `0x`.
    Blob,
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid,
    /// A punctuation symbol.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Error of the lexer.
#[derive(Debug)]
pub(crate) struct LexError {
    /// The string, name or comment that is not closed, if that is the cause.
    pub(crate) unterminated: Option<&'static str>,
    pub(crate) failure: Failure,
}

/// Longer symbols precede their prefixes. CQL has no `==` and `<>`, but messages show them whole.
#[rustfmt::skip]
const SYMBOLS: [&str; 27] = [
    "..", "==", "<>", "!=", "<=", ">=", "+=", "-=", "(", ")", ",", ";", ".", "=", "<", ">", "+", "-", "*", "/", "%",
    "?", ":", "[", "]", "{", "}",
];

/// Longer units precede their prefixes, because they are matched in this order.
const DURATION_UNITS: [&str; 11] = ["mo", "ms", "us", "µs", "ns", "y", "w", "d", "h", "m", "s"];

const UUID_BYTES: usize = 36;

/// Shape of the ISO 8601 duration without units; `0` is any digit.
const ISO_DURATION: &[u8] = b"P0000-00-00T00:00:00";

/// Lexer of a text.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// Counts the tokens of a text, up to the first lexical error.
pub(crate) fn count(text: &str) -> usize {
    let mut lexer = Lexer::new(text);
    let mut count = 0;
    while lexer.next().is_ok_and(|token| token.kind != TokenKind::End) {
        count += 1;
    }
    count
}

impl<'t> Lexer<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the current offset.
    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// Reads the next token; at the end always [`TokenKind::End`]. After an error it continues
    /// behind the invalid text.
    pub(crate) fn next(&mut self) -> Result<Token, LexError> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = self.kind()?;
        Ok(Token { kind, start, end: self.at })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn kind(&mut self) -> Result<TokenKind, LexError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        match first {
            '\'' => self.quoted('\'', "string").map(|()| TokenKind::String),
            '"' => self.quoted('"', "name in double quotes").map(|()| TokenKind::QuotedName),
            '$' if rest.starts_with("$$") => self.dollars(),
            _ if is_uuid(rest) => {
                self.at += UUID_BYTES;
                Ok(TokenKind::Uuid)
            }
            '0'..='9' => self.number(),
            'P' if is_iso_duration(rest) => {
                self.at += ISO_DURATION.len();
                Ok(TokenKind::Duration)
            }
            'a'..='z' | 'A'..='Z' => {
                self.at += word_bytes(rest);
                Ok(TokenKind::Word)
            }
            _ => self.symbol(first),
        }
    }

    fn skip_blanks(&mut self) -> Result<(), LexError> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_ascii_start().len();
            if blanks > 0 {
                self.at += blanks;
            } else if rest.starts_with("--") || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or_else(|| self.unterminated("comment"))?;
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// Skips to the closing quote; a doubled one stands for itself.
    fn quoted(&mut self, quote: char, what: &'static str) -> Result<(), LexError> {
        let rest = self.rest();
        let mut at = 1;
        while let Some(found) = rest[at..].find(quote) {
            at += found + 1;
            if !rest[at..].starts_with(quote) {
                self.at += at;
                return Ok(());
            }
            at += 1;
        }
        Err(self.unterminated(what))
    }

    fn dollars(&mut self) -> Result<TokenKind, LexError> {
        let end = self.rest()[2..].find("$$").ok_or_else(|| self.unterminated("$$ string"))?;
        self.at += end + 4;
        Ok(TokenKind::DollarString)
    }

    fn number(&mut self) -> Result<TokenKind, LexError> {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let bytes = hex.len() - hex.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
            return self.finish_number(2 + bytes, TokenKind::Blob);
        }
        let whole = digits(rest);
        if let Some(bytes) = duration_bytes(rest) {
            return self.finish_number(bytes, TokenKind::Duration);
        }
        let fraction = match rest[whole..].strip_prefix('.') {
            // The bounds of a slice, as in `1..5`.
            Some(after) if after.starts_with('.') && !after.starts_with("..") => 0,
            Some(fraction) => 1 + digits(fraction),
            None => 0,
        };
        let exponent = exponent_bytes(&rest[whole + fraction..]);
        let is_whole = fraction + exponent == 0;
        let kind = if is_whole { TokenKind::Integer } else { TokenKind::Float };
        self.finish_number(whole + fraction + exponent, kind)
    }

    /// Refuses a number that is followed by letters, such as `12abc`.
    fn finish_number(&mut self, bytes: usize, kind: TokenKind) -> Result<TokenKind, LexError> {
        let start = self.at;
        self.at += bytes;
        let tail = word_bytes(self.rest());
        if tail == 0 {
            return Ok(kind);
        }
        self.at += tail;
        let shown = shorten(&self.text[start..self.at]);
        let message =
            format!("{shown} is no number; a name that begins with a digit needs double quotes");
        Err(LexError { unterminated: None, failure: Failure::syntax(start, message) })
    }

    fn symbol(&mut self, first: char) -> Result<TokenKind, LexError> {
        let rest = self.rest();
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            self.at += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        let start = self.at;
        self.at += first.len_utf8();
        let hint = match first {
            '‘' | '’' | '“' | '”' | '`' => {
                "; strings stand in straight single quotes, 'like this'"
            }
            '_' => "; a name begins with a letter, or stands in double quotes",
            '!' => "; \"not equal\" is !=",
            _ if first.is_alphabetic() => {
                "; a name with other letters than a to z needs double quotes"
            }
            _ => "",
        };
        let message = format!("unexpected character {}{hint}", shown_char(first));
        Err(LexError { unterminated: None, failure: Failure::syntax(start, message) })
    }

    /// Skips to the end of the text: an unclosed construct takes the rest.
    fn unterminated(&mut self, what: &'static str) -> LexError {
        let message = format!("the {what} that begins here is not closed");
        let failure = Failure::syntax(self.at, message);
        self.at = self.text.len();
        LexError { unterminated: Some(what), failure }
    }
}

/// Formats a character that may be invisible.
fn shown_char(c: char) -> String {
    if c.is_control() || c.is_whitespace() {
        format!("U+{:04X}", u32::from(c))
    } else {
        format!("{c:?}")
    }
}

/// Returns the beginning of a text, for a message.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}

fn digits(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
}

fn word_bytes(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len()
}

fn exponent_bytes(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(after.starts_with(['+', '-']));
    match digits(&after[sign..]) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// Returns the length of a duration: numbers with units, such as `1y2mo`.
fn duration_bytes(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let count = digits(&text[at..]);
        let unit = DURATION_UNITS.into_iter().find(|unit| {
            text[at + count..].get(..unit.len()).is_some_and(|part| part.eq_ignore_ascii_case(unit))
        });
        match (count, unit) {
            (1.., Some(unit)) => at += count + unit.len(),
            (0, None) if at > 0 => return Some(at),
            _ => return None,
        }
    }
}

fn is_iso_duration(text: &str) -> bool {
    let Some(candidate) = text.as_bytes().get(..ISO_DURATION.len()) else { return false };
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        shape => byte == shape,
    };
    candidate.iter().zip(ISO_DURATION).all(fits) && word_bytes(&text[ISO_DURATION.len()..]) == 0
}

fn is_uuid(text: &str) -> bool {
    let Some(candidate) = text.as_bytes().get(..UUID_BYTES) else { return false };
    let shape = candidate.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    shape && word_bytes(&text[UUID_BYTES..]) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == TokenKind::End {
                return found;
            }
            found.push((token.kind, &text[token.start..token.end]));
        }
    }

    fn error(text: &str) -> String {
        let mut lexer = Lexer::new(text);
        loop {
            match lexer.next() {
                Ok(token) => assert_ne!(token.kind, TokenKind::End, "{text} has no error"),
                Err(error) => return error.failure.locate(text).to_string(),
            }
        }
    }

    #[test]
    fn numbers_and_similar_tokens_are_recognized() {
        use TokenKind::{Blob, Duration, Float, Integer, Symbol, Uuid, Word};
        assert_eq!(
            kinds("1 2. 3.5 4e5 6.7E-8"),
            [(Integer, "1"), (Float, "2."), (Float, "3.5"), (Float, "4e5"), (Float, "6.7E-8"),]
        );
        assert_eq!(
            kinds("0x 0Xff 1h30m 12µs"),
            [(Blob, "0x"), (Blob, "0Xff"), (Duration, "1h30m"), (Duration, "12µs"),]
        );
        let iso = "P0001-02-03T04:05:06";
        assert_eq!(kinds(iso), [(Duration, iso)]);
        assert_eq!(kinds("P0001-x")[0], (Word, "P0001"));
        let uuid = "deadbeef-0000-1000-8000-00805f9b34fb";
        assert_eq!(kinds(uuid), [(Uuid, uuid)]);
        assert_eq!(kinds("deadbeef-1"), [(Word, "deadbeef"), (Symbol("-"), "-"), (Integer, "1"),]);
    }

    #[test]
    fn comments_are_blanks() {
        assert_eq!(kinds("-- a\n// b\n/* c\n * d */ e--f").len(), 1);
        assert_eq!(kinds("a - -1").len(), 4);
    }

    #[test]
    fn doubled_quotes_do_not_close() {
        use TokenKind::{DollarString, QuotedName, String};
        assert_eq!(
            kinds(r#"'it''s' "a""b" $$it's$$"#),
            [(String, "'it''s'"), (QuotedName, r#""a""b""#), (DollarString, "$$it's$$"),]
        );
    }

    #[test]
    fn unclosed_constructs_are_named() {
        assert!(
            error("a 'b")
                .starts_with("the string that begins here is not closed (line 1, column 3)")
        );
        assert!(error("$$b$").starts_with("the $$ string"));
        assert!(error("a /* b *").starts_with("the comment"));
        assert!(error("\"a\"\"").starts_with("the name in double quotes"));
    }

    #[test]
    fn odd_characters_get_a_hint() {
        assert!(error("‘a’").contains("straight single quotes"));
        assert!(error("12abc").starts_with("12abc is no number"));
        assert!(error("0xfg").starts_with("0xfg is no number"));
        assert!(error("straße").contains("'ß'; a name with other letters"));
        assert!(error("a\u{a0}b").starts_with("unexpected character U+00A0"));
    }
}
