//! A reader beside a sweep that stamps a version and deletes its entry between the reader's two
//! reads, while newer versions appear.

use std::collections::BTreeMap;
use std::sync::Mutex;

use carnet_base::{
    Bytes, Call, CellKey, Error, PartitionKey, TableId, Timestamp, Version, block_on,
};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, Outcome,
    RangeRequest,
};
use carnet_txn::reader;

const READ: u64 = 50;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn cell() -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new("p"), "c")
}

/// One cell, its versions as S → C. A lookup of an outcome comes too late: the entry is gone, and
/// the cell meanwhile has the versions of `later`.
struct Swept {
    versions: Mutex<BTreeMap<u64, Option<u64>>>,
    later: BTreeMap<u64, Option<u64>>,
}

impl Swept {
    fn new<const N: usize, const M: usize>(
        versions: [(u64, Option<u64>); N],
        later: [(u64, Option<u64>); M],
    ) -> Self {
        Self { versions: Mutex::new(versions.into()), later: later.into() }
    }

    fn read(&self) -> Option<Timestamp> {
        let (context, cell) = (Context::unbounded(), cell());
        let read = reader::read(self, &context, &cell, at(READ));
        block_on(read).unwrap().map(|version| version.start)
    }

    /// Resolves the newest candidate, like a range read does for the cells of its page.
    fn resolve(&self) -> Option<Timestamp> {
        let (context, cell) = (Context::unbounded(), cell());
        let newest = block_on(self.get(&context, &cell, At::snapshot(at(READ)))).unwrap();
        let resolved = reader::resolve(self, &context, &cell, newest.unwrap(), at(READ));
        block_on(resolved).unwrap().map(|version| version.start)
    }
}

impl CellStore for Swept {
    fn get<'a>(&'a self, _: &'a Context, _: &'a CellKey, wanted: At) -> Call<'a, Option<Version>> {
        let versions = self.versions.lock().unwrap();
        let found = versions.iter().rev().map(|(start, commit)| Version {
            start: at(*start),
            commit: commit.map(at),
            payload: Some(Bytes::from_static(b"v")),
        });
        Call::ready(Ok(found.into_iter().find(|version| wanted.admits(version))))
    }

    fn range<'a>(&'a self, _: &'a Context, _: &'a RangeRequest) -> Call<'a, CandidatePage> {
        Call::ready(Err(Error::unsupported("ranges of this store")))
    }
}

impl CommitLog for Swept {
    fn begin<'a>(&'a self, _: &'a Context, _: BeginKind) -> Call<'a, Begun> {
        Call::ready(Err(Error::unsupported("transactions on this store")))
    }

    fn end(&self, _: Begun) {}

    fn commit<'a>(&'a self, _: &'a Context, _: CommitRequest) -> Call<'a, Timestamp> {
        Call::ready(Err(Error::unsupported("transactions on this store")))
    }

    fn outcome<'a>(&'a self, _: &'a Context, _: Timestamp) -> Call<'a, Outcome> {
        self.versions.lock().unwrap().clone_from(&self.later);
        Call::ready(Ok(Outcome::Aborted))
    }

    fn published(&self) -> Timestamp {
        at(READ)
    }
}

/// The version that was looked up is read again, not the newest one. If a newer version were taken
/// for the absence of the older one, the reader would miss a commit below the snapshot.
#[test]
fn newer_version_hides_no_stamp() {
    let store = || {
        let before = [(31, None), (12, Some(14))];
        Swept::new(before, [(40, None), (31, Some(33)), (12, Some(14))])
    };
    assert_eq!(store().read(), Some(at(31)));
    assert_eq!(store().resolve(), Some(at(31)));
}

/// The second read counts only if it returns a stamp of that version.
#[test]
fn missing_and_invisible_versions_are_skipped() {
    let gone = || Swept::new([(31, None), (12, Some(14))], [(12, Some(14))]);
    assert_eq!((gone().read(), gone().resolve()), (Some(at(12)), Some(at(12))));
    for stamp in [None, Some(READ + 2)] {
        let later = [(31, stamp), (12, Some(14))];
        let store = || Swept::new([(31, None), (12, Some(14))], later);
        assert_eq!((store().read(), store().resolve()), (Some(at(12)), Some(at(12))));
    }
}
