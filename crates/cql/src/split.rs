//! A script into its statements, for the shell.
//!
//! A statement ends at a semicolon that stands outside strings, quoted names and comments. Inside
//! `BEGIN … APPLY` and `BEGIN … COMMIT` the semicolons belong to the block, which ends at the
//! first one behind `APPLY BATCH`, `APPLY TRANSACTION` or `COMMIT TRANSACTION`.
//!
//! What a statement says does not matter here, so a piece may be no CQL at all: the parser will
//! say so, and the next piece is still found.

use std::ops::Range;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::position::Location;

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'t> {
    /// Its text from its first word to its last, without the semicolon.
    pub text: &'t str,
    /// Where it begins in the script; [`ParseError::within`](crate::ParseError::within) takes it.
    pub start: Location,
    /// How it ends.
    pub end: PieceEnd,
}

/// How a piece of a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// With its semicolon.
    Semicolon,
    /// With the script; it may be complete.
    Script,
    /// With the script, inside something that is named here: it cannot be complete.
    Inside(&'static str),
}

/// Splits a script. Blanks, comments and lone semicolons are no pieces.
#[must_use]
pub fn split(script: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut lexer = Lexer::new(script);
    let mut current = Current::default();
    let mut at = Location { offset: 0, line: 1, column: 1 };
    loop {
        let ended = match lexer.next() {
            Ok(token) => current.take(script, token),
            Err(error) => {
                current.cover(error.failure.at(), lexer.offset());
                error.unterminated.map(PieceEnd::Inside)
            }
        };
        let Some(end) = ended else { continue };
        if let Some(range) = std::mem::take(&mut current).range {
            at = at.advanced(&script[at.offset..range.start]);
            pieces.push(Piece { text: &script[range], start: at, end });
        }
        if end != PieceEnd::Semicolon {
            return pieces;
        }
    }
}

/// The piece that is being read.
#[derive(Default)]
struct Current {
    range: Option<Range<usize>>,
    in_block: bool,
    /// What the last two tokens mean to the end of a block.
    last: [Word; 2],
}

/// What a token means to the end of a block.
#[derive(Clone, Copy, Default, PartialEq)]
enum Word {
    /// `APPLY` or `COMMIT`.
    Ends,
    /// `BATCH` or `TRANSACTION`.
    Block,
    /// Nothing.
    #[default]
    Other,
}

impl Current {
    /// Adds a token, or says how the piece ends before it.
    fn take(&mut self, script: &str, token: Token) -> Option<PieceEnd> {
        let is_open = self.in_block && self.last != [Word::Ends, Word::Block];
        match token.kind {
            TokenKind::End if is_open => return Some(PieceEnd::Inside("BEGIN block")),
            TokenKind::End => return Some(PieceEnd::Script),
            TokenKind::Symbol(";") if !is_open => return Some(PieceEnd::Semicolon),
            _ => {}
        }
        let text = &script[token.start..token.end];
        let is_any = |words: [&str; 2]| {
            token.kind == TokenKind::Word
                && words.iter().any(|word| text.eq_ignore_ascii_case(word))
        };
        self.in_block |= self.range.is_none() && is_any(["BEGIN", "BEGIN"]);
        let word = if is_any(["APPLY", "COMMIT"]) {
            Word::Ends
        } else if is_any(["BATCH", "TRANSACTION"]) {
            Word::Block
        } else {
            Word::Other
        };
        self.last = [self.last[1], word];
        self.cover(token.start, token.end);
        None
    }

    /// Makes the piece reach over a part of the script.
    fn cover(&mut self, start: usize, end: usize) {
        self.range.get_or_insert(start..end).end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, parse};

    fn texts(script: &str) -> Vec<&str> {
        split(script).into_iter().map(|piece| piece.text).collect()
    }

    fn last_end(script: &str) -> PieceEnd {
        split(script).last().unwrap().end
    }

    #[test]
    fn semicolons_in_strings_names_and_comments_are_text() {
        let script = "SELECT ';' FROM \"a;b\"; -- c; d\n// e;\n/* f; */ USE $$g;$$ ;; \n";
        assert_eq!(texts(script), ["SELECT ';' FROM \"a;b\"", "USE $$g;$$"]);
        assert!(texts(" -- nothing\n;;").is_empty());
    }

    #[test]
    fn blocks_keep_their_semicolons() {
        let blocks = [
            "BEGIN BATCH INSERT a; UPDATE b; APPLY BATCH",
            "begin transaction SELECT a; END IF commit transaction",
            "BEGIN TRANSACTION SELECT a; APPLY TRANSACTION",
            "BEGIN TRANSACTION SELECT a; COMMIT TRANSACTION APPLY BATCH",
        ];
        for block in blocks {
            let script = format!("USE a; {block}; USE b");
            assert_eq!(texts(&script), ["USE a", block, "USE b"]);
            assert_eq!(last_end(block), PieceEnd::Script);
        }
        // The word is none that begins a block, or none at all.
        assert_eq!(texts("SELECT begin; 'BEGIN'; a").len(), 3);
    }

    #[test]
    fn what_is_open_at_the_end_is_named() {
        let open = [
            ("USE a; USE 'b; ", "string"),
            ("USE \"b; ", "name in double quotes"),
            ("USE a; /* b; ", "comment"),
            ("$$ b; ", "$$ string"),
            ("BEGIN BATCH INSERT a; ", "BEGIN block"),
            ("BEGIN TRANSACTION SELECT a; COMMIT", "BEGIN block"),
        ];
        for (script, what) in open {
            assert_eq!(last_end(script), PieceEnd::Inside(what), "{script}");
        }
        assert_eq!(last_end("USE a"), PieceEnd::Script);
        assert_eq!(last_end("USE a;"), PieceEnd::Semicolon);
    }

    #[test]
    fn no_cql_is_a_piece_as_well() {
        assert_eq!(texts("a ! b; c § d;"), ["a ! b", "c § d"]);
        assert_eq!(texts("12abc; ~"), ["12abc", "~"]);
    }

    #[test]
    fn errors_are_placed_in_the_script() {
        let script = "USE a;\n\n  -- odd\n  SELECT b\n  WHERE c;";
        let piece = split(script)[1];
        let error = parse(piece.text, &Limits::default()).unwrap_err().within(piece.start);
        assert_eq!((error.location().line, error.location().column), (5, 3));
        assert_eq!(&script[error.location().offset..], "WHERE c;");
    }
}
