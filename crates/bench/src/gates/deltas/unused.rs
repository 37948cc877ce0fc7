//! The cost of deltas for tables that have none: an engine without a merge operator beside one that
//! looks at the first byte of each payload.

use std::path::Path;
use std::sync::Arc;

use carnet::{Durability, Result};
use carnet_base::{
    Bytes, CellKey, KeyRange, PartitionKey, Rng, SeededRng, TableId, Timestamp, block_on,
};
use carnet_storage::{Engine, MergeOperator, Mutation, Options, PageLimit};

use super::super::{TABLE, append, entries, median, noise, open, processor_time, time};

/// Number of rows in one partition.
const ROWS: u64 = 100_000;
/// Number of rows of a page.
const PAGE_ROWS: usize = 1_000;
const READS: u32 = 100_000;
const PAGES: u32 = 2_000;

/// An operator whose tables have deltas, of which this measurement writes none.
struct Unused;

impl MergeOperator for Unused {
    fn mark(&self) -> u8 {
        2
    }

    fn has_deltas(&self, _: TableId) -> bool {
        true
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        _: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        Ok(value.map(|(_, value)| value.clone()))
    }
}

/// Prints the time of reads without and with a merge operator.
pub(super) fn run(dir: &Path, passes: usize) -> Result<()> {
    println!("tables without deltas, µs of processor     no operator   operator");
    let engines = [filled(&dir.join("plain"), false)?, filled(&dir.join("with"), true)?];
    for (name, count, read) in [
        ("point read", READS, point as fn(&Engine, &mut SeededRng) -> Result<()>),
        ("page of 1,000 rows", PAGES, page),
    ] {
        let mut micros = [Vec::new(), Vec::new()];
        // The first pass fills the cache.
        for pass in 0..=passes {
            for turn in 0..engines.len() {
                let at = (pass + turn) % engines.len();
                let (before, mut rng) = (processor_time(), SeededRng::new(pass as u64));
                (0..count).try_for_each(|_| read(&engines[at], &mut rng))?;
                let spent = processor_time().saturating_sub(before);
                if pass > 0 {
                    micros[at].push(spent.as_secs_f64() * 1e6 / f64::from(count));
                }
            }
        }
        let [plain, with] = micros.map(median);
        println!("  {name:<28} {plain:>12.3} {with:>12.3}   {:.3}", with / plain);
    }
    engines.into_iter().try_for_each(Engine::close)
}

/// Opens an engine with compacted rows.
fn filled(dir: &Path, has_operator: bool) -> Result<Engine> {
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = open(dir.to_owned(), options, entries())?;
    if has_operator {
        engine.set_merge_operator(Arc::new(Unused));
    }
    let mut rng = SeededRng::new(1);
    for number in 0..ROWS {
        let (key, mut value) = (key(number), noise(&mut rng, 100));
        value[0] = 1;
        let puts = [Mutation::put_or_delete(&key, Some(&value))];
        append(&engine, time(2 * number + 1), &puts.into_iter(), || time(2 * number + 2))?;
    }
    engine.flush()?;
    engine.compact()?;
    Ok(engine)
}

fn partition() -> PartitionKey {
    PartitionKey::new("p")
}

fn key(number: u64) -> CellKey {
    CellKey::new(TABLE, &partition(), number.to_be_bytes())
}

fn point(engine: &Engine, rng: &mut SeededRng) -> Result<()> {
    block_on(engine.get(&key(rng.below(ROWS)), engine.published())).map(drop)
}

fn page(engine: &Engine, rng: &mut SeededRng) -> Result<()> {
    let from = key(rng.below(ROWS - PAGE_ROWS as u64));
    let range = KeyRange::partition(TABLE, &partition()).after(from, false);
    let limit = PageLimit { cells: PAGE_ROWS, bytes: usize::MAX };
    let read = engine.published();
    block_on(engine.range(&range, read, false, limit)).map(drop)
}
