//! Writes the log's bytes, segment by segment.

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

/// A segment's open file.
#[derive(Clone)]
pub(crate) struct Segment {
    number: u64,
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
    /// Records, and zeros behind them, are written up to here.
    filled: u64,
    /// The file was so long when it was taken: a former life has left bytes up to here.
    room: u64,
    written: Lsn,
    /// Segments with bytes that no sync was asked for.
    unsynced: Vec<Segment>,
    buffer: Vec<u8>,
}

/// More than this is not kept for the next write.
const BUFFER_KEPT_BYTES: usize = 4 << 20;
/// Files are cached in pages of this size; one that is written in part is read first.
const PAGE_BYTES: u64 = 4096;
/// No write of zeros ahead crosses a multiple of this.
///
/// The page cache keeps what one write brings in folios as large as that, and a small write into a
/// large one goes through the buffer head of each 4 KiB of it (Linux 6.18, ext4). Records of 1 KiB, CPU of
/// a write that includes its share of the zeros: 820 ns without zeros, 640 with pieces of 16 to
/// 64 KiB, 800 of 256 KiB, 1,500 of 1 MiB.
pub(crate) const ZEROS_BYTES: usize = 32 << 10;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

impl Writer {
    /// Makes a segment, durably. Its header vouches for all the log before it.
    ///
    /// Where it does not come from a spare one, records go into zeros that were written
    /// `zeros_bytes` ahead, so that a sync mostly finds the file's length as it was and has no
    /// metadata to write; 0 writes none.
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

    /// Writes records that follow each other and what was written last, and before them those that
    /// found no space the last time.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then any part may be written. Unless that was for want of space, the writer must
    /// not be used again.
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
        // The end's mark comes with the record: a process may be killed between two writes.
        let first = zeros.min(RECORD_HEADER_BYTES + to_piece(end + END_BYTES));
        self.buffer.resize(len + first, 0);
        let Segment { number, name, file } = &self.segment;
        let written = file.write_at(&self.buffer, self.offset);
        let ahead = written.and_then(|()| write_zeros(&**file, end + first as u64, zeros - first));
        if let Err(error) = ahead.during("write", &*self.disk, name) {
            // The records stay: on a disk without space they are written again.
            self.buffer.truncate(len);
            return Err(error);
        }
        self.filled = self.filled.max(end + zeros as u64);
        self.offset = end;
        self.written = self.written.after(len as u64);
        if self.unsynced.last().is_none_or(|last| last.number != *number) {
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

    /// How many zeros are written behind records that end at `end`.
    fn zeros_behind(&self, end: u64) -> usize {
        if end >= self.room {
            return self.zeros_bytes;
        }
        let zeros = (end + END_BYTES).next_multiple_of(PAGE_BYTES) - end;
        usize::try_from(zeros).expect("less than two pages")
    }

    /// Hands over the segments to be synced for everything below [`Writer::written`] to be durable.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.unsynced)
    }

    /// Forgets segments below a number, whose records are in tables: nobody needs them synced. A log
    /// that is never synced would keep all their files open, and so all their bytes on the disk.
    pub(crate) fn forget_below(&mut self, number: u64) {
        self.unsynced.retain(|segment| segment.number >= number);
    }

    #[cfg(test)]
    pub(crate) const fn unsynced_segments(&self) -> usize {
        self.unsynced.len()
    }

    /// Tells whether bytes were written that no sync was asked for.
    pub(crate) const fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }
}

/// So many zeros behind a record say that the log ends there.
const END_BYTES: u64 = RECORD_HEADER_BYTES as u64;

/// How far it is from a place to the end of the piece in which it lies.
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

/// A segment that was made.
struct Made {
    segment: Segment,
    room: u64,
    filled: u64,
}

/// Makes a segment's file, out of a spare one if there is one.
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

/// A file that becomes a segment once its header is durable.
struct Unnamed {
    /// The name that it has until then.
    name: String,
    file: Arc<dyn File>,
    /// The length that a former life has left.
    room: u64,
}

fn create_unnamed(disk: &dyn Disk, number: u64) -> Result<Unnamed> {
    let name = temporary_name(number);
    let file = disk.create(&name).during("create", disk, &name)?;
    Ok(Unnamed { name, file, room: 0 })
}

/// Opens a spare segment's file, cut to its greatest length; `None` if the file was removed.
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
    fn zeros_are_written_ahead_in_pieces() {
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
            assert!(written.len() >= records + RECORD_HEADER_BYTES, "the log's end is told");
        }
        // What is left of a piece comes with the record, then two pieces and the rest of the fourth;
        // two times 98 records go into what is there.
        assert_eq!(writes.iter().filter(|writes| **writes == 1).count(), 197);
        assert_eq!(writes.iter().filter(|writes| **writes == 4).count(), 3);
    }
}
