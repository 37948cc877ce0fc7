//! The commit table changes its encoding while transactions run, without losses.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    CellKey, Encoding, EncodingMap, ErrorKind, KeyRange, PartitionKey, SystemClock, TableId,
    ThreadSpawn, Timestamp, block_on,
};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::inspect;
use carnet_storage::manifest::Manifest;
use carnet_store::conformance::PlainOrder;
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitOrder, CommitRequest, Context, LogStart,
    Outcome, PageLimit, RangeRequest, ReadSet, Write,
};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};

fn order(life: LogStart) -> Box<dyn CommitOrder> {
    Box::new(PlainOrder::starting_above(life.first))
}

fn try_open(disk: &SimDisk, encoding: Encoding) -> carnet_base::Result<LocalStore> {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SystemClock));
    let options = carnet_storage::Options::default();
    let store =
        LocalStore::open(disk, clock, &ThreadSpawn, options, Duration::ZERO, encoding, order)?;
    store.row_tables().set_all_raw();
    Ok(store)
}

fn open(disk: &SimDisk) -> LocalStore {
    try_open(disk, DEFAULT_ENCODING).unwrap()
}

fn begin(store: &LocalStore) -> Begun {
    block_on(store.begin(&Context::unbounded(), BeginKind::ReadWrite)).unwrap()
}

/// Commits a transaction; returns its start and its commit.
fn finish(store: &LocalStore, begun: Begun) -> (Timestamp, Timestamp) {
    let start = begun.start.unwrap();
    let name = start.get().to_be_bytes().to_vec();
    let key = CellKey::new(TableId(1000), &PartitionKey::new(name), "");
    let writes = vec![Write { key, payload: Some(b"x"[..].into()) }];
    let request = CommitRequest::new(begun, start, ReadSet::default(), writes);
    let commit = block_on(store.commit(&Context::unbounded(), request)).unwrap();
    store.end(begun);
    (start, commit)
}

fn outcome(store: &LocalStore, start: Timestamp) -> Outcome {
    block_on(store.outcome(&Context::unbounded(), start)).unwrap()
}

/// Returns the encodings whose tables contain the entry of a start.
fn tables_with(store: &LocalStore, start: Timestamp) -> Vec<Encoding> {
    let has = |(table, encoding): (u32, Encoding)| {
        let cell = encoding.cell(start);
        let key = CellKey::new(TableId(table), &PartitionKey::new(cell.row), cell.column);
        let at = At::snapshot(Timestamp::MAX);
        let found = block_on(store.get(&Context::unbounded(), &key, at)).unwrap();
        found.map(|_| encoding)
    };
    [(6, Encoding::V1), (1, Encoding::V2), (7, Encoding::V3)].into_iter().filter_map(has).collect()
}

#[test]
fn migration_keeps_entries_of_running_transactions() {
    use Encoding::{V1, V2, V3};
    let mut disk = SimDisk::new(1);
    let mut store = try_open(&disk, V1).unwrap();
    let (mut committed, mut aborted, mut firsts) = (Vec::new(), Vec::new(), vec![(0, V1)]);
    for (round, to) in [V2, V3, V2, V1, V3].into_iter().enumerate() {
        committed.push(finish(&store, begin(&store)));
        let (under_way, given_up) = (begin(&store), begin(&store));
        let first = store.migrate(to).unwrap().unwrap();
        firsts.push((first.get(), to));
        let early = finish(&store, under_way);
        assert!(early.0 < first, "it goes on");
        let late = finish(&store, begin(&store));
        assert!(late.0 >= first, "the next start is of the new encoding at once");
        committed.extend([early, late]);
        store.end(given_up);
        aborted.extend(given_up.start);
        assert_eq!(store.migrate(to).unwrap(), None, "it is in force already");
        match round % 3 {
            0 => store.flush().unwrap(),
            1 => {
                let left = disk.kill();
                drop(store);
                disk = left;
                store = open(&disk);
            }
            _ => {
                drop(store);
                store = open(&disk);
            }
        }
        for (start, commit) in &committed {
            assert_eq!(outcome(&store, *start), Outcome::Committed(*commit), "start {start}");
        }
        for start in &aborted {
            assert_eq!(outcome(&store, *start), Outcome::Aborted);
        }
    }
    let spans = store.encodings();
    assert_eq!(spans.iter().map(|(first, of)| (first.get(), *of)).collect::<Vec<_>>(), firsts);
    store.flush().unwrap();
    store.compact().unwrap();
    for (start, commit) in &committed {
        assert_eq!(outcome(&store, *start), Outcome::Committed(*commit), "start {start}");
    }
    for (start, _) in &committed {
        let (_, encoding) = firsts.iter().rfind(|(first, _)| *first <= start.get()).unwrap();
        assert_eq!(tables_with(&store, *start), [*encoding], "start {start}");
    }
}

