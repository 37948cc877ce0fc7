//! Texts in messages.

/// Quotes the beginning of a text.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        None => format!("'{text}'"),
        Some((cut, _)) => format!("'{}…'", &text[..cut]),
    }
}
