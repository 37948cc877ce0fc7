//! Tests of labels.

use carnet_base::{Encoding, ErrorKind, Rng, SeededRng};

use super::*;

pub(in super::super) fn label() -> Label {
    let at = |number| Timestamp::new(number).unwrap();
    let point = |renewal| LeasePoint { epoch: Epoch(7), renewal };
    Label {
        id: 0x5f0c_83a1_b2c3_d4e5,
        store: "cassandra://10.0.0.1/bank".to_owned(),
        commit: at(12_345),
        bound: at(20_000_001),
        leases: (point(112), point(140)),
        fence_from: at(12_001),
        marks: Marks { versions: at(9000), entries: at(8000), entries_from: at(7500), hold: None },
        map: EncodingMap::starting_with(Encoding::V3, at(30_000_000)),
        tables: [1, 2, 1000].map(TableId).to_vec(),
        new_tables: Vec::new(),
        walls: (WallTime(1_790_000_000_000_000), WallTime(1_790_000_060_000_000)),
        program: "0.1.0".to_owned(),
    }
}

#[test]
fn label_round_trips_through_text() {
    let text = label().encode();
    assert!(text.starts_with("carnet cluster backup 1\nid 5f0c83a1b2c3d4e5\n"), "{text}");
    assert!(text.contains("\nlease 7 112 7 140\n") && text.contains("\nnew-tables\n"), "{text}");
    assert_eq!(Label::decode(text.as_bytes()).unwrap(), label());
    let more = Label { new_tables: vec![TableId(9)], store: "a\nb".to_owned(), ..label() };
    let back = Label::decode(more.encode().as_bytes()).unwrap();
    assert_eq!((back.new_tables, &*back.store), (vec![TableId(9)], "a b"));
    let newer = text.replacen("backup 1", "backup 2", 1);
    assert_eq!(Label::decode(newer.as_bytes()).unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A leader may store a raised bound before it extends the map; it extends the map before it
/// uses the new bound.
#[test]
fn a_bound_may_lie_beyond_the_map() {
    let beyond = Label { bound: Timestamp::new(40_000_000).unwrap(), ..label() };
    assert_eq!(Label::decode(beyond.encode().as_bytes()).unwrap(), beyond);
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    let at = |number| Timestamp::new(number).unwrap();
    for wrong in [
        Label { commit: at(20_000_001), ..label() },
        Label { fence_from: at(20_000_002), ..label() },
        Label { bound: at(1 << 45), ..label() },
        Label {
            leases: (label().leases.0, LeasePoint { epoch: Epoch(u64::MAX), renewal: 0 }),
            ..label()
        },
        Label { leases: (label().leases.1, label().leases.0), ..label() },
        Label { marks: Marks { versions: at(12_346), ..label().marks }, ..label() },
    ] {
        assert!(Label::decode(wrong.encode().as_bytes()).is_err(), "{wrong:?}");
    }
}

#[test]
fn damaged_label_is_rejected() {
    let good = label().encode().into_bytes();
    for seed in 0..10_000 {
        let mut rng = SeededRng::new(seed);
        let mut bytes = good.clone();
        for _ in 0..=rng.below(3) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            match rng.below(3) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, rng.next_u64().to_le_bytes()[0]),
            }
        }
        if let Ok(read) = Label::decode(&bytes) {
            assert_eq!(read, label(), "seed {seed}");
        }
        // Any content, even with a correct checksum.
        bytes.truncate(bytes.len().saturating_sub(13));
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(format!("end {sum:08x}\n").bytes());
        let _ = Label::decode(&bytes);
    }
}
