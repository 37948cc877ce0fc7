//! Tests of the control socket from outside, with valid, malformed and slow clients.
#![expect(clippy::disallowed_methods, reason = "clients that do not keep to the protocol")]

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result, Rng, SeededRng, Signal, Spawn, ThreadSpawn};

use super::protocol::{ControlReply, ControlRequest, Done, LINE_BYTES_MAX, Progress};
use super::server::{ControlServer, Owner};
use super::{ask, socket};
use crate::Db;

fn requests() -> [ControlRequest; 4] {
    [
        ControlRequest::Backup {
            dest: PathBuf::from("/backups"),
            keep: Some(3),
            reread_after_days: None,
        },
        ControlRequest::Backup {
            dest: PathBuf::from("/b \"ü\n"),
            keep: None,
            reread_after_days: Some(7),
        },
        ControlRequest::Compact {},
        ControlRequest::Migrate { to: 3 },
    ]
}

#[test]
fn requests_round_trip() {
    for request in requests() {
        let line = request.encode().unwrap();
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(ControlRequest::decode(&line[..line.len() - 1]).unwrap(), request);
    }
    let first = String::from_utf8(requests()[0].encode().unwrap()).unwrap();
    let expected = r#"{"version":1,"request":{"backup":{"dest":"/backups","keep":3}}}"#;
    assert_eq!(first.trim_end(), expected);
    let newer = first.replace("\"version\":1", "\"version\":2");
    assert_eq!(
        ControlRequest::decode(newer.as_bytes()).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"version":1}"#,
        r#"{"version":1,"request":"compact"}"#,
        r#"{"version":1,"request":{"drop":{}}}"#,
        r#"{"version":1,"request":{"compact":{"now":true}}}"#,
        r#"{"version":1,"request":{"compact":{}},"more":1}"#,
        r#"{"version":1,"request":{"migrate":{"to":256}}}"#,
    ] {
        assert_eq!(
            ControlRequest::decode(wrong.as_bytes()).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
}

#[test]
fn errors_keep_kind_and_message() {
    let wait = Duration::from_secs(1);
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::Unavailable,
        ErrorKind::Corrupted,
        ErrorKind::Overloaded { retry_after: wait },
    ] {
        let line = ControlReply::Failed(Error::new(kind, "so it is")).encode().unwrap();
        let ControlReply::Failed(error) = ControlReply::decode(&line).unwrap() else {
            panic!("it failed")
        };
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, "so it is"));
    }
}

#[test]
fn random_and_changed_lines_never_panic() {
    let answers = [
        ControlReply::Progress(Progress { bytes: 1, bytes_total: 2 }).encode().unwrap(),
        ControlReply::Done(Done::Migrate { first: Some(7) }).encode().unwrap(),
        ControlReply::Failed(Error::invalid("no")).encode().unwrap(),
    ];
    let lines: Vec<Vec<u8>> =
        requests().iter().map(|request| request.encode().unwrap()).chain(answers).collect();
    for seed in 0..20_000 {
        let mut rng = SeededRng::new(seed);
        let pick =
            |rng: &mut SeededRng, len: usize| usize::try_from(rng.below(len as u64)).unwrap();
        let mut bytes = lines[pick(&mut rng, lines.len())].clone();
        for _ in 0..rng.below(4) {
            let at = pick(&mut rng, bytes.len());
            match rng.below(3) {
                0 => bytes[at] = rng.next_u64().to_le_bytes()[0],
                1 => bytes.truncate(at + 1),
                _ => bytes.insert(at, b"{}[]\",:0"[pick(&mut rng, 8)]),
            }
        }
        let _ = ControlRequest::decode(&bytes);
        let _ = ControlReply::decode(&bytes);
    }
    let deep = [b"[".repeat(60_000), b"]".repeat(60_000)].concat();
    assert!(ControlRequest::decode(&deep).is_err());
    assert!(ControlReply::decode(&deep).is_err());
}

/// Counts compactions; a backup runs until it is aborted.
#[derive(Default)]
struct Fake {
    compacted: AtomicU64,
    begun: Option<Arc<Barrier>>,
}

