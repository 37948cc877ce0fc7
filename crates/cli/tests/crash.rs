//! The real server, killed with SIGKILL at random moments while clients transfer money.
//!
//! Each round: start the server on the same directory and port, let 8 clients of the Python driver
//! transfer between 1,000 accounts, kill it, start it again, and compare the database with the
//! clients' records. `tests/e2e/crash.py` defines the conditions.
//!
//! SIGKILL does not lose data in the operating system's cache. The storage engine's crash tests
//! check that a write was *synced* before its acknowledgement, on a disk that loses unsynced data.
//!
//! | variable | |
//! | --- | --- |
//! | `CARNET_CRASH_ROUNDS` | how often to kill; 20 unless set, 200 in the long edition |
//! | `CARNET_CRASH_SEED` | replays the transfers and the moments of a run that failed |

mod support;

use std::env;
use std::time::Duration;

use carnet::base::{Rng, SeededRng};
use support::{Server, clients, pause};

const ROUNDS: u64 = 20;
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
         cargo test -p carnet-cli --test crash"
    );
    println!("{replay}");
    let mut rng = SeededRng::new(seed);
    let directory = tempfile::tempdir().unwrap();

    let mut server = Server::start(directory.path(), &[]);
    let listen = server.cql.to_string();
    let mut bank = clients::Bank::start(&python, &server.port(), seed, 1_000);
    bank.ask("setup", &replay);
    for round in 0..rounds {
        bank.ask(&format!("round {round}"), &replay);
        pause(Duration::from_millis(rng.below(LIFE_MILLIS_MAX)));
        server.process.kill();
        server = Server::start_at(directory.path(), &listen, &[]);
        let answer = bank.ask(&format!("check {round}"), &replay);
        println!("round {round} {answer}");
    }
    println!("{}", bank.ask("check all", &replay));
}
