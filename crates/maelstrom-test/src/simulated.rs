//! Runs nodes in this process on virtual time: a run takes only the time of its computation, and
//! its seed replays it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Moment, Rng, SeededRng};
use carnet_maelstrom::{Message, Node, Notify, Options, Output, Tasks, Timer, Wait};

use crate::plan::Plan;
use crate::report::Report;
use crate::world::World;

/// Runs a plan against nodes in this process.
///
/// # Errors
///
/// A sentence that says that a node violates the protocol, or that it has stopped answering.
pub fn run(plan: &Plan, options: &Options) -> Result<Report, String> {
    let mut simulation = Simulation::new(plan, options);
    while !simulation.world.is_over() {
        simulation.settle()?;
        simulation.leap()?;
    }
    Ok(simulation.world.report())
}

struct Simulation {
    world: World,
    nodes: Vec<Node>,
    tasks: Tasks,
    shared: Shared,
}

/// State that the nodes access through their timer and output.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Moment,
    timers: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
    woken: VecDeque<u64>,
    sent: VecDeque<(usize, String)>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl Notify for Shared {
    fn notify(&self, task: u64) {
        self.lock().woken.push_back(task);
    }
}

impl Timer for Shared {
    fn now(&self) -> Moment {
        self.lock().now
    }

    fn wait(&self, wait: Duration) -> Wait {
        let shared = self.clone();
        let until = self.now().after(wait);
        let mut place = None;
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = shared.lock();
            if state.now >= until {
                return Poll::Ready(());
            }
            let ticket = *place.get_or_insert_with(|| {
                state.tickets += 1;
                state.tickets
            });
            state.timers.insert((until, ticket), context.waker().clone());
            Poll::Pending
        }))
    }
}

/// The output of one node.
struct Sender {
    node: usize,
    shared: Shared,
}

impl Output for Sender {
    fn send(&self, message: Message) {
        self.shared.lock().sent.push_back((self.node, message.encode()));
    }
}

impl Simulation {
    fn new(plan: &Plan, options: &Options) -> Self {
        let shared = Shared::default();
        let mut rng = SeededRng::new(!plan.seed);
        let nodes = (0..plan.nodes).map(|node| {
            let output = Arc::new(Sender { node, shared: shared.clone() });
            let rng = Box::new(SeededRng::new(rng.next_u64()));
            Node::new(options.clone(), output, Arc::new(shared.clone()), rng)
        });
        Self {
            world: World::new(plan.clone()),
            nodes: nodes.collect(),
            tasks: Tasks::new(Arc::new(shared.clone())),
            shared,
        }
    }

    /// Does all work that is possible at the current time.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let now = self.shared.now();
            let mut is_quiet = true;
            for (node, line) in self.world.advance(now)? {
                is_quiet = false;
                if let Some(work) = self.nodes[node].receive(line.as_bytes()) {
                    self.tasks.start(work);
                }
            }
            while let Some(task) = self.take(|state| state.woken.pop_front()) {
                is_quiet = false;
                self.tasks.poll(task);
            }
            while let Some((node, line)) = self.take(|state| state.sent.pop_front()) {
                is_quiet = false;
                self.world.receive(node, &line, now)?;
            }
            if is_quiet {
                return Ok(());
            }
        }
    }

    fn take<T>(&self, take: impl FnOnce(&mut State) -> T) -> T {
        take(&mut self.shared.lock())
    }

    /// Moves the time to the next event.
    fn leap(&mut self) -> Result<(), String> {
        if self.world.is_over() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        let timer = state.timers.first_key_value().map(|((moment, _), _)| *moment);
        let Some(next) = [timer, self.world.next()].into_iter().flatten().min() else {
            return Err("the nodes wait for something that never happens".to_owned());
        };
        let now = state.now.max(next);
        state.now = now;
        let mut due = Vec::new();
        while let Some(first) = state.timers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
        Ok(())
    }
}
