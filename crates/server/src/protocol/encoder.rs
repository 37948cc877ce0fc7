//! Encoder of a connection's responses.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::frame::{HEADER_LEN, flags, put_response_header};
use super::response::{Notes, Response};
use super::segment::{self, PAYLOAD_LEN_MAX};
use super::writer::{Oversize, Writer};
use super::{Version, compression};

/// Maximum buffer that an idle connection keeps for its next answers, in bytes.
const KEPT_LEN_MAX: usize = 64 << 10;
/// Number of bytes ready for the socket below which the next part of a long frame is wrapped.
const REFILL_LEN: usize = 64 << 10;

/// Encoding of a connection's frames, as negotiated by STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Protocol version of the connection.
    pub version: Version,
    /// Whether bodies (v4) or segments (v5) may be compressed.
    pub lz4: bool,
}

impl Encoding {
    /// Encodes a response as a frame. Rows are dropped as they are written, so that a long result
    /// is not in memory twice.
    ///
    /// # Errors
    ///
    /// [`Oversize`] if the response exceeds the protocol's limits.
    pub fn frame(
        self,
        stream: i16,
        response: Response,
        notes: Notes<'_>,
    ) -> Result<Bytes, Oversize> {
        let mut out = Writer::behind(HEADER_LEN);
        let mut bits = if notes.warnings.is_empty() { 0 } else { flags::WARNING };
        if notes.trace.is_some() {
            bits |= flags::TRACING;
        }
        if response.has_payload() {
            bits |= flags::CUSTOM_PAYLOAD;
        }
        let opcode = response.opcode();
        response.write(&mut out, self.version, notes)?;
        let mut frame = out.finish_unfrozen()?;
        if self.lz4
            && self.version < Version::V5
            && let Some(compressed) = compression::compress_prefixed(&frame[HEADER_LEN..])
        {
            frame.truncate(HEADER_LEN);
            frame.extend_from_slice(&compressed);
            bits |= flags::COMPRESSION;
        }
        let body_len = frame.len() - HEADER_LEN;
        let mut header = &mut frame[..HEADER_LEN];
        put_response_header(&mut header, self.version, bits, stream, opcode, body_len);
        Ok(frame.freeze())
    }
}

/// Encoder that collects the frames of one connection into bytes to send.
///
/// In v5 frames wait until [`FrameEncoder::seal`], so that several small ones share a segment, a
/// checksum and a system call. A frame longer than a segment stays as it is, and is wrapped part by
/// part as the socket takes it: a full copy would double the memory of a long answer. Later frames
/// wait in their order.
#[derive(Debug, Default)]
pub struct FrameEncoder {
    segmented: bool,
    lz4: bool,
    unsealed: BytesMut,
    out: BytesMut,
    waiting: VecDeque<Waiting>,
    /// Number of bytes of `waiting` that are not in `out` yet.
    waiting_len: usize,
    /// Memory of the frames of `waiting`.
    waiting_held: usize,
}

/// A frame that is wrapped up to `wrapped`.
#[derive(Debug)]
struct Waiting {
    frame: Bytes,
    wrapped: usize,
}

impl FrameEncoder {
    /// Creates the encoder of a connection, for plain frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wraps frames pushed from now on in segments, if the version has them.
    pub fn negotiated(&mut self, encoding: Encoding) {
        self.segmented = encoding.version >= Version::V5;
        self.lz4 = encoding.lz4;
    }

    /// Adds a frame to the output.
    pub fn push(&mut self, frame: Bytes) {
        if frame.len() <= PAYLOAD_LEN_MAX && self.waiting.is_empty() {
            self.push_short(&frame);
            return;
        }
        self.seal();
        self.waiting_len += frame.len();
        self.waiting_held += frame.len();
        self.waiting.push_back(Waiting { frame, wrapped: 0 });
    }

    fn push_short(&mut self, frame: &[u8]) {
        if !self.segmented {
            self.out.extend_from_slice(frame);
            return;
        }
        if self.unsealed.len() + frame.len() > PAYLOAD_LEN_MAX {
            self.seal();
        }
        self.unsealed.extend_from_slice(frame);
    }

    /// Closes the segment in progress.
    pub fn seal(&mut self) {
        if !self.unsealed.is_empty() {
            segment::put(&mut self.out, &self.unsealed, true, self.lz4);
            self.unsealed.clear();
        }
    }

    /// Returns the bytes to send next; the caller removes sent bytes from the front. They are empty
    /// only if nothing waits except unsealed frames.
    pub fn out(&mut self) -> &mut BytesMut {
        while self.out.len() < REFILL_LEN && self.wrap_next() {}
        &mut self.out
    }

