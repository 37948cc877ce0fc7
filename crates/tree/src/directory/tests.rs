use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{ErrorKind, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, block_on};

use super::sim_files::SimFiles;
use super::*;
use crate::options::Shape;
use crate::sim::SimTimer;

fn key(number: u64) -> Bytes {
    Bytes::from(format!("k{number}"))
}

/// Small nodes, so that a few keys need many; no retries, because a failed disk stays failed.
fn options() -> Options {
    let shape =
        Shape { buffer_bytes: 60, run_bytes_max: 60, leaf_bytes_max: 40, inline_bytes_max: 8 };
    Options { shape, cache_bytes: 2000, retry_timeout: Duration::ZERO, ..Options::default() }
}

fn open(files: &SimFiles, seed: u64) -> Result<(Directory, Tree<Directory, Directory>)> {
    let directory = Directory::on(Arc::new(files.clone()), Pool::default());
    let rng = Box::new(SeededRng::new(seed));
    let tree = block_on(directory.tree(Arc::new(SimTimer::default()), rng, options()))?;
    Ok((directory, tree))
}

/// Writes until the disk fails. Records the possible values of each key; the acknowledged one is
/// first.
fn work(
    files: &SimFiles,
    seed: u64,
    known: &mut BTreeMap<Bytes, Vec<Option<Bytes>>>,
) -> Result<()> {
    let mut rng = SeededRng::new(seed);
    let (directory, tree) = open(files, seed)?;
    for n in 0..40 {
        let key = key(rng.below(12));
        let value = rng.chance(800).then(|| Bytes::from(format!("{seed}.{n:06}")));
        let may_be = known.entry(key.clone()).or_insert_with(|| vec![None]);
        may_be.push(value.clone());
        block_on(tree.update(Vec::new(), move |view| match &value {
            Some(value) => view.put(key.clone(), value.clone()),
            None => view.delete(key.clone()),
        }))?;
        may_be.drain(..may_be.len() - 1);
        if n % 9 == 8 {
            block_on(directory.collect_garbage())?;
        }
    }
    Ok(())
}

/// Checks that every key has a possible value, and keeps only that one.
fn check(files: &SimFiles, known: &mut BTreeMap<Bytes, Vec<Option<Bytes>>>, story: &str) {
    let (_, tree) = open(files, 999).unwrap();
    for (key, may_be) in known {
        let found = block_on(tree.get(key.clone()));
        let found = found.unwrap_or_else(|error| panic!("{story}: {key:?}: {error}"));
        assert!(may_be.contains(&found), "{story}: {key:?} is {found:?}, not of {may_be:?}");
        *may_be = vec![found];
    }
}

#[test]
fn loss_of_power_keeps_acknowledged_writes() {
    let whole = SimFiles::default();
    work(&whole, 1, &mut BTreeMap::new()).unwrap();
    let operations = whole.operations();
    assert!(operations > 200);
    for halt in 1..=operations {
        for way in 0..4 {
            let story = format!("power lost at operation {halt}, way {way}");
            let mut rng = SeededRng::new(halt * 4 + way);
            let (files, mut known) = (SimFiles::default(), BTreeMap::new());
            files.halt_at(halt);
            assert!(work(&files, 1, &mut known).is_err() || halt == operations);
            let files = files.crash(&mut rng);
            check(&files, &mut known, &story);
            // The tree continues from there, with garbage of the crashed transactor.
            work(&files, 2, &mut known).unwrap();
            let left = block_on(open(&files, 3).unwrap().0.collect_garbage()).unwrap();
            assert_eq!(left.spared, 0, "{story}: nodes of ended writers are removed");
            check(&files.crash(&mut rng), &mut known, &story);
        }
    }
}

#[test]
fn disk_errors_never_cause_wrong_answers() {
    let whole = SimFiles::default();
    work(&whole, 1, &mut BTreeMap::new()).unwrap();
    for fail in 1..=whole.operations() {
        let mut rng = SeededRng::new(fail);
        let (files, mut known) = (SimFiles::default(), BTreeMap::new());
        files.fail_at(fail);
        let _ = work(&files, 1, &mut known);
        check(&files.crash(&mut rng), &mut known, &format!("operation {fail} failed"));
    }
}

#[test]
fn foreign_root_is_synced_before_use() {
    let files = SimFiles::default();
    let (_, reader) = open(&files, 1).unwrap();
    assert_eq!(block_on(reader.get(key(1))).unwrap(), None);
    let (_, writer) = open(&files, 2).unwrap();
    block_on(writer.put(key(1), Bytes::from_static(b"a"))).unwrap();
    // The second move fails between the rename and the sync of its name.
    let (mut seen, mut missed) = (0, 0);
    for n in 0..20 {
        let (_, writer) = open(&files, 3 + n).unwrap();
        let value = Bytes::from(format!("v{n}"));
        files.fail_at(files.operations() + 1 + n);
        let _ = block_on(writer.put(key(1), value.clone()));
        files.fail_at(0);
        let (_, reader) = open(&files, 100 + n).unwrap();
        let told = block_on(reader.get(key(1))).unwrap();
        for way in 0..8 {
            let (_, after) = open(&files.crash(&mut SeededRng::new(way)), 7).unwrap();
            let after = block_on(after.get(key(1))).unwrap();
            assert_eq!(after, told, "operation {} after the open failed", 1 + n);
        }
        seen += usize::from(told == Some(value.clone()));
        missed += usize::from(told != Some(value));
    }
    assert!(seen > 0 && missed > 0, "{seen} moves took place and {missed} did not");
}

