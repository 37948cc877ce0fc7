//! Text of a script's file.

use anyhow::{Result, bail};

/// Byte-order marks of UTF-32. They are tried first: one begins with a mark of UTF-16.
const MARKS_32: [&[u8]; 2] = [b"\xff\xfe\0\0", b"\0\0\xfe\xff"];
/// Makes a unit of UTF-16 from its bytes.
type Unit = fn([u8; 2]) -> u16;
/// Byte-order marks of UTF-16, and how its units are read.
const MARKS_16: [(&[u8], Unit); 2] =
    [(b"\xff\xfe", u16::from_le_bytes), (b"\xfe\xff", u16::from_be_bytes)];

/// Returns the text of a script without its byte-order mark: of UTF-8, or of UTF-16 with a mark, as
/// editors and shells of Windows write it.
///
/// # Errors
///
/// If the bytes have another encoding; the error names it if it is known.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String> {
    if MARKS_32.iter().any(|mark| bytes.starts_with(mark)) {
        bail!("{}", other("UTF-32"));
    }
    for (mark, unit) in MARKS_16 {
        if let Some(units) = bytes.strip_prefix(mark) {
            return wide(units, unit);
        }
    }
    // Text without a mark, whose every other byte is zero.
    let begin = &bytes[..bytes.len().min(64)];
    let is_wide =
        begin.len() >= 4 && begin.iter().filter(|byte| **byte == 0).count() * 3 > begin.len();
    if is_wide {
        bail!("{}", other("UTF-16"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            bail!(
                "it is not UTF-8: byte {at} is invalid; if it is Latin-1, convert it by iconv -f LATIN1 -t UTF-8"
            )
        }
    }
}

fn other(encoding: &str) -> String {
    format!(
        "it is {encoding}, and not UTF-8 or UTF-16 with a byte-order mark: convert it, as by iconv -f {encoding} -t UTF-8"
    )
}

fn wide(bytes: &[u8], unit: Unit) -> Result<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>();
    match text {
        Ok(text) if rest.is_empty() => Ok(text),
        _ => bail!("it begins as UTF-16 and is not: a unit of two bytes is missing or invalid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_is_no_text() {
        assert_eq!(decode("\u{feff}USE k;".into()).unwrap(), "USE k;");
        assert_eq!(decode("USE k;".into()).unwrap(), "USE k;");
        assert_eq!(decode(Vec::new()).unwrap(), "");
    }

    #[test]
    fn utf_16_with_a_mark_is_text() {
        let text = "USE k; -- caf\u{e9} \u{1f980}";
        let marked = || "\u{feff}".encode_utf16().chain(text.encode_utf16());
        let (little, big) =
            (marked().flat_map(u16::to_le_bytes), marked().flat_map(u16::to_be_bytes));
        assert_eq!(decode(little.clone().collect()).unwrap(), text);
        assert_eq!(decode(big.collect()).unwrap(), text);
        let cut = little.take(9).collect();
        assert!(decode(cut).unwrap_err().to_string().contains("missing or invalid"));
        assert!(decode(b"\xff\xfe\0\xd8".to_vec()).is_err());
    }

    #[test]
    fn other_encodings_are_named() {
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let refused = |bytes: Vec<u8>| decode(bytes).unwrap_err().to_string();
        assert!(refused(wide("USE k;")).contains("UTF-16"));
        assert!(refused(b"\xff\xfe\0\0U\0\0\0".to_vec()).contains("UTF-32"));
        assert!(refused(b"USE k; -- caf\xe9".to_vec()).contains("byte 13"));
    }
}
