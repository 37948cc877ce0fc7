//! Texts of statements without their passwords.
//!
//! A statement is shown in messages, traces and logs, and may be wrong: the password of a text is
//! therefore found by its tokens, not by the grammar. All that can be one is covered: a text in quotes
//! behind the word `PASSWORD`, and any token behind `PASSWORD =`.

use std::borrow::Cow;
use std::ops::Range;

use crate::ast::Secret;
use crate::lexer::{Lexer, TokenKind};

const WORD: &str = "PASSWORD";

/// Returns a text with `'***'` in place of its passwords.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    let found = passwords(text);
    if found.is_empty() {
        return text.into();
    }
    let (mut out, mut copied) = (String::new(), 0);
    for password in found {
        out.push_str(&text[copied..password.start]);
        out.push('\'');
        out.push_str(Secret::SHOWN);
        out.push('\'');
        copied = password.end;
    }
    out.push_str(&text[copied..]);
    out.into()
}

/// Returns a text with a star in place of each byte of its passwords: positions in it stay.
pub(crate) fn covered(text: &str) -> Cow<'_, str> {
    let found = passwords(text);
    if found.is_empty() {
        return text.into();
    }
    let (mut out, mut copied) = (String::new(), 0);
    for password in found {
        out.push_str(&text[copied..password.start]);
        // The end of its line stays, so that a line is that of the text.
        out.extend(
            text[password.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { '*' }),
        );
        copied = password.end;
    }
    out.push_str(&text[copied..]);
    out.into()
}

/// Returns the places of all passwords in a text.
fn passwords(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !has_word(text) {
        return found;
    }
    let mut lexer = Lexer::new(text);
    // Whether PASSWORD was the last word, and whether = followed it.
    let (mut is_next, mut is_given) = (false, false);
    let mut behind = 0;
    loop {
        let Ok(token) = lexer.next() else {
            // For example a string without its end.
            if is_next || has_word(&text[behind..]) {
                found.push(behind..text.len());
            }
            return found;
        };
        let word = &text[token.start..token.end];
        match token.kind {
            TokenKind::End => return found,
            TokenKind::Symbol("=") if is_next => is_given = true,
            TokenKind::Word if word.eq_ignore_ascii_case(WORD) => {
                (is_next, is_given) = (true, false);
            }
            kind => {
                let is_quoted = matches!(kind, TokenKind::String | TokenKind::QuotedName);
                if is_next && (is_given || is_quoted) {
                    found.push(token.start..token.end);
                }
                (is_next, is_given) = (false, false);
            }
        }
        behind = token.end;
    }
}

fn has_word(text: &str) -> bool {
    text.as_bytes().windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD.as_bytes()))
}
