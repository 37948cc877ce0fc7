//! The bytes that processes of a database exchange after the handshake.
//!
//! # The problem
//!
//! Incoming bytes were written by another process, perhaps of another build, and passed through
//! machines that may drop or alter them. So a frame carries its length and a checksum, and the
//! decoder accepts exactly what the encoder writes: every message has one encoding, left-over bytes
//! are an error, and no length is trusted before its bytes have arrived.
//!
//! # A frame
//!
//! ```text
//!   0  length     u32, big-endian like all that follow: of what comes after the checksum
//!   4  checksum   u32, CRC32C of what comes after it
//!   8  kind       u8
//!   9  id         u64: which request, and the same one in its answer
//!  17  body       as the kind says, to the end
//! ```
//!
//! For example the begin of a strict read by client 7 under token 9, as request 3:
//!
//! ```text
//!   00 00 00 1c  ‹checksum›  01  0000000000000003  0000000000000007  0000000000000009  00  01  00
//!   28 bytes                 begin, request 3      client 7, token 9    to read, strictly, keeps nothing
//! ```
//!
//! `docs/wire.md` describes every body byte by byte. A frame is at most [`FRAME_BYTES_MAX`] long;
//! the encoder rejects longer ones, so the caller gets the error before anything is sent.

mod claim;
mod error;
mod fields;
mod frame;
mod malformed;
mod message;
#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::{Error, Result};

use crate::message::LeaderRequest;
use fields::Fields;
pub use frame::{Frame, Message};
pub use malformed::Malformed;

/// Maximum length of a frame in bytes. A claim takes four bytes and the key for each written cell,
/// and eight bytes for each cell it read: a million cells with keys of sixty bytes fit.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Length and checksum.
const ENVELOPE_BYTES: usize = 8;
/// Kind and id.
const HEAD_BYTES: usize = 9;

const PING: u8 = 0x70;
const PONG: u8 = 0xf0;

/// Appends a frame.
///
/// # Errors
///
/// `Invalid` if it would be longer than [`FRAME_BYTES_MAX`], or if the cells of a claim are not in
/// their order; nothing is appended then.
pub fn encode(id: u64, message: &Message, out: &mut BytesMut) -> Result<()> {
    if let Message::LeaderRequest(LeaderRequest::Commit { claim, .. }) = message {
        claim::check(claim)?;
    }
    let begin = out.len();
    out.put_bytes(0, ENVELOPE_BYTES);
    out.put_u8(match message {
        Message::LeaderRequest(request) => message::kind_of_request(request),
        Message::Response(response) => message::kind_of_response(response),
        Message::Ping => PING,
        Message::Pong => PONG,
    });
    out.put_u64(id);
    match message {
        Message::LeaderRequest(request) => message::put_request(request, out),
        Message::Response(response) => message::put_response(response, out),
        Message::Ping | Message::Pong => {}
    }
    let frame_bytes = out.len() - begin;
    let content = &out[begin + ENVELOPE_BYTES..];
    let envelope = (u32::try_from(content.len()), crc32c::crc32c(content));
    let (Ok(content_bytes), checksum) = envelope else { return too_long(out, begin) };
    if frame_bytes > FRAME_BYTES_MAX {
        return too_long(out, begin);
    }
    let mut envelope = &mut out[begin..begin + ENVELOPE_BYTES];
    envelope.put_u32(content_bytes);
    envelope.put_u32(checksum);
    Ok(())
}

fn too_long(out: &mut BytesMut, begin: usize) -> Result<()> {
    let bytes = out.len() - begin;
    out.truncate(begin);
    Err(Error::invalid(format!(
        "the names of the cells that the transaction wrote and read take {bytes} bytes in the \
         request to the leader; at most {FRAME_BYTES_MAX} are allowed: split the transaction"
    )))
}

/// Returns the length of the frame that these bytes begin; `None` if they are too few to tell.
///
/// # Errors
///
/// If no frame has that length.
pub fn frame_bytes(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    let content = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if !(HEAD_BYTES..=FRAME_BYTES_MAX - ENVELOPE_BYTES).contains(&content) {
        return Err(Malformed("a frame of an impossible length"));
    }
    Ok(Some(ENVELOPE_BYTES + content))
}

/// Returns the id of a complete frame, before its checksum is verified.
pub(super) fn id_of(frame: &[u8]) -> u64 {
    let id = frame.get(ENVELOPE_BYTES + 1..).and_then(|rest| rest.first_chunk());
    id.map_or(0, |id| u64::from_be_bytes(*id))
}

/// Decodes a complete frame, as long as [`frame_bytes`] says.
///
/// # Errors
///
/// If the encoder does not write these bytes.
pub fn decode(frame: &Bytes) -> Result<Frame, Malformed> {
    if frame_bytes(frame)? != Some(frame.len()) {
        return Err(Malformed("a frame that is not as long as it says"));
    }
    let mut fields = Fields::new(frame.slice(4..));
    let checksum = fields.u32()?;
    if checksum != crc32c::crc32c(&frame[ENVELOPE_BYTES..]) {
        return Err(Malformed("a frame whose checksum is wrong"));
    }
    let (kind, id) = (fields.u8()?, fields.u64()?);
    let message = match kind {
        PING => Message::Ping,
        PONG => Message::Pong,
        _ => message::take(kind, &mut fields)?,
    };
    fields.end()?;
    Ok(Frame { id, message })
}
