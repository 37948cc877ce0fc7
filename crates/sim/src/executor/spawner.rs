//! Handles that spawn workers and tasks of a process.

use std::sync::{Arc, Mutex};
use std::task::Wake;

use carnet_base::sync::lock;
use carnet_base::{Signal, Spawn, Task, Tasks, Worker, WorkerHandle};

use super::process::Process;

/// A spawned worker that the machine has not taken over yet.
pub(super) struct SpawnedWorker {
    pub(super) process: Process,
    pub(super) name: String,
    pub(super) signal: Signal,
    pub(super) worker: Box<dyn Worker>,
}

/// Spawns workers of a process on the machine.
#[derive(Clone)]
pub struct Spawner {
    pub(super) process: Process,
    pub(super) spawned: Arc<Mutex<Vec<SpawnedWorker>>>,
}

impl Spawn for Spawner {
    fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        let name = name.to_owned();
        lock(&self.spawned).push(SpawnedWorker { process: self.process, name, signal, worker });
        WorkerHandle::detached()
    }
}

/// Spawns tasks of a process on the machine.
#[derive(Clone)]
pub struct SimTasks {
    pub(super) process: Process,
    pub(super) sent: Arc<Mutex<Vec<(Process, Task)>>>,
}

impl Tasks for SimTasks {
    fn spawn(&self, task: Task) {
        lock(&self.sent).push((self.process, task));
    }
}

pub(super) struct TaskWaker {
    pub(super) number: u64,
    pub(super) woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.woken).push(self.number);
    }
}
