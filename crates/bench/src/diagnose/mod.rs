//! What `SHOW BOTTLENECK` says beside deliberate loads.
//!
//! Each load makes statements wait for one known reason, on a new server of the program `carnet`. The
//! verdict has to name this reason, and the table and user behind it.

mod loads;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::overload::pause;
use crate::program::{Client, Process, ServeOptions, Tally};
use loads::{LOADS, Load};

/// The user of most loads, and the greedy one. Both have the same password.
const USERS: [&str; 2] = ["ann", "greedy"];
const PASSWORD: &str = "diagnosis";

/// Check what SHOW BOTTLENECK says beside deliberate loads.
#[derive(Args)]
pub(crate) struct Diagnose {
    /// Duration of each load before the question, in seconds.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Number of runs of each load.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Only loads whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// The program `carnet`; by default the one beside this program.
    #[arg(long)]
    carnet: Option<PathBuf>,
}

impl Diagnose {
    pub(crate) fn run(&self) -> carnet::Result<()> {
        let users = self.users()?;
        let (mut right, mut all) = (0, 0);
        for load in LOADS.iter().filter(|load| load.name.contains(&self.only)) {
            for _ in 0..self.runs {
                let report = self.ask(load, &users).map_err(|error| failed(load, &error))?;
                let wrong = load.wrong(&report);
                let verdict = report["verdict"].as_str().unwrap_or_default();
                println!(
                    "{:<34} {} {verdict}",
                    load.name,
                    if wrong.is_none() { "ok   " } else { "WRONG" }
                );
                if let Some(wrong) = wrong {
                    println!("    expected {wrong}");
                }
                (right, all) = (right + usize::from(load.wrong(&report).is_none()), all + 1);
            }
        }
        println!("{right} of {all} right");
        Ok(())
    }

    fn users(&self) -> carnet::Result<String> {
        let line = |user: &str| Ok(format!("{user}:{}\n", carnet_server::hash_password(PASSWORD)?));
        USERS.iter().map(|user| line(user)).collect()
    }

    /// Runs a load, and returns the server's report near its end.
    fn ask(&self, load: &Load, users: &str) -> io::Result<Value> {
        let server = Process::start(&ServeOptions {
            program: self.carnet.as_deref(),
            settings: load.settings,
            durability: load.durability,
            users,
        })?;
        let address = server.address;
        let connect = move |user: &str| Client::log_in(address, user, PASSWORD);
        let mut client = connect(USERS[0])?;
        client.query(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )?;
        (load.fill)(&mut client)?;
        let tally = Tally::default();
        thread::scope(|scope| {
            for number in 0..load.clients {
                let (tally, connect) = (&tally, &connect);
                let user = USERS[usize::from(number < load.greedy)];
                scope.spawn(move || {
                    // The server ends while clients wait for answers.
                    let _ =
                        connect(user).and_then(|mut client| (load.run)(&mut client, number, tally));
                });
            }
            pause(Duration::from_secs(self.seconds));
            let report = server.bottleneck(Some((USERS[0], PASSWORD)));
            tally.is_over.store(true, Ordering::Relaxed);
            drop(server);
            report
        })
    }
}

fn failed(load: &Load, error: &io::Error) -> carnet::Error {
    carnet::Error::unavailable(format!("cannot run {}: {error}", load.name))
}
