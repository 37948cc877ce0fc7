//! Every request to a cluster is disturbed in every way, beneath two servers with clients.
//!
//! ```text
//!   carnet stress ──▶ server ─┐
//!         (checker)           ├──▶ proxy ──▶ Cassandra
//!   probe ──────────▶ server ─┘
//! ```
//!
//! The rows of the matrix follow from the list of statements in the code. After each fault both
//! servers answer again soon, and no process has ended. The checker judges what the clients of
//! `carnet stress` saw, and the probe's counter has all acknowledged additions.
//!
//! | variable | |
//! | --- | --- |
//! | `CARNET_FAULT_MATRIX` | `whole`: each request with each fault, an hour; the begin of requests' names: their rows; both run alone. One fault for a third of the requests unless set |
//! | `CARNET_CLUSTER_SEED` | chooses the faults |

mod fault;
mod frames;
mod probe;
mod proxy;
mod waits;

use std::collections::BTreeSet;
use std::env;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

use carnet::cluster::statements;
use carnet_base::{Clock, Moment, Rng, SeededRng, SystemClock};

use self::fault::Fault;
use self::probe::Probe;
use self::proxy::{AGREEMENT, PREPARATION, Proxy, SCHEMA_CHANGE};
use super::support::{Guard, Server, carnet, pause, secret_file, spawn};
use super::{node, variable};

/// Timeout of a request, and a time after which every request has ended.
const REQUEST_TIMEOUT: &str = "1500ms";
const LATE: Duration = Duration::from_secs(2);

/// Times in which requests are disturbed; longer than a lease of these servers.
const DURING: [Duration; 2] = [Duration::ZERO, Duration::from_secs(2)];

/// Number of rows after which a new database is used.
const ROWS_OF_DATABASE: usize = 100;

/// One request in three has a row, if no other choice is made.
const PART_OF_REQUESTS: u64 = 3;

/// Maximum time until a request was seen.
const PATIENCE: Duration = Duration::from_secs(300);

/// Parts of the names of requests that only a sweep sends.
const OF_THE_SWEEP: [&str; 6] = ["(All", "Delete", "Stamp", "WriteTimes", "From", "sweep_mark"];

/// Maximum time in which both servers serve again.
const RECOVERY_MAX: Duration = Duration::from_secs(5);
/// Maximum recovery time beside the other tests, which use the node and both processors.
const RECOVERY_MAX_BUSY: Duration = Duration::from_secs(10);

/// Maximum time until a server tells that its cluster is away, after 5 s without an answer, or is back.
const READY_MAX: Duration = Duration::from_secs(20);

/// Statements that clients of servers cannot cause at will, and when they are sent.
const ELSEWHERE: [(&str, &str); 3] = [
    ("commits Epoch", "when a reader and the leader settle a start at the same time"),
    ("commits Overwrite", "by `restore`, when no server runs"),
    ("cells Slice(All, Before)", "by scans of a part of a partition, with all versions"),
];

fn choice() -> String {
    env::var("CARNET_FAULT_MATRIX").unwrap_or_default()
}

fn recovery_max() -> Duration {
    if choice().is_empty() { RECOVERY_MAX_BUSY } else { RECOVERY_MAX }
}

/// Returns the requests of a server, by their names.
fn requests() -> BTreeSet<String> {
    let mut requests: BTreeSet<String> =
        [PREPARATION, SCHEMA_CHANGE, AGREEMENT].map(str::to_owned).into();
    for (name, _) in statements("any") {
        if name.starts_with("register") {
            let registers = ["lease", "coordination", "sweep_mark"];
            requests.extend(registers.map(|register| format!("{name} {register}")));
        } else {
            requests.insert(name);
        }
    }
    requests.retain(|name| ELSEWHERE.iter().all(|(other, _)| other != name));
    requests
}

/// A request and its fault.
struct Row {
    request: String,
    fault: Fault,
    /// Time in which it happens to all such requests; zero for a single one.
    during: Duration,
}

/// Returns the rows of this run.
fn matrix(rng: &mut SeededRng) -> Vec<Row> {
    let choice = choice();
    let mut rows = Vec::new();
    for request in requests() {
        let row = |(fault, during)| Row { request: request.clone(), fault, during };
        let faults = Fault::ALL.into_iter().flat_map(|fault| DURING.map(|during| (fault, during)));
        if choice == "whole" || !choice.is_empty() && request.starts_with(&choice) {
            rows.extend(faults.map(row));
        } else if choice.is_empty() && rng.below(PART_OF_REQUESTS) == 0 {
            let faults: Vec<_> = faults.collect();
            let chosen = usize::try_from(rng.below(faults.len() as u64)).unwrap();
            rows.push(row(faults[chosen]));
        }
    }
    assert!(!rows.is_empty(), "CARNET_FAULT_MATRIX={choice} is none of {:?}", requests());
    rows
}

