//! Body of a block: a compressed run.
//!
//! ```text
//!  0  compression  u8    0 none, 1 LZ4 (block format), 2 Zstandard
//!  1  length       u32   of the run before compression, at most RUN_BYTES_MAX
//!  5  the compressed run
//! ```
//!
//! A run that compression hardly shrinks is stored uncompressed, because decompressing it would be
//! wasted work. After several such blocks, compression is not attempted for the next ones
//! ([`Attempts`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;

use bytes::BufMut;
use carnet_base::{Error, Result};
use lz4_flex::block::CompressTable;
use zstd::bulk;

use super::damage::Wrong;
use super::options::{Compression, TableOptions};
use crate::codec;

const NONE: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
const HEADER_BYTES: usize = 5;

/// Maximum length of a run: a single entry of maximum lengths, or a full block.
pub(super) const RUN_BYTES_MAX: usize = TableOptions::BLOCK_BYTES_MAX
    + codec::PARTITION_KEY_BYTES_MAX
    + codec::CLUSTERING_KEY_BYTES_MAX
    + codec::PAYLOAD_BYTES_MAX
    + 4096;

/// A run is stored compressed if that saves more than 1 / `GAIN` of its length.
const GAIN: usize = 8;

/// Decides for which blocks compression is attempted.
///
/// Attempts on incompressible values are wasted. After [`Attempts::IN_VAIN_MAX`] unsuccessful
/// blocks in a row, one block is skipped, then three, seven, 15 and at most 31. A success resets
/// the sequence: compressible blocks after incompressible ones stay uncompressed for at most 31
/// blocks.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    in_vain: u32,
    skips: u32,
}

impl Attempts {
    const IN_VAIN_MAX: u32 = 4;
    const DOUBLINGS_MAX: u32 = 5;

    /// Stores the next block, with compression if an attempt is due. `put` returns whether
    /// compression succeeded.
    ///
    /// # Errors
    ///
    /// Errors of `put`.
    pub(super) fn store(
        &mut self,
        kind: Compression,
        put: impl FnOnce(Compression) -> Result<bool>,
    ) -> Result<()> {
        if let Some(skips) = self.skips.checked_sub(1) {
            self.skips = skips;
            put(Compression::None)?;
        } else if put(kind)? {
            *self = Self::default();
        } else {
            self.in_vain += 1;
            let doublings = self.in_vain.saturating_sub(Self::IN_VAIN_MAX - 1);
            self.skips = (1 << doublings.min(Self::DOUBLINGS_MAX)) - 1;
        }
        Ok(())
    }
}

/// Compresses runs and reuses its tables: a fresh LZ4 table for each block of 4 KiB would cost a
/// tenth of the time.
#[derive(Default)]
pub(super) struct Compressor {
    lz4: CompressTable,
    zstd: Option<(u8, bulk::Compressor<'static>)>,
    scratch: Vec<u8>,
}

impl Compressor {
    /// Appends the body of a run, uncompressed if compression hardly shrinks it. Returns `true` if
    /// it is compressed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if Zstandard cannot allocate memory.
    pub(super) fn put(&mut self, kind: Compression, run: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let len = u32::try_from(run.len()).expect("a run is at most RUN_BYTES_MAX bytes");
        let (kind, compressed_bytes) = match kind {
            Compression::None => (NONE, None),
            Compression::Lz4 => (LZ4, Some(self.lz4(run)?)),
            Compression::Zstd(level) => (ZSTD, Some(self.zstd(level, run)?)),
        };
        match compressed_bytes.filter(|&bytes| bytes < run.len() - run.len() / GAIN) {
            Some(bytes) => {
                out.put_u8(kind);
                out.put_u32_le(len);
                out.put_slice(&self.scratch[..bytes]);
                Ok(true)
            }
            None => {
                out.put_u8(NONE);
                out.put_u32_le(len);
                out.put_slice(run);
                Ok(false)
            }
        }
    }

    fn lz4(&mut self, run: &[u8]) -> Result<usize> {
        self.room(lz4_flex::block::get_maximum_output_size(run.len()));
        // `lz4_flex` never shrinks the table, and clearing a large one is expensive for small
        // blocks.
        if run.len() < u16::MAX as usize && matches!(self.lz4, CompressTable::Large(_)) {
            self.lz4 = CompressTable::small();
        }
        lz4_flex::block::compress_into_with_table(run, &mut self.scratch, &mut self.lz4)
            .map_err(|error| Error::unavailable("LZ4 cannot compress a block").with_source(error))
    }

