//! Reads the log back: every record up to the first bad one, and whether that one may be cut off.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::segment::{self, SegmentHeader, file_name};
use super::{Header, Lsn, Record, record};
use crate::disk::{Disk, During, File, read_all};

/// Where the log goes on after recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The number of the segment to be made. A file of that number, if there is one, holds no
    /// record.
    pub(crate) segment: u64,
    /// Its base: everything below is there, whole and synced.
    pub(crate) base: Lsn,
    /// How many bytes of torn tail were cut off.
    pub(crate) cut_bytes: u64,
}

/// A segment as it was read.
struct Segment {
    number: u64,
    name: String,
    file: Arc<dyn File>,
    bytes: Bytes,
}

/// The first bad place of a log.
struct Bad {
    /// Index of the segment.
    index: usize,
    offset: usize,
    lsn: Lsn,
    why: &'static str,
}

/// Hands every record to `visit`, in order; then cuts off a torn tail, durably.
///
/// # Errors
///
/// `Corrupted` where a segment is missing or a record went bad after it was durable, naming the
/// file and the place; `Unavailable` where the disk fails; what `visit` returns.
pub(crate) fn recover(
    disk: &dyn Disk,
    first: u64,
    base: Lsn,
    mut visit: impl FnMut(Record) -> Result<()>,
) -> Result<Recovered> {
    let segments = read_segments(disk, first)?;
    let mut next = base;
    let mut last_commit = Timestamp::ZERO;
    for index in 0..segments.len() {
        let segment = &segments[index];
        let bad = match scan(disk, segment, &mut next, &mut last_commit, &mut visit)? {
            Ok(()) => continue,
            // The segment begins later than the one before it ends: that one lost its end.
            Err(Gap { offset: None, why }) if index > 0 => {
                let index = index - 1;
                Bad { index, offset: segments[index].bytes.len(), lsn: next, why }
            }
            Err(Gap { offset, why }) => {
                Bad { index, offset: offset.unwrap_or_default(), lsn: next, why }
            }
        };
        refuse_corruption(disk, &segments, &bad)?;
        return cut(disk, &segments, &bad);
    }
    sync(disk, &segments)?;
    let last = segments.last().expect("read_segments() returns at least one");
    let unused = last.bytes.len() == segment::HEADER_BYTES;
    // A segment without records is made again rather than left behind at each opening.
    Ok(if unused {
        let base = Lsn(next.0 - segment::HEADER_BYTES as u64);
        Recovered { segment: last.number, base, cut_bytes: 0 }
    } else {
        Recovered { segment: last.number + 1, base: next, cut_bytes: 0 }
    })
}

fn read_segments(disk: &dyn Disk, first: u64) -> Result<Vec<Segment>> {
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
    let read = |number| {
        let name = file_name(number);
        let file = disk.open(&name).during("open", disk, &name)?;
        let bytes = read_all(disk, &*file, &name)?.into();
        Ok(Segment { number, name, file, bytes })
    };
    numbers.into_iter().map(read).collect()
}

/// Where a segment stops making sense; no offset where it begins too late.
struct Gap {
    offset: Option<usize>,
    why: &'static str,
}

/// Reads one segment's records and moves `next` to its end, or to its first bad place.
fn scan(
    disk: &dyn Disk,
    segment: &Segment,
    next: &mut Lsn,
    last_commit: &mut Timestamp,
    visit: &mut impl FnMut(Record) -> Result<()>,
) -> Result<Result<(), Gap>> {
    let bad = |offset, why| Ok(Err(Gap { offset, why }));
    let base = *next;
    match SegmentHeader::read(&segment.bytes, &disk.path(&segment.name))? {
        Some(header) if header.number == segment.number && header.base == base => {}
        Some(header) if header.number == segment.number && header.base > base => {
            return bad(None, "the segment ends before the next one begins");
        }
        _ => return bad(Some(0), "the segment's header is not one of this log"),
    }
    let mut offset = segment::HEADER_BYTES;
    *next = base.after(offset as u64);
    while offset < segment.bytes.len() {
        let Some(header) = Header::read(&segment.bytes[offset..]) else {
            return bad(Some(offset), "the record's header is damaged");
        };
        if header.lsn != *next {
            return bad(Some(offset), "the record belongs to another place");
        }
        let begin = offset + record::HEADER_BYTES;
        if header.body_len > segment.bytes.len() - begin {
            return bad(Some(offset), "the record ends beyond the file");
        }
        let body = segment.bytes.slice(begin..begin + header.body_len);
        if crc32c::crc32c(&body) != header.body_crc {
            return bad(Some(offset), "the record's checksum does not match its body");
        }
        if header.commit <= *last_commit {
            return Err(Error::corrupted(format!(
                "{} at byte {offset}: commit {} follows commit {last_commit}",
                disk.path(&segment.name),
                header.commit
            )));
        }
        *last_commit = header.commit;
        let Header { lsn, start, commit, body_crc, .. } = header;
        visit(Record { lsn, start, commit, body, body_crc })?;
        offset = begin + header.body_len;
        *next = next.after(Record::len_with(header.body_len));
    }
    Ok(Ok(()))
}

