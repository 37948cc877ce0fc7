//! Writes what the tail has reserved, in its order, a write for each segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use carnet_base::Result;

use super::segment::{HEADER_BYTES, SegmentHeader, file_name};
use super::{Item, Lsn};
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
    written: Lsn,
    /// Segments with bytes that no sync was asked for.
    unsynced: Vec<Segment>,
    buffer: Vec<u8>,
}

/// More than this is not kept for the next write.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

impl Writer {
    /// Makes a segment, whose header vouches for all the log before it, and durably so.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        counters: Arc<Counters>,
        number: u64,
        base: Lsn,
    ) -> Result<Self> {
        let segment = create(&*disk, SegmentHeader { number, base, durable: base })?;
        segment.sync(&*disk)?;
        Ok(Self {
            disk,
            counters,
            number,
            segment,
            offset: HEADER_BYTES as u64,
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

    /// Writes items and empties the list. Everything below `durable` is synced already.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then any part may be written, and the writer must not be used again.
    pub(crate) fn write(&mut self, items: &mut Vec<Item>, durable: Lsn) -> Result<()> {
        for item in items.drain(..) {
            match item {
                Item::Record(record) => record.put(durable, &mut self.buffer),
                Item::Rotate { segment, base } => {
                    self.write_buffer()?;
                    debug_assert_eq!(self.written, base);
                    let header = SegmentHeader { number: segment, base, durable };
                    self.segment = create(&*self.disk, header)?;
                    self.number = segment;
                    self.offset = HEADER_BYTES as u64;
                    self.written = base.after(self.offset);
                    self.unsynced.push(self.segment.clone());
                }
            }
        }
        self.write_buffer()
    }

    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Segment { name, file } = &self.segment;
        file.write_at(&self.buffer, self.offset).during("write", &*self.disk, name)?;
        let len = self.buffer.len() as u64;
        self.offset += len;
        self.written = self.written.after(len);
        if self.unsynced.last().is_none_or(|last| last.name != *name) {
            self.unsynced.push(self.segment.clone());
        }
        add(&self.counters.log_bytes, self.buffer.len());
        self.counters.log_writes.fetch_add(1, Ordering::Relaxed);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
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