impl Owner for Fake {
    fn carry_out(
        &self,
        request: &ControlRequest,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Done> {
        match request {
            ControlRequest::Compact {} => {
                self.compacted.fetch_add(1, Ordering::SeqCst);
                for bytes in 0..3 {
                    tell(&Progress { bytes, bytes_total: 3 })?;
                }
                Ok(Done::Migrate { first: None })
            }
            ControlRequest::Backup { .. } => {
                if let Some(begun) = &self.begun {
                    begun.wait();
                }
                loop {
                    tell(&Progress::default())?;
                    Signal::new().wait(Some(Duration::from_millis(1)));
                }
            }
            ControlRequest::Migrate { to } => Err(Error::invalid(format!("not to {to}"))),
        }
    }
}

fn spawn() -> Arc<dyn Spawn> {
    Arc::new(ThreadSpawn)
}

fn open(directory: &Path) -> (ControlServer, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    (ControlServer::open(directory, &spawn(), Arc::clone(&fake) as _).unwrap(), fake)
}

#[test]
fn request_is_carried_out_and_answered() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(ask(dir, &ControlRequest::Compact {}, |_| {}).unwrap().is_none(), "no process listens");
    let (server, fake) = open(dir);
    let mode = std::fs::metadata(dir.join(socket::NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut reported = Vec::new();
    let done =
        ask(dir, &ControlRequest::Compact {}, |progress| reported.push(progress.bytes)).unwrap();
    assert_eq!((done, reported), (Some(Done::Migrate { first: None }), vec![0, 1, 2]));
    let error = ask(dir, &ControlRequest::Migrate { to: 9 }, |_| {}).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, "not to 9"));
    for _ in 0..50 {
        ask(dir, &ControlRequest::Compact {}, |_| {}).unwrap().unwrap();
    }
    assert_eq!(fake.compacted.load(Ordering::SeqCst), 51);
    drop(server);
    assert!(std::fs::read_dir(dir).unwrap().next().is_none(), "nothing is left behind");
    assert!(ask(dir, &ControlRequest::Compact {}, |_| {}).unwrap().is_none());
}

#[test]
fn leftover_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(socket::listen(dir).unwrap());
    assert!(dir.join(socket::NAME).exists());
    assert!(ask(dir, &ControlRequest::Compact {}, |_| {}).unwrap().is_none(), "no process listens");
    std::fs::create_dir(dir.join("CONTROL.tmp")).unwrap();
    std::fs::write(dir.join("CONTROL.tmp/socket"), "").unwrap();
    let (_server, _) = open(dir);
    assert!(ask(dir, &ControlRequest::Compact {}, |_| {}).unwrap().is_some());
}

#[test]
fn socket_of_another_directory_stays() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    let (server, _) = open(&dir);
    std::fs::rename(&dir, root.path().join("moved")).unwrap();
    std::fs::create_dir(&dir).unwrap();
    let (_other, _) = open(&dir);
    drop(server);
    assert!(ask(&dir, &ControlRequest::Compact {}, |_| {}).unwrap().is_some());
}

#[test]
fn long_directory_paths_are_supported() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let (server, _) = open(&deep);
    assert!(ask(&deep, &ControlRequest::Compact {}, |_| {}).unwrap().is_some());
    drop(server);
    assert!(std::fs::read_dir(&deep).unwrap().next().is_none());
}

#[test]
fn malformed_and_silent_clients_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_server, fake) = open(dir);
    let connect = || UnixStream::connect(dir.join(socket::NAME)).unwrap();
    let answer_to = |bytes: &[u8]| {
        let mut stream = connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(answer_to(b"GET / HTTP/1.1\r\n\r\n").contains("failed"));
    assert!(answer_to(b"no end").contains("failed"));
    assert!(answer_to(&b"x".repeat(2 * LINE_BYTES_MAX)).contains("failed"));
    let mut rng = SeededRng::new(1);
    for _ in 0..200 {
        let len = usize::try_from(rng.below(200)).unwrap();
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        answer_to(&bytes);
    }
    // Silent clients take all slots, but only until their timeout.
    let silent: Vec<_> = (0..4).map(|_| connect()).collect();
    let busy = loop {
        // Retry until all four are admitted.
        if let Err(error) = ask(dir, &ControlRequest::Compact {}, |_| {}) {
            break error;
        }
    };
    assert!(matches!(busy.kind(), ErrorKind::Overloaded { .. }), "{busy}");
    drop(silent);
    let begun = fake.compacted.load(Ordering::SeqCst);
    while ask(dir, &ControlRequest::Compact {}, |_| {}).is_err() {}
    assert!(fake.compacted.load(Ordering::SeqCst) > begun);
}

#[test]
fn slow_client_is_disconnected() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = open(dir.path());
    let mut stream = UnixStream::connect(dir.path().join(socket::NAME)).unwrap();
    let mut send = || {
        Signal::new().wait(Some(Duration::from_millis(500)));
        stream.write_all(b" ").is_ok()
    };
    assert!((0..40).any(|_| !send()), "the server listened for twenty seconds");
}

#[test]
fn closing_aborts_running_requests() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Arc::new(Barrier::new(2));
    let fake = Fake { begun: Some(Arc::clone(&begun)), ..Fake::default() };
    let server = ControlServer::open(dir.path(), &spawn(), Arc::new(fake)).unwrap();
    let (path, (send, receive)) = (dir.path().to_path_buf(), mpsc::channel());
    thread::scope(|scope| {
        scope.spawn(move || {
            let request = ControlRequest::Backup {
                dest: PathBuf::from("/b"),
                keep: None,
                reread_after_days: None,
            };
            send.send(ask(&path, &request, |_| {})).unwrap();
        });
        begun.wait();
        drop(server);
    });
    let error = receive.recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("closed before"), "{error}");
}

