use std::ops::Bound;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::{
    CellHash, CellKey, Error, ErrorKind, KeyRange, PartitionKey, Rng, SeededRng, TableId, Timestamp,
};
use carnet_store::{BeginKind, Cells, Claim, Outcome, ReadSet, Slot};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::message::{Changes, ClientId, Members, Released, Response, Token};

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn cell(table: u32, partition: &str, clustering: &[u8]) -> CellKey {
    CellKey::new(TableId(table), &PartitionKey::new(partition.to_owned()), clustering)
}

fn frame(id: u64, message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    encode(id, message, &mut out).unwrap();
    out.freeze()
}

/// Returns a frame with a valid length and checksum around a content.
fn framed(content: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(u32::try_from(content.len()).unwrap());
    out.put_u32(crc32c::crc32c(content));
    out.put_slice(content);
    out.freeze()
}

fn claim(cells: &[CellKey], points: &[u64], ranges: Vec<KeyRange>) -> Claim {
    let mut cells = cells.to_vec();
    cells.sort();
    cells.dedup();
    let points = points.iter().copied().map(CellHash).collect();
    let reads = ReadSet { points, ranges };
    Claim {
        read: at(4),
        start: at(5),
        slot: Slot(0),
        reads,
        cells: Cells::from_sorted(cells.iter()),
        checks_writes: true,
        drops: vec![TableId(9)],
        beyond: Vec::new(),
        has_deltas: true,
    }
}

fn commit(claim: Claim) -> Message {
    Message::LeaderRequest(LeaderRequest::Commit { client: ClientId(7), token: Token(9), claim })
}

/// Returns one message of each kind.
fn examples() -> Vec<Message> {
    let (client, token) = (ClientId(7), Token(9));
    let begin =
        |kind, is_strict, known| LeaderRequest::Begin { client, token, kind, is_strict, known };
    let range = |lower, upper| KeyRange { table: TableId(3), lower, upper };
    let ranges = vec![
        range(Bound::Unbounded, Bound::Unbounded),
        range(Bound::Included(cell(3, "p", b"a")), Bound::Excluded(cell(3, "p", b"b"))),
    ];
    let cells = [cell(3, "p", b"a"), cell(3, "p", b"b"), cell(4, "q", b"")];
    let refused = |kind| Response::Refused(Error::new(kind, "no").with_source(Error::invalid("x")));
    let released = |start, changes| {
        let released = Released { read: at(1), start, epoch_first: at(2), schema: at(3) };
        Response::Released(released, changes)
    };
    let requests = [
        begin(BeginKind::ReadOnly, true, None),
        begin(BeginKind::ReadOnlyAt(at(88)), false, Some(at(80))),
        begin(BeginKind::ReadWrite, true, Some(at(1))),
        LeaderRequest::End { client, token },
        LeaderRequest::Commit { client, token, claim: claim(&cells, &[1, u64::MAX], ranges) },
        LeaderRequest::Outcome { start: Timestamp::MAX },
        LeaderRequest::Abort { start: at(1) },
        LeaderRequest::Alive { client, oldest: token },
        LeaderRequest::Announce { client, what: Bytes::new() },
        LeaderRequest::Announce { client, what: Bytes::from_static(b"here") },
        LeaderRequest::Forward { what: Bytes::new() },
        LeaderRequest::Forward { what: Bytes::from_static(b"a statement") },
    ];
    let responses = [
        released(None, Changes::Unknown),
        released(Some(at(3)), Changes::Cells(Vec::new())),
        released(None, Changes::Cells(vec![(CellHash(5), at(1)), (CellHash(u64::MAX), at(1))])),
        Response::Committed(at(6)),
        Response::Outcome(Outcome::Committed(at(6))),
        Response::Outcome(Outcome::Aborted),
        Response::Outcome(Outcome::Pending),
        Response::Done,
        Response::NotLeading,
        Response::Members(Members { is_complete: false, all: Vec::new() }),
        Response::Members(Members { is_complete: true, all: vec!["here".into(), "there".into()] }),
        Response::Forwarded(Bytes::new()),
        Response::Forwarded(Bytes::from_static(b"rows")),
        refused(ErrorKind::Conflict),
        Response::Refused(Error::conflict("no").with_lost_cell(CellHash(u64::MAX))),
        refused(ErrorKind::Unknown { start: at(5) }),
        refused(ErrorKind::TooOld),
        refused(ErrorKind::Overloaded { retry_after: Duration::from_micros(1_500) }),
        refused(ErrorKind::Timeout),
        refused(ErrorKind::Invalid),
        refused(ErrorKind::AlreadyExists),
        refused(ErrorKind::Unsupported),
        refused(ErrorKind::Aborted),
        refused(ErrorKind::Unavailable),
        refused(ErrorKind::Corrupted),
    ];
    let requests = requests.into_iter().map(Message::LeaderRequest);
    let responses = responses.into_iter().map(Message::Response);
    requests.chain(responses).chain([Message::Ping, Message::Pong]).collect()
}

