//! Measures an edit of the manifest that durably removes one table and adds one, among many.
//!
//! ```text
//! cargo run --release -p carnet-storage --example manifest -- [DIR]
//! ```
//!
//! Keys are 40 bytes long. Prints the file's length and the latency of an edit in milliseconds,
//! median and p99 of 200; then its part without the disk.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use carnet_base::Timestamp;
use carnet_storage::disk::RealDisk;
use carnet_storage::manifest::{Contents, Edit, FlatRange, Manifest, TableMeta};

const EDITS: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    println!("{:>7} {:>10} {:>8} {:>8} {:>8}", "tables", "bytes", "p50 ms", "p99 ms", "pure ms");
    for tables in [10, 500, 5_000, 50_000] {
        let directory = base.join(format!("carnet-manifest-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let measured = run(&directory, tables);
        std::fs::remove_dir_all(&directory)?;
        println!("{}", measured?);
    }
    Ok(())
}

fn run(directory: &std::path::Path, tables: u64) -> Result<String, Box<dyn Error>> {
    let disk = RealDisk::open(directory)?;
    let add = (1..=tables).map(|number| table(number, number)).collect();
    let mut manifest = Manifest::empty().edited(&Edit { add, ..Edit::default() })?;
    manifest.store(&disk)?;
    let (mut times, mut pure) = (Vec::new(), Vec::new());
    for round in 0..EDITS {
        let place = 1 + round % tables;
        let doomed = if round < tables { place } else { tables + 1 + round - tables };
        let edit = Edit {
            add: vec![table(tables + 1 + round, place)],
            remove: vec![doomed],
            ..Edit::default()
        };
        let begun = Instant::now();
        std::hint::black_box(manifest.edited(&edit)?);
        pure.push(begun.elapsed());
        let begun = Instant::now();
        manifest.apply(&disk, &edit)?;
        times.push(begun.elapsed());
    }
    let bytes = std::fs::metadata(directory.join("MANIFEST"))?.len();
    times.sort_unstable();
    pure.sort_unstable();
    let millis = |time: &Duration| time.as_secs_f64() * 1e3;
    let (p50, p99, pure) = (&times[times.len() / 2], &times[times.len() * 99 / 100], &pure[100]);
    let (p50, p99, pure) = (millis(p50), millis(p99), millis(pure));
    Ok(format!("{tables:>7} {bytes:>10} {p50:>8.2} {p99:>8.2} {pure:>8.2}"))
}

/// Makes a table at a separate position of level 6.
fn table(number: u64, place: u64) -> TableMeta {
    let key = |end: u8| {
        let mut key = vec![0; 40];
        key[4..12].copy_from_slice(&place.to_be_bytes());
        key[39] = end;
        key
    };
    let contents = Contents { cells: 1, commit_max: Timestamp::MAX, ..Contents::default() };
    TableMeta { number, level: 6, bytes: 64 << 20, range: FlatRange::new(key(0), key(9)), contents }
}
