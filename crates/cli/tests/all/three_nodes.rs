//! Carnet on a Cassandra of three nodes, one of which is killed, hangs or is slow: the long edition.
//!
//! ```sh
//! CARNET_THREE_NODES=60 cargo test --release -p carnet-cli --test all three_nodes:: -- --nocapture
//! ```
//!
//! The variable is the number of seconds per phase; without it nothing is run. The checker judges
//! each phase, and each of the nodes is killed, hangs and is slow in a phase of its own. Each phase prints
//! its longest interval without an acknowledgement: compare the phase of a leader's death with the one
//! without faults. An interval above [`SILENCE_MAX`] fails: then a fault of a part has stopped the whole.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use carnet_base::{Clock, SystemClock};

use crate::support;
use crate::support::{Guard, carnet, pause, secret_file, succeed};

/// Line in a node's log when it accepts CQL connections.
const LISTENS: &str = "Starting listening for CQL clients";

/// Maximum interval without an acknowledgement: less than the timeout of a statement, on a machine that all nodes share.
const SILENCE_MAX: Duration = Duration::from_millis(4_500);

/// Nodes that run until the script's standard input ends.
struct Nodes {
    contact_points: String,
    processes: Vec<String>,
    script: Child,
    /// Restarted nodes, which the script ends as well.
    again: Vec<Child>,
}

