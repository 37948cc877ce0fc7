//! Pauses, stalls and ends of processes.

use std::time::Duration;

use carnet_base::Rng;

use super::clock::nanos;
use super::machine::Executor;
use super::process::Process;
use super::state::{Event, MachineState};

impl Executor {
    /// Pauses a process for a time, like a machine that swaps or collects garbage.
    pub fn pause(&self, process: Process, time: Duration) {
        let until = self.now_nanos().saturating_add(nanos(time));
        let mut state = self.0.state.borrow_mut();
        let paused = state.paused.entry(process).or_default();
        *paused = until.max(*paused);
    }

    /// Delays the workers of a process with a prefix of their names, like a stalled device.
    pub fn stall_workers(&self, process: Process, prefix: &str, time: Duration) {
        let until = self.now_nanos().saturating_add(nanos(time));
        self.adopt_spawned();
        let mut state = self.0.state.borrow_mut();
        let MachineState { workers, events, rng, .. } = &mut *state;
        let stalled = workers
            .iter_mut()
            .filter(|(_, it)| it.process == process && it.name.starts_with(prefix));
        for (number, hand) in stalled {
            if let Some(due) = hand.due.take() {
                events.remove(&due);
            }
            let at = (until, rng.next_u64());
            events.insert(at, Event::Step(*number));
            hand.due = Some(at);
        }
    }

    /// Ends the tasks of a process immediately. Its workers go on.
    pub fn kill_tasks(&self, process: Process) {
        self.adopt_spawned();
        let mut state = self.0.state.borrow_mut();
        let killed: Vec<_> = state.tasks.extract_if(.., |_, job| job.process == process).collect();
        // Drop outside the borrow: it may wake other tasks.
        drop(state);
        drop(killed);
    }

    /// Ends a process: drops its tasks immediately, and then its workers.
    pub fn kill(&self, process: Process) {
        self.kill_tasks(process);
        let mut state = self.0.state.borrow_mut();
        state.paused.remove(&process);
        let killed: Vec<_> =
            state.workers.extract_if(.., |_, hand| hand.process == process).collect();
        drop(state);
        drop(killed);
    }
}
