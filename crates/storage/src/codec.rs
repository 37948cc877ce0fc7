//! Limits of stored values, and a bounds-checked decoder.

use bytes::Bytes;
pub(crate) use carnet_base::limits::{
    CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX as PAYLOAD_BYTES_MAX,
};
use carnet_base::{Error, Result, var_long};

/// Maximum length of a cell key: frame, partition key and clustering key.
pub(crate) const CELL_KEY_BYTES_MAX: usize =
    14 + PARTITION_KEY_BYTES_MAX + CLUSTERING_KEY_BYTES_MAX;

/// Reads fields from a buffer; each field is checked against the remaining length.
pub(crate) struct Decoder {
    rest: Bytes,
}

impl Decoder {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of remaining bytes.
    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<Bytes> {
        if len > self.rest.len() {
            return Err(Error::corrupted("the bytes end too early"));
        }
        Ok(self.rest.split_to(len))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(array) = self.rest.first_chunk().copied() else {
            return Err(Error::corrupted("the bytes end too early"));
        };
        bytes::Buf::advance(&mut self.rest, N);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn var(&mut self) -> Result<u64> {
        let mut slice = &self.rest[..];
        let value = var_long::take_unsigned(&mut slice)?;
        let used = self.rest.len() - slice.len();
        bytes::Buf::advance(&mut self.rest, used);
        Ok(value)
    }

    /// Reads a length of at most `max`, and that many bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<Bytes> {
        let len = self.var()?;
        match usize::try_from(len) {
            Ok(len) if len <= max => self.take(len),
            _ => Err(Error::corrupted(format!("a field of {len} bytes is longer than {max}"))),
        }
    }
}
