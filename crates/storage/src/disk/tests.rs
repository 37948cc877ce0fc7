//! Tests that run on every disk, and tests of the real disk alone.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use carnet_base::{Bytes, Rng, SeededRng, Spawn, Stepped, ThreadSpawn, block_on, block_on_one};

use super::sim::SimDisk;
use super::*;

const BACKENDS: [Backend; 4] = [Backend::Auto, Backend::Uring, Backend::Pool, Backend::Inline];

/// Opens a real disk; `None` if the machine forbids io_uring, whose tests are skipped then.
fn real(directory: &tempfile::TempDir, backend: Backend) -> Option<RealDisk> {
    match RealDisk::open_with(directory.path(), backend, Arc::new(ThreadSpawn)) {
        Ok(disk) => Some(disk),
        Err(error) if backend == Backend::Uring && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn on_each(test: impl Fn(&str, &dyn Disk)) {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        if let Some(disk) = real(&directory, backend) {
            test(&format!("{backend:?}"), &disk);
        }
    }
    test("simulated", &SimDisk::new(1));
    let late = SimDisk::new(2);
    late.stall_reads(500, 3);
    test("simulated, late", &late);
}

fn pattern(len: usize) -> Vec<u8> {
    let mut rng = SeededRng::new(len as u64);
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

fn filled(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

/// Evicts the file, so that the next reads probably wait for the device.
fn chill(file: &dyn File) {
    file.sync_data().unwrap();
    file.evict().unwrap();
}

fn read(file: &Arc<dyn File>, offset: u64, len: usize) -> io::Result<Bytes> {
    block_on(Arc::clone(file).read(offset, len))
}

#[test]
fn reads_return_written_bytes_until_end_of_file() {
    on_each(|name, disk| {
        let bytes = pattern(3 * 4096 + 17);
        let file = filled(disk, "a", &bytes);
        for cold in [false, true] {
            for (offset, len) in [
                (0, 1),
                (0, bytes.len()),
                (4095, 2),
                (12_000, 305),
                (12_000, 306),
                (12_000, 100_000),
                (12_305, 1),
                (12_306, 10),
                (1 << 40, 10),
                (7, 0),
            ] {
                if cold {
                    chill(&*file);
                }
                let from = bytes.len().min(usize::try_from(offset).unwrap());
                let expected = &bytes[from..bytes.len().min(from + len)];
                assert_eq!(read(&file, offset, len).unwrap(), expected, "{name} {offset} {len}");
                let mut buffer = vec![0; len];
                let read = file.read_at(&mut buffer, offset).unwrap();
                assert_eq!(&buffer[..read], expected, "{name} {offset} {len}");
            }
        }
        assert!(read(&file, u64::MAX, 1).is_err() || name.starts_with("simulated"), "{name}");
    });
}

#[test]
fn partly_cached_read_is_complete() {
    on_each(|name, disk| {
        let bytes = pattern(8 << 20);
        let file = filled(disk, "a", &bytes);
        for len in [3 * 4096, 1 << 20] {
            chill(&*file);
            let from = 4 << 20;
            file.read_at(&mut [0; 4096], from).unwrap();
            let from = 4 << 20;
            assert_eq!(read(&file, from as u64, len).unwrap(), bytes[from..from + len], "{name}");
            let before = from - 4096;
            let whole = read(&file, before as u64, len).unwrap();
            assert_eq!(whole, bytes[before..before + len], "{name}");
        }
    });
}

#[test]
fn read_starts_when_called() {
    on_each(|name, disk| {
        let file = filled(disk, "a", &[1; 4096]);
        chill(&*file);
        let one = Arc::clone(&file).read(0, 4096);
        let many = Arc::clone(&file).read_many(&[Place { offset: 0, len: 4096 }]);
        // The futures are not polled before the bytes change. A pending read may see either bytes;
        // a completed one must not see the new bytes, so wait for its end.
        if name == "simulated" {
            file.write_at(&[2; 4096], 0).unwrap();
            assert_eq!(block_on(one).unwrap(), [1; 4096].as_slice());
            for read in many {
                assert_eq!(block_on(read).unwrap(), [1; 4096].as_slice());
            }
        } else {
            let later = std::time::Duration::from_millis(200);
            #[expect(clippy::disallowed_methods, reason = "the device is real")]
            thread::sleep(later);
            file.write_at(&[2; 4096], 0).unwrap();
            assert_eq!(block_on(one).unwrap()[0], 1, "{name}");
            for read in many {
                assert_eq!(block_on(read).unwrap()[0], 1, "{name}");
            }
        }
    });
}

#[test]
fn concurrent_and_dropped_reads_do_not_interfere() {
    const BYTES: usize = 8 << 20;
    let bytes = pattern(BYTES);
    for seed in 0..3 {
        on_each(|name, disk| {
            let mut rng = SeededRng::new(seed);
            let file = filled(disk, "a", &bytes);
            chill(&*file);
            let places: Vec<_> = (0..1000)
                .map(|_| Place {
                    offset: rng.below(BYTES as u64),
                    len: usize::try_from(rng.below(20_000)).unwrap(),
                })
                .collect();
            let mut reads = Vec::new();
            for places in places.chunks(50) {
                if rng.chance(500) {
                    reads.extend(Arc::clone(&file).read_many(places));
                } else {
                    let one = |place: &Place| Arc::clone(&file).read(place.offset, place.len);
                    reads.extend(places.iter().map(one));
                }
            }
            let mut waiting: Vec<_> = places.into_iter().zip(reads).collect();
            // Some are dropped unpolled, some polled once, and the rest is awaited in any order.
            while !waiting.is_empty() {
                let at = usize::try_from(rng.below(waiting.len() as u64)).unwrap();
                let (place, mut read) = waiting.swap_remove(at);
                match rng.below(4) {
                    0 => drop(read),
                    1 => {
                        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    }
                    _ => {
                        let from = usize::try_from(place.offset).unwrap();
                        let to = BYTES.min(from + place.len);
                        let read = block_on(read).unwrap();
                        assert_eq!(read, bytes[from..to], "{name}, seed {seed}, {place:?}");
                    }
                }
            }
        });
    }
}

#[test]
fn many_threads_read_at_once() {
    on_each(|name, disk| {
        let bytes = pattern(1 << 20);
        let file = filled(disk, "a", &bytes);
        thread::scope(|scope| {
            for seed in 0..8 {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    let mut rng = SeededRng::new(seed);
                    for _ in 0..100 {
                        if rng.chance(100) {
                            chill(&**file);
                        }
                        let from = usize::try_from(rng.below(1 << 20)).unwrap();
                        let to = bytes.len().min(from + 5000);
                        assert_eq!(
                            read(file, from as u64, 5000).unwrap(),
                            bytes[from..to],
                            "{name}"
                        );
                    }
                });
            }
        });
    });
}

#[test]
fn errors_of_the_system_reach_the_reader() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let Some(disk) = real(&directory, backend) else { continue };
        // A directory can be opened, but not read.
        #[expect(clippy::disallowed_methods, reason = "no disk opens a directory")]
        let itself = std::fs::File::open(directory.path()).unwrap();
        let file: Arc<dyn File> = disk.wrap(itself);
        let error = read(&file, 0, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{backend:?}");
        for read in Arc::clone(&file).read_many(&[Place { offset: 0, len: 10 }; 3]) {
            assert!(block_on(read).is_err(), "{backend:?}");
        }
    }
}

