//! Positions in a text.

/// Position of a syntax element, in bytes from the beginning of the statement.
///
/// All positions are equal: syntax trees are compared by content, not by layout.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position(pub usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Position {}

impl std::hash::Hash for Position {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A location in a text, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Bytes from the beginning of the text.
    pub offset: usize,
    /// Line of the text, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
}

impl Location {
    /// Returns the location of a byte offset. An offset beyond the end or inside a character is
    /// moved to the nearest valid location before it.
    #[must_use]
    pub fn from_offset(text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            offset,
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Returns the location at the end of a text that begins here.
    pub(crate) fn advanced(self, text: &str) -> Self {
        Self::from_offset(text, text.len()).within(self)
    }

    /// Returns the location in a whole text, for a location in a part that begins at `start`.
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
    fn columns_count_characters() {
        let text = "é = 1\n  ü";
        assert_eq!(Location::from_offset(text, 3), Location { offset: 3, line: 1, column: 3 });
        assert_eq!(Location::from_offset(text, 9), Location { offset: 9, line: 2, column: 3 });
        assert_eq!(Location::from_offset(text, 10), Location { offset: 9, line: 2, column: 3 });
        assert_eq!(Location::from_offset(text, 99), Location { offset: 11, line: 2, column: 4 });
    }

    #[test]
    fn part_is_located_in_its_whole() {
        let start = Location { offset: 10, line: 3, column: 5 };
        let first_line = Location { offset: 2, line: 1, column: 3 };
        let later_line = Location { offset: 9, line: 2, column: 4 };
        assert_eq!(first_line.within(start), Location { offset: 12, line: 3, column: 7 });
        assert_eq!(later_line.within(start), Location { offset: 19, line: 4, column: 4 });
    }
}
