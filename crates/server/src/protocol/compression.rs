//! lz4 blocks, the compression that both versions support.
//!
//! v4 puts the uncompressed length (four bytes, big-endian) before the block; v5 keeps it in the
//! segment's header.

use bytes::{BufMut, Bytes, BytesMut};

use super::ProtocolError;

/// Length of a block's uncompressed-length prefix.
const LENGTH_LEN: usize = 4;
/// Minimum length of a compressed body: shorter ones would hardly shrink.
const COMPRESS_LEN_MIN: usize = 512;
/// Maximum expansion of an lz4 block: a length byte adds at most 255 bytes of output.
const EXPANSION_MAX: usize = 255;

/// Decompresses a block of known uncompressed length.
///
/// # Errors
///
/// Malformed, if the block cannot hold, or does not hold, that number of bytes.
pub fn decompress(block: &[u8], len: usize) -> Result<Bytes, ProtocolError> {
    // 64 more: a short block's first match is counted from four bytes, not from zero.
    if len > block.len().saturating_mul(EXPANSION_MAX).saturating_add(64) {
        return Err(ProtocolError::malformed(format!(
            "{} bytes of lz4 cannot hold {len} bytes",
            block.len()
        )));
    }
    let mut out = vec![0; len];
    match lz4_flex::block::decompress_into(block, &mut out) {
        Ok(written) if written == len => Ok(Bytes::from(out)),
        Ok(written) => Err(ProtocolError::malformed(format!(
            "an lz4 block holds {written} bytes and announced {len}"
        ))),
        Err(e) => Err(ProtocolError::malformed(format!("a broken lz4 block: {e}"))),
    }
}

/// Returns a shorter block for the bytes, or `None` if compression does not pay.
#[must_use]
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < COMPRESS_LEN_MIN {
        return None;
    }
    let block = lz4_flex::block::compress(bytes);
    (block.len() < bytes.len()).then_some(block)
}

/// Splits a v4 body into the announced length and the block.
///
/// # Errors
///
/// Malformed, if the length is missing, negative or above `len_max`.
pub fn split_prefixed(body: &Bytes, len_max: usize) -> Result<(usize, Bytes), ProtocolError> {
    let Some(&prefix) = body.first_chunk::<LENGTH_LEN>() else {
        return Err(ProtocolError::malformed("a compressed body begins with its length"));
    };
    let len = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    if len > len_max {
        return Err(ProtocolError::malformed(format!(
            "the body has {len} bytes uncompressed; {len_max} are allowed here"
        )));
    }
    Ok((len, body.slice(LENGTH_LEN..)))
}

/// Returns a v4 body in compressed form, or `None` if compression does not pay.
#[must_use]
pub fn compress_prefixed(body: &[u8]) -> Option<Bytes> {
    let len = u32::try_from(body.len()).ok()?;
    let block = compress(body)?;
    let mut out = BytesMut::with_capacity(LENGTH_LEN + block.len());
    out.put_u32(len);
    out.put_slice(&block);
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_decompressed_to_its_input() {
        let text = b"one path through every layer; ".repeat(100);
        let body = compress_prefixed(&text).unwrap();
        assert!(body.len() < text.len() / 4);
        let (len, block) = split_prefixed(&body, text.len()).unwrap();
        assert_eq!(decompress(&block, len).unwrap(), text);
    }

    #[test]
    fn densest_block_is_within_the_bound() {
        let zeros = vec![0; 1 << 20];
        let block = compress(&zeros).unwrap();
        assert_eq!(decompress(&block, zeros.len()).unwrap(), zeros);
    }

    #[test]
    fn small_block_cannot_announce_much() {
        let message = decompress(&[0x1f, 0, 1, 0], 1 << 24).unwrap_err().to_string();
        assert!(message.contains("cannot hold"), "{message}");
        let body = Bytes::from_static(b"\xff\xff\xff\xff....");
        assert!(split_prefixed(&body, 1 << 24).is_err());
        assert!(split_prefixed(&Bytes::from_static(b"\0\0"), 1).is_err());
    }

    #[test]
    fn block_must_have_its_announced_length() {
        let text = b"abcdefgh".repeat(100);
        let block = compress(&text).unwrap();
        assert!(decompress(&block, text.len() - 1).is_err());
        assert!(decompress(&block, text.len() + 1).is_err());
    }
}
