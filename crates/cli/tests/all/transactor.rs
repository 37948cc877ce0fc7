//! `carnet transactor`: several processes on one directory, killed at any moment, and judged by the
//! checker of the Maelstrom harness; and the commands as a user types them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use carnet_base::{Rng, SeededRng};
use carnet_checker::{Model, Op, Outcome, Recorder, check};
use serde_json::{Value, json};

use crate::support::{Guard, carnet, fail, succeed};

fn transactor(directory: &Path, words: &[&str]) -> Command {
    let mut command = carnet();
    command.arg("transactor").arg(directory).args(words);
    command
}

/// A process that runs each line as a transaction.
struct Session {
    process: Guard,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(directory: &Path) -> Self {
        let mut command = transactor(directory, &["txn"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut process = Guard::new(child);
        let (input, output) = (process.stdin(), process.stdout());
        Self { process, input, output }
    }

    fn ask(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Reads an answer; `None` if the process ended before.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if line.is_empty() { None } else { Some(serde_json::from_str(&line).unwrap()) }
    }
}

/// Returns a long key: the root has room for few of them, and transactions put nodes.
fn key(number: i64) -> String {
    format!("{number}{}", "x".repeat(400))
}

fn line(ops: &[Op]) -> Value {
    let number = |op: &Op| op.key().to_string().parse().unwrap();
    let shown = |op: &Op| match op {
        Op::Append { element, .. } => json!(["append", key(number(op)), element]),
        other => json!(["list", key(number(other))]),
    };
    ops.iter().map(shown).collect()
}

fn answered(ops: &[Op], answer: &Value) -> Vec<Op> {
    let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), ops.len(), "{answer}");
    let op = |(op, answer): (&Op, &Value)| match op {
        Op::ReadList { key, .. } => {
            let list = answer.as_array().unwrap().iter().map(number).collect();
            Op::ReadList { key: key.clone(), list }
        }
        other => other.clone(),
    };
    ops.iter().zip(answers).map(op).collect()
}

const KEYS: u64 = 12;
const WRITERS: i64 = 4;
const TRANSACTIONS: u64 = 30;

fn draw(rng: &mut SeededRng, next: &mut i64) -> Vec<Op> {
    let mut op = || {
        let key = i64::try_from(rng.below(KEYS)).unwrap().into();
        if rng.chance(400) {
            return Op::ReadList { key, list: Vec::new() };
        }
        *next += 1;
        Op::Append { key, element: *next }
    };
    (0..3).map(|_| op()).collect()
}

/// Runs transactions in one process after another, and kills each.
fn drive(directory: &Path, writer: i64, recorder: &Mutex<Recorder>) {
    let mut rng = SeededRng::new(writer.cast_unsigned());
    let (mut session, mut process) = (Session::start(directory), writer);
    let mut next = writer * 10_000;
    for number in 0..TRANSACTIONS {
        let ops = draw(&mut rng, &mut next);
        let call = recorder.lock().unwrap().invoke(process, 0, ops.clone());
        session.ask(&line(&ops));
        if number % 8 == 7 {
            // From before the transaction begins to after it has ended.
            (0..rng.below(4000)).for_each(|_| std::thread::yield_now());
            session.process.kill();
        }
        match session.answer() {
            Some(answer) if answer.is_array() => {
                let ops = answered(&ops, &answer);
                recorder.lock().unwrap().complete(call, 0, Outcome::Committed, Some(ops));
            }
            Some(answer) => panic!("{answer}"),
            // Its outcome stays unknown, and another client takes its place.
            None => process += WRITERS,
        }
        if number % 8 == 7 {
            session = Session::start(directory);
        }
    }
}

