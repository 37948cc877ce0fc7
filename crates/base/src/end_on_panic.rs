//! Ends the process when a background task panics.
//!
//! A thread that ended unnoticed would leave a process that looks alive: it accepts connections,
//! and every call waits for work that is never done. A process that ends is started again by its
//! supervisor, and another one takes over its lease.

use std::borrow::Cow;

/// Guard that ends the process if it is dropped by a panic. Held by a thread or a task for its life.
#[derive(Debug)]
pub struct EndOnPanic {
    task: Cow<'static, str>,
}

impl EndOnPanic {
    /// Creates the guard of a task, which the message names.
    #[must_use]
    pub fn new(task: impl Into<Cow<'static, str>>) -> Self {
        Self { task: task.into() }
    }
}

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the background task {} panicked: the process ends", self.task);
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::spawn::{Signal, Spawn, Step, ThreadSpawn, Worker};

    /// Set in the process that is to end.
    const CHILD: &str = "CARNET_TEST_PANICS";

    struct Panics {
        stops_store: bool,
    }

    impl Worker for Panics {
        fn step(&mut self) -> Step {
            panic!("on purpose")
        }

        fn stops_store_on_panic(&self) -> bool {
            self.stops_store
        }
    }

    /// Runs this test in a process of its own, with a worker that panics.
    fn child(stops_store: bool) -> (bool, String) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "end_on_panic::tests::panic_of_a_worker_ends_the_process"]);
        child.args(["--nocapture"]).env(CHILD, stops_store.to_string());
        let output = child.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn panic_of_a_worker_ends_the_process() {
        if let Ok(stops_store) = std::env::var(CHILD) {
            let worker = Panics { stops_store: stops_store == "true" };
            ThreadSpawn.spawn("carnet-doomed", Signal::new(), Box::new(worker)).join();
            return;
        }
        let (goes_on, said) = child(false);
        assert!(!goes_on && said.contains("task carnet-doomed panicked"), "{said}");
        // A worker of the engine has stopped its store, which says so at each write.
        assert!(child(true).0);
    }
}
