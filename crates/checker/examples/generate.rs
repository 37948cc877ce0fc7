//! Generates a long history, checks it, and prints the time: the source of the figures in
//! `docs/checker.md`.
//!
//! `cargo run --release -p carnet-checker --example generate -- [TRANSACTIONS] [list|register]
//! [serializable|skewed|broken] [FILE]`; a FILE gets the history as EDN. With `skewed`, one in a
//! hundred transactions reads an older snapshot; with `broken`, one in ten reads anything.
#![expect(clippy::disallowed_methods, reason = "a measurement needs a clock, and a file to write")]

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;
use std::{env, iter};

use carnet_base::{Rng, SeededRng};
use carnet_checker::format::{Format, write_edn};
use carnet_checker::{History, Key, Op, Options, Outcome, Recorder, check};

/// Number of concurrent clients.
const PROCESSES: u64 = 30;
/// Number of keys in use at a time, and number of writes after which a key is replaced, as in
/// Jepsen's tests.
const ACTIVE_KEYS: u64 = 10;
const WRITES_PER_KEY: usize = 32;

#[derive(Clone, Default)]
struct Object {
    values: Vec<i64>,
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// Runs transactions one after the other at their answers; incorrect ones read old states.
fn generate(transactions: u64, lists: bool, stale_percent: u64) -> History {
    let mut rng = SeededRng::new(1);
    let mut recorder = Recorder::default();
    let mut objects: Vec<Object> = vec![Object::default(); at(ACTIVE_KEYS)];
    let mut active: Vec<usize> = (0..at(ACTIVE_KEYS)).collect();
    let mut running = VecDeque::new();
    let mut idle: Vec<i64> = (0i64..).take(at(PROCESSES)).collect();
    for number in 0..transactions {
        let swapped = at(rng.below(idle.len() as u64));
        let process = idle.swap_remove(swapped);
        let keys: Vec<usize> =
            iter::repeat_with(|| active[at(rng.below(ACTIVE_KEYS))]).take(4).collect();
        let mut ops = Vec::new();
        for &object in &keys {
            let key = Key::Int(i64::try_from(object).expect("small"));
            let value = i64::try_from(objects[object].values.len() + 1).expect("small");
            let reads = rng.below(2) == 0;
            ops.push(match (reads, lists) {
                (true, true) => Op::ReadList { key, list: Vec::new() },
                (true, false) => Op::ReadRegister { key, value: None },
                (false, true) => Op::Append { key, element: value },
                (false, false) => Op::Write { key, value },
            });
            if !reads {
                objects[object].values.push(value);
            }
        }
        let call = recorder.invoke(process, i64::try_from(number).expect("small"), ops.clone());
        // It takes effect now; its reads are reported later.
        let is_stale = rng.below(1000) < stale_percent;
        let mut lengths: Vec<usize> = keys.iter().map(|key| objects[*key].values.len()).collect();
        // Within the transaction, remove the effects of later operations from each read.
        for (place, key) in keys.iter().enumerate() {
            let later = ops[place..].iter().zip(&keys[place..]);
            lengths[place] -= later.filter(|(op, other)| !op.is_read() && *other == key).count();
            let own_before =
                ops[..place].iter().zip(&keys).any(|(op, k)| !op.is_read() && k == key);
            if is_stale && !own_before {
                lengths[place] = lengths[place].saturating_sub(1 + at(rng.below(3)));
            }
        }
        for ((op, key), length) in ops.iter_mut().zip(&keys).zip(lengths) {
            let values = &objects[*key].values[..length];
            match op {
                Op::ReadList { list, .. } => *list = values.to_vec(),
                Op::ReadRegister { value, .. } => *value = values.last().copied(),
                _ => {}
            }
        }
        running.push_back((call, process, ops));
        while idle.is_empty() || !running.is_empty() && rng.below(2) == 0 {
            let (call, process, ops) = running.pop_front().expect("a transaction is running");
            recorder.complete(call, 0, Outcome::Committed, Some(ops));
            idle.push(process);
        }
        for slot in &mut active {
            if objects[*slot].values.len() >= WRITES_PER_KEY {
                objects.push(Object::default());
                *slot = objects.len() - 1;
            }
        }
    }
    for (call, _, ops) in running {
        recorder.complete(call, 0, Outcome::Committed, Some(ops));
    }
    recorder.finish().expect("the recorder numbers its events")
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let word =
        |place: usize, default: &'static str| words.get(place).map_or(default, |w| w.as_str());
    let transactions: u64 = word(0, "1000000").parse()?;
    let lists = word(1, "list") == "list";
    let stale = match word(2, "serializable") {
        "serializable" => 0,
        "skewed" => 10,
        _ => 100,
    };
    let history = generate(transactions, lists, stale);
    let started = Instant::now();
    let report = check(&history, &Options::default())?;
    let checked = started.elapsed();
    print!("{}", report.explain(&history));
    println!("\n{transactions} transactions checked in {checked:.2?}");
    if let Some(file) = words.get(3) {
        let mut out = BufWriter::new(File::create(file)?);
        write_edn(&history, &mut out)?;
        out.flush()?;
        let text = std::fs::read_to_string(file)?;
        let started = Instant::now();
        let again = Format::Edn.read(&text)?;
        let (took, bytes) = (started.elapsed(), text.len());
        println!("{bytes} bytes of EDN read in {took:.2?}, the same: {}", again == history);
    }
    Ok(())
}
