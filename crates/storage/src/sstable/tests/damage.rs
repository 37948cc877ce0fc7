//! Damaged files: every flipped bit and every truncation is an error that names the offset. Wrong
//! bytes with valid checksums cause an error or a result, never a panic or a huge allocation.

use std::sync::Mutex;

use super::*;
use crate::sstable::section::{self, CRC_BYTES};
use crate::sstable::{compress, footer, page, run};

/// Opens a file with these bytes and reads all of it.
fn read_all(bytes: Vec<u8>, reads: u64) -> carnet_base::Result<()> {
    let disk = SimDisk::new(1);
    let len = bytes.len() as u64;
    disk.plant(&file_name(1), bytes);
    let table = Arc::new(Table::open(Arc::new(disk), 1, len, Cache::new(1 << 20))?);
    let mut cursor = RawCursor::new(Arc::clone(&table), Bytes::new(), None);
    cursor.advance_blocking()?;
    while cursor.entry().is_some() {
        cursor.advance_blocking()?;
    }
    for reverse in [false, true] {
        let walk = Walk { read: time(reads), reverse, ..Walk::default() };
        let mut cursor = TableCursor::new(Arc::clone(&table), walk);
        block_on(cursor.advance())?;
        while let Some(key) = cursor.peek_key() {
            block_on(table.get(key, time(reads), ReadOptions::default()))?;
            block_on(cursor.advance())?;
        }
    }
    verify(&table, |_| ()).map(|_| ())
}

/// A small file with all features: several pages and blocks, filters, range tombstones.
fn small_file() -> Vec<u8> {
    let mut rng = SeededRng::new(5);
    let mut model = random_model(&mut rng, 90);
    while model.tombstones.len() < 4 {
        model = random_model(&mut rng, 90);
    }
    let sim = SimDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let options = TableOptions { block_bytes: 200, index_page_bytes: 100, ..Default::default() };
    model.build(&disk, 1, move |_| options).unwrap();
    sim.contents(&file_name(1)).unwrap()
}