#[test]
fn reads_outlive_their_file_and_their_disk() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let Some(disk) = real(&directory, backend) else { continue };
        let bytes = pattern(4 << 20);
        let file = filled(&disk, "a", &bytes);
        for _ in 0..10 {
            chill(&*file);
            let places = [0, 1, 2, 3].map(|mib| Place { offset: mib << 20, len: 1 << 20 });
            drop(Arc::clone(&file).read_many(&places));
        }
        chill(&*file);
        let reads: Vec<_> = (0..300).map(|at| Arc::clone(&file).read(at * 13_001, 4096)).collect();
        drop((file, disk));
        for (at, read) in reads.into_iter().enumerate() {
            let from = at * 13_001;
            assert_eq!(block_on(read).unwrap(), bytes[from..from + 4096], "{backend:?}");
        }
    }
}

/// Reads of a pipe can be kept pending. Only a ring reads from a pipe like from a file.
#[cfg(target_os = "linux")]
#[test]
fn ring_keeps_buffers_of_dropped_reads() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = real(&directory, Backend::Uring) else { return };
    let pipe = || {
        let (reader, writer) = io::pipe().unwrap();
        (disk.wrap(std::os::fd::OwnedFd::from(reader).into()), writer)
    };
    let [(one, mut one_end), (other, mut other_end)] = [(); 2].map(|()| pipe());
    let dropped = Arc::clone(&one).read(0, 4096);
    let mut awaited = Arc::clone(&other).read(0, 4096);
    assert!(awaited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let bytes = pattern(1 << 20);
    let file = filled(&disk, "a", &bytes);
    for _ in 0..10 {
        chill(&*file);
        assert_eq!(read(&file, 4096, 4096).unwrap(), bytes[4096..8192]);
    }
    // The kernel writes into the memory of the dropped reads, which no other read uses.
    drop((dropped, one));
    let others: Vec<_> = (0..100).map(|_| vec![5_u8; 4096]).collect();
    one_end.write_all(&[6; 4096]).unwrap();
    other_end.write_all(&[7; 4096]).unwrap();
    drop((disk, file, other));
    assert_eq!(block_on(awaited).unwrap(), vec![7; 4096]);
    assert!(others.iter().flatten().all(|&byte| byte == 5));
}

