//! Entries of a restored copy are overwritten, and read back.

use std::sync::Arc;

use carnet_base::{ErrorKind, SystemClock, block_on};
use carnet_store::cluster::{
    CommitRow, CommitRows, CommitTable, NewEntry, Overwrite, RestoredRows, RowAnswer,
};
use carnet_store_cql::CqlCluster;

use crate::keyspace::keyspace;

fn overwrite(column: &'static str, expected: Option<&'static str>) -> Overwrite {
    Overwrite {
        column: column.into(),
        expected: expected.map(Into::into),
        staged: "A".into(),
        confirmed: (column != "c").then(|| "A".into()),
    }
}

#[test]
fn entries_are_overwritten_atomically_if_as_expected() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    for table in [CommitTable::V2, CommitTable::V3] {
        let row = CommitRow { table, row: "restored".into() };
        let entry = |column: &'static str, value: &'static str| NewEntry {
            column: column.into(),
            value: value.into(),
        };
        let put = [entry("a", "1"), entry("c", "3")];
        assert_eq!(
            block_on(cluster.put_unless_exists(&row, None, &put)).unwrap(),
            RowAnswer::Applied
        );
        block_on(cluster.confirm(&row, &put)).unwrap();
        // One replica had `c` and no `s`.
        block_on(cluster.confirm(&row, &[entry("b", "2")])).unwrap();
        let over = |entries: &[Overwrite]| block_on(cluster.overwrite(&row, entries)).unwrap();
        for wrong in [overwrite("a", Some("2")), overwrite("a", None)] {
            let answer = over(&[overwrite("c", Some("3")), wrong]);
            assert!(matches!(answer, RowAnswer::Refused { .. }), "{answer:?}");
        }
        let all = [overwrite("a", Some("1")), overwrite("b", None), overwrite("c", Some("3"))];
        assert_eq!(over(&all), RowAnswer::Applied);
        let page = block_on(cluster.scan_replicas(&row, None, 10)).unwrap();
        let seen = page.entries.iter().map(|entry| {
            let value = |bytes: &Option<carnet_base::Bytes>| bytes.as_deref() == Some(b"A");
            (&entry.column[..], value(&entry.staged), value(&entry.confirmed))
        });
        let wanted = [(&b"a"[..], true, true), (b"b", true, true), (b"c", true, false)];
        assert_eq!(seen.collect::<Vec<_>>(), wanted);
        assert!(page.entries[2].confirmed.is_none());
    }
}

#[test]
fn keyspace_without_a_database_stays_unchanged() {
    let Some(keyspace) = keyspace() else { return };
    let connect =
        || block_on(CqlCluster::connect_to_existing(&keyspace.options, Arc::new(SystemClock)));
    let error = connect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    keyspace.connect();
    connect().unwrap();
}
