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
//! The [`MemoryBudget`] is charged for the bytes of a body as they arrive, and for the whole body as
//! soon as a sixteenth of it has arrived: clients that send much do not end up with parts of their
//! requests that no memory is left to complete, and announcements alone take nothing. A frame that
//! does not fit *waits*: the connection is not read until other requests are answered. A frame that
//! exceeds the whole budget, or has waited too long, is *shed*: its bytes are discarded on arrival,
//! and the client is told to retry later. So is a compressed body of v4 at once, if its uncompressed
//! form does not fit. In addition to the budget a connection may hold one
//! incomplete segment (128 KiB), whose frames are unknown before its checksum, and a waiting one.
//!
//! The memory of the values that will be decoded of a complete request counts as well, even beyond the budget: the request
//! proceeds, and others wait for their bodies. If it waited for that memory too, requests whose bodies fill the budget would
//! wait for each other.

use bytes::{Buf, Bytes, BytesMut};

use super::frame::{Frame, HEADER_LEN, RESPONSE_BIT, RequestHeader, flags};
use super::segment::{self, Segment};
use super::{ProtocolError, Version, compression, decoded_size};
use carnet_base::{Charge, MemoryBudget};

/// Part of a body that arrives before all of it is charged: one in this number of bytes.
const CHARGED_BEFORE: usize = 16;

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
    /// Whether the request in progress lacks memory.
    waits: bool,
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
            waits: false,
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

    /// Returns `true` if the request in progress waits for memory: nothing should be read until
    /// [`FrameDecoder::next`] has returned it.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// Returns `true` if requests may be compressed.
    #[must_use]
    pub const fn is_compressed(&self) -> bool {
        self.lz4
    }

    /// Sheds the request that waits for memory.
    pub fn give_up(&mut self) {
        if let (true, Partial::Body(header, _)) = (self.waits, &self.partial) {
            let (header, left) = (*header, header.body_len - self.collected.len());
            self.skip(header, left);
        }
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

    /// Returns the bytes of the body that belongs at the front of the inbox and is charged; zero if
    /// there is none.
    #[must_use]
    pub const fn expected(&self) -> usize {
        match &self.partial {
            Partial::Body(header, charge)
                if !self.segmented && charge.bytes() == header.body_len =>
            {
                header.body_len
            }
            _ => 0,
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
        self.charge(inbox.len());
        match &mut self.partial {
            Partial::Skip { header, left } => {
                let skipped = inbox.len().min(*left);
                inbox.advance(skipped);
                *left -= skipped;
                let shed = (*left == 0).then_some(*header);
                Ok(shed.map(|header| self.shed(header)))
            }
            Partial::Body(header, _) if self.waits || inbox.len() < header.body_len => Ok(None),
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
                return self.next_of_whole();
            }
            if let Some(decoded) = self.next_of_collected()? {
                return Ok(Some(decoded));
            }
            if self.waits {
                return Ok(None);
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
            } else {
                self.collect(&payload)?;
            }
        }
    }

    /// Takes the next frame of a segment of whole frames.
    fn next_of_whole(&mut self) -> Result<Option<Decoded>> {
        let cut = || ProtocolError::malformed("a segment of whole frames ends within one");
        if matches!(self.partial, Partial::Header) {
            let header = self.parse_header(&self.segment)?.ok_or_else(cut)?;
            self.segment.advance(HEADER_LEN);
            if self.segment.len() < header.body_len {
                return Err(cut());
            }
            self.begin(header);
        }
        self.charge(self.segment.len());
        match self.partial {
            Partial::Body(..) if self.waits => Ok(None),
            Partial::Body(header, _) => {
                let body = self.segment.split_to(header.body_len);
                self.complete(body)
            }
            Partial::Skip { header, left } => {
                self.segment.advance(left);
                Ok(Some(self.shed(header)))
            }
            Partial::Header => Err(cut()),
        }
    }

    /// Adds a part to the frame in progress.
    fn collect(&mut self, mut part: &[u8]) -> Result<()> {
        if matches!(self.partial, Partial::Header) {
            let missing = HEADER_LEN - self.collected.len();
            let (head, rest) = part.split_at(missing.min(part.len()));
            self.collected.extend_from_slice(head);
            let Some(header) = self.parse_header(&self.collected)? else { return Ok(()) };
            self.collected.clear();
            self.begin(header);
            part = rest;
        }
        let left = match &mut self.partial {
            Partial::Skip { left, .. } => {
                left.checked_sub(part.len()).inspect(|rest| *left = *rest)
            }
            Partial::Body(header, charge) => {
                if charge.bytes() == header.body_len {
                    let missing = header.body_len.saturating_sub(self.collected.len());
                    self.collected.reserve(missing);
                }
                self.collected.extend_from_slice(part);
                header.body_len.checked_sub(self.collected.len())
            }
            Partial::Header => None,
        };
        left.map(drop)
            .ok_or_else(|| ProtocolError::malformed("a long frame ends within its last segment"))
    }

    /// Returns the collected frame, if all of it has arrived.
    fn next_of_collected(&mut self) -> Result<Option<Decoded>> {
        self.charge(self.collected.len());
        match self.partial {
            Partial::Skip { header, left: 0 } => Ok(Some(self.shed(header))),
            Partial::Body(header, _) if !self.waits && self.collected.len() == header.body_len => {
                let body = std::mem::take(&mut self.collected).freeze();
                self.complete(body)
            }
            _ => Ok(None),
        }
    }

    /// Charges the frame in progress, of which at most `arrived` bytes have arrived. If they do not
    /// fit, the frame waits.
    fn charge(&mut self, arrived: usize) {
        let Partial::Body(header, charge) = &mut self.partial else { return };
        let whole = header.body_len;
        let bytes = if arrived >= whole / CHARGED_BEFORE { whole } else { arrived };
        self.waits = !charge.grow_to(bytes);
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

    /// Begins a frame. One that can never fit is skipped from its first byte on, without using up
    /// bytes of the budget; nothing is charged for the announcement.
    fn begin(&mut self, header: RequestHeader) {
        let charge = self.budget.charge(0).filter(|_| header.body_len <= self.budget.max());
        match charge {
            Some(charge) => self.partial = Partial::Body(header, charge),
            None => self.skip(header, header.body_len),
        }
    }

    fn skip(&mut self, header: RequestHeader, left: usize) {
        self.collected = BytesMut::new();
        self.partial = Partial::Skip { header, left };
        self.waits = false;
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
            return Ok(Some(self.whole(header, body, charge)));
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
        Ok(Some(self.whole(header, body, charge)))
    }

    /// Makes a complete request.
    fn whole(&self, header: RequestHeader, body: Bytes, charge: Charge) -> Decoded {
        let bytes = decoded_size::of_values(header, &body);
        let values = if bytes > 0 { self.budget.charge(0) } else { None };
        let values = values.map(|mut values| {
            values.set(bytes);
            values
        });
        Decoded::Frame(Frame { header, body, charge, values })
    }
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