/// Two servers over a proxy, with a client of both.
struct Servers {
    url: String,
    config: tempfile::NamedTempFile,
    proxy: Proxy,
    servers: Vec<Server>,
    probe: Probe,
    longest: Duration,
}

impl Servers {
    fn start(contact_point: &str, number: usize) -> Self {
        let proxy = Proxy::start(contact_point, statements("any"), LATE);
        let url = format!(
            "cassandra://{}/matrix{}_{number}?replication=1&request_timeout={REQUEST_TIMEOUT}&keepalive=1s\
             &leader_timeout=2s&lease=1s&sweep=500ms&cell_cache=none&listen=127.0.0.1:0\
             &secret_file={}",
            proxy.address,
            std::process::id(),
            secret_file("sixteen-letters-or-more"),
        );
        let mut config = tempfile::NamedTempFile::new().unwrap();
        // The sweep deletes versions that are a second old.
        writeln!(config, "[database]\nretention = \"1s\"").unwrap();
        let arguments = ["--config", config.path().to_str().unwrap()];
        let server = || Server::try_store(&url, "127.0.0.1:0", &arguments).unwrap();
        let servers = vec![server(), server()];
        let probe = Probe::new(&servers);
        Self { url, config, proxy, servers, probe, longest: Duration::ZERO }
    }

    /// Disturbs a request, causes it, and waits until both servers serve.
    fn row(&mut self, Row { request, fault, during }: &Row) {
        let (fault, during) = (*fault, *during);
        let begun = SystemClock.now();
        // A reader touches an entry that was not confirmed.
        let until_then = (request == "commits Touch").then_some("commits Confirm");
        self.proxy.disturb((request, fault), during, until_then);
        let mut round = 0;
        while !self.proxy.was_hit(Duration::from_millis(10)) {
            let is_late = SystemClock.now().since(begun) > PATIENCE;
            assert!(!is_late, "no request {request} was seen within {PATIENCE:?}");
            // A new leader begins its sweep anew.
            if round % 3 == 2 && !OF_THE_SWEEP.iter().any(|part| request.contains(part)) {
                self.restart(round / 3 % 2);
            }
            self.probe.ask_everything(round);
            round += 1;
        }
        pause(during);
        self.proxy.heal();
        let healed = SystemClock.now();
        let row = format!("{request}: {fault:?} during {} ms", during.as_millis());
        self.await_service(healed, &row);
        let served = SystemClock.now().since(healed);
        self.longest = self.longest.max(served);
        println!("{row}, served after {} ms", served.as_millis());
    }

    fn await_service(&mut self, since: Moment, row: &str) {
        for number in 0..self.servers.len() {
            while let Err(error) = self.probe.is_served(number) {
                for server in &mut self.servers {
                    let ended = server.process.ended();
                    assert!(
                        ended.is_none(),
                        "{row}: a server ended with {ended:?}\n{}",
                        server.log()
                    );
                }
                let late = SystemClock.now().since(since) > recovery_max();
                assert!(!late, "{row}: server {number} does not serve: {error}");
                pause(Duration::from_millis(50));
            }
        }
        for server in &self.servers {
            assert!(!server.log().contains("panicked"), "{row}: {}", server.log());
        }
    }

    /// Kills a server and starts it again, which a disturbed request may prevent once.
    fn restart(&mut self, number: usize) {
        let listen = self.servers[number].cql.to_string();
        self.servers[number].process.kill();
        self.servers[number] = self.start_again(&listen);
    }

    fn start_again(&self, listen: &str) -> Server {
        let arguments = ["--config", self.config.path().to_str().unwrap()];
        for _ in 0..20 {
            match Server::try_store(&self.url, listen, &arguments) {
                Ok(server) => return server,
                Err(log) => {
                    let explains = log.contains("exit status: 1\n") && log.contains("error: ");
                    assert!(explains && !log.contains("panicked"), "a server cannot start: {log}");
                }
            }
        }
        panic!("a server does not start any more");
    }

    fn addresses(&self) -> String {
        let addresses = self.servers.iter().map(|server| server.cql.to_string());
        addresses.collect::<Vec<_>>().join(",")
    }
}

/// Clients whose history is checked.
struct Stress {
    process: Guard,
    errors: JoinHandle<String>,
    ends: Moment,
}

impl Stress {
    /// Starts the clients. On a busy machine the aftermath of a fault may refuse their tables.
    fn start(servers: &str, seed: u64, seconds: u64) -> Self {
        let mut said = String::new();
        for _ in 0..3 {
            match Self::try_start(servers, seed, seconds) {
                Ok(stress) => return stress,
                Err(why) => said = why,
            }
        }
        panic!("carnet stress did not begin: {said}");
    }

