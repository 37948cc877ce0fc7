//! Keywords of CQL, and names that are written without quotes.
//!
//! Most keywords of CQL are names wherever a name is allowed; the parser distinguishes them by
//! their position. Only reserved words need double quotes as names. Source of the list: Cassandra
//! 5.0, `reserved_keywords.txt`, and its lexer's `BOOLEAN`.

/// Sorted, for the binary search.
#[rustfmt::skip]
const RESERVED: [&str; 59] = [
    "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by",
    "columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute", "false",
    "from", "full", "grant", "if", "in", "index", "infinity", "insert", "into", "is", "keyspace",
    "limit", "materialized", "modify", "nan", "norecursive", "not", "null", "of", "on", "or",
    "order", "primary", "rename", "revoke", "schema", "select", "set", "table", "to", "token",
    "true", "truncate", "unlogged", "update", "use", "using", "view", "where", "with",
];

/// Words that are names, but also begin another construct at places of names.
const AMBIGUOUS: [&str; 3] = ["cast", "distinct", "json"];

/// Returns `true` if a word, in any case, is a name only in double quotes.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Returns `true` if a name is written without quotes.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !is_reserved(name)
        && !AMBIGUOUS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED.iter().all(|word| is_reserved(&word.to_ascii_uppercase())));
        assert!(is_reserved("With"));
    }

    #[test]
    fn names_are_plain_or_quoted() {
        assert!(is_plain("a_1"));
        assert!(is_plain("key"));
        for quoted in ["", "A", "1a", "_a", "a b", "order", "json", "é"] {
            assert!(!is_plain(quoted), "{quoted:?}");
        }
    }
}
