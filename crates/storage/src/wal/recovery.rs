//! Recovery: reads the log up to the first bad record, and decides whether it may be truncated
//! there.
//!
//! # Which segments are needed, and which headers are durable
//!
//! The database needs every segment from the manifest's first one on. A file, new or recycled, gets
//! the name of a segment only when its header is durable. Until then it has a name that recovery
//! does not read: `wal-N.log.tmp`, or the number of the recycled segment, which is below the
//! manifest's first one. Only when the name is durable too, a record is written and a manifest
//! names the segment. So a crash leaves a segment with its whole header, or no segment:
//! | --- | --- | --- |
//! | number N, base at the end of the log before it | | read |
//! | number N, base beyond the end of the log before it | the end of segment N - 1 was not synced | cut, or `Corrupted` if a header states that it was durable |
//! | the manifest's first segment, any other base | damage | `Corrupted` |
//! | none, another number, or a base inside the log before it | damage | `Corrupted` |
//!
//! A file without a valid header is damage even if it is the newest: truncation could drop
//! acknowledged records, because no later header states that they were durable.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::segment::{self, SegmentHeader, file_name};
use super::{Header, Lsn, Record, record};
use crate::disk::{Disk, During, File, read_all};

/// Position at which the log continues after recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Number of the next segment to create. A file of that number, if it exists, holds no record.
    pub(crate) segment: u64,
    /// Base LSN of that segment: all records below it were read and synced.
    pub(crate) base: Lsn,
    /// Number of truncated bytes.
    pub(crate) cut_bytes: u64,
}

/// A segment's file. Its bytes are read on demand, because a log may be larger than memory.
struct Segment {
    number: u64,
    /// LSN of the segment's first byte, once known.
    base: Lsn,
    /// Offset in the file of the end of the records, once read.
    end: usize,
    name: String,
    file: Arc<dyn File>,
}

impl Segment {
    fn read(&self, disk: &dyn Disk) -> Result<Bytes> {
        Ok(read_all(disk, &*self.file, &self.name)?.into())
    }
}

/// Position of the first bad record of a log.
#[derive(Clone, Copy)]
struct Bad {
    /// Index of the segment.
    index: usize,
    offset: usize,
    lsn: Lsn,
    why: &'static str,
}

/// Calls `visit` with every record, in order; then truncates a torn tail durably.
///
/// # Errors
///
/// `Corrupted` if a segment is missing or a durable record is damaged; the error names file and
/// offset. `Unavailable` if the disk fails. Errors of `visit`.
pub(crate) fn recover(
    disk: &dyn Disk,
    first: u64,
    base: Lsn,
    visit: impl FnMut(Record) -> Result<()>,
) -> Result<Recovered> {
    let Walked { segments, next, durable, empty, bad } = walk(disk, first, base, visit)?;
    if let Some(bad) = bad {
        return cut(disk, &segments, bad, durable);
    }
    secure(disk, &segments, durable)?;
    let last = segments.last().expect("open_segments() returns at least one");
    // A segment without records is created again, so that openings do not accumulate empty
    // segments.
    Ok(if empty {
        let base = Lsn(next.0 - segment::HEADER_BYTES as u64);
        Recovered { segment: last.number, base, cut_bytes: 0 }
    } else {
        Recovered { segment: last.number + 1, base: next, cut_bytes: 0 }
    })
}

/// Like [`recover`], but changes nothing. Returns `true` if the log has a torn tail, which the next
/// opening truncates.
///
/// # Errors
///
/// Like [`recover`].
pub(crate) fn check(
    disk: &dyn Disk,
    first: u64,
    base: Lsn,
    visit: impl FnMut(Record) -> Result<()>,
) -> Result<bool> {
    let walked = walk(disk, first, base, visit)?;
    if let Some(bad) = &walked.bad {
        refuse_corruption(disk, &walked.segments, bad)?;
    }
    Ok(walked.bad.is_some())
}