    /// Wraps a waiting frame, or the next part of a long one. Returns `false` if none waits.
    fn wrap_next(&mut self) -> bool {
        let Some(Waiting { frame, wrapped }) = self.waiting.pop_front() else { return false };
        let is_long = frame.len() > PAYLOAD_LEN_MAX;
        let end = frame.len().min(wrapped + PAYLOAD_LEN_MAX);
        let part = &frame[wrapped..end];
        if self.segmented {
            segment::put(&mut self.out, part, !is_long, self.lz4);
        } else {
            self.out.extend_from_slice(part);
        }
        self.waiting_len -= part.len();
        if end < frame.len() {
            self.waiting.push_front(Waiting { frame, wrapped: end });
        } else {
            self.waiting_held -= frame.len();
        }
        true
    }

    /// Releases the memory of long answers after they are sent.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.out, &mut self.unsealed] {
            if buffer.is_empty() && buffer.capacity() > KEPT_LEN_MAX {
                *buffer = BytesMut::new();
            }
        }
    }

    /// Returns the number of waiting bytes, sealed or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len() + self.unsealed.len() + self.waiting_len
    }

    /// Returns the memory of the waiting frames, in bytes: a long frame counts until its last byte
    /// is wrapped.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.out.len() + self.unsealed.len() + self.waiting_held
    }

    /// Returns `true` if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::segment::Segment;

    fn encoder(lz4: bool) -> FrameEncoder {
        let mut encoder = FrameEncoder::new();
        encoder.negotiated(Encoding { version: Version::V5, lz4 });
        encoder
    }

    fn segments(encoder: &mut FrameEncoder, lz4: bool) -> Vec<Segment> {
        encoder.seal();
        std::iter::from_fn(|| segment::take(encoder.out(), lz4).unwrap()).collect()
    }

    #[test]
    fn small_frames_share_a_segment() {
        for lz4 in [false, true] {
            let mut encoder = encoder(lz4);
            for _ in 0..3 {
                encoder.push(Bytes::from_static(&[7; 1000]));
            }
            let segments = segments(&mut encoder, lz4);
            assert_eq!(segments.len(), 1);
            assert!(segments[0].whole);
            assert_eq!(segments[0].payload, vec![7; 3000]);
            assert!(encoder.is_empty());
        }
    }

    #[test]
    fn long_frame_is_split_and_keeps_its_position() {
        let mut encoder = encoder(false);
        encoder.push(vec![1; 10].into());
        encoder.push(vec![2; PAYLOAD_LEN_MAX + 1].into());
        encoder.push(vec![3; 10].into());
        let found: Vec<(u8, usize, bool)> = segments(&mut encoder, false)
            .iter()
            .map(|segment| (segment.payload[0], segment.payload.len(), segment.whole))
            .collect();
        let want = [(1, 10, true), (2, PAYLOAD_LEN_MAX, false), (2, 1, false), (3, 10, true)];
        assert_eq!(found, want);
    }

    /// A long frame is held once, as a whole, until its last part is wrapped.
    #[test]
    fn long_frame_is_wrapped_as_it_is_sent() {
        const LEN: usize = 4 * PAYLOAD_LEN_MAX;
        for version in [Version::V4, Version::V5] {
            let mut encoder = FrameEncoder::new();
            encoder.negotiated(Encoding { version, lz4: false });
            encoder.push(vec![1; LEN].into());
            encoder.push(vec![2; 10].into());
            let mut sent = 0;
            while !encoder.is_empty() {
                let out = encoder.out();
                assert!(!out.is_empty() && out.len() < REFILL_LEN + 2 * PAYLOAD_LEN_MAX);
                let part = out.split_to(out.len().min(1_000));
                sent += part.len();
                let held = encoder.held_bytes();
                // The frame is held as a whole until its last part is wrapped.
                let is_waiting = encoder.waiting_len > 10;
                assert!(!is_waiting || held >= LEN, "{held} at {sent}");
                assert!(held <= LEN + 10 + REFILL_LEN + 2 * PAYLOAD_LEN_MAX);
            }
            assert_eq!(encoder.held_bytes(), 0);
            assert!(sent >= LEN + 10, "{version:?}: {sent}");
        }
    }

    #[test]
    fn idle_connection_keeps_little_memory() {
        let mut encoder = encoder(false);
        encoder.push(vec![1; PAYLOAD_LEN_MAX].into());
        encoder.seal();
        encoder.out().clear();
        encoder.shrink();
        assert!(encoder.out.capacity() + encoder.unsealed.capacity() <= 2 * KEPT_LEN_MAX);
    }

    #[test]
    fn v4_compresses_only_long_bodies() {
        let encoding = Encoding { version: Version::V4, lz4: true };
        let long =
            encoding.frame(1, Response::SetKeyspace("k".repeat(5000)), Notes::default()).unwrap();
        assert_eq!(long[1], flags::COMPRESSION);
        assert!(long.len() < 200);
        let short = encoding.frame(1, Response::Void, Notes::default()).unwrap();
        assert_eq!(short[..], [0x84, 0, 0, 1, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
    }
}
