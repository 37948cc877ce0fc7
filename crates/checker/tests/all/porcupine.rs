//! A second opinion: Porcupine, a checker by another author in another language, judges histories
//! of registers as well. It searches where this crate infers.
//!
//! Porcupine (<https://github.com/anishathalye/porcupine>, MIT licence) is fetched through the Go
//! module proxy. If it or Go is not available, the test prints a line and is skipped; with
//! `CI=true` it fails.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, thread};

use carnet_base::{Rng, SeededRng};
use carnet_checker::format::write_json;
use carnet_checker::{History, Key, Model, Moment, Op, Options, Outcome, Transaction, check};

use crate::support;

/// Known property of a generated history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// Generated from one order of the transactions, each between its request and its answer.
    Linearizable,
    /// Like the first, but one read was given a value that was certainly overwritten before the
    /// read was requested.
    Stale,
    /// Like the first, but one read was given an arbitrary value: the verdict is unknown.
    Altered,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    transactions: usize,
    clients: usize,
    keys: u64,
    ops_max: u64,
    made: Made,
}

/// State of a client.
enum Step {
    Idle,
    Asked(usize),
    Happened(usize),
}

/// Runs transactions on registers in memory, and records their clients' observations.
struct Maker {
    rng: SeededRng,
    registers: BTreeMap<i64, i64>,
    transactions: Vec<Transaction>,
    index: u64,
    process: i64,
}

impl Maker {
    fn make(seed: u64, shape: Shape) -> Option<History> {
        let mut maker = Self {
            rng: SeededRng::new(seed),
            registers: BTreeMap::new(),
            transactions: Vec::new(),
            index: 0,
            process: 0,
        };
        maker.run(shape);
        match shape.made {
            Made::Linearizable => {}
            Made::Stale => maker.make_stale()?,
            Made::Altered => maker.alter()?,
        }
        Some(History::new(maker.transactions).unwrap())
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.rng.below(limit as u64)).unwrap()
    }

    fn moment(&mut self) -> Moment {
        self.index += 1;
        Moment { index: self.index, nanos: 0 }
    }

    fn run(&mut self, shape: Shape) {
        let mut clients: Vec<(i64, Step)> = Vec::new();
        for _ in 0..shape.clients {
            clients.push((self.fresh_process(), Step::Idle));
        }
        loop {
            let at = self.below(clients.len());
            let is_full = self.transactions.len() >= shape.transactions;
            if is_full && clients.iter().all(|(_, step)| matches!(step, Step::Idle)) {
                return;
            }
            let (process, step) = &mut clients[at];
            *step = match *step {
                Step::Idle if is_full => Step::Idle,
                Step::Idle => Step::Asked(self.ask(*process, shape)),
                Step::Asked(number) => {
                    // Some are refused, and some are never answered.
                    match self.rng.below(100) {
                        0 => self.answer(number, Outcome::Aborted),
                        1 => *process = self.fresh_process(),
                        _ => {
                            self.happen(number);
                            *step = Step::Happened(number);
                            continue;
                        }
                    }
                    Step::Idle
                }
                Step::Happened(number) => {
                    if self.rng.below(100) == 0 {
                        *process = self.fresh_process();
                    } else {
                        self.answer(number, Outcome::Committed);
                    }
                    Step::Idle
                }
            };
        }
    }

    fn fresh_process(&mut self) -> i64 {
        self.process += 1;
        self.process
    }

    fn ask(&mut self, process: i64, shape: Shape) -> usize {
        let invoked = self.moment();
        let count = 1 + self.rng.below(shape.ops_max);
        let place = i64::try_from(self.transactions.len()).unwrap() * 100;
        let ops = (0..count.cast_signed()).map(|n| {
            let key = self.rng.below(shape.keys).cast_signed().into();
            match self.rng.chance(500) {
                true => Op::ReadRegister { key, value: None },
                false => Op::Write { key, value: place + n },
            }
        });
        let (ops, outcome) = (ops.collect(), Outcome::Unknown);
        self.transactions.push(Transaction { process, invoked, completed: None, outcome, ops });
        self.transactions.len() - 1
    }

    fn happen(&mut self, number: usize) {
        for op in &mut self.transactions[number].ops {
            match op {
                Op::Write { key: Key::Int(key), value } => {
                    self.registers.insert(*key, *value);
                }
                Op::ReadRegister { key: Key::Int(key), value } => {
                    *value = self.registers.get(key).copied();
                }
                _ => panic!("{op} is not on a register with a number"),
            }
        }
    }

    fn answer(&mut self, number: usize, outcome: Outcome) {
        let completed = Some(self.moment());
        let transaction = &mut self.transactions[number];
        (transaction.completed, transaction.outcome) = (completed, outcome);
    }

    /// Returns all acknowledged writes of a register: value, moment of the request, moment of the
    /// answer.
    fn writes(&self, register: &Key) -> Vec<(i64, u64, u64)> {
        let mut writes = Vec::new();
        for transaction in &self.transactions {
            let Some(completed) = transaction.completed else { continue };
            for op in &transaction.ops {
                if let Op::Write { key, value } = op
                    && transaction.outcome == Outcome::Committed
                    && key == register
                {
                    writes.push((*value, transaction.invoked.index, completed.index));
                }
            }
        }
        writes
    }

    /// Picks an acknowledged read.
    fn read(&mut self) -> Option<(usize, usize, Key)> {
        let mut reads = Vec::new();
        for (number, transaction) in self.transactions.iter().enumerate() {
            for (at, op) in transaction.ops.iter().enumerate() {
                if op.is_read() && transaction.outcome == Outcome::Committed {
                    reads.push((number, at, op.key().clone()));
                }
            }
        }
        let picked = if reads.is_empty() { return None } else { self.below(reads.len()) };
        Some(reads.swap_remove(picked))
    }

    fn give(&mut self, number: usize, at: usize, given: Option<i64>) {
        if let Op::ReadRegister { value, .. } = &mut self.transactions[number].ops[at] {
            *value = given;
        }
    }

    /// Gives a read a value whose write was complete before another write began, which was complete
    /// before the read was requested. `None` if there is none.
    fn make_stale(&mut self) -> Option<()> {
        let (number, at, key) = self.read()?;
        let asked = self.transactions[number].invoked.index;
        let writes = self.writes(&key);
        let over = writes.iter().filter(|(_, _, completed)| *completed < asked);
        let newest = over.max_by_key(|(_, invoked, _)| *invoked)?;
        let older = writes.iter().filter(|(_, _, completed)| *completed < newest.1);
        let older: Vec<i64> = older.map(|(value, ..)| *value).collect();
        let picked = self.below(older.len() + 1);
        self.give(number, at, older.get(picked).copied());
        Some(())
    }

    fn alter(&mut self) -> Option<()> {
        let (number, at, key) = self.read()?;
        let writes = self.writes(&key);
        let picked = self.below(writes.len() + 1);
        self.give(number, at, writes.get(picked).map(|(value, ..)| *value));
        Some(())
    }
}

