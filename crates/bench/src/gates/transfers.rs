//! Transfers between accounts on a cluster, compared with other databases on the same cluster.
//!
//! Each transaction reads two accounts and writes both. A peer is any program that prints a line
//! when it is ready, and then replies to each line `CLIENTS MILLISECONDS SEED` with a line of JSON:
//! `{"committed": n, "again": n, "seconds": s, "p50_us": n, "p99_us": n}`, where `again` is the
//! number of retries. The databases alternate within a pass, on a cluster without other load, so
//! that a disturbance affects all of them alike.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use carnet::cluster::Requests;
use carnet::{Db, Error, Isolation, Key, Result, Table, record};
use carnet_base::{Clock, Rng, SeededRng, SystemClock, block_on};
use clap::Args;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

record! {
    /// A bank account.
    pub(crate) struct Account {
        balance: i64,
    }
}

type Accounts = Table<Key<(i64,)>, Account>;

const BALANCE: i64 = 1_000;
/// Number of accounts created per transaction.
const LOADED_AT_ONCE: i64 = 200;
/// Number of threads that run the clients' tasks.
const THREADS: usize = 2;

/// Run transfers between two of many accounts of a database over a cluster, beside peers.
#[derive(Args)]
pub(crate) struct Transfers {
    /// URL of the database, with a new keyspace: cassandra://HOST:PORT/KEYSPACE.
    #[arg(long)]
    store: String,
    #[arg(long, default_value_t = 10_000)]
    accounts: i64,
    /// Numbers of clients, which run one transaction each at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256])]
    clients: Vec<usize>,
    /// Duration of each turn, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Number of warm-up turns per database before the first pass, with the most clients. A node
    /// that has just started runs at a third of its speed.
    #[arg(long, default_value_t = 3)]
    warm_up_turns: usize,
    /// Number of passes; the median by transactions per second is printed.
    #[arg(long, default_value_t = 3)]
    passes: usize,
    /// Another database: its name, and the program with its arguments, separated by spaces.
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    peers: Vec<String>,
}

/// Result of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Turn {
    committed: u64,
    again: u64,
    seconds: f64,
    p50_us: u64,
    p99_us: u64,
    /// Requests to the cluster, if they are counted.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    requests: Option<PerTransaction>,
}

/// Requests to the cluster per transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PerTransaction {
    reads: f64,
    blind_writes: f64,
    /// Conditional writes, and serial reads that complete them.
    paxos_rounds: f64,
}

impl PerTransaction {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn between(before: &Requests, after: &Requests, transactions: u64) -> Self {
        let each =
            |of: fn(&Requests) -> u64| (of(after) - of(before)) as f64 / transactions.max(1) as f64;
        Self {
            reads: each(|of| of.reads),
            blind_writes: each(|of| of.blind_writes),
            paxos_rounds: each(|of| of.conditional_writes + of.serial_reads),
        }
    }
}

impl Turn {
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    fn per_second(&self) -> f64 {
        self.committed as f64 / self.seconds
    }
}

#[derive(Serialize)]
struct Line<'a> {
    engine: &'a str,
    workload: &'static str,
    clients: usize,
    transactions_per_second: f64,
    #[serde(flatten)]
    turn: &'a Turn,
}

/// One of the compared databases.
enum Engine<'a> {
    Carnet(&'a Db, &'a Accounts, Isolation),
    Peer(Peer),
}