/// The example of the module documentation matches the encoder.
#[test]
fn encoded_begin_matches_the_documentation() {
    let request = LeaderRequest::Begin {
        client: ClientId(7),
        token: Token(9),
        kind: BeginKind::ReadOnly,
        is_strict: true,
        known: None,
    };
    let frame = frame(3, &Message::LeaderRequest(request));
    assert_eq!(frame[..4], [0, 0, 0, 0x1c]);
    assert_eq!(frame[4..8], crc32c::crc32c(&frame[8..]).to_be_bytes());
    let content = [&[1][..], &3_u64.to_be_bytes(), &7_u64.to_be_bytes(), &9_u64.to_be_bytes()];
    assert_eq!(frame[8..], [&content.concat()[..], &[0, 1, 0]].concat());
}

#[test]
fn every_kind_of_message_round_trips() {
    for (id, message) in examples().into_iter().enumerate() {
        let id = id as u64;
        let bytes = frame(id, &message);
        assert_eq!(frame_bytes(&bytes).unwrap(), Some(bytes.len()));
        let decoded = decode(&bytes).unwrap();
        assert_eq!(decoded.id, id);
        assert_eq!(frame(id, &decoded.message), bytes, "{message:?}");
        if !matches!(message, Message::Response(Response::Refused(_))) {
            assert_eq!(format!("{:?}", decoded.message), format!("{message:?}"));
        }
    }
}

/// Processes of other versions read the same numbers.
#[test]
fn errors_have_the_numbers_of_the_page() {
    const PAGE: &str = include_str!("../../../../../docs/wire.md");
    let (_, rest) = PAGE.split_once("| kind | error | further fields |\n").unwrap();
    let rows = rest.lines().skip(1).take_while(|line| line.starts_with('|'));
    let on_page: Vec<(u8, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            (cells[1].parse().unwrap(), cells[2].replace(' ', ""))
        })
        .collect();
    let mut encoded: Vec<(u8, String)> = Vec::new();
    for message in examples() {
        let Message::Response(Response::Refused(error)) = &message else { continue };
        let name = format!("{:?}", error.kind());
        let name = name.split(' ').next().unwrap_or_default().to_lowercase();
        // The content follows the length and the checksum: the kind of the message, its id, the kind of the error.
        encoded.push((frame(1, &message)[17], name));
    }
    encoded.sort();
    encoded.dedup();
    assert_eq!(encoded, on_page);
}

#[test]
fn an_error_keeps_its_kind_and_its_causes() {
    let disk = std::io::Error::other("no space left");
    let inner = Error::unavailable("cannot write").with_source(disk);
    let error = Error::new(ErrorKind::Unknown { start: at(5) }, "lost").with_source(inner);
    let told = error.to_string();
    let bytes = frame(1, &Message::Response(Response::Refused(error)));
    let Message::Response(Response::Refused(error)) = decode(&bytes).unwrap().message else {
        panic!("an error becomes an error");
    };
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unknown { start: at(5) }, told));
}

#[test]
fn a_long_error_is_cut_at_a_character() {
    let deep = (0..20).fold(Error::invalid("é".repeat(9_000)), |cause, _| {
        Error::invalid(format!("a{}", "é".repeat(9_000))).with_source(cause)
    });
    let bytes = frame(1, &Message::Response(Response::Refused(deep)));
    assert!(bytes.len() < 64 << 10, "{}", bytes.len());
    assert_eq!(frame(1, &decode(&bytes).unwrap().message), bytes);
}

#[test]
fn claim_of_a_million_cells_fits_a_frame() {
    let key = |number: u32| cell(1, "a partition", &[&number.to_be_bytes()[..], &[7; 31]].concat());
    let cells: Vec<CellKey> = (0..1_000_000).map(key).collect();
    assert_eq!(cells[0].as_bytes().len(), 60);
    let bytes = frame(1, &commit(claim(&cells, &[], Vec::new())));
    assert_eq!(frame(1, &decode(&bytes).unwrap().message), bytes);

    let points = vec![0; FRAME_BYTES_MAX / 8];
    let mut out = BytesMut::from(&b"before"[..]);
    let error = encode(1, &commit(claim(&[], &points, Vec::new())), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("split the transaction"), "{error}");
    assert_eq!(&out[..], b"before");
}