#[test]
fn killed_processes_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("tree");
    let recorder = Mutex::new(Recorder::default());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (directory, recorder) = (&directory, &recorder);
            scope.spawn(move || drive(directory, writer, recorder));
        }
        scope.spawn(|| {
            // Garbage is removed meanwhile.
            while !directory.join("root").exists() {
                std::thread::yield_now();
            }
            for _ in 0..5 {
                succeed(&mut transactor(&directory, &["gc"]));
            }
        });
    });
    let reads: Vec<Op> = (0..i64::try_from(KEYS).unwrap())
        .map(|number| Op::ReadList { key: number.into(), list: Vec::new() })
        .collect();
    let read = |recorder: &mut Recorder, process| {
        let call = recorder.invoke(process, 0, reads.clone());
        let answer = succeed(&mut transactor(&directory, &["txn", &line(&reads).to_string()]));
        let ops = answered(&reads, &serde_json::from_str(&answer).unwrap());
        recorder.complete(call, 0, Outcome::Committed, Some(ops));
    };
    let mut recorder = recorder.into_inner().unwrap();
    read(&mut recorder, 1 << 40);
    succeed(&mut transactor(&directory, &["gc"]));
    read(&mut recorder, 1 << 41);
    let inspected = succeed(&mut transactor(&directory, &["inspect"]));
    assert!(inspected.contains("garbage 0 nodes, and 0 of 0 open transactors"), "{inspected}");
    let files = std::fs::read_dir(&directory).unwrap().count();
    assert!(files < 40, "{files} files");

    let history = recorder.finish().unwrap();
    let report = check(&history, &carnet_checker::Options::default()).unwrap();
    assert!(report.allows(Model::StrictSerializable), "{}", report.explain(&history));
    assert!(report.committed > 100 && report.unknown > 0, "{}", report.explain(&history));
}

#[test]
fn commands_work_as_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let run = |words: &[&str]| succeed(&mut transactor(&tree, words));
    assert!(fail(&mut transactor(&tree, &["get", "a"])).contains("there is no directory"));
    assert!(!tree.exists());
    assert_eq!(run(&["put", "a", "one"]), "");
    assert_eq!(run(&["get", "a"]), "one\n");
    assert_eq!(run(&["append", "log", "x", "y"]), "2\n");
    assert_eq!(run(&["append", "log", "3"]), "3\n");
    assert_eq!(run(&["list", "log"]), "x\ny\n3\n");
    let ops = r#"[["get", "a"], ["delete", "a"], ["get", "a"], ["list", "log"], ["put", 7, 8]]"#;
    assert_eq!(run(&["txn", ops]), "[\"one\",\"ok\",null,[\"x\",\"y\",\"3\"],\"ok\"]\n");
    assert!(fail(&mut transactor(&tree, &["get", "a"])).contains("the key a has no value"));
    assert_eq!(run(&["get", "7"]), "8\n");
    assert!(run(&["gc"]).starts_with("removed 0 nodes of 0 bytes; kept 0"));
    assert!(run(&["inspect"]).starts_with("keys 2, in 0 bytes of nodes\n"));
}

#[test]
fn wrong_input_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let error = |words: &[&str]| fail(&mut transactor(&tree, words));
    succeed(&mut transactor(&tree, &["put", "a", "zzz"]));
    assert!(error(&["append", "a", "b"]).contains("the value is not a list"));
    assert!(error(&["list", "a"]).contains("the value is not a list"));
    assert!(error(&["txn", "{}"]).contains("expected an array of operations"));
    assert!(error(&["txn", r#"[["get"]]"#]).contains("there is no operation [\"get\"]"));
    assert!(error(&["txn", r#"[["put", "a", null]]"#]).contains("there is no operation"));
    assert!(error(&["put", &"k".repeat(4097), "v"]).contains("above the limit of 4096 bytes"));
    // A failed transaction of a session does not end it.
    let mut session = Session::start(&tree);
    session.ask(&json!([["put", "b", 1], ["list", "a"]]));
    let answer = session.answer().unwrap();
    assert_eq!(answer["outcome"], "failed");
    session.ask(&json!([["get", "b"]]));
    assert_eq!(session.answer().unwrap(), json!([null]));
    drop(session.input);
    assert_eq!(session.process.wait().code(), Some(1));

    let database = folder.path().join("database");
    succeed(&mut crate::support::shell(&database, "SELECT now() FROM system.local"));
    let refused = fail(&mut transactor(&database, &["put", "a", "b"]));
    assert!(refused.contains("contains no tree"), "{refused}");
    let refused = fail(&mut crate::support::shell(&tree, "SELECT now() FROM system.local"));
    assert!(refused.contains("tree"), "{refused}");
    std::fs::write(tree.join("root"), "damaged, but long enough").unwrap();
    let damaged = fail(&mut transactor(&tree, &["get", "a"]));
    assert!(damaged.contains("the root is damaged"), "{damaged}");
}
