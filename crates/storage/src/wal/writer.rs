//! Log writer: writes records to segments.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carnet_base::Result;

use super::segment::{HEADER_BYTES, SegmentHeader, file_name, temporary_name};
use super::tail::Rotation;
use super::{Lsn, RECORD_HEADER_BYTES, Spare};
use crate::disk::{Disk, During, File};
use crate::metrics::{Counters, add};

/// Open file of a segment.
#[derive(Clone)]
pub(crate) struct Segment {
    number: u64,
    name: String,
    file: Arc<dyn File>,
}

impl Segment {
    /// Syncs the segment.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> Result<()> {
        self.file.sync_data().during("sync", disk, &self.name)
    }
}

/// Writer of the log. It writes to the newest segment only.
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    counters: Arc<Counters>,
    number: u64,
    segment: Segment,
    /// Offset of the next record in the newest segment's file.
    offset: u64,
    /// Number of zeros written ahead of the records.
    zeros_bytes: usize,
    /// End of the records and zeros written.
    filled: u64,
    /// Length of the recycled file; leftovers may reach up to here.
    room: u64,
    written: Lsn,
    unsynced: Unsynced,
    /// Whether unsynced writes are kept in memory.
    keeps_writes: bool,
    /// Set after a sync that may have lost the unsynced writes.
    lost: bool,
    buffer: Vec<u8>,
    /// Memory of a synced write.
    spare: Vec<u8>,
}

/// Segments with bytes for which no sync was requested or succeeded.
#[derive(Default)]
pub(crate) struct Unsynced {
    segments: Vec<Segment>,
    /// The bytes, in the order in which they were written, if they are kept.
    writes: Vec<Written>,
}