impl Transfers {
    pub(crate) fn run(&self) -> Result<()> {
        let db = Db::open(&self.store)?;
        let accounts: Accounts = db.table("accounts")?;
        self.load(&db, &accounts)?;
        let carnet = |isolation| Engine::Carnet(&db, &accounts, isolation);
        let mut engines = vec![
            ("carnet-strict-serializable".to_owned(), carnet(Isolation::StrictSerializable)),
            ("carnet-snapshot".to_owned(), carnet(Isolation::Snapshot)),
        ];
        for peer in &self.peers {
            let (name, command) = peer
                .split_once('=')
                .ok_or_else(|| Error::invalid(format!("a peer is NAME=COMMAND, not {peer:?}")))?;
            engines.push((name.to_owned(), Engine::Peer(Peer::start(command)?)));
        }
        let most = self.clients.iter().copied().max().unwrap_or(1);
        for turn in 0..self.warm_up_turns {
            for (_, engine) in &mut engines {
                self.turn(engine, most, u64::try_from(turn).unwrap_or(0) + 1_000)?;
            }
        }
        for &clients in &self.clients {
            let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); engines.len()];
            for pass in 0..self.passes {
                for ((_, engine), turns) in engines.iter_mut().zip(&mut turns) {
                    let seed = u64::try_from(pass).unwrap_or(0) + 1;
                    turns.push(self.turn(engine, clients, seed)?);
                }
            }
            for ((name, _), mut turns) in engines.iter().zip(turns) {
                turns.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
                print(name, clients, &turns[turns.len() / 2])?;
            }
        }
        self.check(&db, &accounts)
    }

    fn load(&self, db: &Db, accounts: &Accounts) -> Result<()> {
        for first in (0..self.accounts).step_by(usize::try_from(LOADED_AT_ONCE).unwrap_or(1)) {
            let last = (first + LOADED_AT_ONCE).min(self.accounts);
            db.transact(|tx| {
                (first..last).try_for_each(|number| {
                    accounts.put(tx, &Key((number,), ()), &Account { balance: BALANCE })
                })
            })?;
        }
        Ok(())
    }

    /// Checks that the sum of balances is unchanged.
    fn check(&self, db: &Db, accounts: &Accounts) -> Result<()> {
        let snapshot = db.snapshot()?;
        let mut total = 0;
        for number in 0..self.accounts {
            total += accounts.get(&snapshot, &Key((number,), ()))?.map_or(0, |of| of.balance);
        }
        if total == BALANCE * self.accounts {
            return Ok(());
        }
        Err(Error::corrupted(format!("{total} are there of {}", BALANCE * self.accounts)))
    }

    fn turn(&self, engine: &mut Engine<'_>, clients: usize, seed: u64) -> Result<Turn> {
        match engine {
            Engine::Carnet(db, accounts, isolation) => {
                let requests = || db.cluster_figures().map(|figures| figures.requests);
                let before = requests().unwrap_or_default();
                let mut turn = self.transfer(db, accounts, *isolation, clients, seed)?;
                let after = requests().unwrap_or_default();
                turn.requests = Some(PerTransaction::between(&before, &after, turn.committed));
                Ok(turn)
            }
            Engine::Peer(peer) => peer.turn(clients, self.seconds * 1_000, seed),
        }
    }

    fn transfer(
        &self,
        db: &Db,
        accounts: &Accounts,
        isolation: Isolation,
        clients: usize,
        seed: u64,
    ) -> Result<Turn> {
        let (clock, tries) = (SystemClock, AtomicU64::new(0));
        let time = Duration::from_secs(self.seconds);
        let begin = clock.now();
        let tries = &tries;
        let client = async |number: usize| {
            let number = u64::try_from(number).unwrap_or(0);
            let mut rng = SeededRng::new(seed << 32 | number);
            let mut took = histogram();
            let mut last = begin;
            while last.since(begin) < time {
                let (from, to) = self.two(&mut rng);
                let transfer = db.transaction().isolation(isolation);
                let (from, to) = (&from, &to);
                let transferred = transfer.run(|tx| async move {
                    tries.fetch_add(1, Ordering::Relaxed);
                    let a = accounts.get(&tx, from).await?.map_or(0, |of| of.balance);
                    let b = accounts.get(&tx, to).await?.map_or(0, |of| of.balance);
                    accounts.put(&tx, from, &Account { balance: a - 1 }).await?;
                    accounts.put(&tx, to, &Account { balance: b + 1 }).await
                });
                transferred.await?;
                let now = clock.now();
                took.saturating_record(u64::try_from(now.since(last).as_micros()).unwrap_or(0));
                last = now;
            }
            Ok::<_, Error>(took)
        };
        let (took, elapsed) = thread::scope(|scope| {
            let threads: Vec<_> = (0..clients.min(THREADS))
                .map(|thread| {
                    let client = &client;
                    scope.spawn(move || {
                        let clients = (thread..clients).step_by(THREADS).map(client);
                        block_on(try_join_all(clients))
                    })
                })
                .collect();
            let mut all = histogram();
            for thread in threads {
                for took in thread.join().expect("no client panics")? {
                    all.add(&took).expect("all histograms have the same bounds");
                }
            }
            Ok::<_, Error>((all, clock.now().since(begin)))
        })?;
        Ok(Turn {
            committed: took.len(),
            again: tries.load(Ordering::Relaxed) - took.len(),
            seconds: elapsed.as_secs_f64(),
            p50_us: took.value_at_quantile(0.5),
            p99_us: took.value_at_quantile(0.99),
            requests: None,
        })
    }

    fn two(&self, rng: &mut SeededRng) -> (Key<(i64,)>, Key<(i64,)>) {
        let count = u64::try_from(self.accounts.max(2)).unwrap_or(2);
        let from = rng.below(count);
        let to = (from + 1 + rng.below(count - 1)) % count;
        let key = |number: u64| Key((i64::try_from(number).unwrap_or(0),), ());
        (key(from), key(to))
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are valid")
}

fn print(engine: &str, clients: usize, turn: &Turn) -> Result<()> {
    let transactions_per_second = (turn.per_second() * 10.0).round() / 10.0;
    let line = Line { engine, workload: "transfers", clients, transactions_per_second, turn };
    let text = serde_json::to_string(&line)
        .map_err(|error| Error::invalid("a figure is no JSON").with_source(error))?;
    println!("{text}");
    Ok(())
}

/// Process of another database.
struct Peer {
    command: String,
    child: Child,
    says: BufReader<ChildStdout>,
    hears: Option<ChildStdin>,
}

impl Peer {
    fn start(command: &str) -> Result<Self> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or_else(|| Error::invalid("a peer without a program"))?;
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Error::unavailable(format!("cannot run {command}")).with_source(error)
            });
        let mut child = child?;
        let (says, hears) = (child.stdout.take(), child.stdin.take());
        let says = BufReader::new(says.expect("it is piped"));
        let mut peer = Self { command: command.to_owned(), child, says, hears };
        peer.line()?;
        Ok(peer)
    }

    fn turn(&mut self, clients: usize, millis: u64, seed: u64) -> Result<Turn> {
        let asked = match &mut self.hears {
            Some(hears) => {
                writeln!(hears, "{clients} {millis} {seed}").and_then(|()| hears.flush())
            }
            None => Ok(()),
        };
        asked.map_err(|error| self.gone().with_source(error))?;
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| {
            Error::invalid(format!("{} said {line:?}", self.command)).with_source(error)
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.says.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err(self.gone()),
            Err(error) => Err(self.gone().with_source(error)),
        }
    }

    fn gone(&self) -> Error {
        Error::unavailable(format!("{} has ended, or says nothing", self.command))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process exits at the end of its input.
        self.hears = None;
        let _ = self.child.wait();
    }
}