/// Counts the workers that were spawned and the dropped ones.
#[derive(Default)]
struct Counted {
    begun: std::sync::atomic::AtomicUsize,
    alive: Arc<()>,
}

struct Watched(Box<dyn carnet_base::Worker>, #[expect(dead_code, reason = "counted")] Arc<()>);

impl carnet_base::Worker for Watched {
    fn step(&mut self) -> carnet_base::Step {
        self.0.step()
    }
}

impl Spawn for Counted {
    fn spawn(
        &self,
        name: &str,
        signal: carnet_base::Signal,
        worker: Box<dyn carnet_base::Worker>,
    ) -> carnet_base::WorkerHandle {
        self.begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let watched = Watched(worker, Arc::clone(&self.alive));
        ThreadSpawn.spawn(name, signal, Box::new(watched))
    }
}

#[test]
fn read_threads_live_as_long_as_the_disk() {
    for (backend, most) in [(Backend::Uring, 1), (Backend::Pool, 16), (Backend::Inline, 0)] {
        let directory = tempfile::tempdir().unwrap();
        if real(&directory, backend).is_none() {
            continue;
        }
        let spawn = Arc::new(Counted::default());
        let theirs = Arc::clone(&spawn);
        let disk = RealDisk::open_with(directory.path(), backend, theirs).unwrap();
        let file = filled(&disk, "a", &[7; 1 << 20]);
        read(&file, 5, 100).unwrap();
        let begun = || spawn.begun.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(begun(), 0, "{backend:?}: what is cached needs no thread");
        for _ in 0..3 {
            chill(&*file);
            let places = [Place { offset: 0, len: 1 << 20 }; 100];
            for read in Arc::clone(&file).read_many(&places) {
                assert_eq!(block_on(read).unwrap().len(), 1 << 20);
            }
        }
        assert!(begun() <= most, "{backend:?}: {} threads", begun());
        drop((file, disk));
        // They end by themselves; with the limit, a leak fails instead of hanging.
        let ends = (0..1000).any(|_| {
            #[expect(clippy::disallowed_methods, reason = "threads are real")]
            thread::sleep(std::time::Duration::from_millis(10));
            Arc::strong_count(&spawn.alive) == 1
        });
        assert!(ends, "{backend:?}: threads must end with the disk");
    }
}

#[test]
fn waiting_thread_reads_itself() {
    let directory = tempfile::tempdir().unwrap();
    let spawn = Arc::new(Counted::default());
    let theirs = Arc::clone(&spawn);
    let disk = RealDisk::open_with(directory.path(), Backend::Pool, theirs).unwrap();
    let file = filled(&disk, "a", &[7; 1 << 20]);
    let begun = || spawn.begun.load(std::sync::atomic::Ordering::SeqCst);
    chill(&*file);
    for (offset, expected) in [(0, 1 << 20), (5, (1 << 20) - 5), (1 << 20, 0)] {
        let read = block_on_one(async { Arc::clone(&file).read(offset, 1 << 20).await }).unwrap();
        assert!(read.len() == expected && read.iter().all(|byte| *byte == 7));
        chill(&*file);
    }
    assert_eq!(begun(), 0, "this thread read");
}

#[test]
fn stepped_workers_serve_reads() {
    for backend in [Backend::Uring, Backend::Pool] {
        let directory = tempfile::tempdir().unwrap();
        if real(&directory, backend).is_none() {
            continue;
        }
        let stepped = Stepped::default();
        let spawn = Arc::new(stepped.clone());
        let disk = RealDisk::open_with(directory.path(), backend, spawn).unwrap();
        let file = filled(&disk, "a", &pattern(1 << 20));
        chill(&*file);
        let reads: Vec<_> = (0..20).map(|at| Arc::clone(&file).read(at * 50_000, 4096)).collect();
        stepped.settle();
        for mut read in reads {
            let polled = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(_))), "{backend:?}");
        }
        drop((file, disk));
        stepped.settle();
        assert_eq!(format!("{stepped:?}"), "Stepped(0 workers)", "{backend:?}");
    }
}