#[test]
fn only_the_database_owner_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let request =
        ControlRequest::Backup { dest: backups.clone(), keep: None, reread_after_days: None };
    let asked = || Db::builder().carry_out(&data, &request, |_| {});
    let silent = Db::open(&data).unwrap();
    let error = asked().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("in use by process"), "{error}");
    assert!(error.to_string().contains("no control socket"), "{error}");
    drop(silent);
    let db = Db::builder().control(true).open(&data).unwrap();
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "a", "1")).unwrap();
    let Done::Backup { commit, .. } = asked().unwrap() else { panic!("it was a backup") };
    assert_eq!(commit, db.published().get());
    let figures = db.backup_figures().unwrap();
    assert_eq!((figures.running, figures.taken, figures.failed), (0, 1, 0));
    let last = figures.last.unwrap();
    assert_eq!(last.commit, db.published());
    assert!(last.bytes > 0 && last.at.millis() > 0, "{last:?}");
    let within =
        ControlRequest::Backup { dest: data.join("backups"), keep: None, reread_after_days: None };
    ask(&data, &within, |_| {}).unwrap_err();
    let figures = db.backup_figures().unwrap();
    assert_eq!((figures.running, figures.taken, figures.failed), (0, 1, 1));
    assert_eq!(figures.last, Some(last), "a failure does not hide the last backup");
    let levels = db.level_totals().unwrap();
    assert_eq!(levels.iter().map(|level| level.tables).sum::<u64>(), db.metrics().unwrap().tables);
    assert_eq!(levels[0].bytes, db.metrics().unwrap().level0_bytes);
    assert!(levels[0].tables > 0, "the backup has flushed the memtable");
    let relative =
        ControlRequest::Backup { dest: PathBuf::from("b"), keep: None, reread_after_days: None };
    let error = ask(&data, &relative, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    drop((db, table));
    asked().unwrap();
    assert_eq!(crate::backup::list(&backups).unwrap().len(), 1, "nothing was committed since");
    let on_a_simulated_disk = carnet_storage::disk::sim::SimDisk::new(1);
    let refused = Db::builder().control(true).open_on(Arc::new(on_a_simulated_disk));
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::Unsupported);
}

/// A server of the database can start while the bytes of the tables are read.
#[test]
fn backup_of_a_stopped_database_unlocks_it_once_linked() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let db = Db::open(&data).unwrap();
    let table = db.raw("t").unwrap();
    for value in ["1", "2"] {
        db.transact(|tx| table.put(tx, "k", value)).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop((table, db));
    let request =
        ControlRequest::Backup { dest: backups.clone(), keep: None, reread_after_days: None };
    let mut opened = 0;
    Db::builder()
        .carry_out(&data, &request, |progress| {
            if progress.bytes > 0 && opened == 0 {
                drop(Db::open(&data).unwrap());
                opened += 1;
            }
        })
        .unwrap();
    assert_eq!(opened, 1);
    let copies = [false, true].map(|copies| {
        let to = dir.path().join(format!("copied-{copies}"));
        let which = crate::backup::Which { copies, ..Default::default() };
        crate::backup::restore(&backups, &to, &which).unwrap();
        let names = std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap());
        let tables = names.filter(|entry| entry.path().extension().is_some_and(|it| it == "sst"));
        let links =
            tables.map(|entry| std::os::unix::fs::MetadataExt::nlink(&entry.metadata().unwrap()));
        links.collect::<Vec<_>>()
    });
    assert!(!copies[0].is_empty() && copies[0].iter().all(|links| *links > 1), "{copies:?}");
    assert!(!copies[1].is_empty() && copies[1].iter().all(|links| *links == 1), "{copies:?}");
}

/// Only the superuser can give a directory to another user.
#[test]
fn stopped_database_of_another_user_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Db::open(&data).unwrap());
    if std::os::unix::fs::chown(&data, Some(65_534), None).is_err() {
        return;
    }
    let before = std::fs::read(data.join("MANIFEST")).unwrap();
    for request in requests() {
        let error = Db::builder().carry_out(&data, &request, |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("belongs to the user with id 65534"), "{error}");
    }
    assert_eq!(std::fs::read(data.join("MANIFEST")).unwrap(), before);
    // The process that has it open carries the request out.
    let db = Db::builder().control(true).open(&data).unwrap();
    Db::builder().carry_out(&data, &ControlRequest::Compact {}, |_| {}).unwrap();
    drop(db);
}
