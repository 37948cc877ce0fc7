//! Cost of a transaction on one core: begin, read, put and commit of a transaction that reads and
//! puts one key, without fsync, at each isolation level. `bench/peers` measures the same for other
//! engines.
//!
//! It prints two figures, which answer different questions and have different weaknesses:
//!
//! * **Steps**: the median time of a step, minus the cost of reading the clock. Other programs do
//!   not disturb it, but it misses work that is done once in a thousand transactions.
//! * **Processor**: the mean processor time of the whole process per transaction, background
//!   threads included, in loops that read no clock. It covers all work; other programs affect it
//!   only through the processor's caches.

use std::path::Path;
use std::time::Duration;

use carnet::{Db, Durability, Isolation, Label, RawTable, Result};
use carnet_base::{Clock, Rng, SeededRng, SystemClock};
use clap::Args;

use super::processor_time;

/// Number of existing keys, which are overwritten.
const KEYS: u64 = 100_000;
const VALUE: [u8; 100] = [7; 100];
/// Number of transactions before switching between loops with and without a clock.
const STRETCH: u32 = 10_000;

/// One kind of transaction.
struct Kind {
    name: &'static str,
    isolation: Isolation,
    does: Does,
    label: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// Reads and puts a key.
    Update,
    /// Puts a key without reading it.
    Put,
    /// Reads a key in a read-only snapshot.
    Read,
}

impl Kind {
    const fn update(name: &'static str, isolation: Isolation) -> Self {
        Self { name, isolation, does: Does::Update, label: false }
    }
}

const KINDS: [Kind; 6] = [
    Kind::update("strict serializable", Isolation::StrictSerializable),
    Kind::update("serializable", Isolation::Serializable),
    Kind::update("snapshot", Isolation::Snapshot),
    Kind { label: true, ..Kind::update("strict, labelled", Isolation::StrictSerializable) },
    Kind { does: Does::Put, ..Kind::update("strict, only puts", Isolation::StrictSerializable) },
    Kind { does: Does::Read, ..Kind::update("only reads", Isolation::StrictSerializable) },
];

/// Time the steps of a transaction on one key, on one thread.
#[derive(Args)]
pub(crate) struct Cost {
    /// Number of transactions per pass.
    #[arg(long, default_value_t = 200_000)]
    transactions: u32,
    /// Number of passes; the median of each figure is printed.
    #[arg(long, default_value_t = 5)]
    passes: usize,
    /// Run only the kind of transaction with this index, from zero: for a profiler.
    #[arg(long)]
    only: Option<usize>,
}

/// Figures of one pass, in nanoseconds.
#[derive(Clone, Copy)]
struct Figures {
    steps: [f64; STEPS],
    processor: f64,
}

/// Number of steps: begin, get, put, and commit or end.
const STEPS: usize = 4;

impl Cost {
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        let kinds: Vec<&Kind> = match self.only {
            None => KINDS.iter().collect(),
            Some(number) => KINDS.iter().skip(number).take(1).collect(),
        };
        let mut passes: Vec<Vec<Figures>> = vec![Vec::new(); kinds.len()];
        for pass in 0..self.passes.max(1) {
            for turn in 0..kinds.len() {
                let at = (pass + turn) % kinds.len();
                let dir = dir.join(format!("{pass}-{at}"));
                passes[at].push(Subject::open(&dir, kinds[at])?.pass(self.transactions)?);
            }
        }
        println!(
            "{:<20} {:>7} {:>7} {:>7} {:>7} {:>7} {:>10}   ns",
            "transaction", "begin", "get", "put", "commit", "all", "processor"
        );
        for (kind, passes) in kinds.iter().zip(&passes) {
            let figure =
                |of: &dyn Fn(&Figures) -> f64| super::median(passes.iter().map(of).collect());
            let steps: [f64; STEPS] = std::array::from_fn(|step| figure(&|pass| pass.steps[step]));
            let [begin, get, put, commit] = steps;
            let (all, processor) = (steps.iter().sum::<f64>(), figure(&|pass| pass.processor));
            let name = kind.name;
            println!(
                "{name:<20} {begin:>7.0} {get:>7.0} {put:>7.0} {commit:>7.0} {all:>7.0} {processor:>10.0}"
            );
        }
        Ok(())
    }
}

/// A database that one kind of transaction runs on.
struct Subject<'a> {
    db: Db,
    table: RawTable,
    kind: &'a Kind,
    label: Option<Label>,
}

impl<'a> Subject<'a> {
    fn open(dir: &Path, kind: &'a Kind) -> Result<Self> {
        let db = Db::builder().durability(Durability::None).isolation(kind.isolation).open(dir)?;
        let table = db.raw("cost")?;
        for first in (0..KEYS).step_by(1000) {
            let keys = first..first + 1000;
            db.transact(|tx| {
                keys.clone().try_for_each(|key| table.put(tx, key.to_be_bytes(), VALUE))
            })?;
        }
        let label = kind.label.then(|| Label::new("somebody@somewhere", "BEGIN"));
        Ok(Self { db, table, kind, label })
    }

    /// Runs `transactions` transactions with a clock, and as many without.
    fn pass(&self, transactions: u32) -> Result<Figures> {
        let clock = SystemClock;
        let mut rng = SeededRng::new(1);
        let mut steps: [Vec<u64>; STEPS] = Default::default();
        let (mut processor, mut run) = (Duration::ZERO, 0);
        while run < transactions {
            for _ in 0..STRETCH {
                let times = self.transaction(&mut rng, || nanos(clock.now().0))?;
                for (step, times) in steps.iter_mut().zip(times.windows(2)) {
                    step.push(times[1] - times[0]);
                }
            }
            let before = processor_time();
            for _ in 0..STRETCH {
                self.transaction(&mut rng, || 0)?;
            }
            processor += processor_time().saturating_sub(before);
            run += STRETCH;
        }
        let reading = reading_the_clock(&clock);
        let steps = steps.map(|step| (middle(step) - reading).max(0.0));
        Ok(Figures { steps, processor: processor.as_secs_f64() * 1e9 / f64::from(run) })
    }

    /// Runs one transaction, and returns the times before, between and after its steps.
    fn transaction(&self, rng: &mut SeededRng, now: impl Fn() -> u64) -> Result<[u64; STEPS + 1]> {
        let key = rng.below(KEYS).to_be_bytes();
        let mut times = [now(); STEPS + 1];
        if self.kind.does == Does::Read {
            let snapshot = self.db.snapshot()?;
            times[1] = now();
            let found = self.table.get(&snapshot, key)?;
            times[2] = now();
            times[3] = now();
            drop(snapshot);
            times[4] = now();
            assert!(found.is_some(), "every key is there");
            return Ok(times);
        }
        let tx = match &self.label {
            None => self.db.begin()?,
            Some(label) => self.db.transaction().label(label.clone()).begin()?,
        };
        times[1] = now();
        if self.kind.does == Does::Update {
            let found = self.table.get(&tx, key)?;
            assert!(found.is_some(), "every key is there");
        }
        times[2] = now();
        self.table.put(&tx, key, VALUE)?;
        times[3] = now();
        tx.commit()?;
        drop(tx);
        times[4] = now();
        Ok(times)
    }
}

fn reading_the_clock(clock: &SystemClock) -> f64 {
    let readings: Vec<u64> = (0..=STRETCH).map(|_| nanos(clock.now().0)).collect();
    middle(readings.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn middle(mut nanos: Vec<u64>) -> f64 {
    nanos.sort_unstable();
    nanos.get(nanos.len() / 2).map_or(0.0, |&middle| middle as f64)
}
