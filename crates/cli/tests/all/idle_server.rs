//! A server without clients, whatever was done before, writes nothing and uses no processor.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::support::{Server, carnet, eventually, pause, succeed};

/// Updates of merged rows, rows that expire, deleted partitions, an index, a view, counters and collections.
fn history() -> String {
    let mut script = String::from(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n\
         CREATE TABLE k.t (p int, c int, v int, m map<int, int>, PRIMARY KEY (p, c));\n\
         CREATE TABLE k.n (p int PRIMARY KEY, n counter);\n\
         CREATE INDEX ON k.t (v);\n\
         CREATE MATERIALIZED VIEW k.w AS SELECT p, c, v FROM k.t WHERE v IS NOT NULL AND p IS NOT NULL AND c IS NOT \
         NULL PRIMARY KEY (v, p, c);\n",
    );
    let mut add = |statement: String| script.push_str(&(statement + ";\n"));
    for row in 0..400 {
        let (p, c) = (row % 20, row / 20);
        add(format!("INSERT INTO k.t (p, c, v, m) VALUES ({p}, {c}, {row}, {{1: {row}}})"));
        add(format!("UPDATE k.n SET n = n + 1 WHERE p = {p}"));
    }
    for row in 0..400 {
        let (p, c) = (row % 20, row / 20);
        add(format!("UPDATE k.t USING TTL 1 SET v = {c} WHERE p = {p} AND c = {c}"));
        add(format!("UPDATE k.t SET m[2] = {c} WHERE p = {p} AND c = {c}"));
    }
    for p in 0..5 {
        add(format!("DELETE FROM k.t WHERE p = {p}"));
        add(format!("DELETE FROM k.t WHERE p = 7 AND c < {p}"));
    }
    script
}

/// Bytes written to the disk, and processor time in ticks of 10 ms, of a process so far.
fn used(process: u32) -> (u64, u64) {
    let process = Path::new("/proc").join(process.to_string());
    let io = std::fs::read_to_string(process.join("io")).unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    let stat = std::fs::read_to_string(process.join("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    (written.parse().unwrap(), ticks)
}

#[test]
fn idle_server_writes_nothing_and_uses_no_processor() {
    // In the memory of another file system no writes would be counted.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("db");
    let script = directory.path().join("history.cql");
    std::fs::write(&script, history()).unwrap();
    let mut config = tempfile::NamedTempFile::new().unwrap();
    writeln!(config, "[database]\nretention = \"1s\"").unwrap();
    // The second time it meets tables at the bottom.
    for create in [true, false] {
        let script = if create { script.clone() } else { changes(directory.path()) };
        succeed(carnet().arg("shell").arg("--create").arg(&path).arg("-f").arg(&script));
        succeed(carnet().arg("compact").arg(&path));
    }
    succeed(carnet().arg("shell").arg(&path).arg("-f").arg(changes(directory.path())));

    let server = Server::start(&path, &["--config", config.path().to_str().unwrap()]);
    let quiet = |time: Duration| {
        let (written, ticks) = used(server.process.id());
        pause(time);
        let (later_written, later_ticks) = used(server.process.id());
        (later_written - written, later_ticks - ticks)
    };
    // A fiftieth of a processor, for timers.
    let is_quiet = |(written, ticks): (u64, u64), time: Duration| {
        written == 0 && u128::from(ticks) <= time.as_millis() / 500
    };
    let time = Duration::from_secs(6);
    eventually("the server has ended its merges and builds", || is_quiet(quiet(time), time));
    assert!(used(server.process.id()).0 > 0, "writes are counted");
}

fn changes(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("changes.cql");
    let mut script = String::new();
    for row in 0..400 {
        let (p, c) = (row % 20, row / 20);
        script.push_str(&format!("UPDATE k.t SET v = {row} WHERE p = {p} AND c = {c};\n"));
        script.push_str(&format!("UPDATE k.t SET m[3] = {row} WHERE p = {p} AND c = {c};\n"));
    }
    std::fs::write(&path, script).unwrap();
    path
}
