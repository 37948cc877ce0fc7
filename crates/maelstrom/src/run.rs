//! Runs a node with real input, output, time and threads.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use carnet_base::sync::lock;
use carnet_base::{
    Error, Result, SeededRng, Signal, Spawn, Step, SystemClock, ThreadSpawn, Worker,
};
use carnet_tree::ThreadTimer;

use crate::line::{LINE_BYTES_MAX, Line, read_line};
use crate::message::Message;
use crate::node::Node;
use crate::options::Options;
use crate::output::Output;
use crate::tasks::{Notify, Tasks};

/// Maximum number of waiting lines; above it, reading pauses.
const LINES_WAITING_MAX: usize = 1024;

/// Runs a node until its input ends; transactions in progress are then dropped without an answer.
///
/// # Errors
///
/// `Unavailable` if the input cannot be read or the output cannot be written.
pub fn run(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    options: Options,
) -> Result<()> {
    let (sender, events) = sync_channel(LINES_WAITING_MAX);
    let queue = Arc::new(Queue { woken: Mutex::default(), sender: sender.clone() });
    let failure = Arc::new(Mutex::new(None));
    let lines = Lines { output: Mutex::new(Box::new(output)), failure: Arc::clone(&failure) };
    let timer = Arc::new(ThreadTimer::new(Arc::new(SystemClock), &ThreadSpawn));
    let rng = Box::new(SeededRng::from_entropy());
    let node = Node::new(options, Arc::new(lines), timer, rng);
    let reader = InputReader { input: BufReader::with_capacity(1 << 16, input), sender };
    // Never joined: it may wait for input that never comes.
    drop(ThreadSpawn.spawn("carnet-maelstrom-input", Signal::new(), Box::new(reader)));
    let mut tasks = Tasks::new(Arc::clone(&queue) as Arc<dyn Notify>);
    loop {
        let goes_on = turn(&node, &mut tasks, &queue, &events)?;
        if let Some(error) = lock(&failure).take() {
            return Err(cannot("write its output", error));
        }
        if !goes_on {
            return Ok(());
        }
    }
}

fn cannot(what: &str, error: io::Error) -> Error {
    Error::unavailable(format!("the node cannot {what}")).with_source(error)
}

/// Does the work that is ready, and waits if there is none; returns `false` at the end of the
/// input.
fn turn(node: &Node, tasks: &mut Tasks, queue: &Queue, events: &Receiver<Event>) -> Result<bool> {
    let woken = std::mem::take(&mut *lock(&queue.woken));
    let is_idle = woken.is_empty();
    for task in woken {
        tasks.poll(task);
    }
    let event = if is_idle { events.recv().ok() } else { events.try_recv().ok() };
    match event {
        Some(Event::Line(Line::Whole(line))) if line.is_empty() => {}
        Some(Event::Line(Line::Whole(line))) => {
            if let Some(work) = node.receive(&line) {
                tasks.start(work);
            }
        }
        Some(Event::Line(Line::TooLong)) => {
            tracing::warn!("dropped a line of more than {LINE_BYTES_MAX} bytes");
        }
        Some(Event::End(Ok(()))) => return Ok(false),
        Some(Event::End(Err(error))) => return Err(cannot("read its input", error)),
        Some(Event::Woken) | None => {}
    }
    Ok(true)
}

enum Event {
    Line(Line),
    /// Poll the tasks that were woken.
    Woken,
    End(io::Result<()>),
}

/// Tasks that are ready. The queue is unbounded, unlike the channel, so a waker never blocks.
struct Queue {
    woken: Mutex<Vec<u64>>,
    sender: SyncSender<Event>,
}

impl Notify for Queue {
    fn notify(&self, task: u64) {
        let mut woken = lock(&self.woken);
        woken.push(task);
        if woken.len() == 1 {
            // A full channel wakes the driver as well.
            let _ = self.sender.try_send(Event::Woken);
        }
    }
}

/// Writes messages, one per line.
struct Lines {
    output: Mutex<Box<dyn Write + Send>>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Output for Lines {
    fn send(&self, message: Message) {
        let mut line = message.encode();
        line.push('\n');
        let mut output = lock(&self.output);
        // One write, so that other writers to the output do not cut a line.
        let written = output.write_all(line.as_bytes()).and_then(|()| output.flush());
        if let Err(error) = written {
            lock(&self.failure).get_or_insert(error);
        }
    }
}

struct InputReader<R> {
    input: R,
    sender: SyncSender<Event>,
}

impl<R: BufRead + Send + 'static> Worker for InputReader<R> {
    fn step(&mut self) -> Step {
        let (event, step) = match read_line(&mut self.input, LINE_BYTES_MAX) {
            Ok(Some(line)) => (Event::Line(line), Step::Again),
            Ok(None) => (Event::End(Ok(())), Step::Done),
            Err(error) => (Event::End(Err(error)), Step::Done),
        };
        if self.sender.send(event).is_ok() { step } else { Step::Done }
    }
}
