//! Frames: nine bytes of header and a body.
//!
//! ```text
//!   0        1        2                 4        5                                   9
//!   ├────────┼────────┼─────────────────┼────────┼───────────────────────────────────┤
//!   │version │ flags  │ stream (signed) │ opcode │ body length (signed, big-endian)  │
//! ```
//!
//! The version's highest bit is set in responses. A response has the stream of its request; the
//! server's own events have −1.

use bytes::{BufMut, Bytes};

use super::{Opcode, ProtocolError, Version};
use carnet_base::Charge;

/// Length of a header in bytes.
pub const HEADER_LEN: usize = 9;

/// Bit of the version that marks responses.
pub(super) const RESPONSE_BIT: u8 = 0x80;

/// Bits of a header's flags.
pub mod flags {
    /// The body is compressed (v4 only; ignored in v5).
    pub const COMPRESSION: u8 = 0x01;
    /// The client requests tracing.
    pub const TRACING: u8 = 0x02;
    /// The body begins with a custom payload.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// The body begins with warnings.
    pub const WARNING: u8 = 0x08;
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Protocol version of the frame.
    pub version: Version,
    /// The bits of [`flags`]; unknown ones are ignored.
    pub flags: u8,
    /// Stream: the client's number for the request, never negative.
    pub stream: i16,
    /// Opcode of the request.
    pub opcode: Opcode,
    /// Length of the body in bytes.
    pub body_len: usize,
}

impl RequestHeader {
    /// Parses a header if all its bytes have arrived, `None` otherwise.
    ///
    /// Only the first byte decides about the version: clients of other versions have headers of
    /// other lengths.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] if the version or opcode is unknown, the stream negative, or the length
    /// negative or above `body_max`.
    pub fn parse(bytes: &[u8], body_max: usize) -> Result<Option<Self>, ProtocolError> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & RESPONSE_BIT != 0 {
            return Err(ProtocolError::malformed("a client may send requests, not responses"));
        }
        let version =
            Version::from_number(first).ok_or(ProtocolError::UnsupportedVersion(first))?;
        let Some(&[_, flags, s0, s1, opcode, l0, l1, l2, l3]) = bytes.first_chunk::<HEADER_LEN>()
        else {
            return Ok(None);
        };
        let stream = i16::from_be_bytes([s0, s1]);
        if stream < 0 {
            return Err(ProtocolError::malformed(format!(
                "stream {stream} is negative: those are the server's"
            )));
        }
        let opcode = Opcode::request(opcode).ok_or_else(|| {
            ProtocolError::malformed(format!("opcode {opcode:#04x} is not that of a request"))
        })?;
        let announced = i32::from_be_bytes([l0, l1, l2, l3]);
        let body_len = usize::try_from(announced).map_err(|_| {
            ProtocolError::malformed(format!("a body cannot have {announced} bytes"))
        })?;
        if body_len > body_max {
            return Err(ProtocolError::malformed(format!(
                "the body has {body_len} bytes; {body_max} are allowed here"
            )));
        }
        Ok(Some(Self { version, flags, stream, opcode, body_len }))
    }

    /// Returns `true` if a flag is set.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A complete, decompressed request, with its charge to the budget.
#[derive(Debug)]
pub struct Frame {
    /// Header as sent; its length is that on the wire.
    pub header: RequestHeader,
    /// Body of the request.
    pub body: Bytes,
    /// Charge of the body to the server's budget until the request is answered.
    pub charge: Charge,
    /// Charge of the values that are decoded of the body; `None` for a small body.
    pub values: Option<Charge>,
}

/// Writes the header of a response.
///
/// # Panics
///
/// Never: the length of a response's body is checked to be below 2³¹ when it is written.
pub fn put_response_header(
    out: &mut impl BufMut,
    version: Version,
    flags: u8,
    stream: i16,
    opcode: Opcode,
    body_len: usize,
) {
    out.put_u8(RESPONSE_BIT | version.number());
    out.put_u8(flags);
    out.put_i16(stream);
    out.put_u8(opcode as u8);
    out.put_i32(i32::try_from(body_len).expect("a response's body is shorter than 2 GiB"));
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    const QUERY: [u8; 9] = [4, 0, 0, 7, 7, 0, 0, 1, 0];

    #[test]
    fn header_is_parsed_field_by_field() {
        let header = RequestHeader::parse(&QUERY, 256).unwrap().unwrap();
        let want = RequestHeader {
            version: Version::V4,
            flags: 0,
            stream: 7,
            opcode: Opcode::Query,
            body_len: 256,
        };
        assert_eq!(header, want);
        assert_eq!(RequestHeader::parse(&QUERY[..8], 256), Ok(None));
    }

    #[test]
    fn unknown_versions_are_detected_by_the_first_byte() {
        for number in [0, 1, 2, 3, 6, 65, 66, b'G', 0x16] {
            let answer = RequestHeader::parse(&[number], 256);
            assert_eq!(answer, Err(ProtocolError::UnsupportedVersion(number)));
        }
    }

    #[test]
    fn invalid_headers_are_refused() {
        let broken = |at: usize, byte: u8| {
            let mut bytes = QUERY;
            bytes[at] = byte;
            RequestHeader::parse(&bytes, 256).unwrap_err().to_string()
        };
        assert!(broken(0, 0x84).contains("not responses"));
        assert!(broken(2, 0x80).contains("negative"));
        assert!(broken(4, 0x08).contains("0x08"));
        assert!(broken(5, 0xff).contains("-"), "a negative length");
        assert!(broken(8, 0x01).contains("257 bytes; 256"));
    }

    #[test]
    fn response_header_has_the_direction_bit() {
        let mut out = BytesMut::new();
        put_response_header(&mut out, Version::V5, 8, -1, Opcode::Event, 258);
        assert_eq!(out[..], [0x85, 8, 0xff, 0xff, 0x0c, 0, 0, 1, 2]);
    }
}
