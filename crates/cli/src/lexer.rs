//! Lexer of the shell's own commands, and of `COPY`.

use std::fmt;

/// A token and its offset in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: usize,
}

/// Kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword, a name or a number.
    Word(String),
    /// A name in double quotes, as written, quotes included.
    Quoted(String),
    /// A string in single quotes, without them.
    Text(String),
    /// Any other character.
    Symbol(char),
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) | Self::Quoted(word) => f.write_str(word),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Symbol(symbol) => write!(f, "{symbol}"),
        }
    }
}

/// A syntax error in a command, and its offset in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) message: String,
    pub(crate) at: usize,
}

impl Mistake {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { message: message.into(), at }
    }
}

/// Splits a command into tokens. Comments and blanks are skipped.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            '-' if rest.starts_with("--") => (None, line_len(rest)),
            '/' if rest.starts_with("//") => (None, line_len(rest)),
            '/' if rest.starts_with("/*") => (None, rest.find("*/").map_or(rest.len(), |n| n + 2)),
            '\'' | '"' => quoted(rest, first, at)?,
            _ if is_word(first) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (Some(TokenKind::Word(rest[..length].to_owned())), length)
            }
            _ => (Some(TokenKind::Symbol(first)), first.len_utf8()),
        };
        tokens.extend(kind.map(|kind| Token { kind, at }));
        at += length;
    }
    Ok(tokens)
}

fn line_len(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads to the closing quote; a doubled one stands for itself.
fn quoted(rest: &str, quote: char, at: usize) -> Result<(Option<TokenKind>, usize), Mistake> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((offset, c)) = chars.next() {
        if c != quote || chars.next_if(|(_, next)| *next == quote).is_some() {
            text.push(c);
        } else {
            let length = offset + 1;
            let kind = match quote {
                '"' => TokenKind::Quoted(rest[..length].to_owned()),
                _ => TokenKind::Text(text),
            };
            return Ok((Some(kind), length));
        }
    }
    Err(Mistake::new(at, format!("the {quote} is not closed")))
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn words_strings_and_names() {
        let kinds: Vec<_> = tokens("COPY \"a\"\"b\".c(é) 'it''s' -- x\n/* y */ = 1;")
            .unwrap()
            .into_iter()
            .map(|token| token.kind)
            .collect();
        let expected = [
            TokenKind::Word("COPY".into()),
            TokenKind::Quoted("\"a\"\"b\"".into()),
            TokenKind::Symbol('.'),
            TokenKind::Word("c".into()),
            TokenKind::Symbol('('),
            TokenKind::Word("é".into()),
            TokenKind::Symbol(')'),
            TokenKind::Text("it's".into()),
            TokenKind::Symbol('='),
            TokenKind::Word("1".into()),
            TokenKind::Symbol(';'),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(tokens("a 'b").unwrap_err().at, 2);
    }

    #[test]
    fn arbitrary_text_is_read_to_its_end() {
        const ALPHABET: [&str; 12] =
            ["a", "é", "'", "\"", "-", "/", "*", "\n", " ", ";", "(", "😀"];
        for seed in 0..5_000 {
            let mut rng = SeededRng::new(seed);
            let pick = |rng: &mut SeededRng| {
                ALPHABET[usize::try_from(rng.below(ALPHABET.len() as u64)).unwrap()]
            };
            let text: String = (0..rng.below(20)).map(|_| pick(&mut rng)).collect();
            match tokens(&text) {
                Ok(tokens) => assert!(tokens.iter().all(|token| token.at < text.len())),
                Err(mistake) => assert!(text.is_char_boundary(mistake.at), "seed {seed}"),
            }
        }
    }
}
