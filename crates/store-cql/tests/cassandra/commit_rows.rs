//! Rows of commit entries match a model, and one of several concurrent writers wins.

use std::collections::BTreeSet;
use std::thread;

use carnet_base::{Bytes, Clock, Epoch, Rng, SeededRng, SystemClock, block_on};
use carnet_store::cluster::{
    CommitRow, CommitRows, CommitTable, MemoryCluster, NewEntry, RowAnswer, StoredEntry,
};
use scylla::client::session_builder::SessionBuilder;

use crate::keyspace::keyspace;

fn row(name: &'static str) -> CommitRow {
    CommitRow { table: CommitTable::V3, row: name.into() }
}

fn entry(column: u64, value: u64) -> NewEntry {
    NewEntry { column: Bytes::from(format!("{column:03}")), value: value.to_string().into() }
}

fn sorted(answer: RowAnswer) -> RowAnswer {
    match answer {
        RowAnswer::Refused { epoch, mut existing } => {
            existing.sort_by(|a, b| a.column.cmp(&b.column));
            RowAnswer::Refused { epoch, existing }
        }
        RowAnswer::Applied => RowAnswer::Applied,
    }
}

/// Calls the cluster and the model, and compares their answers.
struct Both<'a, C> {
    cluster: &'a C,
    model: MemoryCluster,
    row: CommitRow,
}

impl<C: CommitRows> Both<'_, C> {
    fn put(&self, fence: Option<Epoch>, entries: &[NewEntry]) -> RowAnswer {
        let asked = block_on(self.cluster.put_unless_exists(&self.row, fence, entries)).unwrap();
        let wanted = block_on(self.model.put_unless_exists(&self.row, fence, entries)).unwrap();
        assert_eq!(sorted(asked), sorted(wanted.clone()), "put {entries:?} behind {fence:?}");
        wanted
    }

    fn touch(&self, entries: &[NewEntry]) {
        let asked = block_on(self.cluster.touch(&self.row, entries)).unwrap();
        let wanted = block_on(self.model.touch(&self.row, entries)).unwrap();
        assert_eq!(sorted(asked), sorted(wanted), "touch {entries:?}");
    }

    fn confirm(&self, entries: &[NewEntry]) {
        block_on(self.cluster.confirm(&self.row, entries)).unwrap();
        block_on(self.model.confirm(&self.row, entries)).unwrap();
    }

    fn delete(&self, columns: &[Bytes]) {
        block_on(self.cluster.delete_entries(&self.row, columns)).unwrap();
        block_on(self.model.delete_entries(&self.row, columns)).unwrap();
    }

    fn move_epoch(&self, from: Option<Epoch>, to: Epoch) {
        let asked = block_on(self.cluster.move_epoch(&self.row, from, to)).unwrap();
        let wanted = block_on(self.model.move_epoch(&self.row, from, to)).unwrap();
        assert_eq!(asked, wanted, "{from:?} → {to:?}");
    }

    fn read(&self, columns: &[Bytes]) {
        let by_column = |a: &StoredEntry, b: &StoredEntry| a.column.cmp(&b.column);
        let mut asked = block_on(self.cluster.read_entries(&self.row, columns)).unwrap();
        let mut wanted = block_on(self.model.read_entries(&self.row, columns)).unwrap();
        asked.sort_by(by_column);
        wanted.sort_by(by_column);
        assert_eq!(asked, wanted);
    }

    fn scan(&self, limit: usize) {
        let mut after = None;
        loop {
            let asked = block_on(self.cluster.scan_entries(&self.row, after.as_ref(), limit));
            let asked = asked.unwrap();
            let wanted = block_on(self.model.scan_entries(&self.row, after.as_ref(), limit));
            assert_eq!(asked, wanted.unwrap());
            match asked.resume_after {
                Some(last) => after = Some(last),
                None => break,
            }
        }
    }
}

