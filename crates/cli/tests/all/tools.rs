//! `carnet inspect`, `verify` and `compact` on a database that the shell created.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn carnet(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carnet")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs a command, which must succeed, and returns its standard output.
fn succeeds(arguments: &[&str]) -> String {
    let output = carnet(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn fails(arguments: &[&str]) -> String {
    let output = carnet(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

fn write(dir: &str, value: &str) {
    let rows: String = (0..50)
        .map(|key| format!("INSERT INTO shop.stock (id, name) VALUES ({key}, '{value}');"))
        .collect();
    let script = format!(
        "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': 1}};
         CREATE TABLE IF NOT EXISTS shop.stock (id int PRIMARY KEY, name text); {rows}"
    );
    succeeds(&["shell", dir, "-e", &script]);
}

#[test]
fn a_database_is_inspected_compacted_and_verified() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dir = path.to_str().unwrap();
    for value in ["apples", "pears"] {
        write(dir, value);
        assert!(succeeds(&["compact", dir, "--retention", "0s"]).contains("became"));
    }
    let rows = succeeds(&["shell", dir, "-e", "SELECT * FROM shop.stock WHERE id = 7"]);
    assert!(rows.contains("pears"), "{rows}");

    let verified = succeeds(&["verify", dir]);
    assert!(verified.contains("everything is whole"), "{verified}");
    let manifest = succeeds(&["inspect", "manifest", &format!("{dir}/MANIFEST")]);
    let tables = files(&path, "sst");
    assert_eq!(manifest.lines().count(), 2 + tables.len(), "{manifest}");
    let table = succeeds(&["inspect", "sst", tables[0].to_str().unwrap()]);
    assert!(table.contains("tombstones 0"), "{table}");
    write(dir, "plums");
    let log = files(&path, "log").into_iter().max_by_key(|file| file.metadata().unwrap().len());
    let log = succeeds(&["inspect", "wal", log.unwrap().to_str().unwrap()]);
    assert!(log.lines().count() > 50, "{log}");

    // Versions older than the newest are gone.
    assert!(!fs::read(&tables[0]).unwrap().windows(6).any(|bytes| bytes == b"apples"));
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dir = path.to_str().unwrap();
    write(dir, "apples");
    succeeds(&["compact", dir]);
    let table = &files(&path, "sst")[0];
    let mut bytes = fs::read(table).unwrap();
    bytes[20] ^= 1;
    fs::write(table, bytes).unwrap();
    let error = fails(&["verify", dir]);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name) && error.contains("at byte 0"), "{error}");
}

#[test]
fn other_directories_are_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    assert!(fails(&["verify", dir]).contains("this is not a database"));
    assert!(fails(&["compact", dir]).contains("not the directory of a database"));
    assert!(fails(&["verify", "/nowhere/at/all"]).contains("is not a directory"));
    assert!(fails(&["inspect", "sst", &format!("{dir}/sst-1.sst")]).contains("is not a file"));
    assert_eq!(files(root.path(), "sst").len(), 0);
}

fn flip_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[20] ^= 1;
    // In place, like a medium's fault: a second hard link of the file shows it as well.
    fs::write(path, bytes).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// `--keep` once removed the last good backup after a damaged one was taken.
#[test]
fn backup_of_damage_keeps_the_good_one() {
    let root = tempfile::tempdir().unwrap();
    let (path, dest) = (root.path().join("data"), root.path().join("backups"));
    let (dir, backups) = (path.to_str().unwrap(), dest.to_str().unwrap());
    write(dir, "apples");
    succeeds(&["backup", dir, backups]);
    let good = names(&dest);
    write(dir, "pears");
    succeeds(&["compact", dir]);
    let table = files(&path, "sst").remove(0);
    flip_bit(&table);
    let error = fails(&["backup", dir, backups, "--keep", "1"]);
    let named = format!("{}: the block at byte 0 is damaged", table.display());
    assert!(error.contains(&named) && error.contains("earlier ones are kept"), "{error}");
    assert!(good.iter().all(|name| names(&dest).contains(name)), "{:?}", names(&dest));
    let restored = root.path().join("restored");
    succeeds(&["restore", backups, restored.to_str().unwrap()]);
    let rows = succeeds(&["shell", restored.to_str().unwrap(), "-e", "SELECT * FROM shop.stock"]);
    assert!(rows.contains("apples") && !rows.contains("pears"), "{rows}");
}