#[test]
fn only_new_store_uses_the_given_encoding() {
    for encoding in [Encoding::V1, Encoding::V2, Encoding::V3] {
        let disk = SimDisk::new(1);
        let store = try_open(&disk, encoding).unwrap();
        let (start, commit) = finish(&store, begin(&store));
        store.flush().unwrap();
        drop(store);
        let store = try_open(&disk, Encoding::V3).unwrap();
        assert_eq!(store.encodings(), [(Timestamp::ZERO, encoding)]);
        assert_eq!(outcome(&store, start), Outcome::Committed(commit));
    }
}

fn with_notes(disk: &SimDisk, notes: &[u8]) -> SimDisk {
    let changed = disk.kill();
    let manifest = inspect::load(&changed).unwrap();
    let manifest = Manifest { notes: notes.to_vec().into(), ..manifest };
    manifest.store(&changed).unwrap();
    changed
}

#[test]
fn newer_encoding_maps_are_refused() {
    let disk = SimDisk::new(1);
    drop(open(&disk));
    let notes = inspect::load(&disk).unwrap().notes;
    let refused = |notes: &[u8]| {
        let error = try_open(&with_notes(&disk, notes), DEFAULT_ENCODING).err().unwrap();
        (error.kind(), error.to_string())
    };
    let fourth = [&notes[..notes.len() - 1], &[4]].concat();
    let (kind, message) = refused(&fourth);
    assert!(kind == ErrorKind::Unsupported && message.contains("v4"), "{message}");
    let newer = [&[3], &notes[1..]].concat();
    let (kind, message) = refused(&newer);
    assert!(kind == ErrorKind::Unsupported && message.contains("version 3"), "{message}");
}

#[test]
fn map_below_the_bound_is_refused() {
    let disk = SimDisk::new(1);
    drop(open(&disk));
    let short = EncodingMap::starting_with(Encoding::V2, Timestamp::new(5).unwrap()).encode();
    let error = try_open(&with_notes(&disk, &short), DEFAULT_ENCODING).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
}

/// A database of the last program version without encoding maps: two rows in a table, one in the
/// log.
#[test]
fn database_without_map_can_be_migrated() {
    let disk = SimDisk::new(1);
    let fixture = format!("{}/testdata/database-v3", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(fixture).unwrap() {
        let entry = entry.unwrap();
        disk.plant(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    let store = try_open(&disk, Encoding::V3).unwrap();
    assert_eq!(store.encodings(), [(Timestamp::ZERO, Encoding::V2)]);
    let request = RangeRequest {
        range: KeyRange::table(TableId(1000)),
        read: Timestamp::MAX,
        reverse: false,
        limit: PageLimit::cells(10),
    };
    let page = block_on(store.range(&Context::unbounded(), &request)).unwrap().page;
    assert_eq!(page.cells.len(), 3);
    for cell in page.cells.iter() {
        let committed = Outcome::Committed(cell.commit);
        assert_eq!(outcome(&store, cell.start), committed);
    }
    store.migrate(Encoding::V3).unwrap().unwrap();
    let (start, commit) = finish(&store, begin(&store));
    store.flush().unwrap();
    drop(store);
    let store = open(&disk);
    assert_eq!(tables_with(&store, start), [Encoding::V3]);
    assert_eq!(outcome(&store, start), Outcome::Committed(commit));
    for cell in page.cells.iter() {
        assert_eq!(tables_with(&store, cell.start), [Encoding::V2]);
    }
}
