//! Decoder of the frames in a connection's bytes.
//!
//! The decoder gets all bytes that have arrived and are not yet consumed, and takes complete
//! requests from the front. It keeps at most one unfinished request, and of it only the bytes that
//! have arrived:
//!
//! ```text
//!   plain     inbox ──────────────────────────▶ Header ─▶ Body ─▶ a frame
//!                                                  │
//!                                                  └────▶ Skip ─▶ "shed"
//!   segments  inbox ─▶ segment ─▶ whole: frames, one after the other
//!                                 part:  collected until the frame that it begins is complete
//! ```
//!
//! A connection begins with plain frames. v5 switches to segments after STARTUP.
//!
//! The [`MemoryBudget`] is charged for the bytes of a body as they arrive, never for announced
//! ones. A frame whose body does not fit is *shed*: its bytes are discarded on arrival, so it costs
//! no memory, and the client is told to retry later. In addition to the budget a connection may
//! hold one incomplete segment (128 KiB), whose frames are unknown before its checksum.

use bytes::{Buf, Bytes, BytesMut};

use super::frame::{Frame, HEADER_LEN, RESPONSE_BIT, RequestHeader, flags};
use super::segment::{self, Segment};
use super::{ProtocolError, Version, compression};
use carnet_base::{Charge, MemoryBudget};

type Result<T> = std::result::Result<T, ProtocolError>;

/// Output of the decoder.
#[derive(Debug)]
pub enum Decoded {
    /// A complete request.
    Frame(Frame),
    /// A request that was discarded, because the server holds too many bytes already.
    Shed(RequestHeader),
}

/// Decoder of one connection's requests.
#[derive(Debug)]
pub struct FrameDecoder {
    budget: MemoryBudget,
    body_max: usize,
    version: Option<Version>,
    lz4: bool,
    /// The request in progress.
    partial: Partial,
    /// Frames of a whole segment that are not taken yet.
    segment: Bytes,
    /// Parts of a frame that is longer than a segment.
    collected: BytesMut,
    segmented: bool,
}

/// Progress of the request in progress.
#[derive(Debug)]
enum Partial {
    Header,
    Body(RequestHeader, Charge),
    Skip { header: RequestHeader, left: usize },
}

impl FrameDecoder {
    /// Creates the decoder of a connection: plain frames of any version, with bodies of at most
    /// `body_max` bytes.
    #[must_use]
    pub fn new(budget: MemoryBudget, body_max: usize) -> Self {
        Self {
            budget,
            body_max,
            version: None,
            lz4: false,
            partial: Partial::Header,
            segment: Bytes::new(),
            collected: BytesMut::new(),
            segmented: false,
        }
    }

    /// Sets the results of STARTUP: the version, and whether bodies (v4) or segments (v5) may be
    /// compressed. From then on v5 uses segments.
    pub const fn negotiated(&mut self, version: Version, lz4: bool) {
        self.version = Some(version);
        self.lz4 = lz4;
        self.segmented = matches!(version, Version::V5);
    }

    /// Sets the maximum length of bodies, which is raised after the log-in.
    pub const fn set_body_max(&mut self, body_max: usize) {
        self.body_max = body_max;
    }

