//! Recorded bytes of a stock driver are decoded.
//!
//! The recordings under `tests/recorded` are the client's half of connections of Python's
//! cassandra-driver 3.30.1 to the toy backend: greeting, prepared inserts with values, null and
//! UNSET, paged reads, a batch, DDL, USE. `control` is the connection that reads the schema and
//! registers for events. The recordings with lz4 have an insert of 200 kB, which v5 splits over
//! segments. `python-v5-lz4` logs in as `ann`.

use bytes::BytesMut;
use carnet_base::MemoryBudget;
use carnet_server::Limits;
use carnet_server::protocol::decoder::{Decoded, FrameDecoder};
use carnet_server::protocol::{Opcode, Version};

use crate::support::{AUTH_SUCCESS, AUTHENTICATE, Client, ERROR, EVENT, PASSWORDS, READY, Running};

/// Returns the streams and opcodes of the requests in a recording, each with the bytes that
/// complete it.
fn requests(recording: &[u8], version: Version, lz4: bool) -> Vec<(i16, Opcode, Vec<u8>)> {
    let mut decoder = FrameDecoder::new(MemoryBudget::new(usize::MAX), 16 << 20);
    let (mut inbox, mut bytes, mut requests) = (BytesMut::new(), Vec::new(), Vec::new());
    for byte in recording {
        inbox.extend_from_slice(&[*byte]);
        bytes.push(*byte);
        while let Some(decoded) = decoder.next(&mut inbox).unwrap() {
            let Decoded::Frame(frame) = decoded else { panic!("the budget has no end") };
            let (stream, opcode) = (frame.header.stream, frame.header.opcode);
            if opcode == Opcode::Startup {
                decoder.negotiated(version, lz4);
            }
            requests.push((stream, opcode, std::mem::take(&mut bytes)));
        }
    }
    assert!(bytes.is_empty(), "the recording ends with a request");
    requests
}

/// Replays a recording, and returns the bodies of the answers.
fn replay(recording: &[u8], version: Version, lz4: bool, passwords: Option<&str>) -> Vec<Vec<u8>> {
    let server = Running::with(Limits::default(), passwords);
    let mut client = Client::connect(server.address, version.number());
    let mut answers = Vec::new();
    for (stream, opcode, bytes) in requests(recording, version, lz4) {
        client.send_bytes(&bytes);
        let mut response = client.receive();
        while response.opcode == EVENT {
            response = client.receive();
        }
        assert_eq!(response.stream, stream, "{opcode:?}");
        assert_ne!(response.opcode, ERROR, "{opcode:?}: {:?}", response.error());
        match opcode {
            Opcode::Startup => {
                let want = if passwords.is_some() { AUTHENTICATE } else { READY };
                assert_eq!(response.opcode, want);
                client.settle(lz4);
            }
            Opcode::AuthResponse => assert_eq!(response.opcode, AUTH_SUCCESS),
            _ => {}
        }
        answers.push(response.body.to_vec());
    }
    answers
}

/// Checks that a session got its pages: twelve rows, in pages of five and of seven.
fn assert_paged(answers: &[Vec<u8>]) {
    let pages = answers.iter().filter(|body| body.starts_with(&[0, 0, 0, 2]));
    let more = pages.filter(|body| body[7] & 0x02 != 0).count();
    assert_eq!(more, 2 + 1, "pages that are not the last one");
}

#[test]
fn v4_session_is_understood() {
    let recording = include_bytes!("../recorded/python-v4-session.bin");
    assert_paged(&replay(recording, Version::V4, false, None));
}

#[test]
fn v4_session_with_lz4_is_understood() {
    let recording = include_bytes!("../recorded/python-v4-lz4-session.bin");
    assert_paged(&replay(recording, Version::V4, true, None));
}

#[test]
fn v5_session_is_understood() {
    let recording = include_bytes!("../recorded/python-v5-session.bin");
    assert_paged(&replay(recording, Version::V5, false, None));
}

#[test]
fn v5_session_with_lz4_and_password_is_understood() {
    let recording = include_bytes!("../recorded/python-v5-lz4-session.bin");
    assert_paged(&replay(recording, Version::V5, true, Some(PASSWORDS)));
}

#[test]
fn v5_control_connection_is_understood() {
    let recording = include_bytes!("../recorded/python-v5-control.bin");
    let answers = replay(recording, Version::V5, false, None);
    assert!(answers.len() > 10, "{} answers", answers.len());
}
