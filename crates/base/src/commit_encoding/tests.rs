//! Golden vectors, and properties of every start timestamp.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::error::{ErrorKind, Result};
use crate::ids::Timestamp;
use crate::testing::{self, unhex};

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn hex(vector: &serde_json::Value, field: &str) -> Option<Vec<u8>> {
    vector[field].as_str().map(unhex)
}

/// Checks that every field of a vector is tested.
fn check_fields(vector: &serde_json::Value, known: &[&str]) {
    for field in vector.as_object().unwrap().keys() {
        assert!(known.contains(&field.as_str()), "the field {field} is not tested");
    }
}

#[test]
fn entries_match_the_golden_vectors() {
    let vectors = testing::vectors("commit_table_vectors.json");
    assert_eq!(vectors["partitioning_quantum"].as_u64(), Some(v2::PARTITIONING_QUANTUM));
    assert_eq!(vectors["rows_per_quantum"].as_u64(), Some(v2::ROWS_PER_QUANTUM));
    for vector in vectors["entries"].as_array().unwrap() {
        check_fields(vector, &["start", "commit", "v1", "v2"]);
        let start = at(vector["start"].as_u64().unwrap());
        let entry = match vector["commit"].as_i64() {
            None => None,
            Some(-1) => Some(CommitEntry::Aborted),
            Some(commit) => Some(CommitEntry::Committed(at(commit.try_into().unwrap()))),
        };
        check_v1(&vector["v1"], start, entry);
        check_v2(&vector["v2"], start, entry);
    }
}

fn check_v1(vector: &serde_json::Value, start: Timestamp, entry: Option<CommitEntry>) {
    check_fields(vector, &["row", "column", "value"]);
    let cell = v1::cell(start);
    assert_eq!(Some(cell.row.to_vec()), hex(vector, "row"));
    assert_eq!(Some(cell.column.to_vec()), hex(vector, "column"));
    assert_eq!(v1::start_of(&cell.row, &cell.column).unwrap(), start);
    assert_eq!(entry.map(|entry| v1::encode(start, entry).unwrap().to_vec()), hex(vector, "value"));
    assert_eq!(hex(vector, "value").map(|value| v1::decode(start, &value).unwrap()), entry);
}

#[test]
fn v3_entries_match_the_golden_vectors() {
    let vectors = testing::vectors("commit_table_v3_vectors.json");
    for vector in vectors["entries"].as_array().unwrap() {
        check_fields(vector, &["start", "commit", "row", "column", "value"]);
        let start = at(vector["start"].as_u64().unwrap());
        let entry = match vector["commit"].as_i64().unwrap() {
            -1 => CommitEntry::Aborted,
            commit => CommitEntry::Committed(at(commit.try_into().unwrap())),
        };
        let cell = Encoding::V3.cell(start);
        assert_eq!(Some(cell.row.to_vec()), hex(vector, "row"));
        assert_eq!(Some(cell.column.to_vec()), hex(vector, "column"));
        assert_eq!(Encoding::V3.start_of(&cell.row, &cell.column).unwrap(), start);
        let value = Encoding::V3.encode(start, entry).unwrap();
        assert_eq!(Some(value.to_vec()), hex(vector, "value"));
        assert_eq!(Encoding::V3.decode(start, &value).unwrap(), entry);
    }
}

#[test]
fn values_of_v2_are_not_values_of_v3() {
    // An abort, or an absent value, of v2 is no value of v3; nor is the tag alone.
    for value in [&b""[..], b"C", b"AA", b"C\x00", &[0], &[1], &[0x80, 0x82]] {
        assert_eq!(v3::decode(at(5), value).unwrap_err().kind(), ErrorKind::Corrupted);
    }
    let versions = [Encoding::V1, Encoding::V2, Encoding::V3];
    for encoding in versions {
        assert_eq!(Encoding::of_version(encoding.version()), Some(encoding));
    }
    assert_eq!((Encoding::of_version(0), Encoding::of_version(4)), (None, None));
}

fn check_v2(vector: &serde_json::Value, start: Timestamp, entry: Option<CommitEntry>) {
    check_fields(vector, &["row_number", "column_number", "row", "column", "value"]);
    let cell = v2::cell(start);
    assert_eq!(Some(cell.row.to_vec()), hex(vector, "row"));
    assert_eq!(Some(cell.column.to_vec()), hex(vector, "column"));
    let number = u64::from_be_bytes(cell.row[..].try_into().unwrap()).reverse_bits();
    assert_eq!(vector["row_number"].as_u64(), Some(number));
    let column = crate::var_long::decode(&cell.column).unwrap();
    assert_eq!(vector["column_number"].as_i64(), Some(column));
    assert_eq!(v2::start_of(&cell.row, &cell.column).unwrap(), start);
    assert_eq!(entry.map(|entry| v2::encode(start, entry).unwrap().to_vec()), hex(vector, "value"));
    assert_eq!(hex(vector, "value").map(|value| v2::decode(start, &value).unwrap()), entry);
}

