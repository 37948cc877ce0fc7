//! Errors of the parser, with their positions.

use std::fmt;

use carnet_base::{Error, ErrorKind};

use crate::position::Location;

/// Number of characters shown on either side of the mistake.
const CONTEXT_CHARS: usize = 40;

/// Kind of a parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// The text is not CQL.
    Syntax,
    /// The text is CQL, but invalid for every table.
    Invalid,
    /// The text is CQL that is not supported yet.
    Unsupported,
}

/// Error of the parser: a message, a position, and the line with a caret under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    kind: ParseErrorKind,
    message: String,
    location: Location,
    snippet: String,
}

impl ParseError {
    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ParseErrorKind {
        self.kind
    }

    /// Returns the message alone.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the position of the error.
    #[must_use]
    pub const fn location(&self) -> Location {
        self.location
    }

    /// Returns the line with a caret under the mistake, in two lines.
    #[must_use]
    pub fn snippet(&self) -> &str {
        &self.snippet
    }

    /// Moves the error's position into a script in which the statement begins at `start`.
    #[must_use]
    pub fn within(mut self, start: Location) -> Self {
        self.location = self.location.within(start);
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { line, column, .. } = self.location;
        write!(f, "{} (line {line}, column {column})\n{}", self.message, self.snippet)
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        let kind = match error.kind {
            ParseErrorKind::Syntax | ParseErrorKind::Invalid => ErrorKind::Invalid,
            ParseErrorKind::Unsupported => ErrorKind::Unsupported,
        };
        Self::new(kind, error.to_string())
    }
}

/// An error before its line and column are known: finding them scans the whole text, which happens
/// once, for the error that is reported.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ParseErrorKind,
    message: String,
    at: usize,
}

impl Failure {
    pub(crate) fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { kind: ParseErrorKind::Syntax, message: message.into(), at }
    }

    pub(crate) fn invalid(at: usize, message: impl Into<String>) -> Self {
        Self { kind: ParseErrorKind::Invalid, message: message.into(), at }
    }

    pub(crate) fn unsupported(at: usize, what: &str) -> Self {
        let message = format!("not supported yet: {what}");
        Self { kind: ParseErrorKind::Unsupported, message, at }
    }

    /// Returns the byte offset of the error.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn locate(self, text: &str) -> ParseError {
        self.locate_in(text, text)
    }

    /// Like [`Failure::locate`], with another text of the same length to show.
    pub(crate) fn locate_in(self, text: &str, shown: &str) -> ParseError {
        let location = Location::from_offset(text, self.at);
        let snippet = snippet(shown, location);
        ParseError { kind: self.kind, message: self.message, location, snippet }
    }
}

/// Returns the line of the text with a caret under the position.
fn snippet(text: &str, location: Location) -> String {
    let line = text[location.offset..].lines().next().unwrap_or("");
    let line_start = text[..location.offset].rfind('\n').map_or(0, |at| at + 1);
    let before: Vec<char> = text[line_start..location.offset].chars().collect();
    let cut = before.len() > CONTEXT_CHARS;
    let shown_before = &before[before.len().saturating_sub(CONTEXT_CHARS)..];
    let mut after = line.chars();
    let shown_after: Vec<char> = after.by_ref().take(CONTEXT_CHARS).collect();

    let mut shown = String::from(if cut { "  …" } else { "  " });
    // A tab or a control character would misplace the caret.
    shown.extend(
        shown_before.iter().chain(&shown_after).map(|c| if c.is_control() { ' ' } else { *c }),
    );
    if after.next().is_some() {
        shown.push('…');
    }
    let indent = 2 + usize::from(cut) + shown_before.len();
    format!("{shown}\n{:indent$}^", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_on_both_sides() {
        let text = format!("SELECT\n{}\t! {}", "a".repeat(50), "b".repeat(50));
        let error = Failure::syntax(58, "odd").locate(&text);
        let expected = format!(
            "odd (line 2, column 52)\n  …{} ! {}…\n{}^",
            "a".repeat(39),
            "b".repeat(38),
            " ".repeat(43)
        );
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn end_of_a_text_has_a_position() {
        let error = Failure::syntax(99, "more").locate("SELECT");
        assert_eq!(error.to_string(), "more (line 1, column 7)\n  SELECT\n        ^");
    }

    #[test]
    fn unsupported_form_keeps_its_kind() {
        let error = Failure::unsupported(0, "joins").locate("x");
        let error = Error::from(error);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().starts_with("not supported yet: joins (line 1, column 1)"));
    }
}
