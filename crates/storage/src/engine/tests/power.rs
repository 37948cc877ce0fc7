//! Power failures with many commits in flight: reserved but not inserted, inserted but not written,
//! written but not synced, synced but waiting for an earlier one. Flushes and compactions run in
//! between, and each run recovers from the previous one's disk.

use std::collections::BTreeSet;

use super::*;
use crate::compaction::policy::Config;

/// History of a database over all its runs.
struct Story {
    disk: SimDisk,
    options: Options,
    rng: SeededRng,
    /// All commits that were decided and may exist.
    decided: BTreeSet<u64>,
    acknowledged: u64,
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        flush_bytes: 60_000,
        memtables_waiting_max: 50,
        segment_bytes: 20_000,
        log_ahead_bytes: 3_000,
        compaction: Config {
            level0_tables: 2,
            base_bytes: 60_000,
            table_bytes: 30_000,
            part_bytes: 1_000,
            slow_runs: 4,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// Returns the cells of a commit: three of its own and one that all share. They are large, so that
/// the log loses some of their pages and keeps others.
fn cells(commit: u64) -> [(CellKey, Bytes); 4] {
    let payload = Bytes::from(vec![u8::try_from(commit % 251).unwrap(); 2100]);
    [10 * commit, 10 * commit + 1, 10 * commit + 2, 0].map(|at| (key(at), payload.clone()))
}

impl Story {
    fn new(seed: u64, durability: Durability) -> Self {
        let (disk, rng) = (SimDisk::new(seed), SeededRng::new(seed));
        let options = options(durability);
        Self { disk, options, rng, decided: BTreeSet::new(), acknowledged: 0 }
    }

    /// Runs the engine until the power fails or all steps are done; returns the outcome.
    fn live(&mut self, steps: u64) -> Result<()> {
        let workers = Stepped::default();
        let engine = Engine::open(
            Arc::new(self.disk.clone()),
            Arc::new(SystemClock),
            &workers,
            self.options.clone(),
            entry_cell(),
        )?;
        engine.adopt_recovered()?;
        self.check(&engine)?;
        let (mut reserved, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            match self.rng.below(100) {
                0..3 => waiting.push(self.adopt(&engine)?),
                3..35 => reserved.push(self.reserve(&engine)?),
                35..65 if !reserved.is_empty() => {
                    // Any of them, because threads are not woken in commit order.
                    let at = usize::try_from(self.rng.below(reserved.len() as u64)).unwrap();
                    waiting.push(append::Reserved::insert(reserved.swap_remove(at)));
                }
                65..85 => drop(workers.step(0)),
                // Without a log, the first worker flushes.
                85..92 => drop(workers.step(usize::from(self.options.durability.has_log()))),
                92..96 => drop(workers.step(2)),
                96.. => drop(workers.step(3)),
                _ => {}
            }
            waiting.retain_mut(|appended| match poll(appended) {
                Poll::Ready(Ok(commit)) => {
                    self.acknowledged = self.acknowledged.max(commit.get());
                    false
                }
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            });
        }
        Ok(())
    }

    fn reserve<'e>(&mut self, engine: &'e Engine) -> Result<append::Reserved<'e>> {
        let commit = self.next();
        let cells = cells(commit);
        let puts = cells.iter().map(|(key, payload)| Mutation::put_or_delete(key, Some(payload)));
        let prepared = engine.prepare(time(commit - 1), puts)?;
        let reserved = engine.reserve(prepared, || Ok::<_, Error>(time(commit)))?;
        self.decided.insert(commit);
        Ok(reserved)
    }

    /// Like [`Story::reserve`], through a spill.
    fn adopt(&mut self, engine: &Engine) -> Result<Appended> {
        let commit = self.next();
        let mut cells = cells(commit);
        cells.sort();
        let spill = engine.spill(time(commit - 1));
        // Overwritten cells of an earlier run, and dropped spills, are invisible.
        let wrong = Bytes::from_static(b"written over");
        // A single run is adopted as it is; several ones are merged.
        if self.rng.chance(500) {
            spill.add(cells[1..3].iter().map(|(key, _)| (key, Some(&wrong[..]))))?;
        }
        spill.add(cells.iter().map(|(key, payload)| (key, Some(&payload[..]))))?;
        if self.rng.chance(200) {
            drop(spill.merge(|_| ())?);
        }
        let appended = engine.adopt(&spill.merge(|_| ())?, || Ok::<_, Error>(time(commit)))?;
        self.decided.insert(commit);
        Ok(appended)
    }

    fn next(&mut self) -> u64 {
        self.decided.last().copied().unwrap_or(0) + 2 + self.rng.below(3)
    }

    /// Ends the process, by a power failure or not.
    fn end(&mut self) {
        if self.rng.chance(700) {
            self.disk = self.disk.crash(&mut self.rng);
            if self.options.durability != Durability::Always {
                self.acknowledged = 0;
            }
        } else {
            self.disk = self.disk.kill();
            if !self.options.durability.has_log() {
                self.acknowledged = 0;
            }
        }
    }

    /// Checks that the recovered commits are a prefix of those decided, each complete, and
    /// continues with them.
    fn check(&mut self, engine: &Engine) -> Result<()> {
        let published = engine.published().get();
        assert!(self.acknowledged <= published, "{} of {published} got lost", self.acknowledged);
        assert!(published == 0 || self.decided.contains(&published), "{published} was never made");
        let gone = self.decided.split_off(&(published + 1));
        for &commit in self.decided.union(&gone) {
            for (key, payload) in cells(commit) {
                let found = block_on(engine.get(&key, time(commit)))?;
                let found = found.filter(|version| version.commit == Some(time(commit)));
                let found = found.and_then(|version| version.payload);
                let is_done = commit <= published;
                assert_eq!(found, is_done.then_some(payload), "{commit} of {published}");
            }
        }
        Ok(())
    }

    /// Runs the engine `lives` times, each cut short at one of its first operations.
    fn lives(&mut self, lives: u64, operations: u64) {
        for _ in 0..lives {
            let within = 1 + self.rng.below(operations);
            self.disk.halt_at(self.disk.operations() + within);
            let _ = self.live(150);
            self.end();
        }
        self.live(0).unwrap();
    }
}

fn told(seed: u64, durability: Durability, story: impl FnOnce(&mut Story)) {
    println!("replay: seed {seed}, {durability:?}");
    story(&mut Story::new(seed, durability));
}

#[test]
fn crash_at_every_operation_with_commits_in_flight() {
    for durability in [Durability::Always, Durability::None, Durability::Memory] {
        let mut whole = Story::new(3, durability);
        whole.live(150).unwrap();
        let operations = whole.disk.operations();
        assert!(operations > 60, "{operations} operations show little");
        let step = if durability == Durability::Always { 1 } else { 4 };
        for at in (1..=operations).step_by(step) {
            told(3, durability, |story| {
                story.disk.halt_at(at);
                let _ = story.live(150);
                story.end();
                story.live(0).unwrap();
            });
        }
    }
}

#[test]
fn repeated_crashes_with_commits_in_flight() {
    for seed in 0..40 {
        let durability =
            [Durability::Always, Durability::Memory, Durability::None][(seed % 3) as usize];
        told(seed, durability, |story| story.lives(6, 120));
    }
}
