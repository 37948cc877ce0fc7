use std::task::Waker;
use std::thread;

use carnet_base::block_on;

use super::*;

const PAGE: usize = 4096;

fn written(disk: &SimDisk, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create("a").unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

#[test]
fn synced_bytes_and_names_survive_every_crash() {
    let disk = SimDisk::new(1);
    written(&disk, b"kept").sync_data().unwrap();
    disk.sync_dir().unwrap();
    for seed in 0..100 {
        let after = disk.crash(&mut SeededRng::new(seed));
        assert_eq!(after.contents("a").as_deref(), Some(&b"kept"[..]), "seed {seed}");
    }
}

#[test]
fn unsynced_bytes_and_names_survive_some_crashes_only() {
    let disk = SimDisk::new(1);
    written(&disk, &[7; 3 * PAGE]);
    let outcomes: Vec<_> =
        (0..200).map(|seed| disk.crash(&mut SeededRng::new(seed)).contents("a")).collect();
    assert!(outcomes.contains(&None), "the name must get lost");
    assert!(outcomes.contains(&Some(vec![7; 3 * PAGE])), "everything must survive");
    let hole = outcomes
        .iter()
        .flatten()
        .any(|bytes| bytes.len() == 3 * PAGE && bytes[0] == 0 && bytes[2 * PAGE] == 7);
    assert!(hole, "a later page must survive an earlier one");
}

#[test]
fn failed_sync_loses_bytes_for_good() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"lost");
    disk.sync_dir().unwrap();
    disk.fail_at(disk.operations() + 1, io::ErrorKind::Other);
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    let after = disk.crash(&mut SeededRng::new(3)).contents("a").unwrap();
    assert!(after.iter().all(|&byte| byte == 0));
}

#[test]
fn operations_fail_after_power_failure() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"x");
    disk.halt_at(disk.operations() + 1);
    assert!(file.sync_data().is_err());
    assert!(file.write_at(b"y", 0).is_err());
    assert!(disk.list().is_err());
    assert_eq!(disk.contents("a").as_deref(), Some(&b"x"[..]));
}

fn poll(read: &mut ReadFuture) -> Poll<io::Result<Bytes>> {
    read.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn read_of_held_disk_is_pending_until_resume() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"old");
    disk.hold();
    let before = disk.count(Kind::Read);
    let mut waits = Arc::clone(&file).read(0, 3);
    let is_cancelled = Arc::clone(&file).read(0, 3);
    assert!(poll(&mut waits).is_pending());
    assert_eq!((disk.held_operations(), disk.count(Kind::Read)), (2, before));
    drop(is_cancelled);
    assert_eq!(disk.held_operations(), 1);
    thread::scope(|scope| {
        scope.spawn(|| disk.resume());
        assert_eq!(block_on(waits).unwrap(), "old");
    });
    assert_eq!((disk.held_operations(), disk.count(Kind::Read)), (0, before + 1));
}

#[test]
fn pending_read_of_dropped_disk_is_an_error() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"x");
    disk.hold();
    let read = Arc::clone(&file).read(0, 1);
    drop((file, disk));
    assert!(block_on(read).is_err());
}

#[test]
fn delayed_reads_replay_from_the_seed() {
    let lateness = || {
        let disk = SimDisk::new(5);
        let file = written(&disk, b"x");
        disk.stall_reads(500, 3);
        let polls = |_| {
            let mut read = Arc::clone(&file).read(0, 1);
            (0..).find(|_| poll(&mut read).is_ready()).unwrap()
        };
        (0..50).map(polls).collect::<Vec<u32>>()
    };
    let first = lateness();
    assert_eq!(first, lateness());
    assert!(first.contains(&0) && first.contains(&3) && !first.contains(&4), "{first:?}");
}

