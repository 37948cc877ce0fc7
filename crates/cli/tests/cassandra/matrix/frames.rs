//! Frames of the native protocol v4, as far as a proxy has to understand them.

use std::io::{self, Read};

const HEADER_BYTES: usize = 9;

pub(super) const ERROR: u8 = 0x00;
pub(super) const QUERY: u8 = 0x07;
pub(super) const RESULT: u8 = 0x08;
pub(super) const PREPARE: u8 = 0x09;
pub(super) const EXECUTE: u8 = 0x0a;
pub(super) const BATCH: u8 = 0x0d;

/// A frame of either direction, with its header.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = vec![0; HEADER_BYTES];
        from.read_exact(&mut bytes)?;
        let length = u32::from_be_bytes(bytes[5..].try_into().unwrap()) as usize;
        bytes.resize(HEADER_BYTES + length, 0);
        from.read_exact(&mut bytes[HEADER_BYTES..])?;
        Ok(Self { bytes })
    }

    /// Returns a node's error for a stream.
    pub(super) fn error(stream: [u8; 2], code: u32, rest: &[u8]) -> Self {
        let mut body = code.to_be_bytes().to_vec();
        let message = b"disturbed by a test";
        body.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        body.extend(rest);
        let mut bytes = vec![0x84, 0, stream[0], stream[1], ERROR];
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        Self { bytes }
    }

    pub(super) fn stream(&self) -> [u8; 2] {
        [self.bytes[2], self.bytes[3]]
    }

    pub(super) fn opcode(&self) -> u8 {
        self.bytes[4]
    }

    pub(super) fn body(&self) -> Body<'_> {
        Body(&self.bytes[HEADER_BYTES..])
    }
}

/// The unread part of a body.
pub(super) struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(super) fn short(&mut self) -> usize {
        u16::from_be_bytes(self.take(2).try_into().unwrap()).into()
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub(super) fn short_bytes(&mut self) -> &'a [u8] {
        let length = self.short();
        self.take(length)
    }

    pub(super) fn long_text(&mut self) -> String {
        let length = usize::try_from(self.int()).unwrap();
        String::from_utf8_lossy(self.take(length)).into_owned()
    }

    /// Reads a list of values; an absent value is empty.
    pub(super) fn values(&mut self) -> Vec<&'a [u8]> {
        let count = self.short();
        (0..count).map(|_| usize::try_from(self.int()).map_or(&[][..], |n| self.take(n))).collect()
    }
}