#[test]
fn other_files_stay_out_of_a_database() {
    let root = tempfile::tempdir().unwrap();
    let (path, dest) = (root.path().join("data"), root.path().join("backups"));
    let (dir, backups) = (path.to_str().unwrap(), dest.to_str().unwrap());
    write(dir, "apples");
    succeeds(&["backup", dir, backups]);
    for inside in [dir.to_owned(), format!("{dir}/sub"), format!("{dir}/sub/deep")] {
        let error = fails(&["backup", dir, &inside]);
        assert!(error.contains("is the directory of a database"), "{error}");
    }
    for inside in [backups.to_owned(), format!("{backups}/new")] {
        let error = fails(&["restore", backups, &inside]);
        assert!(error.contains("is a directory of backups"), "{error}");
    }
    for file in ["MANIFEST", "out.csv"] {
        let copy = format!("COPY shop.stock TO '{dir}/{file}'");
        let error = fails(&["shell", dir, "-e", &copy]);
        assert!(error.contains("is the directory of a database"), "{error}");
    }
    let left = names(&path);
    assert!(!left.iter().any(|name| name == "sub" || name == "out.csv"), "{left:?}");
    assert!(succeeds(&["verify", dir]).contains("everything is whole"));
    let copy = format!("COPY shop.stock TO '{}/out.csv'", root.path().display());
    succeeds(&["shell", dir, "-e", &copy]);
}

#[test]
fn created_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let (path, dest) = (root.path().join("data"), root.path().join("backups"));
    write(path.to_str().unwrap(), "apples");
    succeeds(&["backup", path.to_str().unwrap(), dest.to_str().unwrap()]);
    let mut pending = vec![path, dest];
    let mut seen = 0;
    while let Some(path) = pending.pop() {
        let found = fs::metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o} {}", path.display());
        if found.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert!(seen > 8, "{seen} files and directories");
}

#[test]
fn disk_is_measured_and_its_model_used() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dir = path.to_str().unwrap();
    write(dir, "apples");
    let output = carnet(&["iotune", "--dir", dir, "--seconds", "2", "--scratch-mib", "32"]);
    // A busy machine may measure that larger requests are not slower; then nothing is stored.
    if output.status.success() {
        let shown = text(&output);
        assert!(shown.contains("the mixed loads differ from that by up to"), "{shown}");
        assert!(path.join("IO_MODEL").exists());
    } else {
        assert!(text(&output).contains("something else uses the disk"), "{}", text(&output));
    }
    assert!(!path.join("iotune.tmp").exists());
    write(dir, "pears");
    assert!(fails(&["iotune", "--dir", dir, "--seconds", "61"]).contains("from 2 to 60"));
    let wrong = fails(&["iotune", "--dir", dir, "--scratch-mib", "8"]);
    assert!(wrong.contains("from 16 to 65536"), "{wrong}");
}

/// The commit table of a directory has the flushed entries and the entries of the log, by start.
#[test]
fn commit_table_is_listed() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let dir = dir.to_str().unwrap();
    write(dir, "apples");
    succeeds(&["compact", dir, "--retention", "1h"]);
    write(dir, "pears");
    let entries = |arguments: &[&str]| -> (Vec<(u64, u64)>, String) {
        let text = succeeds(&[&["inspect", "commits", dir], arguments].concat());
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("start\tcommit\tencoding"), "{text}");
        let entry = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [start, commit, "v2"] = fields[..] else { return None };
            Some((start.parse().unwrap(), commit.parse().unwrap()))
        };
        (lines.clone().map_while(entry).collect(), lines.last().unwrap_or_default().to_owned())
    };
    let (all, summary) = entries(&["--limit", "100000"]);
    assert!(all.len() >= 100, "{} commits of 2 × 50 inserts and their schema", all.len());
    assert!(all.is_sorted() && all.iter().all(|(start, commit)| commit > start), "{all:?}");
    assert!(summary.contains("0 aborted; encodings: v2 from 0"), "{summary}");
    assert!(summary.starts_with(&format!("{} committed", all.len())), "{summary}");

    let (first, _) = entries(&["--limit", "3"]);
    assert_eq!(first, all[..3]);
    let (from, to) = (all[20].0, all[30].0);
    let (some, _) = entries(&["--from", &from.to_string(), "--to", &to.to_string()]);
    assert_eq!(some, all[20..30]);
}

/// Without a server the space of each table in files is known, and nothing is changed.
#[test]
fn tables_of_a_directory_have_their_space() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dir = path.to_str().unwrap();
    write(dir, "apples");
    succeeds(&["compact", dir, "--retention", "0s"]);
    let before = files(&path, "sst");
    let table = succeeds(&["table-stats", "--dir", dir]);
    assert!(table.contains("stock") && table.contains("disk_bytes"), "{table}");
    let json = succeeds(&["table-stats", "shop.stock", "--dir", dir, "--json"]);
    let row: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!((&row["keyspace_name"], &row["table_name"]), (&"shop".into(), &"stock".into()));
    assert_eq!(row["disk_files"], 1);
    // The file is shared with the catalog, so that the number is an estimate.
    assert!((25..100).contains(&row["disk_versions"].as_u64().unwrap()), "{json}");
    assert!(row["disk_bytes"].as_u64().unwrap() > 0, "{json}");
    assert!(succeeds(&["table-stats", "other", "--dir", dir, "--json"]).trim().is_empty());
    assert_eq!(files(&path, "sst"), before);
}
