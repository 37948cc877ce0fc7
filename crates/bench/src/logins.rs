//! Times of refused log-ins: of a user that exists, and of one that does not.
//!
//! A client that can tell the two apart can find out the users. The tries alternate, so that a disturbance of the
//! machine affects both alike. The probability that a try of a known user takes longer than one of an
//! unknown user comes from Mann and Whitney's test: 0.5 if nothing can be told, and within two standard
//! errors of it by chance in 95 of 100 runs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use carnet::{Error, Result};
use carnet_base::{Clock, SystemClock};
use clap::Args;

use crate::program::{Client, Process, ServeOptions};

/// Users of the server, with hashes of one cost.
const USERS: [&str; 3] = ["ann", "bob", "carl"];

/// Measure whether refused log-ins tell users that exist from others.
#[derive(Args)]
pub(crate) struct Logins {
    /// Number of tries of each kind.
    #[arg(long, default_value_t = 500)]
    tries: usize,
    /// The program `carnet`; by default the one beside this program.
    #[arg(long)]
    carnet: Option<PathBuf>,
}

impl Logins {
    pub(crate) fn run(&self) -> Result<()> {
        let line =
            |user: &&str| Ok(format!("{user}:{}\n", carnet_server::hash_password("secret")?));
        let users: Result<String> = USERS.iter().map(line).collect();
        let times = self.times(&users?).map_err(|error| {
            Error::unavailable("the log-ins cannot be measured").with_source(error)
        })?;
        let [known, unknown] = times.map(|mut times| {
            times.sort_unstable();
            times
        });
        for (name, times) in [("known", &known), ("unknown", &unknown)] {
            let at = |percent: usize| millis(times[(times.len() - 1) * percent / 100]);
            println!("{name:<8} p5 {:.2} ms, p50 {:.2} ms, p95 {:.2} ms", at(5), at(50), at(95));
        }
        let (longer, error) = longer(&known, &unknown);
        println!("P(known takes longer) = {longer:.3}, by chance 0.5 ± {:.3}", 2.0 * error);
        Ok(())
    }

    /// Returns the times of tries with a wrong password, of known users and of unknown ones.
    fn times(&self, users: &str) -> io::Result<[Vec<Duration>; 2]> {
        let carnet = self.carnet.as_deref();
        let options = ServeOptions { program: carnet, settings: "", durability: "none", users };
        let server = Process::start(&options)?;
        let mut times = [Vec::new(), Vec::new()];
        for number in 0..self.tries {
            let known = USERS[number % USERS.len()].to_owned();
            let tries = [known, format!("unknown-{number}")];
            for (user, times) in tries.iter().zip(&mut times) {
                let begun = SystemClock.now();
                if Client::log_in(server.address, user, "wrong").is_ok() {
                    return Err(io::Error::other(format!("{user} has logged in")));
                }
                times.push(SystemClock.now().since(begun));
            }
        }
        Ok(times)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the probability that one of the first times is longer than one of the second ones, and its
/// standard error if there is no difference. Both are sorted.
#[expect(clippy::cast_precision_loss, reason = "numbers of tries are small")]
fn longer(first: &[Duration], second: &[Duration]) -> (f64, f64) {
    let shorter = |time: &Duration| second.partition_point(|other| other < time);
    let pairs: usize = first.iter().map(shorter).sum();
    let (n, m) = (first.len() as f64, second.len() as f64);
    (pairs as f64 / (n * m), ((n + m + 1.0) / (12.0 * n * m)).sqrt())
}