/// Calls `visit` with every record of one segment up to the first bad one. Returns the bad record's
/// offset and the reason, unless only zeros follow.
///
/// # Errors
///
/// `Corrupted` if the file has no segment header; `Unavailable` if the disk fails; errors of
/// `visit`.
pub(crate) fn read_segment(
    disk: &dyn Disk,
    name: &str,
    visit: impl FnMut(Record) -> Result<()>,
) -> Result<(SegmentHeader, Option<(usize, &'static str)>)> {
    let file = disk.open(name).during("open", disk, name)?;
    let mut segment =
        Segment { number: 0, base: Lsn::default(), end: 0, name: name.to_owned(), file };
    let bytes = segment.read(disk)?;
    let header = SegmentHeader::read(&bytes, &disk.path(name))?.ok_or_else(|| {
        Error::corrupted(format!("{} does not begin as a segment of a log does", disk.path(name)))
    })?;
    let next = header.base.after(segment::HEADER_BYTES as u64);
    let mut scan = Scan::new(disk, next, visit);
    let stop = scan.records(&mut segment, &bytes)?;
    Ok((header, stop.filter(|(offset, _)| !ends_at(&bytes, *offset, header.base))))
}

/// Result of reading the log.
struct Walked {
    segments: Vec<Segment>,
    /// End of the log.
    next: Lsn,
    /// LSN up to which the headers state that the log was synced.
    durable: Lsn,
    /// Whether the last segment has no records.
    empty: bool,
    /// First bad record, if any.
    bad: Option<Bad>,
}

fn walk(
    disk: &dyn Disk,
    first: u64,
    base: Lsn,
    visit: impl FnMut(Record) -> Result<()>,
) -> Result<Walked> {
    let mut segments = open_segments(disk, first)?;
    let last = segments.len() - 1;
    let mut scan = Scan::new(disk, base, visit);
    // End of the previous segment's records, if bytes follow them.
    let mut stop: Option<Bad> = None;
    for (index, segment) in segments.iter_mut().enumerate() {
        segment.base = scan.next;
        let bytes = segment.read(disk)?;
        let begins = scan.enter(segment, &bytes, index == 0)?;
        if let Begins::Later(why) = begins {
            let bad = stop.unwrap_or(Bad { index, offset: 0, lsn: scan.next, why });
            let (next, durable, bad) = (bad.lsn, scan.durable, Some(bad));
            return Ok(Walked { segments, next, durable, empty: false, bad });
        }
        stop = scan.records(segment, &bytes)?.map(|(offset, why)| Bad {
            index,
            offset,
            lsn: scan.next,
            why,
        });
        if index == last {
            stop = stop.filter(|bad| !ends_at(&bytes, bad.offset, segment.base));
        }
    }
    let (next, durable, empty) = (scan.next, scan.durable, scan.records == 0);
    Ok(Walked { segments, next, durable, empty, bad: stop })
}

/// Returns the name of a segment that shows that a log exists: any segment except `first` without
/// records.
///
/// # Errors
///
/// `Unavailable` if the disk fails.
pub(crate) fn begun_segment(disk: &dyn Disk, first: u64) -> Result<Option<String>> {
    for name in disk.list().during("list the directory of", disk, "")? {
        let Some(number) = segment::number_in(&name) else { continue };
        let file = disk.open(&name).during("open", disk, &name)?;
        let len = file.len().during("open", disk, &name)?;
        if number != first || len > segment::HEADER_BYTES as u64 {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Checks that the log has no record, as the file `stated_by` states.
///
/// # Errors
///
/// `Corrupted` naming the segment that has one; `Unavailable` if the disk fails.
pub(crate) fn refuse_records(disk: &dyn Disk, stated_by: &str, first: u64) -> Result<()> {
    let names = disk.list().during("list the directory of", disk, "")?;
    let numbers = names.iter().filter_map(|name| segment::number_in(name));
    for number in numbers.filter(|number| *number >= first) {
        let name = file_name(number);
        let file = disk.open(&name).during("open", disk, &name)?;
        let len = file.len().during("open", disk, &name)?;
        if number > first || len > segment::HEADER_BYTES as u64 {
            return Err(Error::corrupted(format!(
                "{} says that this database has no log, but {name} exists: keep a copy of the \
                 directory, and move this file away if it belongs to another database, or restore \
                 a backup",
                disk.path(stated_by)
            )));
        }
    }
    Ok(())
}

fn open_segments(disk: &dyn Disk, first: u64) -> Result<Vec<Segment>> {
    let names = disk.list().during("list the directory of", disk, "")?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| segment::number_in(name)).filter(|&n| n >= first).collect();
    numbers.sort_unstable();
    let last = numbers.last().copied().unwrap_or(first);
    if let Some(missing) = (first..=last).find(|number| numbers.binary_search(number).is_err()) {
        return Err(Error::corrupted(format!(
            "{} is missing: a part of the log that the database needs was removed; restore it, or \
             the whole directory from a backup",
            disk.path(&file_name(missing))
        )));
    }
    let open = |number| {
        let name = file_name(number);
        let file = disk.open(&name).during("open", disk, &name)?;
        Ok(Segment { number, base: Lsn::default(), end: 0, name, file })
    };
    numbers.into_iter().map(open).collect()
}

/// Base of a segment relative to the log before it.
enum Begins {
    /// At the end of the log before it.
    Here,
    /// Beyond the end of the log before it, whose tail was lost; with the reason.
    Later(&'static str),
}

/// Iteration over the records of all segments.
struct Scan<'a, V> {
    disk: &'a dyn Disk,
    next: Lsn,
    /// Greatest LSN that a header states to be durable.
    durable: Lsn,
    last_commit: Timestamp,
    /// Number of records in the newest segment.
    records: usize,
    visit: V,
}

impl<'a, V: FnMut(Record) -> Result<()>> Scan<'a, V> {
    fn new(disk: &'a dyn Disk, next: Lsn, visit: V) -> Self {
        let (durable, last_commit) = (Lsn::default(), Timestamp::ZERO);
        Self { disk, next, durable, last_commit, records: 0, visit }
    }

    /// Starts a segment, which must begin at the end of the one before it.
    ///
    /// # Errors
    ///
    /// `Corrupted` if no crash can leave such a header.
    fn enter(&mut self, segment: &Segment, bytes: &Bytes, is_first: bool) -> Result<Begins> {
        let path = self.disk.path(&segment.name);
        let wrong = match SegmentHeader::read(bytes, &path)? {
            Some(header) if header.number != segment.number => {
                format!("it holds the header of segment {}", header.number)
            }
            Some(header) if header.base == self.next => {
                self.next = self.next.after(segment::HEADER_BYTES as u64);
                self.durable = self.durable.max(header.durable);
                self.records = 0;
                return Ok(Begins::Here);
            }
            Some(header) if header.base > self.next && !is_first => {
                return Ok(Begins::Later("the segment before it ends before this one begins"));
            }
            Some(header) => format!("its header says that it begins at LSN {}", header.base),
            None if bytes.is_empty() => "it is empty".to_owned(),
            None => "it does not begin with the header of a segment".to_owned(),
        };
        Err(Error::corrupted(format!(
            "{path} must hold segment {} of the log, from LSN {} on, but {wrong}; acknowledged data \
             may be lost: keep a copy of the directory, and restore this file or a backup",
            segment.number, self.next
        )))
    }

    /// Reads one segment's records; returns the offset of their end if bytes follow.
    fn records(
        &mut self,
        segment: &mut Segment,
        bytes: &Bytes,
    ) -> Result<Option<(usize, &'static str)>> {
        let mut offset = segment::HEADER_BYTES;
        segment.end = offset;
        while offset < bytes.len() {
            let bad = |why| Ok(Some((offset, why)));
            let Some(header) = Header::read(&bytes[offset..]) else {
                return bad("the record's header is damaged");
            };
            if header.lsn != self.next {
                return bad("the record belongs to another place");
            }
            let begin = offset + record::HEADER_BYTES;
            if header.body_len > bytes.len() - begin {
                return bad("the record ends beyond the file");
            }
            let body = bytes.slice(begin..begin + header.body_len);
            if crc32c::crc32c(&body) != header.body_crc {
                return bad("the record's checksum does not match its body");
            }
            if header.commit <= self.last_commit {
                return Err(Error::corrupted(format!(
                    "{} at byte {offset}: commit {} follows commit {}",
                    self.disk.path(&segment.name),
                    header.commit,
                    self.last_commit
                )));
            }
            self.last_commit = header.commit;
            self.durable = self.durable.max(header.durable);
            self.records += 1;
            let Header { lsn, start, commit, .. } = header;
            (self.visit)(Record { segment: segment.number, lsn, start, commit, body })?;
            offset = begin + header.body_len;
            segment.end = offset;
            self.next = self.next.after(Record::len_with(header.body_len));
        }
        Ok(None)
    }
}

/// Finds record headers that are at the offset of their LSN.
///
/// Leftovers of a recycled file are not, and neither are bytes that a user stored, such as a copy
/// of a log. If the segment's base is unknown, all headers are returned. Then the caller compares
/// them with an LSN of this log: the LSNs of leftovers, and the LSNs that they state to be durable,
/// are below every LSN that recovery needs.
fn headers(bytes: &[u8], from: usize, base: Option<Lsn>) -> impl Iterator<Item = Header> {
    let is_here = move |lsn: Lsn, at| base.is_none_or(|base| lsn == base.after(at as u64));
    (from..bytes.len()).filter_map(move |at| {
        Header::read(&bytes[at..])
            .filter(|header| is_here(header.lsn, at) && header.durable <= header.lsn)
    })
}

/// Returns `true` if the log ends at this offset: zeros follow, and no record of this log after
/// them. Otherwise the tail is torn.
fn ends_at(bytes: &[u8], offset: usize, base: Lsn) -> bool {
    let rest = &bytes[offset..];
    rest.iter().take(record::HEADER_BYTES).all(|&byte| byte == 0)
        && headers(bytes, offset, Some(base)).next().is_none()
}

/// Returns an error if a header after the bad record states that the bad record was durable.
fn refuse_corruption(disk: &dyn Disk, segments: &[Segment], bad: &Bad) -> Result<()> {
    let mut durable = Lsn::default();
    for (index, segment) in segments.iter().enumerate().skip(bad.index) {
        let bytes = segment.read(disk)?;
        let from = if index == bad.index { bad.offset } else { 0 };
        let own = SegmentHeader::read(&bytes, &disk.path(&segment.name))?
            .filter(|header| header.number == segment.number);
        if from == 0 {
            durable = own.as_ref().map_or(durable, |header| durable.max(header.durable));
        }
        let base = own.map(|header| header.base);
        let vouching = headers(&bytes, from, base).filter(|header| header.lsn >= bad.lsn);
        durable = vouching.map(|header| header.durable).fold(durable, Lsn::max);
    }
    if durable <= bad.lsn {
        return Ok(());
    }
    let path = disk.path(&segments[bad.index].name);
    Err(Error::corrupted(format!(
        "{path} at byte {}: {}, though the log was durable through LSN {durable} and this is LSN \
         {}; acknowledged data may be lost: keep a copy of the directory and restore a backup",
        bad.offset, bad.why, bad.lsn
    )))
}

/// Truncates the log at a bad record, unless that was durable; the truncation is durable on return.
fn cut(disk: &dyn Disk, segments: &[Segment], bad: Bad, durable: Lsn) -> Result<Recovered> {
    refuse_corruption(disk, segments, &bad)?;
    let torn = &segments[bad.index];
    let later = &segments[bad.index + 1..];
    let len = |segment: &Segment| segment.file.len().during("read", disk, &segment.name);
    let mut cut_bytes = len(torn)?.saturating_sub(bad.offset as u64);
    // The newest segment is removed first, durably: a gap in the numbers must mean that a file was
    // lost.
    for segment in later.iter().rev() {
        cut_bytes += len(segment)?;
        disk.remove(&segment.name).during("remove", disk, &segment.name)?;
        disk.sync_dir().during("sync the directory of", disk, &segment.name)?;
    }
    let kept = if bad.offset == 0 {
        &segments[..bad.index]
    } else {
        torn.file.truncate(bad.offset as u64).during("cut", disk, &torn.name)?;
        &segments[..=bad.index]
    };
    secure(disk, kept, durable)?;
    tracing::warn!(file = torn.name, offset = bad.offset, cut_bytes, "cut the log's torn end");
    let segment = if bad.offset == 0 { torn.number } else { torn.number + 1 };
    Ok(Recovered { segment, base: bad.lsn, cut_bytes })
}

/// Makes the records that were read durable.
///
/// A process may be killed after the write and before the sync. Or the sync failed: then the kernel
/// marks the pages clean although the device did not write them, and another sync has no effect. So
/// all bytes that no header states to be durable are written again.
fn secure(disk: &dyn Disk, segments: &[Segment], durable: Lsn) -> Result<()> {
    for segment in segments {
        let from = durable.0.saturating_sub(segment.base.0);
        if from < segment.end as u64 {
            let bytes = segment.read(disk)?;
            let doubtful = usize::try_from(from).ok().and_then(|from| bytes.get(from..segment.end));
            let doubtful = doubtful.unwrap_or_default();
            segment.file.write_at(doubtful, from).during("write", disk, &segment.name)?;
        }
        segment.file.sync_data().during("sync", disk, &segment.name)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
