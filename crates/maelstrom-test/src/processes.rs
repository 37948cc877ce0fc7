//! Runs nodes as processes, in real time, over pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use carnet_base::{Clock, Moment, Signal, Spawn, Step, SystemClock, ThreadSpawn, Worker};

use crate::plan::Plan;
use crate::report::Report;
use crate::world::World;

/// Command that starts a node.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Whether its log is shown.
    pub shows_log: bool,
}

/// Runs a plan against processes, and kills them at its end.
///
/// # Errors
///
/// A sentence that says that a node violates the protocol, has ended, or cannot be started.
pub fn run(plan: &Plan, program: &Program) -> Result<Report, String> {
    let (sender, events) = channel();
    let nodes = (0..plan.nodes).map(|node| Process::start(node, program, sender.clone()));
    let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    drop(sender);
    let mut world = World::new(plan.clone());
    let clock = SystemClock;
    let began = clock.now();
    loop {
        let now = Moment(clock.now().since(began));
        for (node, line) in world.advance(now)? {
            nodes[node].give(&line)?;
        }
        if world.is_over() {
            return Ok(world.report());
        }
        let now = Moment(clock.now().since(began));
        let limit = world.next().map_or(IDLE, |next| next.since(now)).min(IDLE);
        receive(&mut world, &events, limit, || Moment(clock.now().since(began)))?;
    }
}

/// Wait time if nothing is due.
const IDLE: Duration = Duration::from_millis(100);

/// Takes the lines that nodes have written: all that are there, or else the first that comes.
fn receive(
    world: &mut World,
    events: &Receiver<Event>,
    limit: Duration,
    now: impl Fn() -> Moment,
) -> Result<(), String> {
    let mut event = match events.recv_timeout(limit) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => return Err("all nodes have ended".to_owned()),
    };
    while let Some((node, line)) = event {
        match line {
            Ok(line) => world.receive(node, &line, now())?,
            Err(error) => return Err(format!("n{node} has ended: {error}")),
        }
        event = events.try_recv().ok();
    }
    Ok(())
}

/// A line that a node has written, or the reason why no more will come.
type Event = (usize, Result<String, String>);

struct Process {
    node: usize,
    child: Child,
    input: ChildStdin,
}

impl Process {
    fn start(node: usize, program: &Program, sender: Sender<Event>) -> Result<Self, String> {
        let cannot = |error| format!("cannot run {}: {error}", program.path.display());
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if program.shows_log { Stdio::inherit() } else { Stdio::null() });
        let mut child = command.spawn().map_err(cannot)?;
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let listener = Listener { node, output, sender };
        // The listener ends with the process.
        drop(ThreadSpawn.spawn("maelstrom-test-node", Signal::new(), Box::new(listener)));
        Ok(Self { node, child, input })
    }

    fn give(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        let written = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        written.map_err(|error| format!("n{} does not listen: {error}", self.node))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Listener {
    node: usize,
    output: BufReader<ChildStdout>,
    sender: Sender<Event>,
}

impl Worker for Listener {
    fn step(&mut self) -> Step {
        let mut line = String::new();
        let event = match self.output.read_line(&mut line) {
            Ok(0) => Err("its output is closed".to_owned()),
            Ok(_) => Ok(line),
            Err(error) => Err(error.to_string()),
        };
        let is_over = event.is_err();
        let is_heard = self.sender.send((self.node, event)).is_ok();
        if is_over || !is_heard { Step::Done } else { Step::Again }
    }
}
