//! Beginnings of texts that are shown.

use std::fmt::{self, Display, Write as _};

/// Returns the beginning of a text, and `true` if the text is longer. No more of it is made.
pub(crate) fn beginning(text: impl Display, len_max: usize) -> (String, bool) {
    let mut cut = Cut { text: String::new(), len_max };
    let is_longer = write!(cut, "{text}").is_err();
    (cut.text, is_longer)
}

/// A text with a maximum length in bytes.
struct Cut {
    text: String,
    len_max: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.len_max - self.text.len();
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_ends_between_characters() {
        assert_eq!(beginning("aéz", 4), ("aéz".to_owned(), false));
        assert_eq!(beginning("aéz", 3), ("aé".to_owned(), true));
        assert_eq!(beginning("aéz", 2), ("a".to_owned(), true));
        assert_eq!(beginning(format_args!("{}{}", "aé", "z"), 3), ("aé".to_owned(), true));
    }
}
