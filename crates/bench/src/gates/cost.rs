//! What a transaction costs on one core: begin, read and commit of one that puts one key, without
//! fsync, at each isolation level. bench/peers has the same for other engines.

use std::path::Path;

use carnet::base::{Clock, Rng, SeededRng, SystemClock};
use carnet::{Db, Durability, Isolation, Result};
use clap::Args;

/// Keys that are there before, and are written over.
const KEYS: u64 = 100_000;
const VALUE: [u8; 100] = [7; 100];
const LEVELS: [(&str, Isolation); 3] = [
    ("strict serializable", Isolation::StrictSerializable),
    ("serializable", Isolation::Serializable),
    ("snapshot", Isolation::Snapshot),
];

/// Times the steps of a transaction that reads one key and puts it, on one thread.
#[derive(Args)]
pub(crate) struct Cost {
    /// Transactions in a pass.
    #[arg(long, default_value_t = 200_000)]
    transactions: u32,
    /// Passes; the median one of each figure is shown.
    #[arg(long, default_value_t = 5)]
    passes: usize,
}

/// Nanoseconds for one transaction: begin, get, put, commit.
type Steps = [f64; 4];

impl Cost {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let mut passes: [Vec<Steps>; LEVELS.len()] = Default::default();
        for pass in 0..self.passes.max(1) {
            for (level, (_, isolation)) in LEVELS.iter().enumerate() {
                let dir = dir.join(format!("{pass}-{level}"));
                passes[level].push(self.pass(&dir, *isolation)?);
            }
        }
        println!(
            "{:<20} {:>8} {:>8} {:>8} {:>8} {:>8}   nanoseconds",
            "isolation", "begin", "get", "put", "commit", "all"
        );
        for ((name, _), passes) in LEVELS.iter().zip(&passes) {
            let [begin, get, put, commit] = median(passes);
            let all = begin + get + put + commit;
            println!("{name:<20} {begin:>8.0} {get:>8.0} {put:>8.0} {commit:>8.0} {all:>8.0}");
        }
        Ok(())
    }

    fn pass(&self, dir: &Path, isolation: Isolation) -> Result<Steps> {
        let db = Db::builder().durability(Durability::None).isolation(isolation).open(dir)?;
        let table = db.raw("cost")?;
        for first in (0..KEYS).step_by(1000) {
            let keys = first..first + 1000;
            db.transact(|tx| {
                keys.clone().try_for_each(|key| table.put(tx, key.to_be_bytes(), VALUE))
            })?;
        }
        let mut rng = SeededRng::new(1);
        let clock = SystemClock;
        let mut nanos = [0_u128; 4];
        for _ in 0..self.transactions {
            let key = rng.below(KEYS).to_be_bytes();
            let begun = clock.now();
            let tx = db.begin()?;
            let read = clock.now();
            let found = table.get(&tx, key)?;
            let put = clock.now();
            table.put(&tx, key, VALUE)?;
            let commit = clock.now();
            tx.commit()?;
            drop(tx);
            let end = clock.now();
            assert!(found.is_some(), "every key is there");
            let times = [begun, read, put, commit, end];
            for (nanos, step) in nanos.iter_mut().zip(times.windows(2)) {
                *nanos += step[1].since(step[0]).as_nanos();
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        Ok(nanos.map(|nanos| nanos as f64 / f64::from(self.transactions)))
    }
}

fn median(passes: &[Steps]) -> Steps {
    let mut sorted = passes.to_vec();
    sorted.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum::<f64>()));
    sorted[sorted.len() / 2]
}
