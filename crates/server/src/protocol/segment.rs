//! Segments of v5: checksummed pieces of the stream of frames.
//!
//! All numbers are little-endian, unlike everything else in the protocol.
//!
//! ```text
//!   plain:  payload length (17 bits) │ whole (1) │ 0 (6)                              CRC24
//!   lz4:    length on the wire (17)  │ length uncompressed (17) │ whole (1) │ 0 (5)   CRC24
//!   payload, at most 131,071 bytes                                                    CRC32
//! ```
//!
//! A *whole* segment ("self-contained" in the specification) contains one or more complete frames;
//! the others contain consecutive parts of one frame that is longer than a segment. With lz4, an
//! uncompressed length of zero means that the payload is not compressed.
//!
//! Both checksums start from constants of this protocol: the CRC24 of the header from 0x875060 with
//! the polynomial 0x1974F0B, over the bytes in the order sent; the CRC32 (IEEE) of the payload as
//! sent, after the four bytes FA 2D 55 CA.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{ProtocolError, compression};

/// Maximum length of a payload, in bytes.
pub const PAYLOAD_LEN_MAX: usize = (1 << 17) - 1;

const PLAIN_HEADER_LEN: usize = 3;
const LZ4_HEADER_LEN: usize = 5;
const CRC24_LEN: usize = 3;
const CRC32_LEN: usize = 4;

/// A checked, decompressed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Complete frames, or a part of one.
    pub payload: Bytes,
    /// Whether the frames are complete.
    pub whole: bool,
}

/// Decoded header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    wire_len: usize,
    /// Uncompressed length; `None` if the payload is not compressed.
    uncompressed_len: Option<usize>,
    whole: bool,
}

impl Header {
    const fn len(lz4: bool) -> usize {
        if lz4 { LZ4_HEADER_LEN } else { PLAIN_HEADER_LEN }
    }

    fn pack(self, lz4: bool) -> u64 {
        let mut packed = self.wire_len as u64;
        let mut shift = 17;
        if lz4 {
            packed |= (self.uncompressed_len.unwrap_or(0) as u64) << shift;
            shift += 17;
        }
        packed | u64::from(self.whole) << shift
    }

    fn unpack(packed: u64, lz4: bool) -> Self {
        let length = |bits: u64| {
            usize::try_from(bits & PAYLOAD_LEN_MAX as u64).expect("17 bits fit a usize")
        };
        let (uncompressed_len, shift) =
            if lz4 { (Some(length(packed >> 17)).filter(|len| *len > 0), 34) } else { (None, 17) };
        Self { wire_len: length(packed), uncompressed_len, whole: packed >> shift & 1 == 1 }
    }
}

/// Takes the first segment from the arrived bytes, `None` if it is not complete yet.
///
/// # Errors
///
/// Malformed, if a checksum or an lz4 block is wrong: later segments cannot be found any more.
pub fn take(inbox: &mut BytesMut, lz4: bool) -> Result<Option<Segment>, ProtocolError> {
    let header_len = Header::len(lz4);
    let Some(head) = inbox.get(..header_len + CRC24_LEN) else { return Ok(None) };
    let (packed, crc) = (little_endian(&head[..header_len]), little_endian(&head[header_len..]));
    if crc != u64::from(crc24(&head[..header_len])) {
        return Err(ProtocolError::malformed("the checksum of a segment's header is wrong"));
    }
    let header = Header::unpack(packed, lz4);
    if inbox.len() < head.len() + header.wire_len + CRC32_LEN {
        return Ok(None);
    }
    inbox.advance(header_len + CRC24_LEN);
    let payload = inbox.split_to(header.wire_len).freeze();
    if inbox.get_u32_le() != crc32(&payload) {
        return Err(ProtocolError::malformed("the checksum of a segment's payload is wrong"));
    }
    let payload = match header.uncompressed_len {
        Some(len) => compression::decompress(&payload, len)?,
        None => payload,
    };
    Ok(Some(Segment { payload, whole: header.whole }))
}

