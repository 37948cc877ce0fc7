//! Partial decoding of a statement's frame, for admission.
//!
//! Under overload most statements are refused. A refusal must cost far less than the statement, so
//! admission is requested by the frame's first bytes, before values are decoded and a task exists.

use super::Opcode;
use super::frame::{Frame, flags};
use super::peek_values::{PeekValues, short_bytes, take};
use super::request::Statement;

/// Maximum bytes of a text that are examined.
const TEXT_LEN_MAX: usize = 4 << 10;

/// Parts of a statement that admission needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'f> {
    /// A statement's text, or its first 4 KiB.
    Query(&'f str),
    /// A prepared statement.
    Execute {
        /// Id of the statement.
        id: &'f [u8],
        /// Values of its markers.
        values: PeekValues<'f>,
    },
    /// A text to prepare.
    Prepare,
    /// A batch of statements.
    Batch,
}

impl<'f> Peek<'f> {
    /// Examines a frame. Returns `None` for a frame without a statement, or a malformed one, for
    /// which the decoder reports the error.
    #[must_use]
    pub fn from_frame(frame: &'f Frame) -> Option<Self> {
        let opcode = frame.header.opcode;
        match opcode {
            Opcode::Prepare => return Some(Self::Prepare),
            Opcode::Batch => return Some(Self::Batch),
            Opcode::Query | Opcode::Execute => {}
            _ => return None,
        }
        let mut body: &[u8] = &frame.body;
        if frame.header.has(flags::CUSTOM_PAYLOAD) {
            skip_bytes_map(&mut body)?;
        }
        if opcode == Opcode::Execute {
            let id = short_bytes(&mut body)?;
            let values = PeekValues::from_body(frame.header.version, body);
            return Some(Self::Execute { id, values });
        }
        let len = i32::from_be_bytes(take(&mut body)?);
        let text = body.get(..usize::try_from(len).ok()?)?;
        Some(Self::Query(first_text(text)))
    }
}

impl Peek<'_> {
    /// Returns `true` if admission sees the same in both: the statement, and the lengths of all lists
    /// that `decoded` has.
    #[must_use]
    pub fn is_of(self, decoded: Peek<'_>) -> bool {
        match (self, decoded) {
            (Self::Execute { id, values }, Peek::Execute { id: other, values: decoded }) => {
                id == other && values.have_lens_of(decoded)
            }
            (one, other) => one == other,
        }
    }
}

impl<'s> From<&'s Statement> for Peek<'s> {
    fn from(statement: &'s Statement) -> Self {
        match statement {
            Statement::Query { text, .. } => Self::Query(first_text(text.as_bytes())),
            Statement::Execute { id, params, .. } => {
                Self::Execute { id, values: PeekValues::from(&params.values) }
            }
            Statement::Prepare { .. } => Self::Prepare,
            Statement::Batch(_) => Self::Batch,
        }
    }
}

/// Returns the beginning of a text, up to the first invalid UTF-8 byte.
fn first_text(bytes: &[u8]) -> &str {
    let first = &bytes[..bytes.len().min(TEXT_LEN_MAX)];
    first.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

fn skip_bytes_map(body: &mut &[u8]) -> Option<()> {
    for _ in 0..u16::from_be_bytes(take(body)?) {
        let name_len = u16::from_be_bytes(take(body)?);
        *body = body.get(usize::from(name_len)..)?;
        // A negative length is null.
        let value_len = i32::from_be_bytes(take(body)?).max(0);
        *body = body.get(usize::try_from(value_len).ok()?..)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::protocol::Version;
    use crate::protocol::frame::RequestHeader;
    use crate::protocol::request::ProtocolRequest;
    use carnet_base::MemoryBudget;

    fn frame(opcode: Opcode, flags: u8, body: &'static [u8]) -> Frame {
        let (version, stream, body_len) = (Version::V4, 1, body.len());
        let header = RequestHeader { version, flags, stream, opcode, body_len };
        let charge = MemoryBudget::new(body_len).charge(body_len).unwrap();
        Frame { header, body: Bytes::from_static(body), charge, values: None }
    }

    #[test]
    fn peek_agrees_with_the_decoder() {
        for (opcode, flags, body) in [
            (Opcode::Query, 0, &b"\0\0\0\x08SELECT 1\0\x01\0"[..]),
            (
                Opcode::Query,
                flags::CUSTOM_PAYLOAD,
                b"\0\x02\0\x01a\0\0\0\x01b\0\0\xff\xff\xff\xff\0\0\0\x01q\0\x01\0",
            ),
            (Opcode::Execute, 0, b"\0\x02id\0\x01\0"),
            (Opcode::Prepare, 0, b"\0\0\0\x01q"),
            (Opcode::Batch, 0, b"\0\0\0\0\x01\0"),
        ] {
            let frame = frame(opcode, flags, body);
            let ProtocolRequest::Statement(statement) = ProtocolRequest::decode(&frame).unwrap()
            else {
                panic!("a statement");
            };
            match (Peek::from_frame(&frame), Peek::from(&statement)) {
                (Some(Peek::Execute { id, .. }), Peek::Execute { id: decoded, .. }) => {
                    assert_eq!(id, decoded);
                }
                (peek, decoded) => assert_eq!(peek, Some(decoded)),
            }
        }
    }

    #[test]
    fn malformed_frames_and_greetings_have_no_peek() {
        for (opcode, flags, body) in [
            (Opcode::Query, 0, &b"\0\0\0\x09SELECT 1"[..]),
            (Opcode::Query, 0, b"\xff\xff\xff\xff"),
            (Opcode::Query, flags::CUSTOM_PAYLOAD, b"\xff\xff\0\x01a"),
            (Opcode::Execute, 0, b"\0\x03id"),
            (Opcode::Execute, 0, b"\0"),
            (Opcode::Startup, 0, b"\0\0"),
            (Opcode::Options, 0, b""),
        ] {
            assert_eq!(Peek::from_frame(&frame(opcode, flags, body)), None, "{body:?}");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let long = "é".repeat(TEXT_LEN_MAX);
        assert_eq!(first_text(long.as_bytes()).len(), TEXT_LEN_MAX);
        assert_eq!(first_text(&long.as_bytes()[1..]), "");
        assert_eq!(first_text(b"SELECT\xff"), "SELECT");
    }
}
