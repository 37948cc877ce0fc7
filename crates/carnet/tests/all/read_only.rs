//! Databases opened read-only.

use std::fs;
use std::path::Path;

use carnet::{Db, ErrorKind};

fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        // The lock file names the process that holds the directory.
        .filter(|(name, _)| name != "LOCK")
        .collect();
    files.sort();
    files
}

#[test]
fn read_only_database_changes_no_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let db = Db::builder().control(true).open(&path).unwrap();
    let stock = db.raw("stock").unwrap();
    db.transact(|tx| stock.put(tx, "apples", "3")).unwrap();
    db.flush().unwrap();
    db.transact(|tx| stock.put(tx, "pears", "5")).unwrap();
    drop((stock, db));

    let before = contents(&path);
    let db = Db::builder().read_only(true).control(true).open(&path).unwrap();
    let stock = db.raw("stock").unwrap();
    assert_eq!(stock.get(&db, "apples").unwrap().as_deref(), Some(&b"3"[..]));
    let read = db.transact(|tx| stock.get(tx, "pears")).unwrap();
    assert_eq!(read.as_deref(), Some(&b"5"[..]));
    assert_eq!(stock.prefix(&db.snapshot().unwrap(), "").count(), 2);
    let refused = db.transact(|tx| stock.put(tx, "plums", "1")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("for reading only"), "{refused}");
    assert_eq!(db.compact().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(db.raw("no such table").is_err(), "the table would have to be created");
    assert!(Db::open(&path).is_err(), "a reader holds the directory too");
    db.close().unwrap();
    drop((stock, db));
    assert_eq!(contents(&path), before);

    // Its table would get the number of a table of the next writer.
    let db = Db::builder().read_only(true).open(&path).unwrap();
    assert_eq!(db.backup(root.path().join("copied")).unwrap_err().kind(), ErrorKind::Invalid);
    drop(db);
    let missing = Db::builder().read_only(true).open(root.path().join("missing")).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(!root.path().join("missing").exists());
}
