//! Lines of bounded length.

use std::io::{self, BufRead};

/// Maximum length of a line in bytes, without its end: values have at most 8 MiB.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// The line was longer than allowed; all of it was read and dropped.
    TooLong,
}

/// Reads a line without its end; `None` at the end of the input.
pub(crate) fn read_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    let (mut line, mut is_too_long, mut is_anything) = (Vec::new(), false, false);
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        is_anything |= !piece.is_empty();
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        is_too_long |= line.len() + text.len() > bytes_max;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(text);
        }
        let is_over = end.is_some() || piece.is_empty();
        let used = end.map_or(piece.len(), |end| end + 1);
        input.consume(used);
        if is_over {
            let line = if is_too_long { Line::TooLong } else { Line::Whole(line) };
            return Ok(is_anything.then_some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_are_bounded_and_the_next_is_complete() {
        let text = b"one\n\nfour!\nlast";
        for capacity in [1, 3, 100] {
            let mut input = BufReader::with_capacity(capacity, &text[..]);
            let mut next = || read_line(&mut input, 4).unwrap();
            assert_eq!(next(), Some(Line::Whole(b"one".to_vec())));
            assert_eq!(next(), Some(Line::Whole(Vec::new())));
            assert_eq!(next(), Some(Line::TooLong));
            assert_eq!(next(), Some(Line::Whole(b"last".to_vec())));
            assert_eq!(next(), None);
        }
    }
}
