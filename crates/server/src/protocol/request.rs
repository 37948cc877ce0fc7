//! Decoding of requests' bodies.
//!
//! Of a statement only the head is decoded, by which it is admitted or refused.

use bytes::Bytes;

use super::frame::{Frame, flags};
use super::head::StatementHead;
use super::reader::BodyReader;
use super::types::EventType;
use super::{Opcode, ProtocolError, Version};

type Result<T> = std::result::Result<T, ProtocolError>;

/// Maximum length of a SASL token, in bytes: a user and a password need far less.
const AUTH_TOKEN_LEN_MAX: usize = 4096;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolRequest {
    /// Begins the connection, with these options in the order sent.
    Startup(Vec<(String, String)>),
    /// Requests the supported STARTUP options.
    Options,
    /// A step of the SASL exchange.
    AuthResponse(Option<Bytes>),
    /// Requests events of these types.
    Register(Vec<EventType>),
    /// A statement to run, with its values still encoded.
    Statement(StatementHead),
}

impl ProtocolRequest {
    /// Decodes the body of a frame, without the values of a statement.
    ///
    /// # Errors
    ///
    /// Malformed, if the body violates a rule.
    pub fn decode(frame: &Frame) -> Result<Self> {
        let (version, opcode) = (frame.header.version, frame.header.opcode);
        let mut reader = BodyReader::new(frame.body.clone());
        if frame.header.has(flags::CUSTOM_PAYLOAD) {
            reader.skip_bytes_map("the custom payload")?;
        }
        Self::read(reader, version, opcode)
    }

    fn read(mut reader: BodyReader, version: Version, opcode: Opcode) -> Result<Self> {
        match opcode {
            Opcode::Startup => reader.string_map("the STARTUP options").map(Self::Startup),
            Opcode::Options => Ok(Self::Options),
            Opcode::AuthResponse => auth_token(&mut reader).map(Self::AuthResponse),
            Opcode::Register => {
                let names = reader.string_list("the event types")?;
                let types = names.iter().map(|name| EventType::from_name(name));
                types.collect::<Result<_>>().map(Self::Register)
            }
            opcode => StatementHead::read(reader, version, opcode).map(Self::Statement),
        }
    }
}

fn auth_token(reader: &mut BodyReader) -> Result<Option<Bytes>> {
    let token = reader.bytes("the SASL token")?;
    match token {
        Some(token) if token.len() > AUTH_TOKEN_LEN_MAX => Err(ProtocolError::malformed(format!(
            "the SASL token has {} bytes; {AUTH_TOKEN_LEN_MAX} are allowed",
            token.len()
        ))),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::MemoryBudget;

    use super::*;
    use crate::protocol::frame::RequestHeader;
    use crate::protocol::head::Peek;

    fn read(version: Version, opcode: Opcode, body: &'static [u8]) -> Result<ProtocolRequest> {
        ProtocolRequest::read(BodyReader::new(Bytes::from_static(body)), version, opcode)
    }

    #[test]
    fn malformed_requests_are_refused() {
        let refused = |opcode, body| read(Version::V4, opcode, body).unwrap_err().to_string();
        let other = refused(Opcode::Register, b"\0\x01\0\x01X");
        assert!(other.contains("no events named"));
        let long = refused(Opcode::AuthResponse, [[0, 0, 0x10, 1]; 2000].as_flattened());
        assert!(long.contains("4097"), "{long}");
        let answer = refused(Opcode::Ready, b"");
        assert!(answer.contains("READY is no request"), "{answer}");
    }

    #[test]
    fn custom_payload_before_a_statement_is_skipped() {
        let read = |body: &'static [u8]| {
            let (version, stream, opcode) = (Version::V4, 1, Opcode::Query);
            let (flags, body_len) = (flags::CUSTOM_PAYLOAD, body.len());
            let header = RequestHeader { version, flags, stream, opcode, body_len };
            let charge = MemoryBudget::new(body_len).charge(body_len).unwrap();
            let body = Bytes::from_static(body);
            ProtocolRequest::decode(&Frame { header, body, charge, values: None })
        };
        let whole = read(b"\0\x02\0\x01a\0\0\0\x01b\0\0\xff\xff\xff\xff\0\0\0\x01q\0\x01\0");
        let Ok(ProtocolRequest::Statement(head)) = whole else { panic!("{whole:?}") };
        assert_eq!(head.peek(), Peek::Query("q"));
        let cut = read(b"\xff\xff\0\x01a");
        assert!(cut.unwrap_err().to_string().contains("the custom payload"));
    }

    #[test]
    fn startup_takes_any_options() {
        let body = b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x01X\0\x01y";
        let ProtocolRequest::Startup(options) = read(Version::V5, Opcode::Startup, body).unwrap()
        else {
            panic!("a startup");
        };
        assert_eq!(options[0], ("CQL_VERSION".into(), "3.0.0".into()));
        assert_eq!(options[1], ("X".into(), "y".into()));
    }
}
