//! Processors of the generator and of the server.
//!
//! On a machine with few processors a generator takes them from the server: the more it offers, the less the
//! server can do. With `--pin` each has half of the processors for itself.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Restricts this thread to a half of its processors until it is dropped. Threads and processes that the thread
/// starts inherit the half.
pub(super) struct Pinned {
    all: CpuSet,
    generator: CpuSet,
}

impl Pinned {
    /// Restricts this thread to the server's half, to start the server.
    ///
    /// # Errors
    ///
    /// Fails if there is only one processor.
    pub(super) fn new() -> io::Result<Self> {
        let all = sched_getaffinity(None)?;
        let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at)).collect();
        let (server, generator) = processors.split_at(processors.len() / 2);
        if server.is_empty() {
            return Err(io::Error::other("--pin needs at least two processors"));
        }
        sched_setaffinity(None, &set_of(server))?;
        Ok(Self { all, generator: set_of(generator) })
    }

    /// Restricts this thread to the generator's half.
    pub(super) fn move_to_generator(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.generator)?)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.all);
    }
}

fn set_of(processors: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    processors.iter().for_each(|at| set.set(*at));
    set
}
