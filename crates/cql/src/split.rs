//! Splits a script into its statements, for the shell.
//!
//! A statement ends at a semicolon outside of strings, quoted names and comments. Inside `BEGIN BATCH
//! … APPLY` and `BEGIN TRANSACTION … COMMIT` the semicolons belong to the block, which ends at the
//! first one after `APPLY BATCH`, `APPLY TRANSACTION` or `COMMIT TRANSACTION`.
//!
//! Blocks as other databases have them are invalid and end at once, so that a terminal need not wait
//! for an end that never comes: `BEGIN;`, `BEGIN TRANSACTION;`, and a `COMMIT;` inside a block.
//!
//! The content of a statement does not matter here: a piece may be invalid CQL. The parser then
//! reports it, and the next piece is still found.

use std::ops::Range;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::position::Location;

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'t> {
    /// Text from its first word to its last, without the semicolon.
    pub text: &'t str,
    /// Location of its beginning in the script, for
    /// [`ParseError::within`](crate::ParseError::within).
    pub start: Location,
    /// End of the piece.
    pub end: PieceEnd,
}

/// End of a piece of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// The piece ends with its semicolon.
    Semicolon,
    /// The piece ends with the script; it may be complete.
    Script,
    /// The script ends inside the named construct: the piece is incomplete.
    Inside(&'static str),
}

/// Splits a script into pieces. Blanks, comments and lone semicolons are skipped.
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

/// The piece that is being scanned.
#[derive(Default)]
struct Current {
    range: Option<Range<usize>>,
    /// Number of tokens.
    tokens: usize,
    /// The first word is `BEGIN`.
    begins: bool,
    in_block: bool,
    /// Classes of the last two tokens.
    last: [Word; 2],
}

/// Class of a token in the search for the end of a block.
#[derive(Clone, Copy, Default, PartialEq)]
enum Word {
    /// The word `APPLY` or `COMMIT`.
    Ends,
    /// The word `BATCH` or `TRANSACTION`.
    Block,
    /// Symbol `;`, which ends statements.
    Semicolon,
    /// Any other token, or none.
    #[default]
    Other,
}

/// Words behind the `BEGIN` of a block.
const KINDS: [&str; 5] = ["BATCH", "COUNTER", "LOGGED", "TRANSACTION", "UNLOGGED"];

impl Current {
    /// Adds a token, or returns the end of the piece before it.
    fn take(&mut self, script: &str, token: Token) -> Option<PieceEnd> {
        let is_open = self.in_block && self.last != [Word::Ends, Word::Block];
        match token.kind {
            TokenKind::End if is_open => return Some(PieceEnd::Inside("BEGIN block")),
            TokenKind::End => return Some(PieceEnd::Script),
            TokenKind::Symbol(";") if !is_open || self.is_foreign() => {
                return Some(PieceEnd::Semicolon);
            }
            _ => {}
        }
        let text = &script[token.start..token.end];
        let is_any = |words: &[&str]| {
            token.kind == TokenKind::Word
                && words.iter().any(|word| text.eq_ignore_ascii_case(word))
        };
        self.begins |= self.tokens == 0 && is_any(&["BEGIN"]);
        self.in_block |= self.begins && self.tokens == 1 && is_any(&KINDS);
        self.tokens += 1;
        let word = match token.kind {
            TokenKind::Symbol(";") => Word::Semicolon,
            _ if is_any(&["APPLY", "COMMIT"]) => Word::Ends,
            _ if is_any(&["BATCH", "TRANSACTION"]) => Word::Block,
            _ => Word::Other,
        };
        self.last = [self.last[1], word];
        self.cover(token.start, token.end);
        None
    }

    /// Returns `true` before a semicolon that no valid block has: directly behind `BEGIN
    /// TRANSACTION`, or behind a `COMMIT` that is a statement.
    fn is_foreign(&self) -> bool {
        self.tokens == 2 || self.last == [Word::Semicolon, Word::Ends]
    }

    /// Extends the piece over a part of the script.
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
        // The words do not begin a block.
        assert_eq!(texts("SELECT begin; 'BEGIN'; a").len(), 3);
        // Columns and tables of these names are no ends.
        let block =
            "BEGIN TRANSACTION LET a = (SELECT commit FROM t); SELECT a.commit; COMMIT TRANSACTION";
        assert_eq!(texts(&format!("{block}; USE b")), [block, "USE b"]);
        let block = "BEGIN TRANSACTION SELECT a FROM batch; COMMIT TRANSACTION";
        assert_eq!(texts(&format!("{block}; USE b")), [block, "USE b"]);
    }

    #[test]
    fn blocks_of_other_databases_end_at_once() {
        assert_eq!(texts("BEGIN; UPDATE a; COMMIT;"), ["BEGIN", "UPDATE a", "COMMIT"]);
        assert_eq!(texts("BEGIN UPDATE a; COMMIT"), ["BEGIN UPDATE a", "COMMIT"]);
        assert_eq!(texts("begin work; UPDATE a"), ["begin work", "UPDATE a"]);
        assert_eq!(texts("BEGIN TRANSACTION; UPDATE a"), ["BEGIN TRANSACTION", "UPDATE a"]);
        let block = "BEGIN TRANSACTION UPDATE a; COMMIT";
        assert_eq!(texts(&format!("{block}; USE b")), [block, "USE b"]);
        for script in ["BEGIN;", "BEGIN TRANSACTION;", "BEGIN TRANSACTION UPDATE a; COMMIT;"] {
            assert_eq!(last_end(script), PieceEnd::Semicolon, "{script}");
        }
        assert_eq!(last_end("BEGIN"), PieceEnd::Script);
    }

    #[test]
    fn unclosed_construct_at_the_end_is_named() {
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
    fn invalid_cql_is_a_piece() {
        assert_eq!(texts("a ! b; c § d;"), ["a ! b", "c § d"]);
        assert_eq!(texts("12abc; ~"), ["12abc", "~"]);
    }

    #[test]
    fn errors_are_located_in_the_script() {
        let script = "USE a;\n\n  -- odd\n  SELECT b\n  WHERE c;";
        let piece = split(script)[1];
        let error = parse(piece.text, &Limits::default()).unwrap_err().within(piece.start);
        assert_eq!((error.location().line, error.location().column), (5, 3));
        assert_eq!(&script[error.location().offset..], "WHERE c;");
    }
}