    fn zstd(&mut self, level: u8, run: &[u8]) -> Result<usize> {
        self.room(zstd::zstd_safe::compress_bound(run.len()));
        let failed = |error: io::Error| {
            Error::unavailable("Zstandard cannot compress a block").with_source(error)
        };
        let compressor = match &mut self.zstd {
            Some((at, compressor)) if *at == level => compressor,
            other => {
                let new = bulk::Compressor::new(i32::from(level.clamp(1, 22))).map_err(failed)?;
                &mut other.insert((level, new)).1
            }
        };
        compressor.compress_to_buffer(run, &mut self.scratch[..]).map_err(failed)
    }

    fn room(&mut self, bytes: usize) {
        if self.scratch.len() < bytes {
            self.scratch.resize(bytes, 0);
        }
    }
}

/// Returns the compression of a body.
pub(super) fn kind_of(body: &[u8]) -> Option<Compression> {
    match *body.first()? {
        NONE => Some(Compression::None),
        LZ4 => Some(Compression::Lz4),
        // The level is not stored: decompression does not need it.
        ZSTD => Some(Compression::Zstd(0)),
        _ => None,
    }
}

/// Returns the run of a body, of at most `len_max` bytes.
pub(super) fn run_of(body: &[u8], len_max: usize) -> Result<Cow<'_, [u8]>, Wrong> {
    let Some((header, stored)) = body.split_first_chunk::<HEADER_BYTES>() else {
        return Err("the block ends too early");
    };
    let len = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if len > len_max {
        return Err("the block's length is too large");
    }
    let run = match header[0] {
        NONE => Cow::Borrowed(stored),
        LZ4 => Cow::Owned(lz4_run(stored, len)?),
        ZSTD => Cow::Owned(zstd_run(stored, len)?),
        _ => return Err("the block's compression is unknown"),
    };
    if run.len() != len {
        return Err("the block's length does not match");
    }
    Ok(run)
}

fn lz4_run(stored: &[u8], len: usize) -> Result<Vec<u8>, Wrong> {
    // A byte of LZ4 expands to at most 255 bytes.
    if len > stored.len().saturating_mul(255) {
        return Err("the block's length is too large");
    }
    lz4_flex::block::decompress(stored, len).map_err(|_| "the block cannot be decompressed")
}

fn zstd_run(stored: &[u8], len: usize) -> Result<Vec<u8>, Wrong> {
    thread_local! {
        // A context takes 160 KiB; creating one per block would cost more than a small block.
        static CONTEXT: RefCell<Option<bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context
                .insert(bulk::Decompressor::new().map_err(|_| "Zstandard cannot allocate memory")?),
        };
        context.decompress(stored, len).map_err(|_| "the block cannot be decompressed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks for which compression is attempted; it succeeds for blocks that `gains`
    /// accepts.
    fn tried(attempts: &mut Attempts, count: usize, gains: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut tried = Vec::new();
        for block in 0..count {
            let put = |kind| {
                let tries = kind == Compression::Lz4;
                if tries {
                    tried.push(block);
                }
                Ok(tries && gains(block))
            };
            attempts.store(Compression::Lz4, put).unwrap();
        }
        tried
    }

    #[test]
    fn compression_is_tried_less_after_failures() {
        let mut attempts = Attempts::default();
        let rarely = tried(&mut attempts, 200, |_| false);
        assert_eq!(rarely, [0, 1, 2, 3, 5, 9, 17, 33, 65, 97, 129, 161, 193]);
        let late = tried(&mut attempts, 200, |_| true);
        assert_eq!(late, (25..200).collect::<Vec<_>>(), "one that gains ends it");
        let all = tried(&mut attempts, 200, |block| block % 4 == 0);
        assert_eq!(all.len(), 200, "three in a row are not many");
    }

    #[test]
    fn incompressible_run_is_stored_uncompressed() {
        // The 64 bytes are all different; LZ4 shrinks only the repeated bytes after them.
        let run = |same: usize| [(0..64).collect(), vec![7; same]].concat();
        let mut compressor = Compressor::default();
        let hardly = run(18);
        let shorter = compressor.lz4(&hardly).unwrap();
        assert!(shorter < hardly.len(), "{shorter} of {}", hardly.len());
        for (same, gains) in [(0, false), (18, false), (100, true), (1_000, true)] {
            for kind in [Compression::Lz4, Compression::Zstd(1)] {
                let (mut out, run) = (Vec::new(), run(same));
                let gained = compressor.put(kind, &run, &mut out).unwrap();
                let shorter = out.len() < HEADER_BYTES + run.len();
                assert_eq!((gained, shorter), (gains, gains), "{kind:?} {same}");
                assert_eq!(&*run_of(&out, 2_000).unwrap(), &run);
            }
        }
    }
}
