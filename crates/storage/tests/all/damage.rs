//! Damage in the files of a database: every flipped bit is either detected, with file and offset in
//! the error, or has no effect. Only the last group of the log may read as a torn tail after a
//! kill. Verification detects everything that opening and reading detect.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Rng, SeededRng, Timestamp};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Options, inspect};

use crate::support;
use crate::support::{Mix, Model, append, compare_at, open};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 60 };

fn options(left: Left) -> Options {
    Options {
        // Recycled segments may have leftovers too.
        log_spares_max: if left == Left::Killed { 4 } else { 0 },
        segment_bytes: 500,
        table_options: support::blocks(200),
        cache_bytes: 2_000,
        log_ahead_bytes: 100,
        ..Options::default()
    }
}

/// How the last process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Closed,
    Killed,
}

type Files = BTreeMap<String, Vec<u8>>;

/// Makes a small database: two tables, and log segments whose records were synced one by one.
fn small(left: Left) -> (Files, Model) {
    let mut rng = SeededRng::new(11);
    let disk = SimDisk::new(11);
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options(left)).unwrap();
    for round in 0..3 {
        for _ in 0..4 {
            drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
            workers.step(0);
        }
        if round < 2 {
            engine.flush().unwrap();
        }
    }
    let disk = match left {
        Left::Closed => {
            engine.close().unwrap();
            disk
        }
        Left::Killed => disk.kill(),
    };
    let names = disk.list().unwrap();
    let files = names.into_iter().map(|name| (name.clone(), disk.contents(&name).unwrap()));
    (files.collect(), model)
}

/// Returns `true` for a log segment that is only kept for recycling.
fn is_spare(name: &str, files: &Files) -> bool {
    let first = inspect::load(&disk_of(files)).unwrap().first_segment;
    name.starts_with("wal") && *name < *format!("wal-{first:08}.log")
}

fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(1);
    for (name, bytes) in files {
        disk.plant(name, bytes.clone());
    }
    disk
}

/// Verifies, then opens and reads everything. Returns `true` if damage was reported; otherwise
/// exactly the commits through `least` or later must exist.
fn judge(files: &Files, model: &Model, least: Timestamp) -> Result<bool, String> {
    let disk: Arc<dyn Disk> = Arc::new(disk_of(files));
    let verified = inspect::verify(&disk, |_| {});
    if let Err(error) = &verified {
        reported(error)?;
    }
    let disk = disk_of(files);
    let mut rng = SeededRng::new(1);
    let read = open(&disk, options(Left::Closed)).and_then(|(engine, workers)| {
        let last = engine.published();
        compare_at(&engine, model, last, &mut rng)?;
        drop((engine, workers));
        Ok(last)
    });
    match (read, verified) {
        (Ok(last), _) if last < least => Err(format!("commits after {last} got lost")),
        (Ok(last), Ok(progress)) if last < model.last_commit() && !progress.log_torn => {
            Err("the check from outside saw no torn end".to_owned())
        }
        // Verification also detects damage that reads do not see, for example in index pages of
        // deleted cells.
        (Ok(_), verified) => Ok(verified.is_err()),
        (Err(error), Err(_)) => reported(&error).map(|()| true),
        (Err(error), Ok(_)) => Err(format!("not found from outside: {error}")),
    }
}

fn reported(error: &Error) -> Result<(), String> {
    let damage = matches!(error.kind(), ErrorKind::Corrupted | ErrorKind::Unsupported);
    // Errors of the test itself name no file.
    if damage && error.to_string().contains("simulated/") {
        return Ok(());
    }
    Err(format!("not a report of damage that names a file: {error}"))
}

/// Flips every bit or, in the short edition, every 15th.
fn flip_bits(left: Left) {
    let (files, model) = small(left);
    let last = model.last_commit();
    assert_eq!(judge(&files, &model, last), Ok(false));
    let stride = if std::env::var_os("CARNET_FAULTS_LONG").is_some() { 1 } else { 15 };
    // Each record was synced before the next one, so only the last one may read as a torn tail.
    let least = match left {
        Left::Closed => last,
        Left::Killed => model.records[model.records.len() - 2].1,
    };
    for (name, bytes) in &files {
        let (mut flips, mut detected) = (0, 0);
        // Segments for recycling are never read, not even their leftovers after recycling.
        let stride = if is_spare(name, &files) { 40 * stride } else { stride };
        for bit in (0..bytes.len() * 8).step_by(stride) {
            let mut files = files.clone();
            files.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
            flips += 1;
            match judge(&files, &model, least) {
                Ok(found) => detected += usize::from(found),
                Err(wrong) => panic!("{left:?}, {name} bit {bit}: {wrong}"),
            }
        }
        println!("{left:?}, {name}: {detected} of {flips} flips detected");
        if name.starts_with("sst") || name == "MANIFEST" {
            assert_eq!(detected, flips, "{name}: every bit matters");
        }
    }
    assert!(files.keys().filter(|name| name.starts_with("wal")).count() >= 2);
}