/// Writes one segment.
///
/// # Panics
///
/// If the payload is longer than [`PAYLOAD_LEN_MAX`].
pub fn put(out: &mut BytesMut, payload: &[u8], whole: bool, lz4: bool) {
    assert!(payload.len() <= PAYLOAD_LEN_MAX, "the caller splits what is longer than a segment");
    let block = if lz4 { compression::compress(payload) } else { None };
    let wire = block.as_deref().unwrap_or(payload);
    let uncompressed_len = block.is_some().then_some(payload.len());
    let header = Header { wire_len: wire.len(), uncompressed_len, whole };
    let head = header.pack(lz4).to_le_bytes();
    let head = &head[..Header::len(lz4)];
    out.reserve(head.len() + CRC24_LEN + wire.len() + CRC32_LEN);
    out.put_slice(head);
    out.put_uint_le(u64::from(crc24(head)), CRC24_LEN);
    out.put_slice(wire);
    out.put_u32_le(crc32(wire));
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the checksum of a segment's header.
fn crc24(bytes: &[u8]) -> u32 {
    const START: u32 = 0x0087_5060;
    const POLYNOMIAL: u32 = 0x0197_4f0b;
    bytes.iter().fold(START, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| {
            let shifted = crc << 1;
            if shifted & 0x0100_0000 == 0 { shifted } else { shifted ^ POLYNOMIAL }
        })
    })
}

/// Returns the checksum of a segment's payload.
fn crc32(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xfa, 0x2d, 0x55, 0xca]);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(payload: &[u8], whole: bool, lz4: bool) -> usize {
        let mut wire = BytesMut::new();
        put(&mut wire, payload, whole, lz4);
        let len = wire.len();
        let segment = take(&mut wire, lz4).unwrap().unwrap();
        assert_eq!(segment, Segment { payload: Bytes::copy_from_slice(payload), whole });
        assert!(wire.is_empty());
        len
    }

    #[test]
    fn payloads_of_every_length_are_decoded() {
        for len in [0, 1, 511, 512, 513, 65_536, PAYLOAD_LEN_MAX] {
            let payload = b"carnet ".repeat(len / 7 + 1);
            for whole in [false, true] {
                assert_eq!(round_trip(&payload[..len], whole, false), len + 10);
                assert!(round_trip(&payload[..len], whole, true) <= len + 12);
            }
        }
    }

    #[test]
    fn encoding_equals_the_python_drivers() {
        // Encoded by the Python driver's `SegmentCodec`, without and with lz4.
        let mut plain = BytesMut::new();
        put(&mut plain, b"hello", true, false);
        assert_eq!(plain, GOLDEN_PLAIN);
        let mut lz4 = BytesMut::new();
        put(&mut lz4, b"hello", false, true);
        assert_eq!(lz4, GOLDEN_LZ4_SHORT);
        let segment = take(&mut BytesMut::from(GOLDEN_LZ4), true).unwrap().unwrap();
        assert_eq!(segment.payload, b"abc".repeat(300));
    }

    const GOLDEN_PLAIN: &[u8] = b"\x05\x00\x02\x19\x99\x9ahello\x74\x80\x0e\xb6";
    const GOLDEN_LZ4_SHORT: &[u8] = b"\x05\x00\x00\x00\x00\xd5\x46\x6ahello\x74\x80\x0e\xb6";
    const GOLDEN_LZ4: &[u8] =
        b"\x10\x00\x08\x07\x04\xee\x09\x44\x3fabc\x03\x00\xff\xff\xff\x6c\x50bcabc\xaf\x7e\x92\xab";

    #[test]
    fn cut_segment_waits_and_flipped_bit_is_detected() {
        for lz4 in [false, true] {
            let mut wire = BytesMut::new();
            put(&mut wire, &b"0123456789".repeat(100), true, lz4);
            for len in 0..wire.len() {
                assert_eq!(take(&mut BytesMut::from(&wire[..len]), lz4), Ok(None), "at {len}");
            }
            for bit in 0..wire.len() * 8 {
                let mut flipped = wire.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(take(&mut flipped, lz4).is_err(), "bit {bit}");
            }
        }
    }
}
