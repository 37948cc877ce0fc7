//! Runs nodes in this process on virtual time: a run takes only the time of its computation, and
//! its seed replays it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use carnet_base::{Rng, SeededRng, VirtualTimer, lock};
use carnet_maelstrom::{Message, Node, Notify, Options, Output, Tasks, Timer};

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
    timer: VirtualTimer,
    shared: Shared,
}

/// SimulatedState that the nodes access through their tasks and output.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<SimulatedState>>);

#[derive(Default)]
struct SimulatedState {
    woken: VecDeque<u64>,
    sent: VecDeque<(usize, String)>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SimulatedState> {
        lock(&self.0)
    }
}

impl Notify for Shared {
    fn notify(&self, task: u64) {
        self.lock().woken.push_back(task);
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
        let (shared, timer) = (Shared::default(), VirtualTimer::default());
        let mut rng = SeededRng::new(!plan.seed);
        let nodes = (0..plan.nodes).map(|node| {
            let output = Arc::new(Sender { node, shared: shared.clone() });
            let rng = Box::new(SeededRng::new(rng.next_u64()));
            Node::new(options.clone(), output, Arc::new(timer.clone()), rng)
        });
        Self {
            world: World::new(plan.clone()),
            nodes: nodes.collect(),
            tasks: Tasks::new(Arc::new(shared.clone())),
            timer,
            shared,
        }
    }

    /// Does all work that is possible at the current time.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let now = Timer::now(&self.timer);
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

    fn take<T>(&self, take: impl FnOnce(&mut SimulatedState) -> T) -> T {
        take(&mut self.shared.lock())
    }

    /// Moves the time to the next event.
    fn leap(&mut self) -> Result<(), String> {
        if self.world.is_over() {
            return Ok(());
        }
        let Some(next) = [self.timer.next(), self.world.next()].into_iter().flatten().min() else {
            return Err("the nodes wait for something that never happens".to_owned());
        };
        self.timer.advance_to(next);
        Ok(())
    }
}
