//! Fingerprints of statements: statements that differ only in values have the same one.
//!
//! ```text
//! select v from t where k = 7 and c in ('a', 'b');
//! SELECT v FROM t WHERE k = ? AND c IN (?)            both: SELECT v FROM t WHERE k = ? AND c IN (?, …)
//! ```
//!
//! A fingerprint is made from the tokens that the parser has anyway, and costs a nanosecond for each byte
//! of the text. Values and markers are one token, and so is a list of them, whatever its length. Case
//! counts in quoted names only.

use crate::lexer::{Lexer, Token, TokenKind};

/// Initial value and prime of the hash FNV-1a with 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Stands for the values after the first one of a list.
const MORE: &str = ", …";

/// Returns the fingerprint of a text with these tokens.
pub(crate) fn hash(text: &str, tokens: &[Token]) -> u64 {
    let mut hash = OFFSET;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let word = &text[token.start..token.end];
        let is_left_out = matches!(token.kind, TokenKind::End | TokenKind::Symbol(";"));
        if !is_left_out && !is_sign(tokens, at) {
            match token.kind {
                TokenKind::Word => word.bytes().for_each(|byte| add(byte.to_ascii_lowercase())),
                _ if is_value(token) => {
                    add(b'?');
                    at = list_end(tokens, at);
                }
                _ => word.bytes().for_each(&mut add),
            }
            add(0);
        }
        at += 1;
    }
    hash
}

/// Combines a fingerprint with the keyspace of its unqualified names.
pub(crate) fn in_keyspace(fingerprint: u64, keyspace: Option<&str>) -> u64 {
    let bytes = keyspace.unwrap_or_default().bytes();
    bytes.fold(fingerprint, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Returns a text with `?` in place of values. The end of a text that is cut or wrong is missing.
pub(crate) fn normalized(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    let (mut tokens, mut is_whole) = (Vec::new(), false);
    while let Ok(token) = lexer.next() {
        is_whole = token.kind == TokenKind::End;
        if is_whole {
            break;
        }
        tokens.push(token);
    }
    let (mut out, mut written, mut at) = (String::new(), 0, 0);
    while let Some(token) = tokens.get(at) {
        // A comment may have values in it.
        let gap = &text[written..token.start];
        out.push_str(if gap.trim().is_empty() { gap } else { " " });
        written = token.end;
        if is_value(token) {
            let end = list_end(&tokens, at);
            out.push('?');
            if end > at {
                out.push_str(MORE);
            }
            (at, written) = (end, tokens[end].end);
        } else if !is_sign(&tokens, at) {
            out.push_str(&text[token.start..token.end]);
        }
        at += 1;
    }
    if !is_whole {
        out.push('…');
    }
    out
}

const fn is_value(token: &Token) -> bool {
    !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::End)
        && !matches!(token.kind, TokenKind::Symbol(symbol) if !is_marker(symbol))
}

const fn is_marker(symbol: &str) -> bool {
    matches!(symbol.as_bytes(), b"?")
}

/// Returns `true` for the sign of a number, which is part of a value.
fn is_sign(tokens: &[Token], at: usize) -> bool {
    let is_number = |token: &Token| {
        matches!(token.kind, TokenKind::Integer | TokenKind::Float | TokenKind::Duration)
    };
    let before = at.checked_sub(1).map(|before| tokens[before].kind);
    tokens[at].kind == TokenKind::Symbol("-")
        && tokens.get(at + 1).is_some_and(is_number)
        && matches!(before, Some(TokenKind::Symbol(symbol)) if !matches!(symbol, ")" | "]" | "?"))
}

/// Returns the index of the last value of a list that begins with a value.
fn list_end(tokens: &[Token], mut at: usize) -> usize {
    loop {
        let mut next = at + 1;
        if tokens.get(next).is_none_or(|token| token.kind != TokenKind::Symbol(",")) {
            return at;
        }
        next += 1;
        if next < tokens.len() && is_sign(tokens, next) {
            next += 1;
        }
        if !tokens.get(next).is_some_and(is_value) {
            return at;
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Limits, parse};

    fn fingerprint(text: &str) -> u64 {
        parse(text, &Limits::default()).unwrap().fingerprint
    }

    #[test]
    fn values_do_not_count() {
        let texts = [
            "SELECT v FROM t WHERE k = 7 AND c IN ('a', 'b')",
            "select V from T where K=-1.5 and c in (?);",
            "SELECT v /* all */ FROM t WHERE k = ? AND c IN ($$x$$, -7, 0xff)",
        ];
        for text in texts {
            assert_eq!(fingerprint(text), fingerprint(texts[0]), "{text}");
        }
        for other in [
            "SELECT w FROM t WHERE k = 7 AND c IN ('a', 'b')",
            "SELECT v FROM t WHERE k = 7 AND c > 'b'",
            "SELECT \"V\" FROM t WHERE k = 7 AND c IN ('a', 'b')",
            "SELECT v FROM t WHERE k = 7 AND c IN ('a', 'b') LIMIT 1",
        ] {
            assert_ne!(fingerprint(other), fingerprint(texts[0]), "{other}");
        }
        let one = fingerprint("SELECT v FROM t");
        assert_ne!(in_keyspace(one, Some("a")), in_keyspace(one, Some("b")));
    }

    /// Monitors compare the fingerprints of several servers, and keep them over upgrades.
    #[test]
    fn fingerprint_is_the_same_everywhere() {
        assert_eq!(fingerprint("SELECT v FROM t WHERE k = 7"), 0x8ebd_b854_246e_3bbb);
    }

    #[test]
    fn text_has_no_values() {
        let cases = [
            ("UPDATE t SET v = 'x''y' WHERE k = -3", "UPDATE t SET v = ? WHERE k = ?"),
            ("INSERT INTO t (a, b) VALUES (1, -2)", "INSERT INTO t (a, b) VALUES (?, …)"),
            ("SELECT a - 1 FROM t", "SELECT a - ? FROM t"),
            ("UPDATE t SET v = {'a': 1}", "UPDATE t SET v = {?: ?}"),
            ("INSERT INTO t (a) VALUES ('cut in the mid", "INSERT INTO t (a) VALUES (…"),
            ("SELECT /* 'x' */ a FROM t -- 17", "SELECT a FROM t"),
            ("SELECT  a\nFROM t;", "SELECT  a\nFROM t;"),
        ];
        for (text, expected) in cases {
            assert_eq!(normalized(text), expected);
        }
    }
}
