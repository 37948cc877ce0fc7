//! Versions of cells: stored data, and the contents of ranges.

use std::ops::Bound;

use carnet_base::{
    Bytes, CellKey, KeyRange, PartitionKey, Rng, SeededRng, TableId, Timestamp, Token, Version,
    block_on,
};
use carnet_store::cluster::{
    Acknowledge, CellVersions, ClusterCells, MemoryCluster, Statement, VersionName, VersionWrite,
};
use carnet_store::{Context, PageLimit, RangeRequest};
use carnet_store_cql::CqlCluster;

use crate::keyspace::keyspace;

const TABLE: TableId = TableId(1000);

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn cell(partition: &str, clustering: &str) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new(partition.as_bytes().to_vec()), clustering)
}

fn write(key: &CellKey, start: u64, number: u32, payload: Option<&'static str>) -> VersionWrite {
    let payload = payload.map(Bytes::from);
    VersionWrite { key: key.clone(), start: at(start), statement: Statement(number), payload }
}

fn name(key: &CellKey, start: u64) -> VersionName {
    VersionName { key: key.clone(), start: at(start) }
}

fn put(cluster: &impl ClusterCells, writes: &[VersionWrite]) {
    block_on(cluster.write_versions(&Context::unbounded(), writes)).unwrap();
}

fn read(cluster: &impl ClusterCells, key: &CellKey, through: u64) -> Option<Version> {
    block_on(cluster.read_version(&Context::unbounded(), key, at(through))).unwrap()
}

fn payload(version: Option<Version>) -> Option<Bytes> {
    version.and_then(|version| version.payload)
}

#[test]
fn the_newest_version_through_a_start_is_read() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let key = cell("p", "c");
    assert_eq!(read(&cluster, &key, 9), None, "a table without writes");
    put(&cluster, &[write(&key, 7, 0, None), write(&key, 5, 0, Some("five"))]);
    put(&cluster, &[write(&key, 9, 0, Some(""))]);
    assert_eq!(read(&cluster, &key, 4), None);
    assert_eq!(payload(read(&cluster, &key, 6)), Some("five".into()));
    let tombstone = Version { start: at(7), commit: None, payload: None };
    assert_eq!(read(&cluster, &key, 8), Some(tombstone));
    assert_eq!(payload(read(&cluster, &key, i64::MAX as u64)), Some(Bytes::new()));
    assert_eq!(read(&cluster, &cell("p", ""), 9), None);
}

#[test]
fn later_statement_wins_in_any_order() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let key = cell("p", "c");
    put(&cluster, &[write(&key, 5, 2, Some("second"))]);
    put(&cluster, &[write(&key, 5, 1, Some("first"))]);
    put(&cluster, &[write(&key, 5, 0, None)]);
    assert_eq!(payload(read(&cluster, &key, 5)), Some("second".into()));
    // Both in one call, the later one first.
    put(&cluster, &[write(&key, 6, 4, None), write(&key, 6, 3, Some("third"))]);
    assert_eq!(read(&cluster, &key, 6).unwrap().payload, None);
    put(&cluster, &[write(&key, 6, u32::MAX, Some("last"))]);
    assert_eq!(payload(read(&cluster, &key, 6)), Some("last".into()));
}

#[test]
fn a_deleted_version_does_not_come_back() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let key = cell("p", "c");
    let late = write(&key, 5, u32::MAX, Some("late"));
    put(&cluster, &[write(&key, 3, 0, Some("three")), late.clone()]);
    block_on(cluster.stamp_versions(&[(name(&key, 5), at(6))])).unwrap();
    block_on(cluster.delete_versions(&[name(&key, 5)], Acknowledge::All)).unwrap();
    put(&cluster, &[late]);
    block_on(cluster.stamp_versions(&[(name(&key, 5), at(6))])).unwrap();
    assert_eq!(payload(read(&cluster, &key, 9)), Some("three".into()));
    block_on(cluster.delete_versions(&[name(&key, 3)], Acknowledge::Quorum)).unwrap();
    assert_eq!(read(&cluster, &key, 9), None);
}

#[test]
fn a_stamp_without_its_version_is_no_version() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let keys = [cell("p", "a"), cell("p", "b"), cell("q", "a")];
    for key in &keys {
        put(&cluster, &[write(key, 3, 0, Some("three"))]);
        let stamps = [(name(key, 5), at(6)), (name(key, 7), at(8)), (name(key, 3), at(4))];
        block_on(cluster.stamp_versions(&stamps)).unwrap();
    }
    block_on(cluster.stamp_versions(&[(name(&cell("p", "none"), 5), at(6))])).unwrap();
    let there = Version { start: at(3), commit: Some(at(4)), payload: Some("three".into()) };
    assert_eq!(read(&cluster, &keys[0], 9), Some(there.clone()));
    for reverse in [false, true] {
        let cells = all(&cluster, &KeyRange::table(TABLE), (9, reverse, 10));
        assert_eq!(cells.len(), 3);
        assert!(cells.iter().all(|(_, version)| *version == there));
    }
    let page = block_on(cluster.scan_versions(&KeyRange::table(TABLE), PageLimit::cells(10)));
    let cells = page.unwrap().cells;
    assert!(cells.len() == 3 && cells.iter().all(|cell| cell.versions == [there.clone()]));
}