/// Generates histories, each with the parameters to generate it again.
fn histories(count: usize, shape: Shape) -> Vec<(u64, Shape, History)> {
    let made = (0..).filter_map(|seed| Some((seed, shape, Maker::make(seed, shape)?)));
    made.take(count).collect()
}

/// Builds the program that calls Porcupine; `None` to skip this test.
fn porcupine() -> Option<PathBuf> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/porcupine");
    // Go's installer does not add it to the path.
    let places = ["go", "/usr/local/go/bin/go"];
    let said = |command: &mut Command| match command.current_dir(&source).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    let go = places.into_iter().find(|go| said(Command::new(go).arg("version")).is_ok());
    let fetched = match go {
        Some(go) => said(Command::new(go).args(["mod", "download"])).map(|()| go),
        None => Err("there is no Go here".to_owned()),
    };
    match fetched {
        Ok(go) => {
            let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("porcupine");
            let mut build = Command::new(go);
            build.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(&program).arg(".");
            said(&mut build).unwrap();
            Some(program)
        }
        Err(why) => {
            assert!(env::var("CI").is_err(), "Porcupine cannot be had: {why}");
            // Not `eprintln`, whose output is hidden if the test passes.
            let why = why.lines().next().unwrap_or_default();
            let _ = writeln!(io::stderr(), "skipped: Porcupine cannot be had: {why}");
            None
        }
    }
}

/// Asks Porcupine whether each history is linearizable.
fn second_opinions(program: &PathBuf, all: &[(u64, Shape, History)]) -> Vec<bool> {
    let mut text = Vec::new();
    for (.., history) in all {
        write_json(history, &mut text).unwrap();
        text.push(b'\n');
    }
    let mut asked = Command::new(program);
    let mut asked = asked.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut questions = asked.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(move || questions.write_all(&text).unwrap());
        asked.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{}", output.status);
    let opinions = String::from_utf8(output.stdout).unwrap();
    let opinion = |line: &str| match line {
        "linearizable" => true,
        "not linearizable" => false,
        other => panic!("{other}: fewer clients make it easier"),
    };
    opinions.lines().map(opinion).collect()
}

#[test]
fn porcupine_agrees_with_the_checker() {
    let Some(program) = porcupine() else { return };
    let count = env::var("CARNET_HISTORIES").map_or(60, |text| text.parse().unwrap());
    let small = Shape { transactions: 7, clients: 3, keys: 2, ops_max: 1, made: Made::Altered };
    let large = Shape { transactions: 300, clients: 5, keys: 3, ..small };
    // Porcupine's search grows with the number of registers in a transaction.
    let several =
        |shape: Shape| Shape { ops_max: 3, transactions: shape.transactions.min(40), ..shape };
    let mut all = Vec::new();
    for shape in [small, several(small), large, several(large)] {
        for made in [Made::Linearizable, Made::Stale, Made::Altered] {
            all.extend(histories(count, Shape { made, ..shape }));
        }
    }
    let opinions = second_opinions(&program, &all);
    assert_eq!(opinions.len(), all.len());
    let (mut illegal, mut missed) = (0, 0);
    for ((seed, shape, history), is_linearizable) in all.iter().zip(opinions) {
        let report = check(history, &Options::default()).unwrap();
        let allows = report.allows(Model::StrictSerializable);
        let which = format!("seed {seed}, {shape:?}\n{}", report.explain(history));
        match shape.made {
            Made::Linearizable => assert!(is_linearizable && allows, "{which}"),
            Made::Stale => assert!(!is_linearizable && !allows, "{which}"),
            Made::Altered => assert!(allows || !is_linearizable, "accused wrongly: {which}"),
        }
        if history.transactions().len() <= 10 {
            let is_explained = support::explains(history, Model::StrictSerializable);
            assert_eq!(is_linearizable, is_explained, "Porcupine and brute force: {which}");
        }
        // For single operations real time is enough: no violation is missed. See
        // `infer::registers`.
        assert!(shape.ops_max > 1 || allows == is_linearizable, "missed: {which}");
        illegal += u32::from(shape.made == Made::Altered && !is_linearizable);
        missed += u32::from(allows && !is_linearizable);
    }
    println!(
        "{} histories, {illegal} that an altered read broke, {missed} of all missed",
        all.len()
    );
}
