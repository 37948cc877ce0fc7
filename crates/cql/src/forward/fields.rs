//! Fields of a message: written one after the other, and read back.

use std::fmt;

use carnet::{Bytes, BytesMut};

use super::kinds::VERSION;

/// Reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The message has another version.
    Version(u8),
    /// The encoder does not write these bytes.
    Bytes(&'static str),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "it has version {version}, and this server knows version {VERSION}: run the same version of \
                 Carnet on all servers"
            ),
            Self::Bytes(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Malformed {}

type Result<T> = std::result::Result<T, Malformed>;

const SHORT: Malformed = Malformed::Bytes("it ends in the middle of a field");

/// Writer of fields.
#[derive(Default)]
pub(super) struct Writer(pub(super) BytesMut);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.extend_from_slice(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes a number of items or bytes. A longer message than 4 GiB is not sent anyway.
    pub(super) fn len(&mut self, len: usize) {
        self.u32(u32::try_from(len).unwrap_or(u32::MAX));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.raw(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.len(items.len());
        items.iter().for_each(|item| put(self, item));
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }
}

/// Reader of fields: the bytes that are not read yet.
pub(super) struct Reader(pub(super) Bytes);

impl Reader {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let array = *self.0.first_chunk().ok_or(SHORT)?;
        drop(self.0.split_to(N));
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(super) fn raw<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.array()
    }

    /// Reads a length and as many bytes, which share the message's memory.
    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        let len = self.count(1)?;
        Ok(self.0.split_to(len))
    }

    pub(super) fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes);
        Ok(text.map_err(|_| Malformed::Bytes("a text is not UTF-8"))?.to_owned())
    }

    /// Reads the number of items that follow, each of at least `item_bytes_min` bytes.
    pub(super) fn count(&mut self, item_bytes_min: usize) -> Result<usize> {
        let count = usize::try_from(self.u32()?).map_err(|_| SHORT)?;
        if count > self.0.len() / item_bytes_min {
            return Err(Malformed::Bytes("a list is longer than the message"));
        }
        Ok(count)
    }

    pub(super) fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut take: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.count(item_bytes_min)?;
        (0..count).map(|_| take(self)).collect()
    }

    pub(super) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.u8()? {
            0 => Ok(None),
            1 => take(self).map(Some),
            _ => Err(Malformed::Bytes("an optional field begins with neither 0 nor 1")),
        }
    }

    /// Checks the version at the begin of a message.
    pub(super) fn version(&mut self) -> Result<()> {
        match self.u8()? {
            VERSION => Ok(()),
            other => Err(Malformed::Version(other)),
        }
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Bytes("bytes are left over")) }
    }
}