#[test]
fn garbage_collection_spares_nodes_of_live_writers() {
    let files = SimFiles::default();
    let (directory, tree) = open(&files, 1).unwrap();
    for n in 0..30 {
        block_on(tree.put(key(n % 12), Bytes::from(format!("a long value {n}")))).unwrap();
    }
    let before = block_on(directory.collect_garbage()).unwrap();
    assert!(before.removed > 20 && before.reachable > 0 && before.spared == 0, "{before:?}");
    // A node of an attempt that has not moved the root yet.
    let made = NodeId::new(tree.transactor(), crate::id::Attempt(1_000), 0).unwrap();
    block_on(directory.put(made, Bytes::from_static(b"underway"))).unwrap();
    let beside = block_on(directory.collect_garbage()).unwrap();
    assert_eq!((beside.removed, beside.spared), (0, 1));
    assert!(block_on(directory.get(made)).unwrap().is_some());
    drop(tree);
    let after = block_on(directory.collect_garbage()).unwrap();
    assert_eq!((after.removed, after.spared), (1, 0));
    // The last round of 12 wrote the numbers 18 to 29.
    let last = |n: u64| vec![Some(Bytes::from(format!("a long value {n}")))];
    let mut known = (18..30).map(|n| (key(n % 12), last(n))).collect();
    check(&files, &mut known, "after the collection");
}

#[test]
fn garbage_collection_keeps_nodes_of_the_durable_root() {
    let mut collections = 0;
    for n in 0..60 {
        let files = SimFiles::default();
        let (_, writer) = open(&files, 1).unwrap();
        let mut known: BTreeMap<Bytes, Vec<Option<Bytes>>> = BTreeMap::new();
        for m in 0..12 {
            let value = Bytes::from(format!("a long value {m}"));
            block_on(writer.put(key(m), value.clone())).unwrap();
            known.insert(key(m), vec![Some(value)]);
        }
        // The disk fails during a move; in one case between the rename and its sync.
        let (_, failing) = open(&files, 2).unwrap();
        files.fail_at(files.operations() + 1 + n);
        for m in 0..12 {
            let value = Bytes::from(format!("another long value {m}"));
            known.get_mut(&key(m)).unwrap().push(Some(value.clone()));
            if block_on(failing.put(key(m), value)).is_err() {
                break;
            }
            known.get_mut(&key(m)).unwrap().remove(0);
        }
        files.fail_at(0);
        // Another process, without knowledge of the failure.
        let other = Directory::on(Arc::new(files.clone()), Pool::default());
        collections += usize::from(block_on(other.collect_garbage()).is_ok());
        for way in 0..8 {
            let files = files.crash(&mut SeededRng::new(n * 8 + way));
            check(&files, &mut known.clone(), &format!("operation {n} failed, way {way}"));
        }
    }
    assert!(collections > 30, "{collections} collections");
}

#[test]
fn reader_restarts_after_its_nodes_were_collected() {
    let files = SimFiles::default();
    let patient =
        Options { retry_timeout: Duration::from_secs(1), verify_reads: false, ..options() };
    let (directory, writer) = open(&files, 1).unwrap();
    let clock: Arc<SystemClock> = Arc::default();
    let timer = Arc::new(ThreadTimer::new(clock, &ThreadSpawn));
    let options = Options { missing_wait: Duration::from_millis(1), cache_bytes: 0, ..patient };
    let rng = Box::new(SeededRng::new(2));
    let reader = block_on(directory.tree(timer, rng, options)).unwrap();
    for round in 0..3 {
        for n in 0..12 {
            block_on(writer.put(key(n), Bytes::from(format!("value {n} of {round}")))).unwrap();
        }
        // The first read caches this root; in later rounds it is stale until nodes are removed.
        let removed = block_on(directory.collect_garbage()).unwrap().removed;
        assert!(removed > 0);
        for n in 0..12 {
            let value = block_on(reader.get(key(n))).unwrap().unwrap();
            assert!(value.starts_with(format!("value {n} of").as_bytes()), "{value:?}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "each thread stands for a process")]
fn processes_share_a_directory() {
    let path = tempfile::tempdir().unwrap();
    let count = 20;
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let path = path.path().to_owned();
            std::thread::spawn(move || {
                let clock: Arc<SystemClock> = Arc::default();
                let timer = Arc::new(ThreadTimer::new(clock, &ThreadSpawn));
                let directory = Directory::open(&path, &ThreadSpawn).unwrap();
                let rng = Box::new(SeededRng::new(seed));
                let options = Options { retry_timeout: Duration::from_secs(60), ..options() };
                let tree = block_on(directory.tree(timer, rng, options)).unwrap();
                for n in 0..count {
                    let add = move |view: &mut crate::View<'_>| {
                        let value = view.get(b"sum")?;
                        let sum = value.map_or(0, |value| {
                            String::from_utf8_lossy(&value).parse::<u64>().unwrap()
                        });
                        view.put(key(sum), vec![b'v'; 100])?;
                        view.put("sum", (sum + 1).to_string())
                    };
                    block_on(tree.update(vec![Bytes::from_static(b"sum")], add)).unwrap();
                    if n % 8 == seed {
                        match block_on(directory.collect_garbage()) {
                            Ok(_) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let clock: Arc<SystemClock> = Arc::default();
    let timer = Arc::new(ThreadTimer::new(clock, &ThreadSpawn));
    let directory = Directory::open(path.path(), &ThreadSpawn).unwrap();
    let rng = Box::new(SeededRng::new(77));
    let tree = block_on(directory.tree(timer, rng, Options::default())).unwrap();
    let sum = block_on(tree.get(Bytes::from_static(b"sum"))).unwrap();
    assert_eq!(sum, Some(Bytes::from((3 * count).to_string())));
    for n in 0..3 * count {
        assert_eq!(block_on(tree.get(key(n))).unwrap().unwrap().len(), 100);
    }
    assert_eq!(block_on(directory.collect_garbage()).unwrap().spared, 0);
}
