//! The two dialects of CSV.
//!
//! | | cqlsh (the default) | RFC 4180: `ESCAPE = '"'` |
//! | --- | --- | --- |
//! | `say "hi"` | `"say \"hi\""` | `"say ""hi"""` |
//! | `C:\temp` | `C:\\temp` | `C:\temp` |
//!
//! In both, a field with a delimiter, a quote or a line break stands in quotes, and a doubled quote
//! within quotes is read as one quote: cqlsh never writes it otherwise. A lone backslash before
//! another character is a mistake in the dialect of cqlsh, never dropped in silence.
//!
//! `,,` is null and `,"",` an empty text. To cqlsh both are null.

/// How records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    /// The byte before a byte that is meant literally. `None`: quotes are doubled instead.
    pub(super) escape: Option<u8>,
    /// Text for null.
    pub(super) null: String,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', escape: Some(b'\\'), null: String::new() }
    }
}

impl Dialect {
    /// Returns `true` if `byte` can stand only in quotes or after the escape.
    pub(super) fn is_special(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == self.quote || matches!(byte, b'\r' | b'\n')
    }

    /// Returns why the dialect cannot be read back, or `None`.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        if self.delimiter == self.quote {
            return Some("DELIMITER and QUOTE have to differ");
        }
        if self.escape == Some(self.delimiter) {
            return Some("DELIMITER and ESCAPE have to differ");
        }
        let is_marked = |byte| self.is_special(byte) || Some(byte) == self.escape;
        self.null.bytes().any(is_marked).then_some(
            "NULL may contain no DELIMITER, QUOTE, ESCAPE or line break: it is written as it is",
        )
    }
}

/// Field of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) is_quoted: bool,
}
