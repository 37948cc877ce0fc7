//! Tests of reading the log.

use carnet_base::{Rng, SeededRng};

use super::*;
use crate::disk::sim::SimDisk;

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// Makes a segment with records of `lens`; with `durable`, each header states that everything
/// before it is durable.
fn segment(number: u64, base: u64, lens: &[usize], durable: bool) -> (Vec<u8>, u64) {
    let base = Lsn(base);
    let mut bytes = SegmentHeader { number, base, durable: Lsn::default() }.encode();
    for &len in lens {
        let lsn = base.after(bytes.len() as u64);
        let body = Bytes::from(vec![7; len]);
        let body_crc = crc32c::crc32c(&body);
        let commit = time(lsn.0 + 1);
        let durable = if durable { lsn } else { Lsn::default() };
        let at = bytes.len();
        bytes.resize(at + record::HEADER_BYTES, 0);
        Header { lsn, start: time(lsn.0), commit, durable, body_len: len, body_crc }
            .fill(&mut bytes[at..]);
        bytes.extend_from_slice(&body);
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
fn log_is_read_across_segments() {
    let disk = SimDisk::new(1);
    let (first, second, end) = two_segments(false);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", second);
    let expected = Recovered { segment: 3, base: Lsn(end), cut_bytes: 0 };
    assert_eq!(recovered(&disk).unwrap(), (expected, 5));
}

/// The sync of these records failed before the process was killed: the kernel marks their pages
/// clean, and another sync alone does not write them.
#[test]
fn doubtful_records_are_written_again() {
    for torn in [false, true] {
        let disk = SimDisk::new(1);
        let (first, mut second, _) = two_segments(false);
        if torn {
            second.truncate(second.len() - 10);
        }
        for (name, bytes) in [("wal-00000001.log", first), ("wal-00000002.log", second)] {
            let file = disk.create(name).unwrap();
            file.write_at(&bytes, 0).unwrap();
            disk.fail_at(disk.operations() + 1, std::io::ErrorKind::Other);
            file.sync_data().unwrap_err();
        }
        disk.sync_dir().unwrap();
        let disk = disk.kill();
        let records = if torn { 4 } else { 5 };
        assert_eq!(recovered(&disk).unwrap().1, records);
        for seed in 0..20 {
            let crashed = disk.crash(&mut SeededRng::new(seed));
            assert_eq!(recovered(&crashed).unwrap().1, records, "seed {seed}");
        }
    }
}

/// The second record is bad. Only the headers after it decide between truncation and an error.
#[test]
fn bad_record_is_cut_unless_it_was_durable() {
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
fn leftover_records_are_not_read() {
    let disk = SimDisk::new(1);
    let (mut first, _) = segment(1, 0, &[10], false);
    // The bytes of an older record, valid, at the offset of the next record.
    let (old, _) = segment(1, 0, &[10, 10], false);
    first.extend_from_slice(&old[segment::HEADER_BYTES..][..record::HEADER_BYTES + 10]);
    disk.plant("wal-00000001.log", first);
    assert_eq!(recovered(&disk).unwrap().1, 1);
}

#[test]
fn zeros_after_records_are_not_torn() {
    let disk = SimDisk::new(1);
    let (mut first, mut second, end) = two_segments(true);
    first.resize(first.len() + 5000, 0);
    second.resize(second.len() + 5000, 0);
    let len = second.len();
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", second);
    let expected = Recovered { segment: 3, base: Lsn(end), cut_bytes: 0 };
    assert_eq!(recovered(&disk).unwrap(), (expected, 5));
    assert_eq!(disk.contents("wal-00000002.log").unwrap().len(), len);
}

#[test]
fn zeroed_durable_record_is_corruption() {
    let disk = SimDisk::new(1);
    let (mut first, second, _) = two_segments(true);
    let last = first.len() - 30 - record::HEADER_BYTES;
    first[last..].fill(0);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", second);
    let error = recovered(&disk).unwrap_err().to_string();
    assert!(error.contains(&format!("wal-00000001.log at byte {last}")), "{error}");
}

#[test]
fn missing_segment_is_named_in_error() {
    let disk = SimDisk::new(1);
    let (first, base) = segment(1, 0, &[10], false);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000003.log", segment(3, base, &[10], false).0);
    let error = recovered(&disk).unwrap_err();
    assert!(error.to_string().contains("wal-00000002.log is missing"), "{error}");
}

/// A crash leaves a segment with its whole header or no segment. Any other header is damage,
/// also in the newest segment, whose durability no later header states.
#[test]
fn wrong_segment_header_is_corrupted() {
    let (first, second, _) = two_segments(false);
    let (foreign, base) = segment(7, 0, &[10], false);
    let (inside, _) = segment(2, base - 1, &[10], false);
    let wrong_second: [(&str, Vec<u8>); 5] = [
        ("it is empty", Vec::new()),
        ("does not begin with", vec![0; second.len()]),
        ("does not begin with", vec![0x5a; second.len()]),
        ("the header of segment 7", foreign.clone()),
        ("begins at LSN", inside),
    ];
    for (why, wrong) in wrong_second {
        assert_corrupted(first.clone(), wrong, &["wal-00000002.log", why]);
    }
    let (later, _) = segment(1, 500, &[10], false);
    for (why, wrong) in [("it is empty", Vec::new()), ("segment 7", foreign), ("LSN 500", later)] {
        assert_corrupted(wrong, second.clone(), &["wal-00000001.log", why]);
    }
}

fn assert_corrupted(first: Vec<u8>, second: Vec<u8>, texts: &[&str]) {
    let disk = SimDisk::new(1);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", second);
    let checked = check(&disk, 1, Lsn(0), |_| Ok(())).map(drop);
    for error in [checked.unwrap_err(), recovered(&disk).unwrap_err()] {
        assert_eq!(error.kind(), carnet_base::ErrorKind::Corrupted);
        assert!(texts.iter().all(|text| error.to_string().contains(text)), "{error}");
    }
}

/// Headers with valid checksums and wrong fields.
#[test]
fn headers_with_wrong_fields_never_panic() {
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

/// Plants two segments, the first with a torn record at its end, and recovers.
fn recovered_with(torn: &[u8], second: impl FnOnce(u64) -> Vec<u8>) -> Result<usize> {
    let disk = SimDisk::new(1);
    let (mut first, end) = segment(1, 0, &[10], false);
    first.extend_from_slice(torn);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", second(end));
    recovered(&disk).map(|(_, records)| records)
}

#[test]
fn header_of_a_later_segment_states_that_the_bad_record_was_durable() {
    let torn = [1; 40];
    let with = |durable: fn(u64) -> u64| {
        recovered_with(&torn, |end| {
            let (base, durable) = (Lsn(end + 40), Lsn(durable(end)));
            SegmentHeader { number: 2, base, durable }.encode()
        })
    };
    assert_eq!(with(|end| end - 1).unwrap(), 1);
    assert_eq!(with(|end| end).unwrap(), 1, "only what lies before the record was durable");
    let error = with(|end| end + 1).unwrap_err().to_string();
    assert!(error.contains("acknowledged data may be lost"), "{error}");
}

/// The record that states it begins in the second segment before the offset of the bad one in
/// the first.
#[test]
fn early_record_of_a_later_segment_states_that_the_bad_record_was_durable() {
    let second = |end: u64| segment(2, end + 400, &[10], true).0;
    assert!(recovered_with(&[1; 400], second).is_err());
    let second = |end: u64| segment(2, end + 400, &[10], false).0;
    assert_eq!(recovered_with(&[1; 400], second).unwrap(), 1);
}

/// A user stored a copy of a log as a value, in the record whose body is torn.
#[test]
fn copies_of_a_log_in_a_torn_record_do_not_count() {
    let disk = SimDisk::new(1);
    let (mut first, end) = segment(1, 0, &[10], false);
    first.extend_from_slice(&[1; 40]);
    first.extend_from_slice(&segment(9, end + 1000, &[10, 10], true).0);
    disk.plant("wal-00000001.log", first);
    assert_eq!(recovered(&disk).unwrap().1, 1);
}

#[test]
fn headers_count_at_their_own_place() {
    let (mut bytes, _) = segment(1, 100, &[10, 20], true);
    let found = |bytes: &[u8], base| headers(bytes, 0, base).count();
    assert_eq!(found(&bytes, Some(Lsn(100))), 2);
    assert_eq!(found(&bytes, Some(Lsn(101))), 0, "copies at another place");
    assert_eq!(found(&bytes, None), 2, "the place cannot be known");
    let at = segment::HEADER_BYTES;
    let lsn = Lsn(100 + at as u64);
    let (start, commit) = (time(1), time(2));
    Header { lsn, start, commit, durable: lsn.after(1), body_len: 10, body_crc: 0 }
        .fill(&mut bytes[at..]);
    assert_eq!(found(&bytes, Some(Lsn(100))), 1, "no record states that it is durable itself");
}

#[test]
fn commits_out_of_order_are_corruption() {
    for (commit, is_right) in [(99, false), (100, false), (101, true)] {
        let disk = SimDisk::new(1);
        let mut bytes = SegmentHeader { number: 1, base: Lsn(0), durable: Lsn::default() }.encode();
        for commit in [100, commit] {
            let lsn = Lsn(bytes.len() as u64);
            let (start, durable) = (time(1), Lsn::default());
            let header = Header {
                lsn,
                start,
                commit: time(commit),
                durable,
                body_len: 0,
                body_crc: crc32c::crc32c(&[]),
            };
            let at = bytes.len();
            bytes.resize(at + record::HEADER_BYTES, 0);
            header.fill(&mut bytes[at..]);
        }
        disk.plant("wal-00000001.log", bytes);
        assert_eq!(recovered(&disk).is_ok(), is_right, "commit {commit}");
    }
}

#[test]
fn log_ends_at_zeros_that_no_record_follows() {
    let (bytes, end) = segment(1, 0, &[10], false);
    let at = bytes.len();
    let ends = |rest: &[u8]| ends_at(&[&bytes[..], rest].concat(), at, Lsn(0));
    assert!(ends(&[0; 500]));
    assert!(!ends(&[1; 500]), "a torn record");
    let (beyond, _) = segment(1, end + 100 - segment::HEADER_BYTES as u64, &[10], false);
    let beyond = &beyond[segment::HEADER_BYTES..];
    assert!(!ends(&[&[0; 100], beyond].concat()), "a record before it was not written");
    assert!(ends(&[&[0; 101], beyond].concat()), "the copy of a record");
}

#[test]
fn segment_without_records_is_made_again_at_its_base() {
    let disk = SimDisk::new(1);
    let (first, base) = segment(1, 0, &[10], false);
    disk.plant("wal-00000001.log", first);
    disk.plant("wal-00000002.log", segment(2, base, &[], false).0);
    let expected = Recovered { segment: 2, base: Lsn(base), cut_bytes: 0 };
    assert_eq!(recovered(&disk).unwrap(), (expected, 1));
}

#[test]
fn one_segment_is_read_up_to_its_first_bad_record() {
    let disk = SimDisk::new(1);
    let (bytes, _) = segment(1, 0, &[10], false);
    let bad_of = |rest: &[u8]| {
        disk.plant("wal-00000001.log", [&bytes[..], rest].concat());
        read_segment(&disk, "wal-00000001.log", |_| Ok(())).unwrap().1.map(|(at, _)| at)
    };
    assert_eq!(bad_of(&[]), None);
    assert_eq!(bad_of(&[0; 100]), None);
    assert_eq!(bad_of(&[1; 100]), Some(bytes.len()));
}

#[test]
fn begun_logs_are_told_from_new_ones() {
    let (empty, base) = segment(1, 0, &[], false);
    let (full, _) = segment(1, 0, &[10], false);
    let (next, _) = segment(2, base, &[], false);
    for (planted, begun) in [
        (vec![], None),
        (vec![(1, &empty)], None),
        (vec![(1, &full)], Some(1)),
        (vec![(1, &empty), (2, &next)], Some(2)),
    ] {
        let disk = SimDisk::new(1);
        for (number, bytes) in planted {
            disk.plant(&file_name(number), bytes.clone());
        }
        assert_eq!(begun_segment(&disk, 1).unwrap(), begun.map(file_name));
        let refused = refuse_records(&disk, "MANIFEST", 1);
        let named = begun.map(file_name);
        assert_eq!(refused.is_err(), named.is_some());
        if let (Err(error), Some(name)) = (refused, named) {
            assert!(error.to_string().contains(&name), "{error}");
        }
        assert!(refuse_records(&disk, "MANIFEST", 3).is_ok(), "older segments do not count");
    }
}