#[test]
fn operations_are_counted_and_fail_by_kind() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"abc");
    let kinds = [Kind::Read, Kind::Write, Kind::Sync, Kind::SyncDirectory, Kind::Create];
    let counts = || kinds.map(|kind| disk.count(kind));
    assert_eq!(counts(), [0, 1, 0, 0, 1]);
    disk.fail_nth(Kind::Read, 2, io::ErrorKind::TimedOut);
    disk.fail_nth(Kind::Sync, 1, io::ErrorKind::Other);
    disk.fail_nth(Kind::Write, 3, io::ErrorKind::WriteZero);
    assert_eq!(block_on(Arc::clone(&file).read(0, 9)).unwrap(), "abc");
    let error = block_on(Arc::clone(&file).read(0, 9)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(file.read_at(&mut [0; 9], 1).unwrap(), 2);
    let mut pieces = [IoSlice::new(b"d"), IoSlice::new(b"e")];
    file.write_vectored_at(&mut pieces, 3).unwrap();
    assert_eq!(file.preallocate(9).unwrap_err().kind(), io::ErrorKind::WriteZero);
    assert!(file.sync_data().is_err());
    disk.sync_dir().unwrap();
    assert_eq!(counts(), [3, 3, 1, 1, 1]);
    assert_eq!((disk.operations(), disk.syncs()), (9, 2));
}

#[test]
fn full_disk_writes_the_part_that_fits() {
    let disk = SimDisk::new(1);
    let file = written(&disk, &[1; 100]);
    let other = disk.create("b").unwrap();
    disk.full_at_bytes(150);
    let error = other.write_at(&[2; 60], 0).unwrap_err();
    assert_eq!((error.kind(), other.len().unwrap()), (io::ErrorKind::StorageFull, 50));
    file.write_at(&[3; 100], 0).unwrap();
    assert_eq!(file.preallocate(101).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.remove("a").unwrap();
    other.write_at(&[2; 100], 50).unwrap();
    assert!(other.write_at(&[2], 150).is_err());
}

#[test]
fn preallocated_zeros_need_a_sync() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"begin");
    file.sync_data().unwrap();
    disk.sync_dir().unwrap();
    file.preallocate(3 * PAGE as u64).unwrap();
    let lens = |disk: &SimDisk| -> Vec<_> {
        let crash = |seed| disk.crash(&mut SeededRng::new(seed)).contents("a").unwrap().len();
        (0..100).map(crash).collect()
    };
    let unsynced = lens(&disk);
    assert!(unsynced.contains(&5) && unsynced.contains(&(3 * PAGE)), "{unsynced:?}");
    file.sync_data().unwrap();
    assert!(lens(&disk).iter().all(|&len| len == 3 * PAGE));
}

#[test]
fn vectored_write_is_torn_between_pages() {
    let disk = SimDisk::new(1);
    let file = written(&disk, b"");
    disk.sync_dir().unwrap();
    let [one, two] = [[1; PAGE], [2; PAGE]];
    file.write_vectored_at(&mut [IoSlice::new(&one), IoSlice::new(&two)], 0).unwrap();
    let second_alone = (0..100).any(|seed| {
        let left = disk.crash(&mut SeededRng::new(seed)).contents("a").unwrap();
        left.len() == 2 * PAGE && left[0] == 0 && left[PAGE] == 2
    });
    assert!(second_alone, "a later page must survive an earlier one");
}

#[test]
fn link_is_durable_after_directory_sync() {
    let bytes: Vec<_> = (0..600_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let linked = |faults: &dyn Fn(&SimDisk)| {
        let [from, to] = [1, 2].map(SimDisk::new);
        written(&from, &bytes);
        faults(&to);
        let outcome = from.link("a", &to).and_then(|()| to.sync_dir());
        (outcome, to)
    };
    let (outcome, to) = linked(&|_| {});
    outcome.unwrap();
    for seed in 0..50 {
        let left = to.crash(&mut SeededRng::new(seed)).contents("a");
        assert_eq!(left.as_deref(), Some(&bytes[..]), "seed {seed}");
    }
    for step in 1..=to.operations() {
        let (outcome, to) = linked(&|to| to.halt_at(step));
        assert!(outcome.is_err(), "step {step}");
        let left = to.crash(&mut SeededRng::new(step)).contents("a").unwrap_or_default();
        assert!(left.len() <= bytes.len(), "step {step}");
    }
    // Without the sync of the directory the name can be lost.
    let (from, to) = (SimDisk::new(1), SimDisk::new(2));
    written(&from, &bytes);
    from.link("a", &to).unwrap();
    assert!((0..50).any(|seed| to.crash(&mut SeededRng::new(seed)).contents("a").is_none()));
}