proptest! {
    #[test]
    fn every_start_has_its_own_cell(start in 0..=Timestamp::MAX.get()) {
        let start = at(start);
        let (one, two) = (v1::cell(start), v2::cell(start));
        prop_assert_eq!(v1::start_of(&one.row, &one.column).unwrap(), start);
        prop_assert_eq!(v2::start_of(&two.row, &two.column).unwrap(), start);
        prop_assert!(v2::rows_of_quantum(v2::quantum_of(start)).contains(&two.row));
    }

    #[test]
    fn entries_round_trip(a in 0..=Timestamp::MAX.get(), b in 0..=Timestamp::MAX.get()) {
        prop_assume!(a != b);
        let (start, commit) = (at(a.min(b)), at(a.max(b)));
        for entry in [CommitEntry::Committed(commit), CommitEntry::Aborted] {
            for encoding in [Encoding::V1, Encoding::V2, Encoding::V3] {
                let value = encoding.encode(start, entry).unwrap();
                prop_assert_eq!(encoding.decode(start, &value).unwrap(), entry);
            }
        }
        // Reversed, nothing may be written.
        let entry = CommitEntry::Committed(start);
        for encoding in [Encoding::V1, Encoding::V2, Encoding::V3] {
            let refused = encoding.encode(commit, entry).unwrap_err();
            prop_assert_eq!(refused.kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn columns_of_a_row_sort_by_start(
        quantum in 0..4_u64, residue in 0..16_u64, a in 0..1_562_500_u64, b in 0..1_562_500_u64,
    ) {
        let start = |place| at(quantum * v2::PARTITIONING_QUANTUM + place * 16 + residue);
        let (left, right) = (v2::cell(start(a)), v2::cell(start(b)));
        prop_assert_eq!(&left.row, &right.row);
        prop_assert_eq!(left.column.cmp(&right.column), a.cmp(&b));
    }
}

#[test]
fn sixteen_rows_hold_exactly_one_quantum() {
    let rows: HashSet<_> = v2::rows_of_quantum(3).into();
    assert_eq!(rows.len(), 16);
    let first = 3 * v2::PARTITIONING_QUANTUM;
    assert!((first..first + 32).all(|start| rows.contains(&v2::cell(at(start)).row)));
    assert!(!rows.contains(&v2::cell(at(first - 1)).row));
    assert!(rows.contains(&v2::cell(at(first + v2::PARTITIONING_QUANTUM - 1)).row));
    assert!(!rows.contains(&v2::cell(at(first + v2::PARTITIONING_QUANTUM)).row));
}

#[test]
fn values_never_written_are_rejected() {
    let start = at(100);
    let bad =
        |result: Result<CommitEntry>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupted);
    bad(v1::decode(start, b""));
    bad(v1::decode(start, &crate::var_long::encode(100)));
    bad(v1::decode(start, &crate::var_long::encode(-2)));
    bad(v2::decode(start, &crate::var_long::encode(0)));
    bad(v2::decode(start, &crate::var_long::encode(-1)));
    bad(v2::decode(Timestamp::MAX, &[1]));
    assert!(v1::start_of(&[1], b"u").is_err());
    assert!(v1::start_of(&crate::var_long::encode(-1), b"t").is_err());
    // A column beyond the quantum, a row number beyond the clock, a row of the wrong length.
    assert!(v2::start_of(&[0; 8], &crate::var_long::encode(1_562_500)).is_err());
    assert!(v2::start_of(&[0xff; 8], &[0]).is_err());
    assert!(v2::start_of(&[0; 7], &[0]).is_err());
}

#[test]
fn decoders_meet_random_bytes() {
    testing::with_seeds(|rng| {
        let start = at(crate::rng::Rng::next_u64(rng) >> 1);
        let (row, column) = (testing::random_bytes(rng, 10), testing::random_bytes(rng, 5));
        if let Ok(start) = v1::start_of(&row, &column) {
            assert_eq!(
                (&v1::cell(start).row[..], &v1::cell(start).column[..]),
                (&row[..], &column[..])
            );
        }
        if let Ok(start) = v2::start_of(&row, &column) {
            assert_eq!(
                (&v2::cell(start).row[..], &v2::cell(start).column[..]),
                (&row[..], &column[..])
            );
        }
        if let Ok(entry) = v1::decode(start, &row) {
            assert_eq!(&v1::encode(start, entry).unwrap()[..], &row[..]);
        }
        if let Ok(entry) = v2::decode(start, &row) {
            assert_eq!(&v2::encode(start, entry).unwrap()[..], &row[..]);
        }
        let tagged = [&b"C"[..], &row].concat();
        for value in [&row, &tagged] {
            if let Ok(entry) = v3::decode(start, value) {
                assert_eq!(&v3::encode(start, entry).unwrap()[..], &value[..]);
            }
        }
    });
}
