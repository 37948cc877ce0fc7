//! Reads beside changes by another handle of the same transaction.

use std::sync::{Arc, Mutex};

use carnet_base::{
    Bytes, Call, CellKey, ColumnId, KeyRange, PageLimit, PartitionKey, TableId, Timestamp, Version,
    block_on,
};
use carnet_data::row::{Change, RowDelta, RowImage};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, MemoryStore,
    Outcome, RangeRequest,
};
use carnet_txn::{CommitChecker, Entry, Isolation, Transaction};

type Hook = Box<dyn FnOnce() + Send>;

/// A store that calls a hook during its next read.
struct Hooked {
    store: MemoryStore,
    hook: Mutex<Option<Hook>>,
}

impl Hooked {
    fn read(&self) {
        let hook = self.hook.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
    }
}

impl CellStore for Hooked {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        self.read();
        self.store.get(context, key, at)
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        self.read();
        self.store.range(context, request)
    }

    fn is_delta(&self, table: TableId, version: &Version) -> bool {
        self.store.is_delta(table, version)
    }
}

impl CommitLog for Hooked {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.store.begin(context, kind)
    }

    fn takes_delta(&self, key: &CellKey) -> bool {
        self.store.takes_delta(key)
    }

    fn end(&self, begun: Begun) {
        self.store.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        self.store.commit(context, request)
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        self.store.outcome(context, start)
    }

    fn published(&self) -> Timestamp {
        self.store.published()
    }
}

const TABLE: TableId = TableId(1 << 20);
const COLUMN: ColumnId = ColumnId(4);

fn key(number: u8) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new("p"), [number])
}

fn added(amount: i64) -> RowDelta {
    let mut delta = RowDelta::new(1);
    delta.change(COLUMN, Change::Added(amount));
    delta
}

fn begin() -> (Arc<Hooked>, Transaction) {
    let store = MemoryStore::new(Box::new(CommitChecker::starting_at(Timestamp::ZERO)));
    store.row_tables().set_raw([]);
    let store = Arc::new(Hooked { store, hook: Mutex::default() });
    let transaction = Transaction::begin(
        Arc::clone(&store),
        Context::unbounded(),
        BeginKind::ReadWrite,
        Isolation::StrictSerializable,
    );
    (store, block_on(transaction).unwrap())
}

/// Lets another handle change a row during the next read of the store.
fn change_beside(store: &Hooked, transaction: &Transaction, number: u8) {
    let other = transaction.with_context(Context::unbounded());
    let hook = move || assert!(other.change(&key(number), &added(5)).unwrap());
    *store.hook.lock().unwrap() = Some(Box::new(hook));
}

/// Returns the counter in a row's image; a raw delta is no image.
fn count(payload: &Bytes) -> i64 {
    let image = RowImage::decode(payload).unwrap();
    i64::from_be_bytes(image.value(COLUMN).unwrap()[..].try_into().unwrap())
}

#[test]
fn page_beside_a_change_has_no_raw_delta() {
    let (store, transaction) = begin();
    change_beside(&store, &transaction, 1);
    let limit = PageLimit { cells: 10, bytes: usize::MAX };
    let page = block_on(transaction.range(&KeyRange::table(TABLE), false, limit)).unwrap();
    let counts: Vec<i64> =
        page.cells.iter().map(|cell| count(&Bytes::copy_from_slice(cell.payload))).collect();
    assert_eq!(counts, [5]);
}

#[test]
fn reads_beside_a_change_have_no_raw_delta() {
    let (store, transaction) = begin();
    assert!(transaction.change(&key(1), &added(2)).unwrap());
    change_beside(&store, &transaction, 2);
    let keys = [key(1), key(2)];
    let entries = block_on(transaction.get_many(&keys, usize::MAX)).unwrap();
    let count_of = |entry: &Option<Entry>| entry.as_ref().map(|entry| count(&entry.payload));
    let counts: Vec<_> = entries.iter().map(count_of).collect();
    assert_eq!(counts, [Some(2), Some(5)]);
}
