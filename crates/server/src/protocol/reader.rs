//! Reader of the protocol's notations, which trusts no length.

use bytes::{Buf, Bytes};

use super::ProtocolError;
use carnet_cql::Bound;

type Result<T> = std::result::Result<T, ProtocolError>;

/// Cursor over a body.
///
/// Every method takes the name of the item, for the error message. Remaining bytes at the end are
/// ignored: later versions of the protocol may append fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyReader(Bytes);

impl BodyReader {
    /// Creates a reader at the first byte of a body.
    #[must_use]
    pub const fn new(body: Bytes) -> Self {
        Self(body)
    }

    /// Takes `len` bytes, as a slice of the body.
    ///
    /// # Errors
    ///
    /// Malformed, if fewer bytes are left.
    pub fn take(&mut self, len: usize, what: &str) -> Result<Bytes> {
        self.check_len(len, what)?;
        Ok(self.0.split_to(len))
    }

    fn check_len(&self, len: usize, what: &str) -> Result<()> {
        if len > self.0.len() {
            return Err(ProtocolError::malformed(format!(
                "{what} should have {len} bytes, and {} are left in the body",
                self.0.len()
            )));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let Some(&bytes) = self.0.first_chunk::<N>() else {
            return Err(ProtocolError::malformed(format!(
                "{what} takes {N} bytes, and {} are left in the body",
                self.0.len()
            )));
        };
        self.0.advance(N);
        Ok(bytes)
    }

    /// Reads a `[byte]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if the body has ended.
    pub fn byte(&mut self, what: &str) -> Result<u8> {
        self.array(what).map(u8::from_be_bytes)
    }

    /// Reads a `[short]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if the body ends within it.
    pub fn short(&mut self, what: &str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Reads an `[int]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if the body ends within it.
    pub fn int(&mut self, what: &str) -> Result<i32> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// Reads a `[long]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if the body ends within it.
    pub fn long(&mut self, what: &str) -> Result<i64> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// Reads a `[string]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if it is longer than the body, or not UTF-8.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let len = self.short(what)?;
        let bytes = self.take(usize::from(len), what)?;
        utf8(&bytes, what)
    }

    /// Reads a `[long string]`.
    ///
    /// # Errors
    ///
    /// Malformed, if its length is negative, it is longer than the body, or it is not UTF-8.
    pub fn long_string(&mut self, what: &str) -> Result<String> {
        utf8(&self.long_bytes(what)?, what)
    }

    /// Reads the bytes of a `[long string]`, which may be no UTF-8.
    pub(super) fn long_bytes(&mut self, what: &str) -> Result<Bytes> {
        let announced = self.int(what)?;
        let len = usize::try_from(announced).map_err(|_| negative(what, announced))?;
        self.take(len, what)
    }

    /// Returns the bytes that are left in the body.
    pub(super) fn rest(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number of bytes that are left in the body.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    /// Skips a `[value]`.
    pub(super) fn skip_value(&mut self, what: &str) -> Result<()> {
        let len = usize::try_from(self.int(what)?).unwrap_or_default();
        self.skip(len, what)
    }

    fn skip(&mut self, len: usize, what: &str) -> Result<()> {
        self.check_len(len, what)?;
        self.0.advance(len);
        Ok(())
    }

    /// Reads a `[string list]`.
    ///
    /// # Errors
    ///
    /// Malformed, if one of its strings is.
    pub fn string_list(&mut self, what: &str) -> Result<Vec<String>> {
        self.list(2, what, |reader| reader.string(what))
    }

    /// Reads a `[string map]` as pairs in the order sent.
    ///
    /// # Errors
    ///
    /// Malformed, if one of its strings is.
    pub fn string_map(&mut self, what: &str) -> Result<Vec<(String, String)>> {
        self.list(4, what, |reader| Ok((reader.string(what)?, reader.string(what)?)))
    }

    /// Skips a `[bytes map]`.
    ///
    /// # Errors
    ///
    /// Malformed, if one of its keys or values is.
    pub fn skip_bytes_map(&mut self, what: &str) -> Result<()> {
        for _ in 0..self.short(what)? {
            // A skipped name need not be UTF-8.
            self.short_bytes(what)?;
            self.bytes(what)?;
        }
        Ok(())
    }

    /// Reads `[bytes]`; any negative length is null.
    ///
    /// # Errors
    ///
    /// Malformed, if it is longer than the body.
    pub fn bytes(&mut self, what: &str) -> Result<Option<Bytes>> {
        match usize::try_from(self.int(what)?) {
            Ok(len) => self.take(len, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads `[short bytes]`.
    ///
    /// # Errors
    ///
    /// Malformed, if it is longer than the body.
    pub fn short_bytes(&mut self, what: &str) -> Result<Bytes> {
        let len = self.short(what)?;
        self.take(usize::from(len), what)
    }

    /// Reads a `[value]`: −1 is null, −2 is unset.
    ///
    /// # Errors
    ///
    /// Malformed, if its length is below −2 or beyond the body.
    pub fn value(&mut self, what: &str) -> Result<Bound> {
        match self.int(what)? {
            -1 => Ok(Bound::Null),
            -2 => Ok(Bound::Unset),
            announced => {
                let len = usize::try_from(announced).map_err(|_| negative(what, announced))?;
                self.take(len, what).map(Bound::Bytes)
            }
        }
    }

    /// Reads a `[short]` and that number of items, each of at least `item_len_min` bytes.
    ///
    /// # Errors
    ///
    /// Malformed, if an item is.
    pub fn list<T>(
        &mut self,
        item_len_min: usize,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = usize::from(self.short(what)?);
        // A count costs the sender two bytes; room is allocated only for items that can still
        // follow.
        if count > self.0.len() / item_len_min.max(1) {
            return Err(ProtocolError::malformed(format!(
                "{what}: {count} items do not fit the {} bytes left in the body",
                self.0.len()
            )));
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }
}

fn negative(what: &str, announced: i32) -> ProtocolError {
    ProtocolError::malformed(format!("{what} cannot have {announced} bytes"))
}

pub(super) fn utf8(bytes: &[u8], what: &str) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(e) => Err(ProtocolError::malformed(format!("{what} is not UTF-8: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> BodyReader {
        BodyReader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn null_unset_and_empty_values_differ() {
        let mut reader = reader(b"\xff\xff\xff\xff\xff\xff\xff\xfe\0\0\0\0\0\0\0\x01x");
        assert_eq!(reader.value("v"), Ok(Bound::Null));
        assert_eq!(reader.value("v"), Ok(Bound::Unset));
        assert_eq!(reader.value("v"), Ok(Bound::Bytes(Bytes::new())));
        assert_eq!(reader.value("v"), Ok(Bound::Bytes(Bytes::from_static(b"x"))));
        assert!(reader.value("v").is_err(), "the body has ended");
    }

    #[test]
    fn lengths_below_null_and_beyond_the_body_are_refused() {
        let message = reader(b"\xff\xff\xff\xfd").value("a value").unwrap_err().to_string();
        assert_eq!(message, "a value cannot have -3 bytes");
        let message = reader(b"\x7f\xff\xff\xff..").long_string("the text").unwrap_err();
        assert!(message.to_string().contains("2147483647 bytes, and 2 are left"));
        assert!(reader(b"\x80\0\0\0").long_string("the text").is_err());
        assert!(reader(b"\0\x05abc").string("a name").is_err());
    }

    #[test]
    fn list_allocates_only_for_possible_items() {
        let message = reader(b"\xff\xff\0\0\0\0").string_map("options").unwrap_err().to_string();
        assert_eq!(message, "options: 65535 items do not fit the 4 bytes left in the body");
        assert_eq!(
            reader(b"\0\x01\0\x01a\0\0").string_map("m").unwrap(),
            [("a".into(), "".into())]
        );
    }

    #[test]
    fn text_must_be_utf8() {
        let message = reader(b"\0\x02\xc3\x28").string("a name").unwrap_err().to_string();
        assert!(message.starts_with("a name is not UTF-8"), "{message}");
    }
}
