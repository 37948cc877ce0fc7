//! Writer of the protocol's notations.

use std::fmt;
use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};

/// Maximum length of a body that a client has to accept, in bytes: the protocol's own limit.
pub const BODY_LEN_MAX: usize = 256 << 20;

/// A response that exceeds the protocol's limits. The request is answered with an error instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize(String);

impl fmt::Display for Oversize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writer of a body.
///
/// An item that does not fit is recorded, and reported once by [`Writer::finish`]; from then on the
/// body's bytes are invalid.
#[derive(Debug, Default)]
pub struct Writer {
    body: BytesMut,
    oversize: Option<Oversize>,
}

impl Writer {
    /// Creates an empty body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a body after `len` bytes, which are filled in at the end. It has room for a short
    /// body.
    pub(super) fn behind(len: usize) -> Self {
        const SHORT_LEN: usize = 247;
        let mut body = BytesMut::with_capacity(len + SHORT_LEN);
        body.put_bytes(0, len);
        Self { body, oversize: None }
    }

    /// Returns the finished body.
    ///
    /// # Errors
    ///
    /// [`Oversize`] if a part or the whole exceeds the protocol's limits.
    pub fn finish(self) -> Result<Bytes, Oversize> {
        self.finish_unfrozen().map(BytesMut::freeze)
    }

    /// Returns the body and the bytes before it, to be modified.
    pub(super) fn finish_unfrozen(self) -> Result<BytesMut, Oversize> {
        match self.oversize {
            Some(oversize) => Err(oversize),
            None if self.body.len() > BODY_LEN_MAX => Err(too_long("the response", BODY_LEN_MAX)),
            None => Ok(self.body),
        }
    }

    fn count(&mut self, len: usize, what: &str) -> u16 {
        u16::try_from(len).unwrap_or_else(|_| {
            self.oversize.get_or_insert_with(|| too_long(what, usize::from(u16::MAX)));
            0
        })
    }

    /// Reserves room for this number of bytes, because growing step by step would copy a long body
    /// repeatedly.
    pub(super) fn reserve(&mut self, len: usize) {
        self.body.reserve(len.min(BODY_LEN_MAX));
    }

    /// Writes encoded bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        // Stops growing when the body can no longer be sent.
        if self.body.len() <= BODY_LEN_MAX {
            self.body.put_slice(bytes);
        }
    }

    /// Writes a `[byte]` of the protocol.
    pub fn byte(&mut self, byte: u8) {
        self.body.put_u8(byte);
    }

    /// Writes a `[short]` of the protocol.
    pub fn short(&mut self, number: u16) {
        self.body.put_u16(number);
    }

    /// Writes an `[int]` of the protocol.
    pub fn int(&mut self, number: i32) {
        self.body.put_i32(number);
    }

    /// Writes a length as a `[short]`.
    pub fn short_len(&mut self, len: usize, what: &str) {
        let count = self.count(len, what);
        self.short(count);
    }

    /// Writes a length as an `[int]`.
    pub fn int_len(&mut self, len: usize, what: &str) {
        match i32::try_from(len) {
            Ok(number) => self.int(number),
            Err(_) => {
                self.oversize.get_or_insert_with(|| too_long(what, i32::MAX as usize));
            }
        }
    }

    /// Writes a `[string]` that must not be cut, such as a name.
    pub fn string(&mut self, text: &str) {
        self.short_len(text.len(), "a name");
        self.raw(text.as_bytes());
    }

    /// Writes a `[string]` for people, cut if it is too long.
    pub fn message(&mut self, text: &str) {
        let mut end = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.string(&text[..end]);
    }

    /// Writes a `[string list]` of names.
    pub fn string_list(&mut self, list: &[impl AsRef<str>]) {
        self.short_len(list.len(), "a list of names");
        for text in list {
            self.string(text.as_ref());
        }
    }

    /// Writes `[bytes]`, null for `None`.
    pub fn bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.int(-1),
            Some(bytes) => {
                self.int_len(bytes.len(), "a value");
                self.raw(bytes);
            }
        }
    }

    /// Writes `[short bytes]`.
    pub fn short_bytes(&mut self, bytes: &[u8]) {
        self.short_len(bytes.len(), "an id");
        self.raw(bytes);
    }

    /// Writes an `[inetaddr]` of the protocol.
    pub fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.byte(4);
                self.raw(&address.octets());
            }
            IpAddr::V6(address) => {
                self.byte(16);
                self.raw(&address.octets());
            }
        }
    }
}

fn too_long(what: &str, max: usize) -> Oversize {
    Oversize(format!("{what} is longer than the protocol's {max} bytes or items"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_name_fails_the_whole_body() {
        let mut writer = Writer::new();
        writer.string(&"x".repeat(65_536));
        writer.int(1);
        assert!(writer.finish().unwrap_err().to_string().contains("65535"));
    }

    #[test]
    fn message_is_cut_between_characters() {
        let mut writer = Writer::new();
        // Three bytes each; 65,535 is a multiple of three, so one byte in front forces a cut.
        writer.message(&format!("x{}", "€".repeat(30_000)));
        let body = writer.finish().unwrap();
        assert_eq!(body.len() - 2, 1 + 3 * 21_844);
        assert!(std::str::from_utf8(&body[2..]).is_ok());
    }

    #[test]
    fn body_stops_growing_at_the_limit() {
        let mut writer = Writer::new();
        let chunk = vec![0; 64 << 20];
        for _ in 0..6 {
            writer.raw(&chunk);
        }
        assert!(writer.body.len() <= BODY_LEN_MAX + chunk.len());
        assert!(writer.finish().is_err());
    }
}