    fn try_start(servers: &str, seed: u64, seconds: u64) -> Result<Self, String> {
        let mut stress = carnet();
        stress.args(["stress", "--server", servers, "--workload", "list-append,bank"]);
        stress.args(["--clients", "4", "--rate", "40", "--seconds", &seconds.to_string()]);
        stress.args(["--seed", &seed.to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Guard::new(stress.spawn().unwrap());
        let mut lines = BufReader::new(process.stderr()).lines().map(Result::unwrap);
        let mut said = Vec::new();
        let has_begun = lines.any(|line| {
            let has_begun = line.contains(" committed, ");
            said.push(line);
            has_begun
        });
        if !has_begun {
            return Err(said.join("\n"));
        }
        let errors = spawn(move || lines.collect::<Vec<_>>().join("\n"));
        let ends = SystemClock.now().after(Duration::from_secs(seconds));
        Ok(Self { process, errors, ends })
    }

    fn is_over_in(&self, time: Duration) -> bool {
        SystemClock.now().after(time) > self.ends
    }

    fn judge(mut self, rows: &[String]) {
        let mut said = String::new();
        self.process.stdout().read_to_string(&mut said).unwrap();
        let errors = self.errors.join().unwrap();
        let is_strict = self.process.wait().success()
            && said.contains("strictly serializable, nothing acknowledged is missing");
        assert!(is_strict, "after {rows:?}: {said}{errors}");
        println!("{said}");
    }
}

#[test]
fn every_request_may_fail() {
    let Some(node) = node::node() else { return };
    let seed =
        variable("CARNET_CLUSTER_SEED").unwrap_or_else(|| SeededRng::from_entropy().next_u64());
    println!("replay: CARNET_CLUSTER_SEED={seed} cargo test -p carnet-cli --test cassandra every");
    let rows = matrix(&mut SeededRng::new(seed));
    // A sweep reads all that earlier rows have written.
    for (number, rows) in rows.chunks(ROWS_OF_DATABASE).enumerate() {
        let mut servers = Servers::start(&node.contact_point, number);
        servers.suffer(rows, seed);
        servers.starts_when_the_node_is_back();
        servers.tell_whether_the_node_answers();
        assert_eq!(servers.proxy.unknown(), BTreeSet::new(), "requests without a row");
        println!("longest time until both served: {} ms", servers.longest.as_millis());
    }
}

impl Servers {
    /// Disturbs the requests of all rows beneath clients whose histories are checked.
    fn suffer(&mut self, rows: &[Row], seed: u64) {
        let mut left = rows.iter().peekable();
        let seconds = if rows.len() < ROWS_OF_DATABASE { 25 } else { 60 };
        while left.peek().is_some() {
            let stress = Stress::start(&self.addresses(), seed, seconds);
            let mut done = Vec::new();
            while !stress.is_over_in(Duration::from_secs(5))
                && let Some(row) = left.next()
            {
                self.row(row);
                done.push(format!("{}: {:?}", row.request, row.fault));
            }
            stress.judge(&done);
            self.probe.check_counter();
        }
    }

    /// A server that cannot reach the cluster says so, and starts when it can.
    fn starts_when_the_node_is_back(&mut self) {
        self.proxy.refuse(true);
        let listen = self.servers[1].cql.to_string();
        self.servers[1].process.kill();
        let arguments = ["--config", self.config.path().to_str().unwrap()];
        let log = Server::try_store(&self.url, &listen, &arguments).err().unwrap();
        assert!(log.contains("no cluster answers at"), "{log}");
        self.proxy.refuse(false);
        self.servers[1] = self.start_again(&listen);
        self.await_service(SystemClock.now(), "the node was unreachable at the start");
    }

    /// A load balancer must not send clients to servers whose cluster is away.
    fn tell_whether_the_node_answers(&mut self) {
        const READY: &str = "HTTP/1.1 200 OK";
        let become_ready = |servers: &[Server], is_ready: bool| {
            let begun = SystemClock.now();
            for server in servers {
                loop {
                    let (status, text) = server.get("/readyz");
                    if (status == READY) == is_ready {
                        let says_why = text.contains("the cluster has answered none of");
                        assert!(is_ready || says_why, "{status}: {text}");
                        break;
                    }
                    let late = SystemClock.now().since(begun) > READY_MAX;
                    assert!(!late, "after {READY_MAX:?}: {status}: {text}");
                    pause(Duration::from_millis(100));
                }
            }
        };
        become_ready(&self.servers, true);
        self.proxy.silence(true);
        become_ready(&self.servers, false);
        self.proxy.silence(false);
        become_ready(&self.servers, true);
        self.await_service(SystemClock.now(), "the node answered nothing");
    }
}
