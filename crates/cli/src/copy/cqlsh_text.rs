//! Texts as cqlsh exports them.
//!
//! `COPY … TO` of cqlsh (on Python 3.10 or later) writes a text as it displays it, and then as CSV:
//!
//! ```text
//!   back\slash ── display ─▶ back\\slash ── CSV ─▶ back\\\\slash
//!   a⏎b        ── display ─▶ a\nb        ── CSV ─▶ a\\nb
//! ```
//!
//! Its `COPY … FROM` undoes the second step only, and so changes such texts. This module undoes
//! the first, for files that cqlsh exported: their lines end with CR LF on every system.

/// Returns the text that cqlsh displays as `shown`.
///
/// # Errors
///
/// The escape that cqlsh does not write.
pub(super) fn undisplay(shown: &str) -> Result<String, String> {
    let mut text = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (character, escape_bytes) = escaped(&rest[at + 1..]).ok_or_else(|| {
            let found: String = rest[at..].chars().take(2).collect();
            format!(
                "cqlsh exports no {found}. If the file is not an export of cqlsh, say \
                 CQLSHEXPORT = false"
            )
        })?;
        text.push(character);
        rest = &rest[at + 1 + escape_bytes..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns the character of an escape, and the escape's bytes behind the backslash.
fn escaped(rest: &str) -> Option<(char, usize)> {
    Some(match rest.as_bytes().first()? {
        b'\\' => ('\\', 1),
        b'n' => ('\n', 1),
        b'r' => ('\r', 1),
        b't' => ('\t', 1),
        b'x' => (char::from(u8::from_str_radix(rest.get(1..3)?, 16).ok()?), 3),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_texts_are_read() {
        let read = |shown: &str| undisplay(shown).unwrap();
        assert_eq!(read("back\\\\slash"), "back\\slash");
        assert_eq!(read("a\\nb\\r\\t\\x01\\x85\\xa0é"), "a\nb\r\t\u{1}\u{85}\u{a0}é");
        assert_eq!(read("\\\\n"), "\\n");
        assert_eq!(read("plain"), "plain");
        for wrong in ["C:\\users", "\\", "\\x", "\\xg1", "\\x1é"] {
            assert!(undisplay(wrong).unwrap_err().contains("CQLSHEXPORT"), "{wrong}");
        }
    }
}