/// Looks behind a bad place for a header that says the place was durable.
fn refuse_corruption(disk: &dyn Disk, segments: &[Segment], bad: &Bad) -> Result<()> {
    let mut durable = Lsn::default();
    for (index, segment) in segments.iter().enumerate().skip(bad.index) {
        let from = if index == bad.index { bad.offset } else { 0 };
        if from == 0
            && let Some(header) = SegmentHeader::read(&segment.bytes, &disk.path(&segment.name))?
            && header.number == segment.number
        {
            durable = durable.max(header.durable);
        }
        let rest = segment.bytes.get(from..).unwrap_or_default();
        for at in 0..rest.len() {
            // A leftover of the bytes' former life has a smaller LSN than anything in the log.
            if let Some(header) = Header::read(&rest[at..])
                && header.lsn >= bad.lsn
            {
                durable = durable.max(header.durable);
            }
        }
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

/// Removes everything from a bad place on; durable before it returns.
fn cut(disk: &dyn Disk, segments: &[Segment], bad: &Bad) -> Result<Recovered> {
    let torn = &segments[bad.index];
    let later = &segments[bad.index + 1..];
    let mut cut_bytes = torn.bytes.len() - bad.offset;
    // The newest goes first and durably so: a gap in the numbers must mean that a file was lost.
    for segment in later.iter().rev() {
        cut_bytes += segment.bytes.len();
        disk.remove(&segment.name).during("remove", disk, &segment.name)?;
        disk.sync_dir().during("sync the directory of", disk, &segment.name)?;
    }
    let kept = if bad.offset == 0 {
        &segments[..bad.index]
    } else {
        torn.file.truncate(bad.offset as u64).during("cut", disk, &torn.name)?;
        &segments[..=bad.index]
    };
    sync(disk, kept)?;
    tracing::warn!(file = torn.name, offset = bad.offset, cut_bytes, "cut the log's torn end");
    let segment = if bad.offset == 0 { torn.number } else { torn.number + 1 };
    Ok(Recovered { segment, base: bad.lsn, cut_bytes: cut_bytes as u64 })
}

/// What was read may have been written but not synced by a process that was killed.
fn sync(disk: &dyn Disk, segments: &[Segment]) -> Result<()> {
    for segment in segments {
        segment.file.sync_data().during("sync", disk, &segment.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;
    use crate::disk::sim::SimDisk;

    fn time(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// A segment with records of `lens`, each written when all before it was durable.
    fn segment(number: u64, base: u64, lens: &[usize], durable: bool) -> (Vec<u8>, u64) {
        let base = Lsn(base);
        let mut bytes = SegmentHeader { number, base, durable: Lsn::default() }.encode();
        for &len in lens {
            let lsn = base.after(bytes.len() as u64);
            let body = Bytes::from(vec![7; len]);
            let body_crc = crc32c::crc32c(&body);
            let commit = time(lsn.0 + 1);
            let durable = if durable { lsn } else { Lsn::default() };
            Record { lsn, start: time(lsn.0), commit, body, body_crc }.put(durable, &mut bytes);
        }
        let end = base.0 + bytes.len() as u64;
        (bytes, end)
    }

    fn recovered(disk: &SimDisk) -> Result<(Recovered, usize)> {
        let mut records = 0;
        let recovered = recover(disk, 1, Lsn(0), |_| {
            records += 1;
            Ok(())
        })?;
        Ok((recovered, records))
    }

    fn two_segments(durable: bool) -> (Vec<u8>, Vec<u8>, u64) {
        let (first, base) = segment(1, 0, &[10, 20, 30], durable);
        let (second, end) = segment(2, base, &[40, 50], durable);
        (first, second, end)
    }

    #[test]
    fn a_whole_log_is_read_across_segments() {
        let disk = SimDisk::new(1);
        let (first, second, end) = two_segments(false);
        disk.plant("wal-00000001.log", first);
        disk.plant("wal-00000002.log", second);
        let expected = Recovered { segment: 3, base: Lsn(end), cut_bytes: 0 };
        assert_eq!(recovered(&disk).unwrap(), (expected, 5));
    }

    /// The second record is bad. Whether what follows is cut or reported depends on nothing but
    /// what the headers behind it say was durable.
    #[test]
    fn a_bad_record_is_cut_off_unless_a_later_header_vouches_for_it() {
        let second_record = segment::HEADER_BYTES + record::HEADER_BYTES + 10;
        for (durable, at) in [(false, 0), (false, 60), (true, 0), (true, 60)] {
            let disk = SimDisk::new(1);
            let (mut first, second, _) = two_segments(durable);
            first[second_record + at] ^= 1;
            let len = first.len() + second.len();
            disk.plant("wal-00000001.log", first);
            disk.plant("wal-00000002.log", second);
            if durable {
                let error = recovered(&disk).unwrap_err();
                assert_eq!(error.kind(), carnet_base::ErrorKind::Corrupted);
                let place = format!("wal-00000001.log at byte {second_record}");
                assert!(error.to_string().contains(&place), "{error}");
                continue;
            }
            let base = Lsn(second_record as u64);
            let cut_bytes = (len - second_record) as u64;
            let expected = Recovered { segment: 2, base, cut_bytes };
            assert_eq!(recovered(&disk).unwrap(), (expected, 1));
            assert_eq!(disk.contents("wal-00000001.log").unwrap().len(), second_record);
            assert_eq!(disk.contents("wal-00000002.log"), None);
            assert_eq!(recovered(&disk).unwrap().1, 1, "recovery can be interrupted");
        }
    }

    #[test]
    fn records_of_a_former_life_are_not_read() {
        let disk = SimDisk::new(1);
        let (mut first, _) = segment(1, 0, &[10], false);
        // The bytes of an older record, whole and valid, where the next record would stand.
        let (old, _) = segment(1, 0, &[10, 10], false);
        first.extend_from_slice(&old[segment::HEADER_BYTES..][..record::HEADER_BYTES + 10]);
        disk.plant("wal-00000001.log", first);
        assert_eq!(recovered(&disk).unwrap().1, 1);
    }

    #[test]
    fn a_segment_that_is_missing_in_the_middle_is_named() {
        let disk = SimDisk::new(1);
        let (first, base) = segment(1, 0, &[10], false);
        disk.plant("wal-00000001.log", first);
        disk.plant("wal-00000003.log", segment(3, base, &[10], false).0);
        let error = recovered(&disk).unwrap_err();
        assert!(error.to_string().contains("wal-00000002.log is missing"), "{error}");
    }

    /// Headers whose checksums are right but whose fields are not.
    #[test]
    fn mutated_headers_with_right_checksums_never_panic() {
        let mut rng = SeededRng::new(1);
        for _ in 0..5_000 {
            let disk = SimDisk::new(1);
            let (mut first, second, _) = two_segments(rng.chance(500));
            let header = match rng.below(2) {
                0 => 0..segment::HEADER_BYTES - 4,
                _ => segment::HEADER_BYTES..segment::HEADER_BYTES + record::HEADER_BYTES - 4,
            };
            let fields = &mut first[header.clone()];
            let at = usize::try_from(rng.below(fields.len() as u64)).unwrap();
            fields[at] = rng.next_u64().to_le_bytes()[0];
            let crc = crc32c::crc32c(fields).to_le_bytes();
            first[header.end..header.end + 4].copy_from_slice(&crc);
            disk.plant("wal-00000001.log", first);
            disk.plant("wal-00000002.log", second);
            let _ = recovered(&disk);
        }
    }
}
