//! Where in a text something stands.

/// Where in a statement something was read, in bytes from the statement's beginning.
///
/// All positions are equal: a syntax tree compares by what it says, not by how it was laid out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position(pub usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Position {}

/// A place in a text, as a person finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Bytes from the beginning.
    pub offset: usize,
    /// Lines, the first is 1.
    pub line: usize,
    /// Characters of that line, the first is 1.
    pub column: usize,
}

impl Location {
    /// Finds a byte offset in a text; beyond its end, or inside a character, the next best place
    /// before it.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            offset,
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Returns the place behind a text that begins here.
    pub(crate) fn advanced(self, text: &str) -> Self {
        Self::of(text, text.len()).within(self)
    }

    /// Returns the place in a whole text of a place in a part of it that begins at `start`.
    #[must_use]
    pub fn within(self, start: Self) -> Self {
        let same_line = self.line == 1;
        Self {
            offset: start.offset + self.offset,
            line: start.line + self.line - 1,
            column: if same_line { start.column + self.column - 1 } else { self.column },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_begin_after_their_break() {
        let text = "é = 1\n  ü";
        assert_eq!(Location::of(text, 3), Location { offset: 3, line: 1, column: 3 });
        assert_eq!(Location::of(text, 9), Location { offset: 9, line: 2, column: 3 });
        assert_eq!(Location::of(text, 10), Location { offset: 9, line: 2, column: 3 });
        assert_eq!(Location::of(text, 99), Location { offset: 11, line: 2, column: 4 });
    }

    #[test]
    fn a_part_is_placed_in_its_whole() {
        let start = Location { offset: 10, line: 3, column: 5 };
        let first_line = Location { offset: 2, line: 1, column: 3 };
        let later_line = Location { offset: 9, line: 2, column: 4 };
        assert_eq!(first_line.within(start), Location { offset: 12, line: 3, column: 7 });
        assert_eq!(later_line.within(start), Location { offset: 19, line: 4, column: 4 });
    }
}