#[test]
fn fenced_batch_is_put_atomically() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    for table in [CommitTable::V2, CommitTable::V3] {
        let row = CommitRow { table, row: "story".into() };
        let both = Both { cluster: &cluster, model: MemoryCluster::new(), row };
        let refused = |answer: RowAnswer| assert_ne!(answer, RowAnswer::Applied);
        // There is no epoch yet.
        refused(both.put(Some(Epoch(1)), &[entry(1, 1)]));
        both.move_epoch(Some(Epoch(1)), Epoch(2));
        both.move_epoch(None, Epoch(1));
        assert_eq!(both.put(Some(Epoch(1)), &[entry(3, 3), entry(1, 1)]), RowAnswer::Applied);
        // One of three exists; an old and a future epoch with new and with existing entries.
        refused(both.put(Some(Epoch(1)), &[entry(5, 5), entry(3, 9), entry(2, 2)]));
        both.move_epoch(Some(Epoch(1)), Epoch(2));
        for epoch in [1, 3] {
            refused(both.put(Some(Epoch(epoch)), &[entry(5, 5)]));
            refused(both.put(Some(Epoch(epoch)), &[entry(5, 5), entry(1, 1)]));
        }
        // Without a fence, like a reader.
        assert_eq!(both.put(None, &[entry(7, 7)]), RowAnswer::Applied);
        refused(both.put(None, &[entry(7, 8)]));
        both.touch(&[entry(1, 1), entry(3, 3)]);
        both.touch(&[entry(1, 1), entry(3, 4)]);
        both.touch(&[entry(1, 1), entry(9, 9)]);
        both.touch(&[entry(9, 9)]);
        both.confirm(&[entry(1, 1)]);
        both.touch(&[entry(1, 2), entry(3, 3)]);
        refused(both.put(Some(Epoch(2)), &[entry(1, 1), entry(2, 2)]));
        both.read(&[entry(1, 0).column, entry(2, 0).column, entry(3, 0).column]);
        // Entries are deleted, and the epoch stays.
        both.delete(&[1, 3, 7].map(|column| entry(column, 0).column));
        both.scan(10);
        both.move_epoch(Some(Epoch(2)), Epoch(2));
        assert_eq!(both.put(Some(Epoch(2)), &[entry(1, 5)]), RowAnswer::Applied);
    }
}

#[test]
fn any_sequence_of_calls_answers_as_the_model_does() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let both = Both { cluster: &cluster, model: MemoryCluster::new(), row: row("random") };
    let mut rng = SeededRng::new(11);
    let epoch = |number| (number > 0).then_some(Epoch(number));
    // A confirmation may have no effect after a delete.
    let mut deleted = BTreeSet::new();
    for _ in 0..250 {
        let mut columns: Vec<u64> = (0..=rng.below(4)).map(|_| rng.below(12)).collect();
        columns.sort_unstable();
        columns.dedup();
        // Statements in another order than columns.
        columns.reverse();
        let entries: Vec<NewEntry> =
            columns.iter().map(|column| entry(*column, rng.below(2))).collect();
        let names: Vec<Bytes> = entries.iter().map(|entry| entry.column.clone()).collect();
        match rng.below(12) {
            0..=3 => drop(both.put(epoch(rng.below(3)), &entries)),
            4..=5 => both.touch(&entries),
            6 if deleted.contains(&columns[0]) => both.read(&names),
            6 => both.confirm(&entries[..1]),
            7 => {
                both.delete(&names);
                deleted.extend(columns);
            }
            8 => both.move_epoch(epoch(rng.below(3)), Epoch(1 + rng.below(2))),
            9 => both.scan(1 + usize::try_from(rng.below(5)).unwrap()),
            _ => both.read(&names),
        }
    }
}

#[test]
fn a_thousand_entries_are_put_and_found() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let both = Both { cluster: &cluster, model: MemoryCluster::new(), row: row("many") };
    both.move_epoch(None, Epoch(1));
    let entries: Vec<NewEntry> = (0..1000).map(|column| entry(column, column)).collect();
    assert_eq!(both.put(Some(Epoch(1)), &entries), RowAnswer::Applied);
    assert_ne!(both.put(Some(Epoch(1)), &entries), RowAnswer::Applied);
    both.confirm(&entries);
    let columns: Vec<Bytes> = entries.iter().map(|entry| entry.column.clone()).collect();
    both.read(&columns);
    both.scan(300);
}