impl Nodes {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra");
        let mut script = Command::new(script)
            .args(["run", "3"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("scripts/cassandra says why").unwrap();
        let (contact_points, processes) = (line(), line());
        let processes = processes.split_whitespace().map(str::to_owned).collect();
        Self { contact_points, processes, script, again: Vec::new() }
    }

    /// Stops a node without closing its connections, and continues it after a while.
    fn hang(&self, number: usize, away: Duration) {
        let id = &self.processes[number];
        succeed(Command::new("kill").args(["-STOP", id]));
        println!("node {} hangs", number + 1);
        pause(away);
        succeed(Command::new("kill").args(["-CONT", id]));
        println!("node {} goes on", number + 1);
    }

    /// Lets a node run for a tenth of the time only, so that each of its answers takes some 200 ms.
    fn slow_down(&self, number: usize, during: Duration) {
        let id = &self.processes[number];
        println!("node {} is slow", number + 1);
        for _ in 0..during.as_millis() / 220 {
            succeed(Command::new("kill").args(["-STOP", id]));
            pause(Duration::from_millis(200));
            succeed(Command::new("kill").args(["-CONT", id]));
            pause(Duration::from_millis(20));
        }
        println!("node {} is fast again", number + 1);
    }

    /// Kills a node, and restarts it with its data after a while.
    #[expect(clippy::disallowed_methods, reason = "it goes on with the log that it had")]
    fn bounce(&mut self, number: usize, away: Duration) {
        let id = &self.processes[number];
        let command = fs::read(format!("/proc/{id}/cmdline")).unwrap();
        let words: Vec<&str> =
            support::text(&command).split('\0').filter(|word| !word.is_empty()).collect();
        let folder: PathBuf = words
            .iter()
            .find_map(|word| word.strip_prefix("-Dcassandra.storagedir="))
            .expect("the script says where a node stores")
            .into();
        let log = fs::read_to_string(folder.join("system.log")).unwrap();
        let before = log.matches(LISTENS).count();
        succeed(Command::new("kill").args(["-KILL", id]));
        println!("node {} was killed", number + 1);
        pause(away);
        let log = fs::File::options().append(true).open(folder.join("output.log")).unwrap();
        let child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.processes[number] = child.id().to_string();
        fs::write(folder.join("pid"), &self.processes[number]).unwrap();
        self.again.push(child);
        let listens = || {
            let log = fs::read_to_string(folder.join("system.log")).unwrap();
            log.matches(LISTENS).count() > before
        };
        while !listens() {
            pause(Duration::from_millis(200));
        }
        println!("node {} is back", number + 1);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
        for node in &mut self.again {
            let _ = node.wait();
        }
    }
}

/// Opens the database in new processes, one after the other; returns their number and the longest
/// time of one.
fn open_again(url: &str, during: Duration) -> (u32, Duration) {
    let begun = SystemClock.now();
    let (mut count, mut longest) = (0, Duration::ZERO);
    while SystemClock.now().since(begun) < during {
        let started = SystemClock.now();
        let select = "SELECT keyspace_name FROM system_schema.keyspaces";
        succeed(carnet().args(["shell", "--store", url, "-e", select]));
        longest = longest.max(SystemClock.now().since(started));
        count += 1;
    }
    (count, longest)
}

/// What happens to a node, by its number, during a phase.
#[derive(Clone, Copy)]
enum Node {
    Lives,
    Dies(usize),
    Hangs(usize),
    IsSlow(usize),
}

#[test]
fn three_nodes_lose_one_and_nothing_else() {
    let Ok(seconds) = env::var("CARNET_THREE_NODES") else {
        println!("skipped: CARNET_THREE_NODES says how many seconds a phase takes");
        return;
    };
    let time = Duration::from_secs(seconds.parse().unwrap());
    let mut nodes = Nodes::start();
    let mut phases: Vec<(&str, &[&str], Node)> = vec![
        ("nothing happens", &[], Node::Lives),
        ("servers are killed", &["--kill-every", "6"], Node::Lives),
        ("servers stand still", &["--pause-every", "6"], Node::Lives),
    ];
    for number in 0..3 {
        phases.push(("a node dies and comes back", &[], Node::Dies(number)));
        phases.push(("a node hangs and goes on", &[], Node::Hangs(number)));
        phases.push(("a node is slow", &[], Node::IsSlow(number)));
    }
    phases.push(("all of it", &["--kill-every", "8", "--pause-every", "8"], Node::Dies(1)));
    for (number, (name, trouble, node)) in phases.into_iter().enumerate() {
        let url = format!(
            "cassandra://{}/phase{number}?replication=3&lease=1s&listen=127.0.0.1:0&\
             secret_file={}",
            nodes.contact_points,
            secret_file("sixteen-letters-or-more")
        );
        // With an even number the leader's death leaves one server, with an odd one two.
        let servers = if number % 2 == 0 { "2" } else { "3" };
        let mut stress = carnet();
        stress.args(["stress", "--store", &url, "--workload", "list-append,bank"]);
        stress.args(["--servers", servers]);
        stress.args(["--clients", "8", "--seconds", &seconds, "--seed", &number.to_string()]);
        let mut stress = stress
            .args(trouble)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Guard::new)
            .unwrap();
        let mut heard = BufReader::new(stress.stderr()).lines().map(Result::unwrap);
        // The tables exist, and the clients are at work.
        let begun = heard.find(|line| line.contains(" committed, "));
        assert!(begun.is_some(), "{name}: carnet stress ended");
        let said = thread::scope(|scope| {
            let heard = scope.spawn(|| heard.collect::<Vec<_>>().join("\n"));
            match node {
                Node::Lives => {}
                Node::Dies(node) => {
                    pause(time / 3);
                    nodes.bounce(node, time / 4);
                }
                Node::Hangs(on) | Node::IsSlow(on) => {
                    pause(time / 3);
                    let opened = scope.spawn(|| open_again(&url, time / 4));
                    match node {
                        Node::Hangs(_) => nodes.hang(on, time / 4),
                        _ => nodes.slow_down(on, time / 4),
                    }
                    let (count, longest) = opened.join().unwrap();
                    println!("{count} new processes, the slowest {} ms", longest.as_millis());
                }
            }
            let mut said = String::new();
            stress.stdout().read_to_string(&mut said).unwrap();
            let heard = heard.join().unwrap();
            assert!(stress.wait().success(), "{name}: {said}{heard}");
            said
        });
        assert!(said.contains("strictly serializable, nothing acknowledged is missing"), "{said}");
        println!("{name}, {servers} servers: {said}");
        let silence = said.split("longest silence ").nth(1).and_then(|rest| rest.split(' ').next());
        let silence = Duration::from_millis(silence.and_then(|text| text.parse().ok()).unwrap());
        assert!(silence <= SILENCE_MAX, "{name}: no acknowledgement for {silence:?}");
    }
}
