//! Splits a script into statements and commands.
//!
//! A statement ends with its semicolon. The commands that cqlsh ends with their line may end so
//! here, too; one in the middle of a statement is part of it.

use carnet_cql::{Location, Piece, PieceEnd, split};

use super::command::first_word;

/// Commands that end with their line, or before it with a semicolon.
const ENDED_BY_LINE: [&str; 19] = [
    "CAPTURE",
    "CLEAR",
    "CLS",
    "CONSISTENCY",
    "DEBUG",
    "DESC",
    "DESCRIBE",
    "ELAPSED",
    "EXIT",
    "EXPAND",
    "HELP",
    "HISTORY",
    "LOGIN",
    "PAGING",
    "QUIT",
    "SERIAL",
    "SHOW",
    "SOURCE",
    "TRACING",
];

/// Lines that cqlsh prints before its output. Schema dumps made with it begin with them.
const OF_CQLSH: [&str; 3] = [
    "WARNING: cqlsh was built against",
    "Warning: Using a password on the command line interface",
    "Recommendation: use the credentials file to securely provide the password",
];

/// Splits a script. Blanks, comments, lone semicolons and the notes of cqlsh are skipped.
pub(crate) fn pieces(script: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut begin = Location { offset: 0, line: 1, column: 1 };
    while let Some(next) = split_until_line(script, begin, &mut all) {
        begin = next;
    }
    all
}

/// Splits the rest of a script up to a piece that ends with its line, and returns the beginning of
/// the next line; `None` at the end of the script.
fn split_until_line<'t>(
    script: &'t str,
    begin: Location,
    all: &mut Vec<Piece<'t>>,
) -> Option<Location> {
    let rest = &script[begin.offset..];
    for piece in split(rest) {
        let start = piece.start.within(begin);
        let is_note = OF_CQLSH.iter().any(|note| piece.text.starts_with(note));
        if !is_note && !ends_with_line(piece.text) {
            all.push(Piece { start, ..piece });
            continue;
        }
        // The line may be longer than the piece, by its semicolon.
        let line_end = rest[piece.start.offset..].find('\n');
        let line_end = line_end.map_or(rest.len(), |at| piece.start.offset + at);
        let is_cut = line_end < piece.start.offset + piece.text.len();
        let line = &rest[piece.start.offset..line_end];
        let text = if is_cut { line.trim_end() } else { piece.text };
        if !is_note {
            // A command without a semicolon is complete once its line is.
            let is_whole = is_cut || (piece.end == PieceEnd::Script && line_end < rest.len());
            let end = if is_whole { PieceEnd::Semicolon } else { piece.end };
            all.push(Piece { text, start, end });
        }
        if is_cut || is_note {
            return Some(Location::from_offset(rest, line_end).within(begin));
        }
    }
    None
}

fn ends_with_line(text: &str) -> bool {
    // Commands of other shells, for which there are hints.
    if text.starts_with(['\\', '.']) {
        return true;
    }
    let word = first_word(text);
    ENDED_BY_LINE.iter().any(|command| word.eq_ignore_ascii_case(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        pieces(script).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn commands_end_with_their_line() {
        let script = "SOURCE 'a.cql'\nDESCRIBE TABLES\n-- next\nSELECT\n1; quit\n";
        assert_eq!(texts(script), ["SOURCE 'a.cql'", "DESCRIBE TABLES", "SELECT\n1", "quit"]);
        assert_eq!(texts("USE k; desc t\nUSE l"), ["USE k", "desc t", "USE l"]);
        assert_eq!(texts("HELP;\nEXIT; USE k"), ["HELP", "EXIT", "USE k"]);
        // The rest of the script is found although the line has an odd quote.
        assert_eq!(texts("help don't\nUSE k;"), ["help don't", "USE k"]);
    }

    #[test]
    fn command_within_a_statement_is_part_of_it() {
        assert_eq!(texts("SELECT a\nshow\nFROM t;"), ["SELECT a\nshow\nFROM t"]);
        assert_eq!(texts("SELECT 'a;\nhelp\n';"), ["SELECT 'a;\nhelp\n'"]);
        assert_eq!(texts("COPY t\nTO 'x';"), ["COPY t\nTO 'x'"]);
    }

    #[test]
    fn line_completes_a_command_but_no_statement() {
        let end = |script| pieces(script).last().unwrap().end;
        assert_eq!(end("DESCRIBE TABLES\n"), PieceEnd::Semicolon);
        assert_eq!(end("DESCRIBE TABLES"), PieceEnd::Script);
        assert_eq!(end("SELECT 1\n"), PieceEnd::Script);
        assert_eq!(end("help don't\n"), PieceEnd::Semicolon);
    }

    #[test]
    fn notes_of_cqlsh_are_skipped() {
        let note =
            "WARNING: cqlsh was built against 5.0, but this server is 4.0. It won't all work!";
        assert_eq!(texts(&format!("\n{note}\n\nUSE k;")), ["USE k"]);
        assert_eq!(texts(note), [""; 0]);
    }

    #[test]
    fn positions_are_of_the_script() {
        let script = "DESC t\n\n  USE k; desc u\n USE l";
        for piece in pieces(script) {
            assert!(script[piece.start.offset..].starts_with(piece.text), "{piece:?}");
        }
        let last = pieces(script)[3];
        assert_eq!((last.start.line, last.start.column), (4, 2));
    }
}
