//! Edits of the manifest, each of which durably removes one table and adds one, among many.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::path::Path;
use std::time::{Duration, Instant};

use carnet_base::{Result, Timestamp};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::manifest::{Contents, Edit, FlatRange, Manifest, TableMeta};
use clap::Args;

const EDITS: u64 = 200;

/// Time edits of the manifest, each of which durably removes one table and adds one, among many
/// tables with keys of 40 bytes: the median and p99 of 200, and the median without the disk.
#[derive(Args)]
pub(crate) struct ManifestEdits {}

impl ManifestEdits {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        println!(
            "{:>7} {:>10} {:>8} {:>8} {:>8}",
            "tables", "bytes", "p50 ms", "p99 ms", "pure ms"
        );
        [10, 500, 5_000, 50_000].into_iter().try_for_each(|tables| measure(dir, tables))
    }
}

fn measure(dir: &Path, tables: u64) -> Result<()> {
    let dir = super::directory(Some(dir))?;
    let disk = RealDisk::open(dir.path().join("data"))?;
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
    let bytes = std::fs::metadata(disk.path("MANIFEST")).map_or(0, |metadata| metadata.len());
    times.sort_unstable();
    pure.sort_unstable();
    let millis = |time: &Duration| time.as_secs_f64() * 1e3;
    let (p50, p99, pure) = (&times[times.len() / 2], &times[times.len() * 99 / 100], &pure[100]);
    let (p50, p99, pure) = (millis(p50), millis(p99), millis(pure));
    println!("{tables:>7} {bytes:>10} {p50:>8.2} {p99:>8.2} {pure:>8.2}");
    Ok(())
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