/// Reads a range page by page.
fn all(
    cluster: &impl ClusterCells,
    range: &KeyRange,
    (through, reverse, limit): (u64, bool, usize),
) -> Vec<(CellKey, Version)> {
    let limit = PageLimit::cells(limit);
    let mut request = RangeRequest { range: range.clone(), read: at(through), reverse, limit };
    let mut cells = Vec::new();
    loop {
        let page = block_on(cluster.read_range(&Context::unbounded(), &request)).unwrap();
        assert!(page.cells.len() <= limit.cells);
        cells.extend(page.cells.into_iter().map(|CellVersions { key, versions }| {
            let [version] = versions.try_into().expect("one version");
            (key, version)
        }));
        match page.resume {
            Some(rest) => request.range = rest,
            None => return cells,
        }
    }
}

fn all_versions(
    cluster: &impl ClusterCells,
    range: &KeyRange,
    limit: usize,
) -> Vec<(CellKey, Vec<Version>)> {
    let (mut rest, mut cells) = (Some(range.clone()), Vec::new());
    while let Some(range) = rest {
        let page = block_on(cluster.scan_versions(&range, PageLimit::cells(limit))).unwrap();
        cells.extend(page.cells.into_iter().map(|cell| (cell.key, cell.versions)));
        rest = page.resume;
    }
    cells
}

fn compare(cluster: &CqlCluster, model: &MemoryCluster, range: &KeyRange, limit: usize) {
    for reverse in [false, true] {
        for through in [15, 1000] {
            let asked = all(cluster, range, (through, reverse, limit));
            let wanted = all(model, range, (through, reverse, 1000));
            assert_eq!(asked, wanted, "{range:?}, reverse {reverse}, {limit} a page");
        }
    }
    let asked = all_versions(cluster, range, limit);
    assert_eq!(asked, all_versions(model, range, 1000), "{range:?}, {limit} a page");
}

#[test]
fn ranges_match_the_model() {
    let Some(keyspace) = keyspace() else { return };
    let (cluster, model) = (keyspace.connect(), MemoryCluster::new());
    let mut rng = SeededRng::new(5);
    let mut random = |below: u64| rng.below(below);
    let mut writes = Vec::new();
    // More partitions than one list has, some of them with more cells than a first answer.
    for partition in 0..150 {
        let cells = if partition % 30 == 0 { 70 } else { 1 + random(3) };
        for _ in 0..cells {
            let key = cell(&format!("p{partition}"), &format!("{:02}", random(99)));
            for _ in 0..1 + random(3) {
                let text = (random(5) > 0).then_some("payload");
                writes.push(write(&key, 1 + random(30), writes.len().try_into().unwrap(), text));
            }
        }
    }
    // One cell with more versions than a first answer has rows.
    let key = cell("p3", "50");
    writes.extend((1..90).map(|start| write(&key, start, 5000, Some("many"))));
    put(&cluster, &writes);
    put(&model, &writes);
    for limit in [7, 100] {
        compare(&cluster, &model, &KeyRange::table(TABLE), limit);
    }
    for _ in 0..25 {
        let limit = 1 + usize::try_from(random(60)).unwrap();
        let mut bound = || {
            let partition = format!("p{}", if random(2) == 0 { 30 } else { random(150) });
            let key = cell(&partition, &format!("{:02}", random(99)));
            let token = CellKey::new(TABLE, &PartitionKey::first_at(key.token()), "");
            let bounds =
                [Bound::Included(key.clone()), Bound::Excluded(key), Bound::Excluded(token)];
            bounds[usize::try_from(random(3)).unwrap()].clone()
        };
        let (lower, upper) = (bound(), bound());
        compare(&cluster, &model, &KeyRange { table: TABLE, lower, upper }, limit);
    }
    let partition = PartitionKey::new("p30");
    compare(&cluster, &model, &KeyRange::partition(TABLE, &partition), 9);
    let clustering = (Bound::Excluded("20".into()), Bound::Included("70".into()));
    let range = KeyRange::clustering(TABLE, &partition, clustering.0, clustering.1);
    compare(&cluster, &model, &range, 9);
}

