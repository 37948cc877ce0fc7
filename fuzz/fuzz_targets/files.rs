//! A database whose files somebody else wrote: it opens or says why not, and reads or says why not.
//! And the sections of tables alone, behind the checksums that keep most damage out.
#![no_main]

use carnet_storage::disk::sim::SimDisk;
use carnet::{Db, Durability};
use carnet_base::Stepped;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, OnceLock};

/// A small database's files, to be damaged.
fn files() -> &'static Vec<(String, Vec<u8>)> {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = SimDisk::new(1);
        let db = open(&disk).expect("an empty disk opens");
        let table = db.raw("t").expect("a table is made");
        for round in 0..3 {
            db.transact(|tx| {
                (0..20).try_for_each(|n| table.put(tx, format!("{n}"), vec![round; 50]))
            })
            .expect("nobody else writes");
            if round == 1 {
                db.flush().expect("the disk works");
            }
        }
        drop(db);
        let names = ["MANIFEST".to_owned()].into_iter();
        let names = names.chain((0..9).map(|n| format!("wal-{n:08}.log")));
        let names = names.chain((0..9).map(|n| format!("sst-{n:08}.sst")));
        names.filter_map(|name| disk.contents(&name).map(|bytes| (name, bytes))).collect()
    })
}

fn open(disk: &SimDisk) -> carnet::Result<Db> {
    Db::builder()
        .durability(Durability::None)
        .spawn(Arc::new(Stepped::default()))
        .open_on(Arc::new(disk.clone()))
}

fuzz_target!(|input: (Vec<(u8, u16, u8)>, u8, Vec<u8>)| {
    let (damage, kind, section) = input;
    carnet_storage::sstable::decode_anything(kind, &section);
    let mut files = files().clone();
    for (file, at, byte) in damage {
        let count = files.len();
        let bytes = &mut files[usize::from(file) % count].1;
        if !bytes.is_empty() {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= byte;
        }
    }
    let disk = SimDisk::new(2);
    for (name, bytes) in files {
        disk.plant(&name, bytes);
    }
    if let Ok(db) = open(&disk)
        && let Ok(table) = db.raw("t")
        && let Ok(snapshot) = db.snapshot()
    {
        table.prefix(&snapshot, "").for_each(drop);
    }
});