#[test]
fn waker_may_drop_the_disk() {
    struct Last(std::sync::Mutex<Option<(Arc<dyn File>, RealDisk)>>, thread::Thread);
    impl Wake for Last {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            self.1.unpark();
        }
    }
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let Some(disk) = real(&directory, backend) else { continue };
        let file = filled(&disk, "a", &pattern(1 << 20));
        chill(&*file);
        let mut read = Arc::clone(&file).read(0, 1 << 20);
        let last = Arc::new(Last(Some((file, disk)).into(), thread::current()));
        let waker = Waker::from(last);
        while read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
    }
}

#[test]
fn vectored_write_writes_all_pieces() {
    on_each(|name, disk| {
        let file = filled(disk, "a", &[9; 10]);
        let bytes = pattern(9000);
        // More pieces than one system call takes, including empty ones.
        let mut pieces: Vec<_> =
            bytes.chunks(3).flat_map(|piece| [IoSlice::new(piece), IoSlice::new(&[])]).collect();
        file.write_vectored_at(&mut pieces, 5).unwrap();
        file.write_vectored_at(&mut [], 3).unwrap();
        let written = read(&file, 0, 10_000).unwrap();
        assert_eq!((&written[..5], &written[5..]), (&[9; 5][..], &bytes[..]), "{name}");
    });
}

/// Like on a file system that requires larger blocks.
#[test]
fn refused_direct_io_falls_back_to_buffered() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    let file = disk.create_bulk("a").unwrap();
    let bytes: Vec<u8> = (0..10_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    for (at, piece) in (0..).step_by(1000).zip(bytes.chunks(1000)) {
        file.write_at(piece, at).unwrap();
    }
    file.sync_data().unwrap();
    let mut read = vec![0; 20_000];
    let len = disk.open("a").unwrap().read_at(&mut read, 0).unwrap();
    assert_eq!(read[..len], bytes);
    let len = disk.open_bulk("a").unwrap().read_at(&mut read[1..], 77).unwrap();
    assert_eq!(read[1..=len], bytes[77..]);
}

#[test]
fn preallocation_extends_with_zeros() {
    on_each(|name, disk| {
        let file = filled(disk, "a", b"begin");
        file.preallocate(100_003).unwrap();
        file.preallocate(50).unwrap();
        let bytes = read(&file, 0, 200_000).unwrap();
        assert_eq!((bytes.len(), &bytes[..5]), (100_003, &b"begin"[..]), "{name}");
        assert!(bytes[5..].iter().all(|&byte| byte == 0), "{name}");
    });
}

/// Files of system settings that even the administrator cannot write.
#[cfg(target_os = "linux")]
#[test]
fn read_only_file_is_readable() {
    let disk =
        RealDisk::open_with("/proc/sys/kernel", Backend::Inline, Arc::new(ThreadSpawn)).unwrap();
    let mut bytes = [0; 5];
    let file = disk.open("ostype").unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5);
    assert_eq!(&bytes, b"Linux");
    assert!(file.write_at(b"Minix", 0).is_err());
}

#[test]
fn link_never_replaces_a_file() {
    on_each(|name, disk| {
        let bytes = pattern(600_001);
        filled(disk, "a", &bytes).sync_data().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let targets: [Box<dyn Disk>; 2] =
            [Box::new(RealDisk::open(directory.path()).unwrap()), Box::new(SimDisk::new(3))];
        for to in targets {
            disk.link("a", &*to).unwrap();
            let linked = to.open("a").unwrap();
            assert_eq!(read(&linked, 0, 1 << 20).unwrap(), bytes, "{name}");
            let again = disk.link("a", &*to).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "{name}");
            let missing = disk.link("b", &*to).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{name}");
            assert_eq!(to.list().unwrap(), ["a"], "{name}");
        }
        assert!(disk.link("a", disk).is_err(), "{name}: not onto itself");
        assert_eq!(read(&disk.open("a").unwrap(), 0, 1 << 20).unwrap(), bytes, "{name}");
    });
}

