//! Backups, restores and migrations with the real binary, beside a server and its clients.
//!
//! Each client inserts rows one after the other. Each row records the rows of the other clients
//! whose acknowledgements the client knew when it began. This detects states that are not a prefix
//! of the commit order: every client's rows have no gap, and every recorded row is present.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use carnet_base::{Clock, SystemClock};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::support::{Guard, Server, carnet, eventually, fail, pause, rows, succeed};

const CLIENTS: usize = 4;

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE b.rows (client int, n bigint, a bigint, b bigint, c bigint, d bigint, \
     PRIMARY KEY (client, n))",
];

/// The last acknowledged row of each client.
type Acknowledged = Arc<[AtomicI64; CLIENTS]>;

fn known(acknowledged: &Acknowledged) -> [i64; CLIENTS] {
    [0, 1, 2, 3].map(|client| acknowledged[client].load(Ordering::SeqCst))
}

async fn insert(
    session: Arc<Session>,
    client: usize,
    acknowledged: Acknowledged,
    stop: Arc<AtomicBool>,
) {
    for n in 1_i64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let [a, b, c, d] = known(&acknowledged);
        let insert = format!(
            "INSERT INTO b.rows (client, n, a, b, c, d) VALUES ({client}, {n}, {a}, {b}, {c}, {d})"
        );
        if let Err(error) = session.query_unpaged(insert, &[]).await {
            assert!(stop.load(Ordering::SeqCst), "row {n} of client {client}: {error}");
            return; // the server was killed
        }
        acknowledged[client].store(n, Ordering::SeqCst);
    }
}

/// Reads all rows: for each client and number, the rows known at its insert.
fn read(directory: &Path) -> BTreeMap<(usize, i64), [i64; CLIENTS]> {
    let text = rows(directory, "SELECT * FROM b.rows");
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| row[name].as_i64().unwrap();
        let client = usize::try_from(number("client")).unwrap();
        ((client, number("n")), ["a", "b", "c", "d"].map(number))
    };
    text.lines().map(row).collect()
}

/// Checks that the rows are a prefix of the commit order, with at least the acknowledged ones;
/// returns the number of rows of each client.
fn check_prefix(directory: &Path, at_least: [i64; CLIENTS]) -> [i64; CLIENTS] {
    let rows = read(directory);
    let mut last = [0; CLIENTS];
    for (client, n) in rows.keys() {
        assert_eq!(*n, last[*client] + 1, "client {client} has a gap");
        last[*client] = *n;
    }
    for ((client, n), knew) in &rows {
        for (other, knew) in knew.iter().enumerate() {
            assert!(last[other] >= *knew, "row {n} of {client} knew of row {knew} of {other}");
        }
    }
    for client in 0..CLIENTS {
        assert!(last[client] >= at_least[client], "{last:?}, {at_least:?} was acknowledged before");
    }
    last
}

/// Takes a backup; returns its commit and its number of shared files.
fn back_up(data: &Path, dest: &Path) -> (u64, u64) {
    let said = succeed(carnet().arg("backup").arg(data).arg(dest));
    let numbers: Vec<u64> =
        said.lines().nth(1).unwrap().split([' ', ':']).filter_map(|w| w.parse().ok()).collect();
    // Commit, files, their bytes, shared files, their bytes.
    (numbers[0], numbers[3])
}

fn restore(dest: &Path, to: &Path, arguments: &[&str]) {
    succeed(carnet().arg("restore").arg(dest).arg(to).args(arguments));
}

