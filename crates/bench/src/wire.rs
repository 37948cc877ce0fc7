//! The subset of the CQL native protocol, version 4, that a load generator needs.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const VERSION: u8 = 4;
const STARTUP: u8 = 0x01;
const QUERY: u8 = 0x07;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;
const AUTH_RESPONSE: u8 = 0x0f;
const ERROR: u8 = 0x00;
const RESULT: u8 = 0x08;
const OVERLOADED: i32 = 0x1001;
/// Frame flags: the body begins with warnings, then with a map, which has the retry delay.
const WARNING: u8 = 0x08;
const CUSTOM_PAYLOAD: u8 = 0x04;
/// Consistency level ONE.
const CONSISTENCY: [u8; 2] = [0, 1];
/// Flags of a query: values follow, a page size follows.
const VALUES: u8 = 0x01;
const PAGE_SIZE: u8 = 0x04;
/// Maximum size of a response body.
const BODY_MAX: usize = 64 << 20;

/// Content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Good,
    Overloaded,
    OtherError,
}

/// A response frame.
pub(super) struct Response {
    pub(super) stream: u16,
    pub(super) answer: ResponseKind,
    body: Vec<u8>,
    /// Length of the warnings and the custom payload before the error.
    prefix_len: usize,
}

impl Response {
    /// Returns the code and the message of an error.
    pub(super) fn error(&self) -> String {
        let error = self.body.get(self.prefix_len..).unwrap_or_default();
        let code = error.first_chunk().map_or(0, |code| i32::from_be_bytes(*code));
        let text = String::from_utf8_lossy(error.get(6..).unwrap_or_default());
        let text: String = text.chars().take(200).collect();
        format!("{code:#06x} {text}")
    }
}

fn frame(stream: u16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("a request of the generator is short");
    let mut frame = vec![VERSION, 0];
    frame.extend(stream.to_be_bytes());
    frame.push(opcode);
    frame.extend(len.to_be_bytes());
    frame.extend(body);
    frame
}

fn long_text(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("a statement of the generator is short");
    [&len.to_be_bytes(), text.as_bytes()].concat()
}

/// Returns the frame that executes a prepared statement with integer values, with `page_rows` rows
/// per page if given.
pub(super) fn execute(stream: u16, id: &[u8], numbers: &[i32], page_rows: Option<i32>) -> Vec<u8> {
    let numbers: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
    let values: Vec<&[u8]> = numbers.iter().map(|number| &number[..]).collect();
    execute_values(stream, id, &values, page_rows)
}

/// Returns the frame that executes a prepared statement with encoded values.
pub(super) fn execute_values(
    stream: u16,
    id: &[u8],
    values: &[&[u8]],
    page_rows: Option<i32>,
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u16::try_from(id.len()).expect("an id is short").to_be_bytes());
    body.extend(id);
    body.extend(CONSISTENCY);
    body.push(VALUES | page_rows.map_or(0, |_| PAGE_SIZE));
    body.extend(u16::try_from(values.len()).expect("there are few markers").to_be_bytes());
    for value in values {
        body.extend(u32::try_from(value.len()).expect("a value is short").to_be_bytes());
        body.extend(*value);
    }
    body.extend(page_rows.into_iter().flat_map(i32::to_be_bytes));
    frame(stream, EXECUTE, &body)
}

/// Connects as a user of a server with log-ins.
pub(super) fn log_in(address: SocketAddr, user: &str, password: &str) -> io::Result<TcpStream> {
    let mut tcp = connect(address)?;
    let token = format!("\0{user}\0{password}");
    tcp.write_all(&frame(0, AUTH_RESPONSE, &long_text(&token)))?;
    match receive(&mut tcp)?.answer {
        ResponseKind::Good => Ok(tcp),
        _ => Err(io::Error::other(format!("user {user} cannot log in"))),
    }
}

/// Connects, and sends STARTUP.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut body = vec![0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        body.extend(u16::try_from(text.len()).expect("it is short").to_be_bytes());
        body.extend(text.as_bytes());
    }
    tcp.write_all(&frame(0, STARTUP, &body))?;
    receive(&mut tcp)?;
    Ok(tcp)
}

/// Returns the frame that runs a statement's text, with `page_rows` rows per page if given.
pub(super) fn query_frame(stream: u16, text: &str, page_rows: Option<i32>) -> Vec<u8> {
    let mut body = long_text(text);
    body.extend(CONSISTENCY);
    match page_rows {
        Some(rows) => {
            body.push(PAGE_SIZE);
            body.extend(rows.to_be_bytes());
        }
        None => body.push(0),
    }
    frame(stream, QUERY, &body)
}

/// Runs a statement's text.
pub(super) fn query(tcp: &mut TcpStream, text: &str) -> io::Result<()> {
    tcp.write_all(&query_frame(0, text, None))?;
    match receive(tcp)?.answer {
        ResponseKind::Good => Ok(()),
        answer => Err(io::Error::other(format!("{answer:?}: {}", beginning(text)))),
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Prepares a statement; returns its id.
pub(super) fn prepare(tcp: &mut TcpStream, text: &str) -> io::Result<Vec<u8>> {
    tcp.write_all(&frame(0, PREPARE, &long_text(text)))?;
    let response = receive(tcp)?;
    let id = response.body.get(6..).filter(|_| response.answer == ResponseKind::Good);
    let len =
        response.body.get(4..6).map_or(0, |len| usize::from(len[0]) << 8 | usize::from(len[1]));
    id.and_then(|id| id.get(..len))
        .map(<[u8]>::to_vec)
        .ok_or_else(|| io::Error::other(format!("cannot prepare {}", beginning(text))))
}

/// Returns the length of the warnings and the custom payload of a body.
fn prefix_len(flags: u8, body: &[u8]) -> usize {
    let number = |at: usize, len: usize| {
        let bytes = body.get(at..at + len).unwrap_or_default();
        bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let mut end = 0;
    if flags & WARNING != 0 {
        end = (0..number(0, 2)).fold(2, |at, _| at + 2 + number(at, 2));
    }
    if flags & CUSTOM_PAYLOAD != 0 {
        end = (0..number(end, 2)).fold(end + 2, |name_at, _| {
            let value_at = name_at + 2 + number(name_at, 2);
            value_at + 4 + number(value_at, 4)
        });
    }
    end
}

/// Receives a response.
pub(super) fn receive(tcp: &mut impl Read) -> io::Result<Response> {
    let mut header = [0; 9];
    tcp.read_exact(&mut header)?;
    let stream = u16::from_be_bytes([header[2], header[3]]);
    let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    let len = usize::try_from(len).ok().filter(|len| *len <= BODY_MAX);
    let mut body = vec![0; len.ok_or_else(|| io::Error::other("a response is too long"))?];
    tcp.read_exact(&mut body)?;
    let prefix_len = prefix_len(header[1], &body);
    let error = body.get(prefix_len..).unwrap_or_default();
    let code = error.first_chunk().map_or(0, |code| i32::from_be_bytes(*code));
    let answer = match header[4] {
        ERROR if code == OVERLOADED => ResponseKind::Overloaded,
        ERROR => ResponseKind::OtherError,
        _ => ResponseKind::Good,
    };
    debug_assert!(header[4] != RESULT || answer == ResponseKind::Good);
    Ok(Response { stream, answer, body, prefix_len })
}