#[test]
fn flipped_bit_in_closed_database_is_detected() {
    flip_bits(Left::Closed);
}

#[test]
fn flipped_bit_after_kill_is_detected() {
    flip_bits(Left::Killed);
}

#[test]
fn missing_file_is_named() {
    let (all, _) = small(Left::Closed);
    for name in all.keys() {
        let mut files = all.clone();
        files.remove(name);
        let newest_segment = all.keys().all(|other| other <= name) && name.starts_with("wal");
        let is_unneeded = newest_segment || is_spare(name, &all);
        match open(&disk_of(&files), options(Left::Closed)) {
            Ok(_) => assert!(is_unneeded, "{name} is needed"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupted);
                assert!(error.to_string().contains(&format!("{name} is missing")), "{error}");
            }
        }
    }
}

/// Replacements of a needed segment: empty, zeros, noise, a zeroed header, and another segment.
fn wrong_segments(bytes: &[u8], other: &[u8]) -> [Vec<u8>; 5] {
    let mut rng = SeededRng::new(4);
    let noise = (0..bytes.len()).map(|_| rng.next_u64() as u8).collect();
    let mut headless = bytes.to_vec();
    headless[..40].fill(0);
    [Vec::new(), vec![0; bytes.len()], noise, headless, other.to_vec()]
}

#[test]
fn needed_segment_with_wrong_header_is_corrupted() {
    for left in [Left::Closed, Left::Killed] {
        let (files, _) = small(left);
        let segments = files.keys().filter(|name| name.starts_with("wal"));
        let needed: Vec<_> = segments.filter(|name| !is_spare(name, &files)).cloned().collect();
        assert!(needed.len() >= 2);
        for (at, name) in needed.iter().enumerate() {
            let other = &files[&needed[(at + 1) % needed.len()]];
            for wrong in wrong_segments(&files[name], other) {
                let mut files = files.clone();
                files.insert(name.clone(), wrong);
                let disk: Arc<dyn Disk> = Arc::new(disk_of(&files));
                let verified = inspect::verify(&disk, |_| {}).unwrap_err();
                let opened = open(&disk_of(&files), options(left)).unwrap_err();
                for error in [verified, opened] {
                    assert_eq!(error.kind(), ErrorKind::Corrupted, "{name}: {error}");
                    assert!(error.to_string().contains(name.as_str()), "{error}");
                }
            }
        }
    }
}

/// The marker states that a directory has no log.
#[test]
fn checkpoint_marker_beside_a_log_is_refused() {
    for left in [Left::Closed, Left::Killed] {
        let (mut files, model) = small(left);
        files.insert("CHECKPOINT".to_owned(), Vec::new());
        let disk = disk_of(&files);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let verified = inspect::verify(&shared, |_| {}).unwrap_err();
        let opened = open(&disk, options(left)).unwrap_err();
        for error in [verified, opened] {
            assert_eq!(error.kind(), ErrorKind::Corrupted);
            assert!(error.to_string().contains("remove CHECKPOINT"), "{error}");
        }
        disk.remove("CHECKPOINT").unwrap();
        let (engine, _workers) = open(&disk, options(left)).unwrap();
        assert_eq!(engine.published(), model.last_commit(), "the log is still there");
    }
}

#[test]
fn random_and_truncated_files_never_panic() {
    let (files, model) = small(Left::Closed);
    let mut rng = SeededRng::new(8);
    for round in 0..3000 {
        let mut files = files.clone();
        let victim = files.keys().nth(rng.below(files.len() as u64) as usize).unwrap().clone();
        let bytes = files.get_mut(&victim).unwrap();
        match rng.below(3) {
            0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            1 => {
                let from = rng.below(bytes.len() as u64) as usize;
                bytes[from..].fill_with(|| rng.next_u64() as u8);
            }
            _ => *bytes = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect(),
        }
        if let Err(wrong) = judge(&files, &model, model.last_commit()) {
            panic!("round {round}, {victim}: {wrong}");
        }
    }
}
