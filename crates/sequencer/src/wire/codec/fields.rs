//! Decoding of the fields of a body, one after the other.

use bytes::{Buf, Bytes};
use carnet_base::Timestamp;

use super::malformed::Malformed;

type Result<T> = std::result::Result<T, Malformed>;

const SHORT: Malformed = Malformed("a body that ends in the middle of a field");

/// The rest of a body.
pub(super) struct Fields(Bytes);

impl Fields {
    pub(super) const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.0.try_get_u8().map_err(|_| SHORT)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.0.try_get_u32().map_err(|_| SHORT)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.0.try_get_u64().map_err(|_| SHORT)
    }

    pub(super) fn truth(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a truth value that is neither 0 nor 1")),
        }
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp> {
        Timestamp::new(self.u64()?).ok_or(Malformed("a timestamp of more than 63 bits"))
    }

    /// Reads a length and as many bytes, which share the frame's memory.
    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        let len = usize::try_from(self.u32()?).map_err(|_| SHORT)?;
        if len > self.0.len() {
            return Err(SHORT);
        }
        Ok(self.0.split_to(len))
    }

    pub(super) fn text(&mut self, bytes_max: usize) -> Result<String> {
        let bytes = self.bytes()?;
        if bytes.len() > bytes_max {
            return Err(Malformed("a text that is too long"));
        }
        let text =
            std::str::from_utf8(&bytes).map_err(|_| Malformed("a text that is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// Reads the number of items that follow, each of at least `item_bytes_min` bytes.
    pub(super) fn count(&mut self, item_bytes_min: usize) -> Result<usize> {
        let count = usize::try_from(self.u32()?).map_err(|_| SHORT)?;
        if count > self.0.len() / item_bytes_min {
            return Err(Malformed("a list that is longer than its frame"));
        }
        Ok(count)
    }

    /// Reads all that is left, which shares the frame's memory.
    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("a body with bytes left over")) }
    }
}
