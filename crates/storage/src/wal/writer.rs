//! Writes the log's bytes, segment by segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carnet_base::Result;

use super::Lsn;
use super::segment::{HEADER_BYTES, SegmentHeader, file_name};
use super::tail::Rotation;
use crate::disk::{Disk, During, File};
use crate::metrics::{Counters, add};

/// A segment's open file.
#[derive(Clone)]
pub(crate) struct Segment {
    name: String,
    file: Arc<dyn File>,
}

impl Segment {
    /// Makes everything in the segment durable.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> Result<()> {
        self.file.sync_data().during("sync", disk, &self.name)
    }
}

/// The one writer of the log. Only the newest segment is written to.
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    counters: Arc<Counters>,
    number: u64,
    segment: Segment,
    /// Where the next record goes in the newest segment's file.
    offset: u64,
    /// How far ahead of the records zeros are written.
    zeros_bytes: usize,
    /// The file has bytes up to here: records, and zeros.
    filled: u64,
    written: Lsn,
    /// Segments with bytes that no sync was asked for.
    unsynced: Vec<Segment>,
    buffer: Vec<u8>,
}

/// More than this is not kept for the next write.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

impl Writer {
    /// Makes a segment, whose header vouches for all the log before it, and durably so.
    ///
    /// Records go into zeros that were written `zeros_bytes` ahead, so that a sync mostly finds
    /// the file's length as it was and has no metadata to write; 0 writes none.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        counters: Arc<Counters>,
        number: u64,
        base: Lsn,
        zeros_bytes: usize,
    ) -> Result<Self> {
        let segment = create(&*disk, SegmentHeader { number, base, durable: base })?;
        segment.sync(&*disk)?;
        Ok(Self {
            disk,
            counters,
            number,
            segment,
            offset: HEADER_BYTES as u64,
            zeros_bytes,
            filled: HEADER_BYTES as u64,
            written: base.after(HEADER_BYTES as u64),
            unsynced: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// The number of the newest segment; its file is there, durably.
    pub(crate) const fn segment(&self) -> u64 {
        self.number
    }

    /// Everything below this LSN is written.
    pub(crate) const fn written(&self) -> Lsn {
        self.written
    }

    /// Writes records that follow each other and what was written last.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then any part may be written, and the writer must not be used again.
    pub(crate) fn write(&mut self, records: &mut Vec<Bytes>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        for record in records.drain(..) {
            self.buffer.extend_from_slice(&record);
        }
        let len = self.buffer.len();
        if len == 0 {
            return Ok(());
        }
        let end = self.offset + len as u64;
        if end > self.filled && self.zeros_bytes > 0 {
            self.buffer.resize(len + self.zeros_bytes, 0);
        }
        let Segment { name, file } = &self.segment;
        file.write_at(&self.buffer, self.offset).during("write", &*self.disk, name)?;
        self.filled = self.filled.max(self.offset + self.buffer.len() as u64);
        self.offset = end;
        self.written = self.written.after(len as u64);
        if self.unsynced.last().is_none_or(|last| last.name != *name) {
            self.unsynced.push(self.segment.clone());
        }
        add(&self.counters.log_bytes, len);
        self.counters.log_writes.fetch_add(1, Ordering::Relaxed);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        Ok(())
    }

    /// Goes on in a new segment; everything below `durable` is synced already.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub(crate) fn rotate(&mut self, rotation: Rotation, durable: Lsn) -> Result<()> {
        let Rotation { segment: number, base, .. } = rotation;
        debug_assert_eq!(self.written, base);
        self.segment = create(&*self.disk, SegmentHeader { number, base, durable })?;
        self.number = number;
        self.offset = HEADER_BYTES as u64;
        self.filled = self.offset;
        self.written = base.after(self.offset);
        self.unsynced.push(self.segment.clone());
        Ok(())
    }

    /// Hands over the segments to be synced for everything below [`Writer::written`] to be durable.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.unsynced)
    }

    /// Tells whether bytes were written that no sync was asked for.
    pub(crate) const fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }
}

/// Makes a segment's file; its name is durable, its header is not yet.
fn create(disk: &dyn Disk, header: SegmentHeader) -> Result<Segment> {
    let name = file_name(header.number);
    let file = disk.create(&name).during("create", disk, &name)?;
    file.write_at(&header.encode(), 0).during("write", disk, &name)?;
    disk.sync_dir().during("sync the directory of", disk, &name)?;
    Ok(Segment { name, file })
}