#[test]
fn link_in_one_file_system_shares_bytes() {
    use std::os::unix::fs::MetadataExt;
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [disk, target] = [&from, &to].map(|directory| RealDisk::open(directory.path()).unwrap());
    filled(&disk, "a", b"x");
    disk.link("a", &target).unwrap();
    let inode = |directory: &tempfile::TempDir| {
        std::fs::metadata(directory.path().join("a")).unwrap().ino()
    };
    assert_eq!(inode(&from), inode(&to));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what other programs do to the files")]
fn lock_survives_removal_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let disk = || RealDisk::open(directory.path()).unwrap();
    let lock = disk().lock().unwrap();
    let error = disk().lock().err().unwrap().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    let error = disk().lock().err().unwrap();
    assert_eq!(error.kind(), carnet_base::ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(lock);
    disk().lock().unwrap();
}

/// Older programs lock only the file, not the directory.
#[test]
#[expect(clippy::disallowed_methods, reason = "what other programs do to the files")]
fn lock_respects_older_programs() {
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("LOCK")).unwrap();
    file.lock().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    assert!(disk.lock().err().unwrap().to_string().contains("in use"));
    drop(file);
    disk.lock().unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what other programs do to the files")]
fn replaced_directory_is_noticed_and_untouched() {
    let root = tempfile::tempdir().unwrap();
    let (path, moved) = (root.path().join("data"), root.path().join("moved"));
    let disk = RealDisk::open(&path).unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = RealDisk::open(&link).unwrap();
    disk.check_directory().unwrap();
    linked.check_directory().unwrap();
    filled(&disk, "a", b"ours");
    std::fs::rename(&path, &moved).unwrap();
    assert!(disk.check_directory().unwrap_err().to_string().contains("put the directory back"));
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a"), "theirs").unwrap();
    assert!(disk.check_directory().is_err() && linked.check_directory().is_err());
    filled(&disk, "b", b"ours");
    disk.rename("b", "a").unwrap();
    disk.link("a", &RealDisk::open(root.path()).unwrap()).unwrap();
    assert_eq!(disk.list().unwrap(), ["a"]);
    assert_eq!(std::fs::read(root.path().join("a")).unwrap(), b"ours");
    disk.remove("a").unwrap();
    assert_eq!(std::fs::read(path.join("a")).unwrap(), b"theirs");
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    disk.check_directory().unwrap();
}

#[test]
fn files_and_directories_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let (path, other) = (root.path().join("a/b"), SimDisk::new(1));
    let disk = RealDisk::open(&path).unwrap();
    filled(&disk, "plain", b"x");
    disk.create_bulk("bulk").unwrap();
    filled(&other, "copied", b"x");
    other.link("copied", &disk).unwrap();
    let _lock = disk.lock().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for directory in [root.path().join("a"), path.clone()] {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
    }
    for name in ["plain", "bulk", "copied", "LOCK"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
}

#[test]
fn named_lock_has_one_holder() {
    on_each(|name, disk| {
        let held = disk.lock_named("a", false).unwrap();
        assert!(held.is_some(), "{name}");
        assert!(disk.lock_named("a", false).unwrap().is_none(), "{name}");
        assert!(disk.lock_named("b", false).unwrap().is_some(), "{name}");
        // The holder removes its file: the next holder gets a new one.
        disk.remove("a").unwrap();
        drop(held);
        let next = disk.lock_named("a", true).unwrap();
        assert!(disk.exists("a").unwrap(), "{name}");
        assert!(disk.lock_named("a", false).unwrap().is_none(), "{name}");
        drop(next);
    });
}

/// A lock on a removed file would be one that later holders do not see.
#[test]
fn waiting_for_a_lock_notices_a_removed_file() {
    let directory = tempfile::tempdir().unwrap();
    let open = || real(&directory, Backend::Inline).unwrap();
    let (first, second) = (open(), open());
    // In most rounds the other thread waits already when the file is removed.
    for _ in 0..5 {
        let held = first.lock_named("a", true).unwrap();
        let lock = thread::scope(|scope| {
            let waiter = scope.spawn(|| second.lock_named("a", true).unwrap().unwrap());
            (0..5000).for_each(|_| thread::yield_now());
            first.remove("a").unwrap();
            drop(held);
            waiter.join().unwrap()
        });
        assert!(first.exists("a").unwrap());
        assert!(first.lock_named("a", false).unwrap().is_none());
        drop(lock);
    }
}
