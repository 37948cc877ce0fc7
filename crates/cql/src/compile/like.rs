//! Patterns of `LIKE`.

use crate::cql_error::CqlError;

/// A pattern of `LIKE`, without its wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The whole value: `text`.
    Whole(String),
    /// The beginning of the value: `text%`.
    Prefix(String),
    /// The end of the value: `%text`.
    Suffix(String),
    /// A part of the value: `%text%`.
    Within(String),
}

impl Pattern {
    /// Parses a pattern: `%` at its beginning and at its end stands for any text.
    ///
    /// # Errors
    ///
    /// `Invalid` for a pattern without text.
    pub(crate) fn parse(text: &str) -> Result<Self, CqlError> {
        let (begins, rest) = text.strip_prefix('%').map_or((false, text), |rest| (true, rest));
        let (ends, rest) = rest.strip_suffix('%').map_or((false, rest), |rest| (true, rest));
        if rest.is_empty() {
            return Err(CqlError::invalid(
                "LIKE value can't be empty or contain only '%': name a part of the text",
            ));
        }
        let rest = rest.to_owned();
        Ok(match (begins, ends) {
            (false, false) => Self::Whole(rest),
            (false, true) => Self::Prefix(rest),
            (true, false) => Self::Suffix(rest),
            (true, true) => Self::Within(rest),
        })
    }

    /// Returns `true` if a text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Whole(wanted) => text == wanted,
            Self::Prefix(wanted) => text.starts_with(wanted),
            Self::Suffix(wanted) => text.ends_with(wanted),
            Self::Within(wanted) => text.contains(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_at_the_ends_stands_for_any_text() {
        let matches = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().matches(text);
        assert!(matches("ab", "ab") && !matches("ab", "abc"));
        assert!(matches("ab%", "abc") && matches("ab%", "ab") && !matches("ab%", "cab"));
        assert!(matches("%ab", "cab") && !matches("%ab", "abc"));
        assert!(matches("%a%b%", "xa%by") && !matches("%a%b%", "xaby"));
        assert!(Pattern::parse("%").is_err() && Pattern::parse("%%").is_err());
        assert!(Pattern::parse("").is_err());
    }
}