#[test]
fn flipped_bit_error_names_the_section() {
    let file = small_file();
    read_all(file.clone(), 200).unwrap();
    let mut whats = std::collections::BTreeSet::new();
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = read_all(damaged, 200).expect_err("a flipped bit must be found");
        let message = error.to_string();
        assert_eq!(error.kind(), carnet_base::ErrorKind::Corrupted, "bit {bit}: {message}");
        assert!(message.contains("sst-00000001.sst"), "bit {bit}: {message}");
        // The offset in the error is that of the section with the bit.
        let named = message.split(" at byte ").nth(1).and_then(|rest| rest.split(' ').next());
        let at: usize = named.expect("the place is named").parse().unwrap();
        assert!(at <= bit / 8, "bit {bit}: {message}");
        let what = message.split(": the ").nth(1).and_then(|rest| rest.split(" at").next());
        whats.insert(what.expect("the section is named").to_owned());
    }
    let expected =
        ["block", "footer", "index page", "section of range tombstones", "statistics", "top index"];
    assert_eq!(whats.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_truncation_is_detected() {
    let file = small_file();
    for len in 0..file.len() {
        let error = read_all(file[..len].to_vec(), 200).expect_err("a cut must be found");
        assert_eq!(error.kind(), carnet_base::ErrorKind::Corrupted, "at {len}: {error}");
    }
    // The length in the manifest is checked first.
    let disk = SimDisk::new(1);
    let len = file.len() as u64;
    disk.plant(&file_name(1), file[..file.len() - 1].to_vec());
    let error = Table::open(Arc::new(disk), 1, len, Cache::new(0)).err().unwrap();
    assert!(error.to_string().contains("where the manifest says"), "{error}");
}

/// Blocks of another file, or of another offset in this file, are intact in themselves.
#[test]
fn misplaced_section_is_corruption() {
    let file = small_file();
    let disk = SimDisk::new(1);
    disk.plant(&file_name(2), file.clone());
    let renamed = Table::open(Arc::new(disk), 2, file.len() as u64, Cache::new(0)).err().unwrap();
    assert!(renamed.to_string().contains("footer"), "{renamed}");
    let mut sealed = b"whole".to_vec();
    section::seal(&mut sealed, 0, 7, 100);
    assert_eq!(section::open(&sealed, 7, 100), Ok(&b"whole"[..]));
    assert!(section::open(&sealed, 8, 100).is_err());
    assert!(section::open(&sealed, 7, 101).is_err());
}

#[test]
fn other_format_versions_are_not_damage() {
    let mut file = small_file();
    let len = file.len();
    // A later version, with the footer's checksum.
    let from = len - footer::FOOTER_BYTES as usize;
    file.truncate(len - 12);
    file[len - 16] = 4;
    section::seal(&mut file, from, 1, from as u64);
    file.extend(footer::MAGIC);
    let error = read_all(file, 1).err().unwrap();
    assert_eq!(error.kind(), carnet_base::ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 4"), "{error}");
    // The end of a table of version 1.
    let mut old = vec![0; 40];
    let from = old.len();
    old.extend([7; 44]);
    old.extend(1_u32.to_le_bytes());
    let crc = crc32c::crc32c(&(from as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &old[from..]);
    old.extend(crc.to_le_bytes());
    old.extend(footer::MAGIC);
    let error = read_all(old.clone(), 1).err().unwrap();
    assert_eq!(error.kind(), carnet_base::ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("version 1"), "{error}");
    old[50] ^= 1;
    assert_eq!(read_all(old, 1).err().unwrap().kind(), carnet_base::ErrorKind::Corrupted);
}

/// Changes, removes or adds a few bytes.
fn mutate(section: &mut Vec<u8>, rng: &mut SeededRng) {
    for _ in 0..=rng.below(3) {
        if section.is_empty() {
            return;
        }
        let at = rng.below(section.len() as u64) as usize;
        match rng.below(8) {
            0 => section.truncate(at),
            1 => section.insert(at, rng.next_u64() as u8),
            2 => drop(section.remove(at)),
            3 => section[at] = [0, 1, 0x7f, 0x80, 0xc0, 0xfe, 0xff][rng.below(7) as usize],
            _ => section[at] ^= 1 << rng.below(8),
        }
    }
}

/// Each decoder, without checksums.
#[test]
fn decoders_survive_mutated_sections() {
    let file = small_file();
    let len = file.len();
    let end = &file[len - footer::end_bytes(len as u64) as usize..];
    let places = footer::Footer::read(end, 1, len as u64).unwrap();
    let at = |place: Place| file[place.offset as usize..place.end() as usize - CRC_BYTES].to_vec();
    let top = page::decode_top(&at(places.top), places.index, places.tombstones.offset);
    let index_place = page::place(&top.unwrap().unwrap(), 0);
    let index = page::decode_page(&at(index_place), places.index).unwrap();
    let data = at(page::place(&index, 0));
    // Mutations reach the run in a body only if it is not compressed.
    let plain = compress::run_of(&data, 1 << 20).unwrap().into_owned();
    let sections = [
        plain,
        data,
        at(index_place),
        at(places.top),
        at(places.tombstones),
        at(places.statistics),
    ];
    let refused = Mutex::new([0; 6]);
    with_seeds(12_000, |seed, rng| {
        let which = (seed % 6) as usize;
        let mut section = sections[which].clone();
        mutate(&mut section, rng);
        let outcome = match which {
            0 => run::decode(&section, 1 << 20).map(|block| look_at(&block, rng)),
            1 => page::decode_data(&section).map(|block| look_at(&block, rng)),
            2 => page::decode_page(&section, places.index).map(|block| look_at(&block, rng)),
            3 => page::decode_top(&section, places.index, places.tombstones.offset).map(drop),
            4 => RangeTombstones::read(&section).map(|read| {
                let _ = read.covering(&awkward_key(rng), Timestamp::MAX);
                assert!(read.memory_bytes() < 1 << 20);
            }),
            _ => Statistics::read(&section).map(drop),
        };
        refused.lock().unwrap()[which] += usize::from(outcome.is_err());
    });
    let refused = refused.into_inner().unwrap();
    if std::env::var("CARNET_SEED").is_err() {
        assert!(refused.iter().all(|&count| count > 100), "{refused:?} of 2,000 each");
    }
}

/// A decoded block can be searched, and takes no more memory than allowed.
fn look_at(block: &Block, rng: &mut SeededRng) {
    assert!(block.memory_bytes() < 2 << 20);
    for _ in 0..5 {
        let key = awkward_key(rng);
        let at = block.seek(&key, time(rng.below(100)));
        assert!(at <= block.len());
        block.may_contain(&key);
    }
    for at in 0..block.len() {
        let entry = block.get(at);
        assert_eq!(block.seek(entry.key, entry.commit), at);
    }
}

/// Whole files with mutated sections and valid checksums: tests the table, not only its decoders.
#[test]
fn tables_survive_mutations_with_valid_checksums() {
    let file = small_file();
    let len = file.len();
    let end = &file[len - footer::end_bytes(len as u64) as usize..];
    let places = footer::Footer::read(end, 1, len as u64).unwrap();
    let mut sections = vec![places.tombstones, places.top, places.statistics];
    let mut offset = 0;
    // The ends of blocks and pages are found by their checksums.
    while offset < places.tombstones.offset as usize {
        let fits = |end: &usize| section::open(&file[offset..*end], 1, offset as u64).is_ok();
        let end = (offset + 5..=places.tombstones.offset as usize).find(fits).unwrap();
        sections.push(Place { offset: offset as u64, len: (end - offset) as u32 });
        offset = end;
    }
    with_seeds(6_000, |_, rng| {
        let place = sections[rng.below(sections.len() as u64) as usize];
        let (from, to) = (place.offset as usize, place.end() as usize - CRC_BYTES);
        let mut section = file[from..to].to_vec();
        // The length stays the same, so that the checksum can be replaced.
        for _ in 0..=rng.below(3) {
            if !section.is_empty() {
                let at = rng.below(section.len() as u64) as usize;
                section[at] ^= 1 << rng.below(8);
            }
        }
        section::seal(&mut section, 0, 1, place.offset);
        let mut damaged = file.clone();
        damaged[from..to + CRC_BYTES].copy_from_slice(&section);
        let _ = read_all(damaged, rng.below(300));
    });
}

/// The function of the fuzz target, with thousands of inputs.
#[test]
fn decoders_survive_random_bytes() {
    with_seeds(7_000, |seed, rng| {
        let bytes: Vec<_> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        decode_anything(seed as u8, &bytes);
    });
}

/// A number of entries that exceeds the bytes is refused before memory is allocated.
#[test]
fn impossible_entry_count_allocates_nothing() {
    let mut run = Vec::new();
    var::put(&mut run, 1_000_000);
    run.extend([0; 10]);
    let wrong = run::decode(&run, 1 << 30).err();
    assert_eq!(wrong, Some("a block's number of entries is impossible"));
}

/// A number of key bytes that exceeds the stored bytes is refused before memory is allocated; other
/// wrong numbers are refused while decoding.
#[test]
fn wrong_key_length_is_refused() {
    let decode = |key_bytes| {
        let mut run = Vec::new();
        var::put(&mut run, 2);
        var::put(&mut run, key_bytes);
        // The first start timestamp, then the columns' lengths: `rest` is the third, the keys are
        // last.
        run.extend([0, 0, 0, 2, 0, 0, 0, 0, 2, 1, 1]);
        run.extend(b"ab");
        run::decode(&run, 1 << 30).map(|block| block.key(1).to_vec())
    };
    assert_eq!(decode(2), Ok(b"b".to_vec()));
    assert_eq!(decode(1), Err("a block is longer than it says"));
    assert_eq!(decode(3), Err("a block is shorter than it says"));
    assert_eq!(decode(1 << 29), Err("a block's keys are impossible"));
}

/// Sections that are intact but inconsistent: only a check of the whole file detects them.
#[test]
fn verify_detects_inconsistent_sections() {
    let file = small_file();
    let len = file.len();
    let end = &file[len - footer::end_bytes(len as u64) as usize..];
    let places = footer::Footer::read(end, 1, len as u64).unwrap();
    let change = |place: Place, change: &dyn Fn(&mut [u8])| {
        let (from, to) = (place.offset as usize, place.end() as usize - CRC_BYTES);
        let mut section = file[from..to].to_vec();
        change(&mut section);
        section::seal(&mut section, 0, 1, place.offset);
        let mut changed = file.clone();
        changed[from..to + CRC_BYTES].copy_from_slice(&section);
        let disk = SimDisk::new(1);
        disk.plant(&file_name(1), changed);
        let table = Table::open(Arc::new(disk), 1, len as u64, Cache::new(0)).unwrap();
        verify(&table, |_| ()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(change(places.statistics, &|_| ()), Ok(()));
    let error = change(places.statistics, &|section| section[0] ^= 1).unwrap_err();
    assert!(error.contains("the statistics at byte"), "{error}");
    let top = &file[places.top.offset as usize..places.top.end() as usize - CRC_BYTES];
    let top = page::decode_top(top, places.index, places.tombstones.offset).unwrap().unwrap();
    let with_filter = (0..top.len())
        .map(|at| page::place(&top, at))
        .find(|place| file[place.offset as usize] != 0);
    // All bits of the filter cleared.
    let error = change(with_filter.unwrap(), &|section| section[6..14].fill(0)).unwrap_err();
    assert!(error.contains("the filter of its index page lacks one of its keys"), "{error}");
}

/// A file that is truncated while it is open, between two reads of blocks of one index page.
#[test]
fn scan_of_truncated_file_is_corruption() {
    let mut model = Model::default();
    for n in 0..600_u64 {
        let kept = (time(1), None, Some(vec![7; 1000]));
        model.versions.insert((flat(1, 0, b"wide", &n.to_be_bytes()), Reverse(time(2))), kept);
    }
    let sim = SimDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let built = model.build(&disk, 1, move |_| options).unwrap();
    let whole = sim.contents(&file_name(1)).unwrap();
    for cut in [0, 100_000, 300_000, 400_000] {
        let disk = SimDisk::new(1);
        disk.plant(&file_name(1), whole.clone());
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let table = Table::open(Arc::clone(&disk), 1, built.bytes, Cache::new(0)).unwrap();
        let mut cursor = RawCursor::new(Arc::new(table), Bytes::new(), None);
        cursor.advance_blocking().unwrap();
        disk.open(&file_name(1)).unwrap().truncate(cut).unwrap();
        let error = loop {
            match cursor.advance_blocking() {
                Ok(()) => assert!(cursor.entry().is_some(), "the end of a file that was cut"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), carnet_base::ErrorKind::Corrupted, "{cut}: {error}");
        assert!(error.to_string().contains("the block at byte"), "{cut}: {error}");
        // Another call does not end the scan either.
        assert!(cursor.advance_blocking().is_err());
    }
}