#[test]
fn false_lengths_are_rejected() {
    // A list of 2³² items and a key of 2³² bytes, within a few bytes.
    let mut content = vec![0x03];
    content.extend([0; 8 + 16 + 16]);
    content.extend([0xff; 4]);
    assert_eq!(
        decode(&framed(&content)).unwrap_err(),
        Malformed("a list that is longer than its frame")
    );
    for length in [0, 8, FRAME_BYTES_MAX, usize::MAX] {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        assert!(frame_bytes(&length.to_be_bytes()).is_err(), "{length}");
    }
}

#[test]
fn unsorted_cells_are_rejected() {
    let good = frame(1, &commit(claim(&[cell(1, "p", b"a"), cell(1, "p", b"b")], &[], Vec::new())));
    let mut content = good[8..].to_vec();
    // Position before the number of ranges and of dropped tables, and whether there are deltas.
    let last = content.len() - 10;
    content[last] = b'a';
    let mut unsorted = claim(&[], &[], Vec::new());
    unsorted.cells = Cells::from_sorted([cell(1, "p", b"b"), cell(1, "p", b"a")].iter());
    assert!(encode(1, &commit(unsorted), &mut BytesMut::new()).is_err(), "nor are they sent");
    let twice = decode(&framed(&content)).unwrap_err();
    assert_eq!(twice, Malformed("cells of a claim that are not in key order"));
}

#[test]
fn damaged_frames_are_rejected_or_decode_exactly() {
    let good: Vec<Bytes> = examples().iter().map(|message| frame(77, message)).collect();
    for seed in 0..20_000 {
        let mut rng = SeededRng::new(seed);
        let below = |rng: &mut SeededRng, bound: usize| {
            usize::try_from(rng.below(bound.max(1) as u64)).unwrap()
        };
        let mut content = good[below(&mut rng, good.len())][8..].to_vec();
        if rng.chance(200) {
            content = (0..rng.below(60)).map(|_| rng.next_u64().to_be_bytes()[0]).collect();
        } else if rng.chance(300) {
            content.truncate(below(&mut rng, content.len()));
        }
        for _ in 0..rng.below(4) {
            let place = below(&mut rng, content.len());
            if let Some(byte) = content.get_mut(place) {
                *byte = if rng.chance(500) { *byte ^ 1 << rng.below(8) } else { 0xff };
            }
        }
        let bytes = framed(&content);
        if let Ok(decoded) = decode(&bytes) {
            assert_eq!(frame(decoded.id, &decoded.message), bytes, "seed {seed}");
        }
        // Damage inside the envelope is rejected by the checksum.
        let mut flipped = good[below(&mut rng, good.len())].to_vec();
        let place = below(&mut rng, flipped.len());
        flipped[place] ^= 1 << rng.below(8);
        assert!(decode(&flipped.into()).is_err(), "seed {seed}");
    }
}

prop_compose! {
    fn any_cell()(
        table in 0_u32..3,
        partition in "[a-c]{1,3}",
        clustering in vec(any::<u8>(), 0..20),
    ) -> CellKey {
        cell(table, &partition, &clustering)
    }
}

fn any_bound(table: u32) -> impl Strategy<Value = Bound<CellKey>> {
    let key = (("[a-c]{1,3}"), vec(any::<u8>(), 0..20));
    prop_oneof![
        Just(Bound::Unbounded),
        key.clone().prop_map(move |(p, c)| Bound::Included(cell(table, &p, &c))),
        key.prop_map(move |(p, c)| Bound::Excluded(cell(table, &p, &c))),
    ]
}

prop_compose! {
    fn any_range()(table in 0_u32..3)(
        table in Just(table),
        lower in any_bound(table),
        upper in any_bound(table),
    ) -> KeyRange {
        KeyRange { table: TableId(table), lower, upper }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn every_claim_round_trips(
        cells in vec(any_cell(), 0..30),
        points in vec(any::<u64>(), 0..30),
        ranges in vec(any_range(), 0..10),
        id in any::<u64>(),
    ) {
        let message = commit(claim(&cells, &points, ranges));
        let decoded = decode(&frame(id, &message)).unwrap();
        prop_assert_eq!(decoded.id, id);
        prop_assert_eq!(format!("{:?}", decoded.message), format!("{message:?}"));
    }
}