#[test]
fn one_of_concurrent_puts_wins_visibly() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let row = row("race");
    block_on(cluster.move_epoch(&row, None, Epoch(1))).unwrap();
    for round in 0..5 {
        let answers: Vec<RowAnswer> = thread::scope(|scope| {
            let (cluster, row) = (&cluster, &row);
            let put = |writer| {
                let entries = [entry(round, writer), entry(100 + 10 * round + writer, writer)];
                scope.spawn(move || {
                    block_on(cluster.put_unless_exists(row, Some(Epoch(1)), &entries)).unwrap()
                })
            };
            let writers: Vec<_> = (0..6).map(put).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let winners: Vec<usize> = (0..6).filter(|n| answers[*n] == RowAnswer::Applied).collect();
        let [winner] = winners[..] else { panic!("round {round}: {answers:?}") };
        for answer in answers.into_iter().filter(|answer| *answer != RowAnswer::Applied) {
            let RowAnswer::Refused { epoch, existing } = answer else { unreachable!() };
            let stored = StoredEntry {
                column: entry(round, 0).column,
                staged: Some(winner.to_string().into()),
                confirmed: None,
            };
            assert_eq!((epoch, existing), (Some(Epoch(1)), vec![stored]), "round {round}");
        }
    }
}

/// A conditional write has the time of a node whose clock is ahead.
#[test]
fn entry_from_a_clock_ahead_is_deleted() {
    const HOUR_MICROS: i64 = 3_600_000_000;
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let (row, entries) = (row("ahead"), [entry(1, 1), entry(2, 2)]);
    block_on(cluster.move_epoch(&row, None, Epoch(1))).unwrap();
    let answer = block_on(cluster.put_unless_exists(&row, Some(Epoch(1)), &entries)).unwrap();
    assert_eq!(answer, RowAnswer::Applied);
    let ahead = SystemClock.wall().0 + HOUR_MICROS;
    let name = &keyspace.options.keyspace;
    let confirm = format!(
        "UPDATE {name}.commits3 USING TIMESTAMP {ahead} SET c = 0x31 WHERE row = 0x{} AND col = 0x{}",
        hex(b"ahead"),
        hex(&entries[0].column),
    );
    run_cql(&keyspace.options.contact_points[0], &confirm);
    let columns = entries.map(|entry| entry.column);
    block_on(cluster.delete_entries(&row, &columns)).unwrap();
    assert_eq!(block_on(cluster.read_entries(&row, &columns)).unwrap(), []);
    // There is no entry.
    block_on(cluster.delete_entries(&row, &columns)).unwrap();
}

/// A reader that was paused may confirm an entry after the sweep has deleted it.
#[test]
fn late_confirmation_does_not_bring_an_entry_back() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let (row, entries) = (row("late"), [entry(1, 1), entry(2, 2)]);
    block_on(cluster.move_epoch(&row, None, Epoch(1))).unwrap();
    let answer = block_on(cluster.put_unless_exists(&row, Some(Epoch(1)), &entries)).unwrap();
    assert_eq!(answer, RowAnswer::Applied);
    block_on(cluster.confirm(&row, &entries[..1])).unwrap();
    let columns = entries.clone().map(|entry| entry.column);
    let stored = block_on(cluster.read_entries(&row, &columns)).unwrap();
    let confirmed: Vec<_> = stored.into_iter().map(|entry| entry.confirmed).collect();
    assert_eq!(confirmed, [Some(entries[0].value.clone()), None]);
    block_on(cluster.delete_entries(&row, &columns)).unwrap();
    block_on(cluster.confirm(&row, &entries)).unwrap();
    assert_eq!(block_on(cluster.read_entries(&row, &columns)).unwrap(), []);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a statement by a driver of its own.
fn run_cql(point: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = SessionBuilder::new().known_node(point).build().await.unwrap();
        session.query_unpaged(text, ()).await.unwrap();
    });
}

#[test]
fn nothing_is_put_behind_a_raised_fence() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let row = row("fence");
    block_on(cluster.move_epoch(&row, None, Epoch(1))).unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer: u64| {
                let (cluster, row) = (&cluster, &row);
                scope.spawn(move || {
                    let mut put = 0;
                    for number in 0..2000 {
                        let entries = [entry(writer * 10_000 + number, number)];
                        let answer = cluster.put_unless_exists(row, Some(Epoch(1)), &entries);
                        match block_on(answer).unwrap() {
                            RowAnswer::Applied => put += 1,
                            RowAnswer::Refused { epoch, .. } => {
                                assert_eq!(epoch, Some(Epoch(2)));
                                return put;
                            }
                        }
                    }
                    panic!("no fence stopped writer {writer}")
                })
            })
            .collect();
        let raised = block_on(cluster.move_epoch(&row, Some(Epoch(1)), Epoch(2))).unwrap();
        assert_eq!(raised, RowAnswer::Applied);
        let at_once = block_on(cluster.scan_entries(&row, None, 10_000)).unwrap().entries.len();
        let put: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(put, at_once, "no entry was added after the fence was raised");
    });
}