/// Returns two partition keys with token 12345. Cassandra orders the longer one first, Carnet the
/// shorter.
fn keys_of_one_token() -> [PartitionKey; 2] {
    let short = 0xc5b8_d6d6_16fa_21ac_3715_aa13_0d48_210b_u128.to_be_bytes();
    let tail = 0x9526_e8a3_f46f_a9a0_a826_a742_2731_6230_u128.to_be_bytes();
    [short.to_vec(), [[0; 16], tail].concat()].map(PartitionKey::new)
}

#[test]
fn partitions_of_one_token_come_in_carnets_order() {
    let Some(keyspace) = keyspace() else { return };
    let (cluster, model) = (keyspace.connect(), MemoryCluster::new());
    let keys = keys_of_one_token();
    assert!(keys.iter().all(|key| key.token() == Token(12345)) && keys[0] < keys[1]);
    let mut writes = Vec::new();
    for clustering in ["a", "b", "c"] {
        for key in &keys {
            writes.push(write(&CellKey::new(TABLE, key, clustering), 5, 0, Some("x")));
        }
        for other in 0..20 {
            writes.push(write(&cell(&format!("o{other}"), clustering), 5, 0, Some("y")));
        }
    }
    put(&cluster, &writes);
    put(&model, &writes);
    for limit in [1, 2, 4, 50] {
        compare(&cluster, &model, &KeyRange::table(TABLE), limit);
        let token = Bound::Included(Token(12345));
        compare(&cluster, &model, &KeyRange::tokens(TABLE, token, token), limit);
    }
}

/// Returns another key with the token next to that of the empty one.
fn key_of_the_lowest_token() -> PartitionKey {
    PartitionKey::new(0xee7a_b08a_8892_bf8f_8f6d_88c6_a6c8_1e23_u128.to_be_bytes().to_vec())
}

#[test]
fn the_empty_key_is_a_partition_like_any() {
    let Some(keyspace) = keyspace() else { return };
    let (cluster, model) = (keyspace.connect(), MemoryCluster::new());
    let (empty, lowest) = (PartitionKey::new(Vec::new()), key_of_the_lowest_token());
    assert_eq!((empty.token(), lowest.token()), (Token::MIN, Token(i64::MIN + 1)));
    // More cells than a first answer has.
    let number = |n: u8| format!("{n:02}");
    let mut writes: Vec<VersionWrite> = (0..70)
        .map(|n| write(&CellKey::new(TABLE, &empty, number(n)), 5, 0, Some("empty")))
        .collect();
    for n in 0..3 {
        writes.push(write(&CellKey::new(TABLE, &lowest, number(n)), 5, 0, Some("lowest")));
    }
    put(&cluster, &writes);
    put(&model, &writes);
    let last = &writes[69].key.clone();
    assert_eq!(payload(read(&cluster, last, 9)), Some("empty".into()));
    let ranges = || {
        let tokens = |from, to| {
            KeyRange::tokens(TABLE, Bound::Included(Token(from)), Bound::Included(Token(to)))
        };
        [
            KeyRange::table(TABLE),
            KeyRange::partition(TABLE, &empty),
            KeyRange::partition(TABLE, &lowest),
            KeyRange { lower: Bound::Excluded(last.clone()), ..KeyRange::table(TABLE) },
            tokens(i64::MIN, i64::MIN),
            tokens(i64::MIN + 1, i64::MIN + 1),
            tokens(i64::MIN + 1, i64::MAX),
        ]
    };
    for range in ranges() {
        compare(&cluster, &model, &range, 9);
    }
    // Among other partitions, too many for one list.
    for n in 0..150 {
        writes.push(write(&cell(&format!("o{n}"), "c"), 5, 0, Some("other")));
    }
    put(&cluster, &writes);
    put(&model, &writes);
    for range in ranges() {
        for limit in [1, 80] {
            compare(&cluster, &model, &range, limit);
        }
    }
    block_on(cluster.delete_versions(&[name(last, 5)], Acknowledge::All)).unwrap();
    assert_eq!(read(&cluster, last, 9), None);
}

#[test]
fn a_page_of_large_payloads_is_short() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let large = VersionWrite {
        payload: Some(vec![7; 300_000].into()),
        ..write(&cell("p", "0"), 5, 0, None)
    };
    let writes: Vec<VersionWrite> =
        (0..9).map(|n| VersionWrite { key: cell("p", &n.to_string()), ..large.clone() }).collect();
    put(&cluster, &writes);
    for reverse in [false, true] {
        let range = KeyRange::table(TABLE);
        let limit = PageLimit::cells(100);
        let request = RangeRequest { range, read: at(9), reverse, limit };
        let page = block_on(cluster.read_range(&Context::unbounded(), &request)).unwrap();
        assert_eq!(page.cells.len(), 4, "a page of 1 MiB and one cell");
        assert!(page.resume.is_some());
        assert_eq!(all(&cluster, &request.range, (9, reverse, 100)).len(), 9);
    }
}
