//! Text of a script's file.

use anyhow::{Result, bail};

/// Byte-order marks of encodings that are not read, and their names. The longer marks are first:
/// they begin with a shorter one.
const MARKS: [(&[u8], &str); 4] = [
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
];

/// Returns the text of a script without its byte-order mark.
///
/// # Errors
///
/// If the bytes are not UTF-8; the error names the encoding if it is known.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String> {
    let marked = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)).map(|(_, name)| *name);
    // Text without a mark, whose every other byte is zero.
    let begin = &bytes[..bytes.len().min(64)];
    let is_wide =
        begin.len() >= 4 && begin.iter().filter(|byte| **byte == 0).count() * 3 > begin.len();
    if let Some(encoding) = marked.or_else(|| is_wide.then_some("UTF-16")) {
        bail!("it is {encoding}, not UTF-8: convert it, as by iconv -f {encoding} -t UTF-8");
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
    fn other_encodings_are_named() {
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let refused = |bytes: Vec<u8>| decode(bytes).unwrap_err().to_string();
        assert!(refused(wide("\u{feff}USE k;")).contains("UTF-16"));
        assert!(refused(wide("USE k;")).contains("UTF-16"));
        assert!(refused(b"\xff\xfe\0\0U\0\0\0".to_vec()).contains("UTF-32"));
        assert!(refused(b"USE k; -- caf\xe9".to_vec()).contains("byte 13"));
    }
}
