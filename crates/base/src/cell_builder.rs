//! Builds a cell, key and payload, in a buffer that the thread keeps.

use bytes::{BufMut, BytesMut};

use crate::cell::{CellKey, CellKeyRef, FRAME_BYTES, PartitionKey, ordered};
use crate::error::Result;
use crate::ids::{TableId, Token};
use crate::limits::check_partition_key;
use crate::scratch;

/// Builds a cell's key: the partition key first, the rest when it is known.
///
/// ```
/// use carnet_base::{CellKey, CellKeyBuilder, PartitionKey, TableId};
///
/// let mut builder = CellKeyBuilder::new();
/// builder.partition().extend_from_slice(b"p");
/// let mut cell = builder.end(TableId(1), |clustering| Ok(clustering.extend_from_slice(b"c")))?;
/// cell.payload().extend_from_slice(b"value");
/// assert_eq!(cell.value(), b"value");
/// assert_eq!(cell.key().to_key(), CellKey::new(TableId(1), &PartitionKey::new("p"), "c"));
/// # Ok::<_, carnet_base::Error>(())
/// ```
#[derive(Debug)]
pub struct CellKeyBuilder(BytesMut);

/// A cell with a complete key, whose payload is being built behind it.
#[derive(Debug)]
pub struct CellBuilder {
    bytes: BytesMut,
    key_len: usize,
}

impl Default for CellKeyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl CellKeyBuilder {
    /// Creates a key without a partition key yet.
    #[must_use]
    pub fn new() -> Self {
        let mut bytes = scratch::take();
        bytes.put_bytes(0, FRAME_BYTES);
        Self(bytes)
    }

    /// Returns the buffer; append the serialized partition key to it.
    pub const fn partition(&mut self) -> &mut BytesMut {
        &mut self.0
    }

    /// Completes the key: appends the clustering key and fills in the frame.
    ///
    /// # Errors
    ///
    /// `Invalid` if the partition key is empty or longer than [`PARTITION_KEY_BYTES_MAX`](crate::limits::PARTITION_KEY_BYTES_MAX), and any error of
    /// `clustering`.
    pub fn end(
        self,
        table: TableId,
        clustering: impl FnOnce(&mut BytesMut) -> Result<()>,
    ) -> Result<CellBuilder> {
        let partition = &self.0[FRAME_BYTES..];
        check_partition_key(partition)?;
        let token = crate::murmur3::token(partition);
        self.end_at(table, token, clustering)
    }

    fn end_at(
        self,
        table: TableId,
        token: Token,
        clustering: impl FnOnce(&mut BytesMut) -> Result<()>,
    ) -> Result<CellBuilder> {
        let Self(mut bytes) = self;
        let len = u16::try_from(bytes.len() - FRAME_BYTES)
            .expect("a partition key has at most 65,535 bytes");
        let mut frame = &mut bytes[..FRAME_BYTES];
        frame.put_u32(table.0);
        frame.put_u64(ordered(token));
        frame.put_u16(len);
        clustering(&mut bytes)?;
        let key_len = bytes.len();
        Ok(CellBuilder { bytes, key_len })
    }
}

impl CellBuilder {
    /// Creates a cell from a complete key.
    ///
    /// # Panics
    ///
    /// See [`CellKey::new`].
    #[must_use]
    pub fn from_key(table: TableId, partition: &PartitionKey, clustering: &[u8]) -> Self {
        let mut key = CellKeyBuilder::new();
        key.partition().put_slice(partition.bytes());
        let clustering = |bytes: &mut BytesMut| {
            bytes.put_slice(clustering);
            Ok(())
        };
        key.end_at(table, partition.token(), clustering).expect("nothing in it fails")
    }

    /// Returns the buffer; append the payload to it.
    pub const fn payload(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> CellKeyRef<'_> {
        CellKeyRef::from_valid(&self.bytes[..self.key_len])
    }

    /// Returns the payload so far.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.key_len..]
    }

    /// Copies the key.
    #[must_use]
    pub fn to_key(&self) -> CellKey {
        self.key().to_key()
    }
}

impl Drop for CellBuilder {
    fn drop(&mut self) {
        scratch::give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_cell_matches_its_key_and_payload() {
        let partition = PartitionKey::new("partition");
        let whole = CellKey::new(TableId(7), &partition, "clustering");
        let mut key = CellKeyBuilder::new();
        key.partition().put_slice(b"partition");
        let clustering = |out: &mut BytesMut| {
            out.put_slice(b"clustering");
            Ok(())
        };
        let mut built = key.end(TableId(7), clustering).unwrap();
        built.payload().put_slice(b"one");
        built.payload().put_slice(b"two");
        assert_eq!((built.to_key(), built.value()), (whole.clone(), &b"onetwo"[..]));
        // Another cell begins meanwhile, and both give their buffers back.
        let other = CellBuilder::from_key(TableId(7), &partition, b"clustering");
        assert_eq!((other.key(), other.value()), (whole.as_key_ref(), &b""[..]));
        assert_eq!(built.value(), b"onetwo");
    }

    #[test]
    fn unstorable_partition_key_is_rejected() {
        for len in [0, crate::limits::PARTITION_KEY_BYTES_MAX + 1] {
            let mut key = CellKeyBuilder::new();
            key.partition().put_bytes(b'x', len);
            assert!(key.end(TableId(1), |_| Ok(())).is_err(), "{len} bytes");
        }
    }
}
