//! The same statements on Cassandra 5.0 and on Carnet: rows, columns, types and error codes.
//!
//! `testscripts/cassandra` holds Cassandra's answers: to the statements of the golden scripts, to
//! those of `testscripts/applications`, which follow the schemas and queries of well-known
//! applications, and to random ones (`random_N`). Carnet runs the recorded statements and must give the same answers.
//! A known difference has a line `!= reason` below Cassandra's answer. The test also fails if a
//! difference exists no longer. `UPDATE_GOLDENFILES=1` removes such lines, and adds `!= ?` to new
//! differences, which fails until a reason replaces the question mark.
//!
//! | command | |
//! | --- | --- |
//! | `CARNET_RECORD=1 cargo test -p carnet-cql --test all differential::record` | records again, and keeps reasons |
//! | `CARNET_RECORD=masks,slices …` | records these scripts again |
//! | `CARNET_DIFFERENTIAL_SEEDS=20 cargo test -p carnet-cql --test all differential::live` | random statements on both |
//! | `CARNET_DIFFERENTIAL_SEED=7 …` | replays one seed |
//!
//! Both start a Cassandra with `scripts/cassandra`, or use the one at `$CARNET_CASSANDRA`.

mod cassandra;
#[allow(dead_code, reason = "the tests over a Cassandra use the rest")]
#[path = "../../../store-cql/tests/cassandra/node.rs"]
mod node;
mod random;
mod script;

use std::collections::BTreeSet;
use std::env;
use std::net::Ipv4Addr;

use carnet::{Db, Uuid, block_on};
use carnet_base::{Rng as _, SeededRng};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlErrorKind, Executor, Parameters, Session, Timestamps};
use cassandra::Cassandra;
use script::{Block, Script};

/// Features that Cassandra has turned off by default.
const FEATURES: &str = "materialized_views_enabled: true\nsasi_indexes_enabled: true\n\
                        dynamic_data_masking_enabled: true\ndrop_compact_storage_enabled: true";

/// Number of recorded scripts of random statements.
const RANDOM_SCRIPTS: u64 = 10;

/// Returns the error code of the native protocol that the server sends.
fn code(kind: &CqlErrorKind) -> i32 {
    match kind {
        CqlErrorKind::Syntax { .. } => 0x2000,
        CqlErrorKind::Unauthorized => 0x2100,
        CqlErrorKind::Config => 0x2300,
        CqlErrorKind::AlreadyExists { .. } => 0x2400,
        CqlErrorKind::Protocol => 0x000A,
        CqlErrorKind::FunctionFailure { .. } => 0x1400,
        _ => 0x2200,
    }
}

/// A database in memory, and a session.
struct Carnet {
    executor: Executor,
    session: Session,
}

impl Carnet {
    /// Starts a database for a script.
    fn start(script: &str) -> Self {
        let mut node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        node.address = Ipv4Addr::LOCALHOST.into();
        let timestamps = match script {
            "recorded" => Timestamps::Record,
            _ => Timestamps::default(),
        };
        let executor = Executor::with_timestamps(Db::builder().in_memory(), node, timestamps);
        Self { executor, session: Session::new() }
    }

    fn answer(&self, statement: &str) -> String {
        let parameters = Parameters::default();
        match block_on(self.executor.query(&self.session, statement, &parameters)) {
            Ok(Response::Rows(rows)) => {
                let columns = rows
                    .columns
                    .iter()
                    .map(|column| (column.name.clone(), column.data_type.clone()));
                script::rows(&columns.collect::<Vec<_>>(), &rows.values())
            }
            Ok(_) => script::OK.to_owned(),
            Err(error) => script::failure(code(error.kind()), error.message()),
        }
    }
}

