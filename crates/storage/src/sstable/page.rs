//! Index pages and the top index.
//!
//! ```text
//! index page := filter (see bloom)  block body (see compress)  CRC32C
//! top index  := block body  CRC32C           only the checksum if there are no blocks
//! ```
//!
//! Both are blocks, decoded and searched by the same code. Each of their entries refers to a block
//! or a page:
//!
//! * The *separator*, a key and a commit timestamp, sorts after every version in the previous
//!   blocks and not after the first version in this one. If the block begins with a new key, the
//!   separator is the shortest such prefix of that key with the greatest timestamp. If the block
//!   continues the versions of the previous block's last key, the separator is that key with the
//!   last version's commit timestamp minus one. So exactly one block can contain any wanted
//!   version, and a scan knows from the separator whether a key continues.
//! * The start timestamp equals the commit timestamp; the payload is the position: offset and
//!   length as `VAR_LONG`s.

use carnet_base::{Result, Timestamp};

use super::block::{Block, SharedBlock};
use super::bloom::Filter;
use super::compress::{self, Compressor, RUN_BYTES_MAX};
use super::damage::Wrong;
use super::entry_ref::EntryRef;
use super::flat_key::shared_len;
use super::memory_limits::{BLOCK_MEMORY_MAX, TOP_MEMORY_MAX};
use super::options::Compression;
use super::run::{self, RunBuilder};
use super::section::Place;
use super::var;

/// Collects separators and positions.
#[derive(Default)]
pub(super) struct IndexBuilder {
    run: RunBuilder,
    last: Vec<u8>,
    scratch: Vec<u8>,
}

impl IndexBuilder {
    pub(super) const fn is_empty(&self) -> bool {
        self.run.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.run.len()
    }

    pub(super) fn decoded_bytes(&self) -> usize {
        self.run.decoded_bytes()
    }

    pub(super) fn push(&mut self, separator: &[u8], commit: Timestamp, place: Place) {
        let shared = if self.run.is_empty() { 0 } else { shared_len(&self.last, separator) };
        self.scratch.clear();
        var::put(&mut self.scratch, place.offset);
        var::put(&mut self.scratch, u64::from(place.len));
        let entry = EntryRef {
            key: separator,
            commit,
            start: commit,
            expiry: None,
            payload: Some(&self.scratch),
        };
        self.run.push(&entry, shared);
        self.last.clear();
        self.last.extend_from_slice(separator);
    }

    /// Appends the body and starts the next one.
    pub(super) fn finish(
        &mut self,
        compressor: &mut Compressor,
        compression: Compression,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.scratch.clear();
        self.run.finish(&mut self.scratch);
        compressor.put(compression, &self.scratch, out).map(drop)
    }
}

/// Returns the position that an index entry refers to.
pub(super) fn place(index: &Block, at: usize) -> Place {
    read_place(index, at).expect("the places of an index are checked when it is decoded")
}

fn read_place(index: &Block, at: usize) -> Result<Place, Wrong> {
    let mut payload = index.get(at).payload.ok_or("an index entry has no place")?;
    let offset = var::take(&mut payload)?;
    let len = u32::try_from(var::take(&mut payload)?).map_err(|_| "a block is too long")?;
    if payload.is_empty() { Ok(Place { offset, len }) } else { Err("an index entry is too long") }
}

/// Decodes a data block.
pub(super) fn decode_data(section: &[u8]) -> Result<SharedBlock, Wrong> {
    run::decode(&compress::run_of(section, RUN_BYTES_MAX)?, BLOCK_MEMORY_MAX)
}

/// Decodes an index page of a file whose blocks end at `data_end`.
pub(super) fn decode_page(mut section: &[u8], data_end: u64) -> Result<SharedBlock, Wrong> {
    let filter = Filter::take(&mut section)?;
    let block = decode_data(section)?.into_index(filter);
    let first = read_place(&block, 0)?;
    if adjoin(&block, first.offset)? > data_end {
        return Err("an index page refers beyond the blocks");
    }
    Ok(block)
}

/// Decodes the top index of a file with index pages from `from` to `to`.
pub(super) fn decode_top(section: &[u8], from: u64, to: u64) -> Result<Option<SharedBlock>, Wrong> {
    if section.is_empty() && from == 0 && to == 0 {
        return Ok(None);
    }
    let run = compress::run_of(section, TOP_MEMORY_MAX)?;
    let top = run::decode(&run, TOP_MEMORY_MAX)?;
    if adjoin(&top, from)? != to {
        return Err("the index pages do not fit the file");
    }
    Ok(Some(top.into_index(Filter::default())))
}

/// Checks that the sections of an index are contiguous from `from` on; returns their end.
fn adjoin(index: &Block, from: u64) -> Result<u64, Wrong> {
    let mut end = from;
    for at in 0..index.len() {
        let place = read_place(index, at)?;
        if place.offset != end {
            return Err("an index is not in order");
        }
        end = place.end();
    }
    Ok(end)
}