#[test]
fn backups_are_prefixes_of_the_commit_order() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let (data, dest) = (path("data"), path("backups"));
    let mut server = Server::start(&data, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = server.cql.to_string();
    let session =
        runtime.block_on(SessionBuilder::new().known_node(address).build()).map(Arc::new).unwrap();
    for statement in SCHEMA {
        runtime.block_on(session.query_unpaged(statement, &[])).unwrap();
    }
    let acknowledged = Acknowledged::default();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (acknowledged, stop) = (Arc::clone(&acknowledged), Arc::clone(&stop));
            runtime.spawn(insert(Arc::clone(&session), client, acknowledged, stop))
        })
        .collect();
    let (mut before, mut commits) = (Vec::new(), Vec::new());
    for (round, encoding) in ["v3", "v1", "v2"].into_iter().enumerate() {
        pause(Duration::from_millis(300));
        before.push(known(&acknowledged));
        let (commit, shared) = back_up(&data, &dest);
        assert_eq!(shared > 0, round > 0, "the first has nothing to share, {shared} files");
        commits.push(commit);
        let said = succeed(carnet().arg("migrate").arg(&data).args(["--to", encoding]));
        assert!(said.contains(&format!("are written as {encoding}")), "{said}");
    }
    let after = known(&acknowledged);
    eventually("rows of every client after the last migration", || {
        let now = known(&acknowledged);
        (0..CLIENTS).all(|client| now[client] > after[client])
    });
    // Wall-clock times are known to about a second.
    let early = known(&acknowledged);
    pause(Duration::from_millis(1500));
    let (late, at) = (known(&acknowledged), SystemClock.wall());
    pause(Duration::from_millis(300));
    let (last, _) = back_up(&data, &dest);
    let last_known = known(&acknowledged);
    stop.store(true, Ordering::SeqCst);
    server.process.kill();
    for client in clients {
        runtime.block_on(client).unwrap();
    }

    let mut sizes = Vec::new();
    for (number, commit) in commits.iter().enumerate() {
        let to = path(&format!("restored-{number}"));
        let name = dest.join(format!("{commit:020}"));
        let said = succeed(carnet().arg("verify").arg(&name));
        assert!(said.contains(&format!("every commit up to {commit}")), "{said}");
        restore(&dest, &to, &["--backup", &commit.to_string()]);
        succeed(carnet().arg("verify").arg(&to));
        sizes.push(check_prefix(&to, before[number]));
        // The last backup as of an earlier one's commit equals that earlier one.
        let as_of = path(&format!("as-of-{number}"));
        restore(&dest, &as_of, &["--as-of", &commit.to_string()]);
        assert_eq!(read(&as_of), read(&to));
    }
    let at_time = path("at-time");
    restore(&dest, &at_time, &["--as-of", &at.to_string()]);
    let then = check_prefix(&at_time, early);
    for client in 0..CLIENTS {
        assert!(then[client] <= late[client] + 1, "{then:?} at {at}, {late:?} was acknowledged");
    }
    let halfway = path("halfway");
    let middle = u64::midpoint(commits[0], commits[1]).to_string();
    restore(&dest, &halfway, &["--as-of", &middle]);
    let between = check_prefix(&halfway, before[0]);
    for client in 0..CLIENTS {
        assert!((sizes[0][client]..=sizes[1][client]).contains(&between[client]));
    }
    // The database itself has all rows.
    let all = check_prefix(&data, last_known);
    assert!((0..CLIENTS).all(|client| all[client] >= sizes[2][client]));
    // The database goes on, and so does its series of backups.
    let (next, shared) = back_up(&data, &dest);
    assert!(next >= last && shared > 0);
    let said = succeed(carnet().arg("backup").arg(&data).arg(&dest).args(["--keep", "2"]));
    assert!(said.contains("3 older backups were removed"), "{said}");
    // The series of a restored database is another one.
    let error = fail(carnet().arg("backup").arg(path("restored-0")).arg(&dest));
    assert!(error.contains("another database"), "{error}");
    let error = fail(carnet().arg("restore").arg(&dest).arg(&data));
    assert!(error.contains("empty directory"), "{error}");
}

#[test]
fn administration_keeps_strict_serializability() {
    let root = tempfile::tempdir().unwrap();
    let (data, dest) = (root.path().join("data"), root.path().join("backups"));
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(&data).args(["--seconds", "5", "--clients", "4"]);
    stress.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut process = Guard::new(stress.spawn().unwrap());
    eventually("a control socket", || data.join("CONTROL").exists());
    for encoding in ["v3", "v1", "v3", "v2"] {
        let said = succeed(carnet().arg("migrate").arg(&data).args(["--to", encoding]));
        assert!(said.contains("are written as"), "{said}");
        succeed(carnet().arg("compact").arg(&data));
        back_up(&data, &dest);
    }
    assert!(process.wait().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stdout(), &mut said).unwrap();
    assert!(said.contains("strictly serializable, nothing acknowledged is missing"), "{said}");
    let again = succeed(carnet().arg("migrate").arg(&data).args(["--to", "v2"]));
    assert!(again.contains("in force already"), "{again}");
}
