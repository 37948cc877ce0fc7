//! Folding of texts: the terms of an index that ignores case, accents or forms of Unicode.
//!
//! Cassandra's storage-attached indexes fold in this order:
//!
//! ```text
//! option              step
//! case_sensitive      to lower case
//! normalize           to the composed form of Unicode, NFC
//! ascii               letters, digits and signs that resemble ASCII characters, to these
//! ```
//!
//! Entries of an index are found by the folded value, also to be deleted, so the result for a text must
//! not change from one version of Carnet to the next. The tests have a checksum of each step over all
//! characters: if a new toolchain or library folds in another way, entries of existing indexes would be
//! lost, and the new folding needs another number in the schema of an index.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;

use crate::value::Value;

/// Replacements of the `ASCIIFoldingFilter` of Lucene 9.7, which Cassandra uses: between tabs and ends of
/// lines the text in ASCII, a space, and the characters that it replaces.
const ASCII: &str = include_str!("folding/ascii.txt");

static REPLACEMENTS: LazyLock<HashMap<char, &str>> = LazyLock::new(|| {
    let entries = ASCII.split(['\t', '\n']).filter_map(|entry| entry.split_once(' '));
    let replaced = entries.flat_map(|(by, replaced)| replaced.chars().map(move |one| (one, by)));
    replaced.collect()
});

/// Steps by which an index folds texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    /// Whether letters become lower case.
    pub lower_case: bool,
    /// Whether texts get the composed form of Unicode.
    pub normalize: bool,
    /// Whether characters become the ASCII characters that they resemble.
    pub ascii: bool,
}

impl Folding {
    /// Returns `true` if no step is taken.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns the folded text.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        let mut folded = match self.lower_case {
            true => text.to_lowercase(),
            false => text.to_owned(),
        };
        if folded.is_ascii() {
            return folded;
        }
        if self.normalize {
            folded = folded.nfc().collect();
        }
        if self.ascii {
            folded = to_ascii(&folded);
        }
        folded
    }

    /// Returns a folded `text` or `ascii`, and other values as they are.
    #[must_use]
    pub fn value(self, value: Value) -> Value {
        match value {
            value if self.is_none() => value,
            Value::Text(text) => Value::Text(self.text(&text)),
            Value::Ascii(text) => Value::Ascii(self.text(&text)),
            value => value,
        }
    }
}

fn to_ascii(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match REPLACEMENTS.get(&character) {
            Some(by) => folded.push_str(by),
            None => folded.push(character),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use carnet_base::murmur3;

    use super::*;

    const LOWER: Folding = Folding { lower_case: true, normalize: false, ascii: false };
    const COMPOSED: Folding = Folding { lower_case: false, normalize: true, ascii: false };
    const TO_ASCII: Folding = Folding { lower_case: false, normalize: false, ascii: true };

    #[test]
    fn steps_follow_each_other() {
        let all = Folding { lower_case: true, normalize: true, ascii: true };
        // The accent is a separate character, which only the composed letter loses.
        assert_eq!(all.text("E\u{301}COLE № ½ ﬃ"), "ecole № ½ ffi");
        assert_eq!(TO_ASCII.text("E\u{301}"), "E\u{301}");
        assert_eq!(COMPOSED.text("E\u{301}"), "É");
        assert_eq!(LOWER.text("ÉΣΑΣ"), "éσας");
        assert_eq!(Folding::default().text("É"), "É");
    }

    /// Entries of existing indexes are found by the folded text. A step that folds in another way needs a
    /// number in the schema of an index.
    #[test]
    fn folding_never_changes() {
        for (folding, count, checksum) in [
            (LOWER, 1_462, -6_204_417_606_535_493_157),
            (COMPOSED, 1_120, 6_719_672_036_275_651_492),
            (TO_ASCII, 1_242, 3_722_407_047_908_209_561),
        ] {
            let (mut folded, mut number) = (String::new(), 0);
            for character in ('\u{80}'..='\u{2ffff}').filter(|one| !one.is_ascii()) {
                let text = character.to_string();
                let found = folding.text(&text);
                if found != text {
                    folded.extend([&*text, " ", &found, "\n"]);
                    number += 1;
                }
            }
            let found = (number, murmur3::token(folded.as_bytes()).0);
            assert_eq!(found, (count, checksum), "{folding:?}");
        }
    }

    #[test]
    fn only_texts_are_folded() {
        assert_eq!(LOWER.value(Value::Ascii("A".to_owned())), Value::Ascii("a".to_owned()));
        assert_eq!(LOWER.value(Value::Text("A".to_owned())), Value::Text("a".to_owned()));
        assert_eq!(LOWER.value(Value::Int(7)), Value::Int(7));
    }
}