/// A write that is kept until it is synced.
struct Written {
    file: Arc<dyn File>,
    segment: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Unsynced {
    pub(crate) const fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// Maximum capacity kept for the next write.
const BUFFER_KEPT_BYTES: usize = 4 << 20;
/// Page size of the page cache; writing a part of a page reads the page first.
const PAGE_BYTES: u64 = 4096;
/// Alignment of writes of zeros: none crosses a multiple of this.
///
/// The page cache keeps the pages of one write in folios of up to its size, and a small write into
/// a large folio walks the buffer heads of the whole folio (Linux 6.18, ext4). Pieces of 16 to 64
/// KiB are the cheapest.
pub(crate) const ZEROS_BYTES: usize = 32 << 10;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

impl Writer {
    /// Creates a segment durably. Its header states that all of the log before it is durable.
    ///
    /// In a new file, records overwrite zeros that were written `zeros_bytes` ahead. So most syncs
    /// find the file's length unchanged and have no metadata to write. 0 disables this.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        counters: Arc<Counters>,
        number: u64,
        base: Lsn,
        zeros_bytes: usize,
        spare: Option<Spare>,
    ) -> Result<Self> {
        let header = SegmentHeader { number, base, durable: base };
        let Made { segment, room, filled } = make(&*disk, &counters, header, spare)?;
        Ok(Self {
            disk,
            counters,
            number,
            segment,
            offset: HEADER_BYTES as u64,
            zeros_bytes,
            filled,
            room,
            written: base.after(HEADER_BYTES as u64),
            unsynced: Unsynced::default(),
            keeps_writes: false,
            lost: false,
            buffer: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Returns the number of the newest segment, whose file exists durably.
    pub(crate) const fn segment(&self) -> u64 {
        self.number
    }

    /// Returns the LSN up to which the log is written.
    pub(crate) const fn written(&self) -> Lsn {
        self.written
    }

    /// Writes records that follow the last write, after records whose write failed the last
    /// time.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then any part may have been written. Unless the error
    /// passes, the writer must not be used again.
    pub(crate) fn write(&mut self, records: &mut Vec<Bytes>) -> Result<()> {
        for record in records.drain(..) {
            self.buffer.extend_from_slice(&record);
        }
        let len = self.buffer.len();
        if len == 0 {
            return Ok(());
        }
        let end = self.offset + len as u64;
        let zeros = if end + END_BYTES > self.filled { self.zeros_behind(end) } else { 0 };
        // The zeros that mark the end are in the same write: the process may be killed between two
        // writes.
        let first = zeros.min(RECORD_HEADER_BYTES + to_piece(end + END_BYTES));
        self.buffer.resize(len + first, 0);
        let Segment { number, name, file } = &self.segment;
        let offset = self.offset;
        let written = file.write_at(&self.buffer, offset);
        let ahead = written.and_then(|()| write_zeros(&**file, end + first as u64, zeros - first));
        if let Err(error) = ahead.during("write", &*self.disk, name) {
            // The records stay in the buffer: if the error passes, the write is retried.
            self.buffer.truncate(len);
            return Err(error);
        }
        self.filled = self.filled.max(end + zeros as u64);
        self.offset = end;
        self.written = self.written.after(len as u64);
        if self.unsynced.segments.last().is_none_or(|last| last.number != *number) {
            self.unsynced.segments.push(self.segment.clone());
        }
        add(&self.counters.log_bytes, len);
        self.counters.log_writes.fetch_add(1, Ordering::Relaxed);
        if self.keeps_writes {
            let bytes = std::mem::replace(&mut self.buffer, std::mem::take(&mut self.spare));
            let file = Arc::clone(&self.segment.file);
            self.unsynced.writes.push(Written { file, segment: *number, offset, bytes });
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        Ok(())
    }

    /// Keeps writes in memory until they are synced, so that a sync that fails for want of space or
    /// memory can be repeated. For callers that sync after each write.
    pub(crate) const fn keep_writes(&mut self) {
        self.keeps_writes = true;
    }

    /// Writes the unsynced bytes again, if a sync may have lost them: the kernel considers their
    /// pages clean.
    ///
    /// # Errors
    ///
    /// Like [`Writer::write`].
    pub(crate) fn rewrite_lost(&mut self) -> Result<()> {
        if !self.lost {
            return Ok(());
        }
        // In order: the zeros behind a write are overwritten by the next one.
        for Written { file, segment, offset, bytes } in &self.unsynced.writes {
            let name = file_name(*segment);
            file.write_at(bytes, *offset).during("write", &*self.disk, &name)?;
        }
        self.lost = false;
        Ok(())
    }

    /// Takes back segments whose sync failed. Returns `false` if it may have lost writes that were
    /// not kept.
    pub(crate) fn put_back(&mut self, mut unsynced: Unsynced, has_lost: bool) -> bool {
        let later = std::mem::take(&mut self.unsynced);
        for segment in later.segments {
            if unsynced.segments.iter().all(|earlier| earlier.number != segment.number) {
                unsynced.segments.push(segment);
            }
        }
        unsynced.writes.extend(later.writes);
        self.unsynced = unsynced;
        if has_lost {
            self.lost = true;
            // Zeros ahead of the records may be lost too.
            self.filled = self.offset;
        }
        self.keeps_writes || !has_lost
    }

    /// Takes back the memory of synced writes.
    pub(crate) fn reuse(&mut self, unsynced: Unsynced) {
        if let Some(written) = unsynced.writes.into_iter().next() {
            self.spare = written.bytes;
            self.spare.clear();
            self.spare.shrink_to(BUFFER_KEPT_BYTES);
        }
    }

    /// Switches to a new segment; everything below `durable` is synced.
    ///
    /// # Errors
    ///
    /// Like [`Writer::write`].
    pub(crate) fn rotate(
        &mut self,
        rotation: Rotation,
        durable: Lsn,
        spare: Option<Spare>,
    ) -> Result<()> {
        let Rotation { segment: number, base, .. } = rotation;
        debug_assert_eq!(self.written, base);
        let header = SegmentHeader { number, base, durable };
        let made = make(&*self.disk, &self.counters, header, spare)?;
        Made { segment: self.segment, room: self.room, filled: self.filled } = made;
        self.number = number;
        self.offset = HEADER_BYTES as u64;
        self.written = base.after(self.offset);
        Ok(())
    }

    /// Returns the number of zeros to write after records that end at `end`.
    fn zeros_behind(&self, end: u64) -> usize {
        if end >= self.room {
            return self.zeros_bytes;
        }
        let zeros = (end + END_BYTES).next_multiple_of(PAGE_BYTES) - end;
        usize::try_from(zeros).expect("less than two pages")
    }

    /// Takes the segments to sync; afterwards everything below [`Writer::written`] is durable.
    pub(crate) fn take_unsynced(&mut self) -> Unsynced {
        std::mem::take(&mut self.unsynced)
    }

    /// Drops unsynced segments below a number, whose records are in tables and need no sync.
    /// Without this, a log that is never synced would keep all its files open, and their space
    /// allocated.
    pub(crate) fn forget_below(&mut self, number: u64) {
        self.unsynced.segments.retain(|segment| segment.number >= number);
        self.unsynced.writes.retain(|written| written.segment >= number);
    }

    #[cfg(test)]
    pub(crate) const fn unsynced_segments(&self) -> usize {
        self.unsynced.segments.len()
    }

    /// Returns `true` if bytes were written for which no sync was requested.
    pub(crate) const fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }
}

/// Number of zeros after a record that mark the end of the log.
const END_BYTES: u64 = RECORD_HEADER_BYTES as u64;

/// Returns the distance from an offset to the end of its piece.
fn to_piece(at: u64) -> usize {
    let piece = ZEROS_BYTES as u64;
    usize::try_from(piece - at % piece).expect("a piece is small")
}

fn write_zeros(file: &dyn File, mut at: u64, mut bytes: usize) -> io::Result<()> {
    while bytes > 0 {
        let piece = bytes.min(to_piece(at));
        file.write_at(&ZEROS[..piece], at)?;
        (at, bytes) = (at + piece as u64, bytes - piece);
    }
    Ok(())
}

/// A segment that was created.
struct Made {
    segment: Segment,
    room: u64,
    filled: u64,
}

/// Creates a segment's file, from a recycled one if there is one.
///
/// The header is durable before the file gets its name, and the name is durable before this
/// returns: recovery relies on both.
fn make(
    disk: &dyn Disk,
    counters: &Counters,
    header: SegmentHeader,
    spare: Option<Spare>,
) -> Result<Made> {
    disk.check_directory()?;
    let name = file_name(header.number);
    let recycled = spare.map(|spare| open_spare(disk, spare)).transpose()?.flatten();
    let Unnamed { name: unnamed, file, room } = match recycled {
        Some(recycled) => recycled,
        None => create_unnamed(disk, header.number)?,
    };
    let mut first = header.encode();
    if room > 0 {
        counters.log_segments_recycled.fetch_add(1, Ordering::Relaxed);
        first.resize(usize::try_from(PAGE_BYTES).expect("a page is small"), 0);
    }
    file.write_durably_at(&first, 0).during("write", disk, &unnamed)?;
    disk.rename(&unnamed, &name).during("rename", disk, &unnamed)?;
    disk.sync_dir().during("sync the directory of", disk, &name)?;
    let segment = Segment { number: header.number, name, file };
    Ok(Made { segment, room, filled: first.len() as u64 })
}

/// A file that becomes a segment when its header is durable.
struct Unnamed {
    /// Name of the file until then.
    name: String,
    file: Arc<dyn File>,
    /// Length of the recycled file.
    room: u64,
}

fn create_unnamed(disk: &dyn Disk, number: u64) -> Result<Unnamed> {
    let name = temporary_name(number);
    let file = disk.create(&name).during("create", disk, &name)?;
    Ok(Unnamed { name, file, room: 0 })
}

/// Opens a recycled segment's file, truncated to its maximum length; `None` if the file was
/// removed.
fn open_spare(disk: &dyn Disk, spare: Spare) -> Result<Option<Unnamed>> {
    let name = file_name(spare.number);
    let file = match disk.open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.during("open", disk, &name)?,
    };
    let mut room = file.len().during("open", disk, &name)?;
    if room > spare.bytes_max {
        file.truncate(spare.bytes_max).during("cut", disk, &name)?;
        room = spare.bytes_max;
    }
    Ok(Some(Unnamed { name, file, room }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::{Kind, SimDisk};

    fn writer(disk: &SimDisk, zeros_bytes: usize) -> Writer {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        Writer::begin(disk, Arc::default(), 1, Lsn(0), zeros_bytes, None).unwrap()
    }

    #[test]
    fn zeros_are_written_ahead_in_chunks() {
        let disk = SimDisk::new(1);
        let mut writer = writer(&disk, 3 * ZEROS_BYTES);
        let mut records = HEADER_BYTES;
        let mut writes = Vec::new();
        for _ in 0..200 {
            let before = disk.count(Kind::Write);
            writer.write(&mut vec![Bytes::from(vec![7; 1000])]).unwrap();
            writes.push(disk.count(Kind::Write) - before);
            records += 1000;
            let written = disk.contents(&file_name(1)).unwrap();
            assert!(written[HEADER_BYTES..records].iter().all(|byte| *byte == 7));
            assert!(written[records..].iter().all(|byte| *byte == 0));
            assert!(written.len() >= records + RECORD_HEADER_BYTES, "zeros mark the end");
        }
        // The rest of a piece is in the write of the record, then follow two whole pieces and a
        // part of the fourth; two times 98 records fit in those zeros.
        assert_eq!(writes.iter().filter(|writes| **writes == 1).count(), 197);
        assert_eq!(writes.iter().filter(|writes| **writes == 4).count(), 3);
    }
}
