//! Encodings shared by nodes and roots: numbers, byte strings, node ids, and the checksum.

use carnet_base::{Bytes, Error, Result, var_long};

use crate::id::NodeId;

/// Version of both formats; the first byte.
pub(crate) const VERSION: u8 = 1;

/// Appends a number below 2⁶³.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    var_long::put(out, i64::try_from(number).expect("counters and lengths stay below 2⁶³"));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: NodeId) {
    out.extend_from_slice(&id.to_bytes());
}

/// Returns the number of bytes that [`put_bytes`] appends.
pub(crate) fn bytes_len(bytes: &[u8]) -> usize {
    var_long::len(i64::try_from(bytes.len()).unwrap_or(i64::MAX)) + bytes.len()
}

/// Appends a checksum of the name and all bytes so far. So a node that was stored under another
/// node's name is detected like a flipped bit.
pub(crate) fn seal(mut out: Vec<u8>, name: &[u8]) -> Bytes {
    let sum = crc32c::crc32c_append(crc32c::crc32c(name), &out);
    out.extend_from_slice(&sum.to_le_bytes());
    Bytes::from(out)
}

/// Reads a sealed byte string. Lengths are checked before they are used; byte strings are slices of
/// the input.
pub(crate) struct FieldReader {
    bytes: Bytes,
    at: usize,
}

impl FieldReader {
    /// Checks the checksum and the version.
    pub(crate) fn open(sealed: &Bytes, name: &[u8]) -> Result<Self> {
        let Some((bytes, sum)) = sealed.split_last_chunk::<4>() else {
            return Err(Error::corrupted("it is shorter than its checksum"));
        };
        if crc32c::crc32c_append(crc32c::crc32c(name), bytes) != u32::from_le_bytes(*sum) {
            return Err(Error::corrupted("its checksum does not match"));
        }
        let mut reader = Self { bytes: sealed.slice(..bytes.len()), at: 0 };
        match reader.byte()? {
            VERSION => Ok(reader),
            other => Err(Error::corrupted(format!(
                "it has format version {other}, and this program knows {VERSION}"
            ))),
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = *self.rest().first().ok_or_else(short)?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut rest = self.rest();
        let before = rest.len();
        let number = var_long::take_unsigned(&mut rest)?;
        self.at += before - rest.len();
        Ok(number)
    }

    /// Reads the number of following items, each of which has at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        usize::try_from(count).ok().filter(|&count| count <= self.rest().len()).ok_or_else(short)
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes> {
        let len = self.count()?;
        self.at += len;
        Ok(self.bytes.slice(self.at - len..self.at))
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = *self.rest().first_chunk::<N>().ok_or_else(short)?;
        self.at += N;
        Ok(bytes)
    }

    pub(crate) fn id(&mut self) -> Result<NodeId> {
        Ok(NodeId::from_bytes(self.fixed()?))
    }

    /// Checks that no bytes are left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.rest().is_empty() {
            Ok(())
        } else {
            Err(Error::corrupted(format!("{} bytes are left over", self.rest().len())))
        }
    }
}

fn short() -> Error {
    Error::corrupted("it ends too early")
}
