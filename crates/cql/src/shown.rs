//! Beginnings of terms and values, for messages.
//!
//! A message shows at most 64 bytes of a term or value, and formats no more of it: a value may have
//! megabytes, and a large number takes quadratic time.

use std::fmt::{self, Display, Write};

use carnet::Value;

/// Maximum number of bytes of a term or value in a message.
const SHOWN_BYTES_MAX: usize = 64;

/// Maximum number of bits of a number that a message shows.
const SHOWN_BITS_MAX: u64 = 200;

/// Returns the beginning of the text of a term or type.
pub(crate) fn shown(term: &impl Display) -> String {
    let mut beginning = Beginning::default();
    // An error ends the formatting where the text is long enough.
    let _ = write!(beginning, "{term}");
    beginning.finish()
}

/// Returns the beginning of a value; of a long number, its type and length.
pub(crate) fn shown_value(value: &Value) -> String {
    match value {
        Value::Varint(number) | Value::Decimal { unscaled: number, .. }
            if number.bits() > SHOWN_BITS_MAX =>
        {
            format!("a {} of {} bits", value.data_type(), number.bits())
        }
        Value::Composite(composite) => format!("a value of type {}", shown(composite.data_type())),
        value => shown(value),
    }
}

/// Text that ends at [`SHOWN_BYTES_MAX`].
#[derive(Default)]
pub(crate) struct Beginning {
    text: String,
    is_cut: bool,
}

impl Beginning {
    /// Returns the text, with an ellipsis if it was cut.
    pub(crate) fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Beginning {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = SHOWN_BYTES_MAX - self.text.len();
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| more.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&more[..end]);
        self.is_cut = true;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use carnet_data::BigInt;

    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shown(&"short"), "short");
        let cut = shown(&"é".repeat(1_000));
        assert!(cut.len() <= SHOWN_BYTES_MAX + '…'.len_utf8() && cut.ends_with("é…"));
    }

    #[test]
    fn long_numbers_are_not_written() {
        let number = Value::Varint(BigInt::from(1) << 8_000_000_u32);
        assert_eq!(shown_value(&number), "a varint of 8000001 bits");
        assert_eq!(shown_value(&Value::Int(-7)), "-7");
    }
}