/// Returns the names of the recorded scripts.
fn recorded() -> BTreeSet<String> {
    let folder = script::folder("cassandra");
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Compares Carnet with a recorded script; returns new differences, and listed ones that are gone.
fn compare(name: &str) -> Vec<String> {
    let mut script = Script::read(name);
    let carnet = Carnet::start(name);
    let mut wrong = Vec::new();
    for block in &mut script.blocks {
        let answer = carnet.answer(&block.statement);
        let differs = !script::agree(&block.answer, &answer);
        match (differs, block.difference.as_deref()) {
            (true, None) => block.difference = Some("?".to_owned()),
            (false, Some(_)) if script::is_updated() => block.difference = None,
            (false, Some(reason)) => wrong.push(format!(
                "{name}: {}\nis as in Cassandra now: remove `!= {reason}` (UPDATE_GOLDENFILES=1 does)",
                block.statement
            )),
            _ => {}
        }
        if differs && block.difference.as_deref() == Some("?") {
            let Block { statement, answer: expected, .. } = block;
            wrong.push(format!("{name}: {statement}\nCassandra: {expected}Carnet: {answer}"));
        }
    }
    if script::is_updated() {
        script.write();
    }
    wrong
}

#[test]
fn carnet_answers_as_cassandra_did() {
    let names = recorded();
    assert!(names.len() > 20, "{names:?}");
    let wrong: Vec<String> = names.iter().flat_map(|name| compare(name)).collect();
    assert!(wrong.is_empty(), "{} differences:\n\n{}", wrong.len(), wrong.join("\n"));
    for (name, statements) in script::sources() {
        let known: BTreeSet<String> = if names.contains(&name) {
            Script::read(&name).blocks.into_iter().map(|block| block.statement).collect()
        } else {
            BTreeSet::new()
        };
        let new = statements.iter().filter(|one| !known.contains(*one)).count();
        if new > 0 {
            node::say(&format!("{name}: {new} statements are not recorded: see differential.rs"));
        }
    }
}

/// Starts a Cassandra, unless one runs elsewhere; returns its contact point.
fn start() -> (String, Option<node::Node>) {
    if let Ok(contact_point) = env::var("CARNET_CASSANDRA") {
        return (contact_point, None);
    }
    let node = node::start_with(FEATURES).expect("Cassandra runs here");
    (node.contact_point.clone(), Some(node))
}

/// Records Cassandra's answers to the golden scripts and to random statements.
#[test]
fn record() {
    let Ok(wanted) = env::var("CARNET_RECORD") else { return };
    let is_wanted = |name: &str| wanted == "1" || wanted.split(',').any(|one| one == name);
    let (contact_point, _node) = start();
    let random = (0..RANDOM_SCRIPTS)
        .map(|seed| (format!("random_{seed}"), random::statements(&mut SeededRng::new(seed))));
    let scripts = script::sources().into_iter().chain(random);
    for (name, statements) in scripts.filter(|(name, _)| is_wanted(name)) {
        let cassandra = Cassandra::connect(&contact_point);
        let mut script = Script::new(&name);
        for statement in statements {
            let Some(answer) = cassandra.try_answer(&statement) else { continue };
            script.blocks.push(Block { statement, answer, difference: None });
        }
        script.keep_reasons();
        script.write();
    }
}

/// Runs random statements on a Cassandra and on Carnet.
#[test]
fn live() {
    let number = |name| env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match number("CARNET_DIFFERENTIAL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let count = number("CARNET_DIFFERENTIAL_SEEDS").unwrap_or(0);
            let mut rng = SeededRng::from_entropy();
            (0..count).map(|_| rng.next_u64()).collect()
        }
    };
    if seeds.is_empty() {
        return;
    }
    let (contact_point, _node) = start();
    for seed in seeds {
        let (cassandra, carnet) = (Cassandra::connect(&contact_point), Carnet::start(""));
        for statement in random::statements(&mut SeededRng::new(seed)) {
            let (expected, found) = (cassandra.try_answer(&statement), carnet.answer(&statement));
            // The client does not know the type of the least and greatest `timeuuid`.
            let Some(expected) = expected else { continue };
            assert!(
                script::agree(&expected, &found) || random::is_known(&expected, &found),
                "{statement}\nCassandra: {expected}Carnet: {found}replay: \
                 CARNET_DIFFERENTIAL_SEED={seed} cargo test -p carnet-cql --test all differential::live"
            );
        }
    }
}