    /// Returns `true` unless less than an eighth of the memory of requests is free.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.budget.fits(self.budget.max() / 8)
    }

    /// Returns `true` if a request has begun and not ended.
    #[must_use]
    pub fn is_mid_frame(&self, inbox: &BytesMut) -> bool {
        !inbox.is_empty() || !self.collected.is_empty() || !matches!(self.partial, Partial::Header)
    }

    /// Returns the announced length of the frame in progress, in bytes, as far as it is known.
    #[must_use]
    pub const fn announced(&self) -> usize {
        match &self.partial {
            Partial::Body(header, _) | Partial::Skip { header, .. } => header.body_len,
            Partial::Header if self.segmented => segment::PAYLOAD_LEN_MAX,
            Partial::Header => HEADER_LEN,
        }
    }

    /// Returns the next request, or `None` until more bytes arrive.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`], after which later bytes have no meaning.
    pub fn next(&mut self, inbox: &mut BytesMut) -> Result<Option<Decoded>> {
        if self.segmented { self.next_in_segments(inbox) } else { self.next_plain(inbox) }
    }

    fn next_plain(&mut self, inbox: &mut BytesMut) -> Result<Option<Decoded>> {
        if matches!(self.partial, Partial::Header) {
            let Some(header) = self.parse_header(inbox)? else { return Ok(None) };
            inbox.advance(HEADER_LEN);
            self.begin(header);
        }
        self.charge(inbox.len(), 0);
        match &mut self.partial {
            Partial::Skip { header, left } => {
                let skipped = inbox.len().min(*left);
                inbox.advance(skipped);
                *left -= skipped;
                let shed = (*left == 0).then_some(*header);
                Ok(shed.map(|header| self.shed(header)))
            }
            Partial::Body(header, _) if inbox.len() < header.body_len => Ok(None),
            Partial::Body(header, _) => {
                let body = inbox.split_to(header.body_len).freeze();
                self.complete(body)
            }
            Partial::Header => Ok(None),
        }
    }

    fn next_in_segments(&mut self, inbox: &mut BytesMut) -> Result<Option<Decoded>> {
        loop {
            if !self.segment.is_empty() {
                return self.next_of_whole().map(Some);
            }
            let Some(Segment { payload, whole }) = segment::take(inbox, self.lz4)? else {
                return Ok(None);
            };
            if whole {
                if !self.collected.is_empty() || !matches!(self.partial, Partial::Header) {
                    return Err(ProtocolError::malformed(
                        "a segment of whole frames came between the parts of a long one",
                    ));
                }
                self.segment = payload;
            } else if let Some(decoded) = self.collect(&payload)? {
                return Ok(Some(decoded));
            }
        }
    }

    /// Takes the next frame of a segment of whole frames.
    fn next_of_whole(&mut self) -> Result<Decoded> {
        let cut = || ProtocolError::malformed("a segment of whole frames ends within one");
        let header = self.parse_header(&self.segment)?.ok_or_else(cut)?;
        self.segment.advance(HEADER_LEN);
        if self.segment.len() < header.body_len {
            return Err(cut());
        }
        let body = self.segment.split_to(header.body_len);
        self.begin(header);
        self.charge(body.len(), 0);
        match self.partial {
            Partial::Skip { header, .. } => Ok(self.shed(header)),
            _ => self.complete(body)?.ok_or_else(cut),
        }
    }

    /// Adds a part to the frame in progress.
    fn collect(&mut self, mut part: &[u8]) -> Result<Option<Decoded>> {
        if matches!(self.partial, Partial::Header) {
            let missing = HEADER_LEN - self.collected.len();
            let (head, rest) = part.split_at(missing.min(part.len()));
            self.collected.extend_from_slice(head);
            let Some(header) = self.parse_header(&self.collected)? else { return Ok(None) };
            self.collected.clear();
            self.begin(header);
            part = rest;
        }
        let kept = self.collected.len();
        self.charge(kept + part.len(), kept);
        let left = match &mut self.partial {
            Partial::Skip { left, .. } => {
                left.checked_sub(part.len()).inspect(|rest| *left = *rest)
            }
            Partial::Body(header, _) => {
                self.collected.extend_from_slice(part);
                header.body_len.checked_sub(self.collected.len())
            }
            Partial::Header => None,
        };
        match (left, &self.partial) {
            (None, _) => Err(ProtocolError::malformed("a long frame ends within its last segment")),
            (Some(0), Partial::Skip { header, .. }) => {
                let header = *header;
                Ok(Some(self.shed(header)))
            }
            (Some(0), _) => {
                let body = std::mem::take(&mut self.collected).freeze();
                self.complete(body)
            }
            (Some(_), _) => Ok(None),
        }
    }

    /// Charges the arrived bytes of the frame in progress, `kept` of which were taken from the
    /// connection. If they do not fit, these are dropped and the rest is skipped.
    fn charge(&mut self, arrived: usize, kept: usize) {
        let Partial::Body(header, charge) = &mut self.partial else { return };
        let header = *header;
        if !charge.grow_to(arrived.min(header.body_len)) {
            self.collected = BytesMut::new();
            self.partial = Partial::Skip { header, left: header.body_len - kept };
        }
    }

    fn parse_header(&self, bytes: &[u8]) -> Result<Option<RequestHeader>> {
        if let (Some(agreed), Some(&first)) = (self.version, bytes.first())
            && first & !RESPONSE_BIT != agreed.number()
        {
            return Err(ProtocolError::malformed(format!(
                "a frame of version {first} on a connection that speaks version {}",
                agreed.number()
            )));
        }
        RequestHeader::parse(bytes, self.body_max)
    }

    /// Begins a frame. A frame without room is skipped from its first byte on, without using up
    /// bytes of the budget; nothing is charged for the announcement.
    fn begin(&mut self, header: RequestHeader) {
        let charge = self.budget.charge(0).filter(|_| self.budget.fits(header.body_len));
        self.partial = match charge {
            Some(charge) => Partial::Body(header, charge),
            None => Partial::Skip { header, left: header.body_len },
        };
    }

    fn shed(&mut self, header: RequestHeader) -> Decoded {
        self.partial = Partial::Header;
        Decoded::Shed(header)
    }

    fn complete(&mut self, body: Bytes) -> Result<Option<Decoded>> {
        let Partial::Body(header, charge) = std::mem::replace(&mut self.partial, Partial::Header)
        else {
            return Ok(None);
        };
        // v5 compresses segments, and ignores the flag.
        if header.version >= Version::V5 || !header.has(flags::COMPRESSION) {
            return Ok(Some(Decoded::Frame(Frame { header, body, charge })));
        }
        if !self.lz4 {
            return Err(ProtocolError::malformed(
                "a compressed body, though STARTUP settled no compression",
            ));
        }
        let (len, block) = compression::split_prefixed(&body, self.body_max)?;
        drop(charge);
        let Some(charge) = self.budget.charge(len) else { return Ok(Some(Decoded::Shed(header))) };
        let body = compression::decompress(&block, len)?;
        Ok(Some(Decoded::Frame(Frame { header, body, charge })))
    }
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
