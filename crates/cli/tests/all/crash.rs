//! The real server, killed with SIGKILL at random moments while clients transfer money.
//!
//! Each round: start the server on the same directory and port, let 8 clients of the Python driver
//! transfer between 1,000 accounts and change tables with indexes and a view, kill it, start it
//! again, and compare the database with the clients' records. Some crashes interrupt the build of an
//! index or a view, which the next server continues. `tests/e2e/crash.py` defines the conditions.
//!
//! SIGKILL does not lose data in the operating system's cache. The storage engine's crash tests
//! check that a write was *synced* before its acknowledgement, on a disk that loses unsynced data.
//!
//! | variable | |
//! | --- | --- |
//! | `CARNET_CRASH_ROUNDS` | how often to kill; 20 unless set, 200 in the long edition |
//! | `CARNET_CRASH_SEED` | replays the transfers and the moments of a run that failed |

use std::env;
use std::path::Path;
use std::time::Duration;

use carnet::derived::{Differences, check_index, check_view};
use carnet::{Db, block_on, catalog};
use carnet_base::{Rng, SeededRng};

use crate::support::{Server, clients, pause};

const ROUNDS: u64 = 12;
/// Number of rounds of which the last one interrupts the build of an index or a view.
const ROUNDS_PER_BUILD: u64 = 3;
/// Maximum run time of the server in milliseconds, after all clients have begun.
const LIFE_MILLIS_MAX: u64 = 1_200;

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn acknowledged_transfers_survive_and_stay_atomic() {
    let Some(python) = clients::python() else { return };
    let rounds = variable("CARNET_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed =
        variable("CARNET_CRASH_SEED").unwrap_or_else(|| SeededRng::from_entropy().next_u64());
    let replay = format!(
        "replay: CARNET_CRASH_SEED={seed} CARNET_CRASH_ROUNDS={rounds} \
         cargo test -p carnet-cli --test all crash::"
    );
    println!("{replay}");
    let mut rng = SeededRng::new(seed);
    let directory = tempfile::tempdir().unwrap();

    let mut server = Server::start(directory.path(), &[]);
    let listen = server.cql.to_string();
    let mut bank = clients::Bank::start(&python, &server.port(), seed, 1_000);
    bank.ask("setup", &replay);
    bank.ask("items", &replay);
    let mut resumed = 0;
    for round in 0..rounds {
        bank.ask(&format!("round {round}"), &replay);
        let builds = round % ROUNDS_PER_BUILD == ROUNDS_PER_BUILD - 1;
        if builds {
            let build = bank.ask(&format!("build {}", round / ROUNDS_PER_BUILD), &replay);
            println!("round {round} {build}");
        } else {
            pause(Duration::from_millis(rng.below(LIFE_MILLIS_MAX)));
        }
        server.process.kill();
        server = Server::start_at(directory.path(), &listen, &[]);
        let answer = bank.ask(&format!("check {round}"), &replay);
        println!("round {round} {answer}");
        resumed += usize::from(answer.contains("resumed"));
    }
    println!("{}", bank.ask("check all", &replay));
    assert!(resumed > 0 || rounds < ROUNDS, "no crash fell into a build; {replay}");
    server.process.kill();
    check_entries(directory.path(), &replay);
}

/// Compares the indexes and views of the database with their tables. Queries do not show entries
/// of an index that no row has.
fn check_entries(directory: &Path, replay: &str) {
    let db = Db::open(directory).unwrap();
    let checked = block_on(async {
        let tx = db.snapshot_async().await.unwrap();
        let mut checked = Vec::new();
        for table in catalog::tables(&tx, "bank").await.unwrap() {
            for index in &table.indexes {
                let differences = check_index(&tx, &table, index).await.unwrap();
                checked.push((index.name.clone(), differences));
            }
            for view in &table.views {
                let differences = check_view(&tx, &table, view).await.unwrap();
                checked.push((view.name.clone(), differences));
            }
        }
        checked
    });
    let names: Vec<&str> = checked.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["items_kind", "items_tags", "items_by_kind"]);
    for (name, differences) in &checked {
        assert_eq!(*differences, Differences::default(), "{name}; {replay}");
    }
}
