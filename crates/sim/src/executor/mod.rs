//! The simulated machine: one thread, virtual time, and an order drawn from a seed.
//!
//! ```text
//!  woken tasks ──┐ + a latency                       ┌─▶ poll a task
//!  rung workers ─┼────────────▶ events, by (moment, ─┼─▶ step a worker
//!  timers ───────┘               a random number)    └─▶ wake a sleeper
//! ```
//!
//! Time jumps to the next event; no thread sleeps. Each wake-up has its own latency, mostly
//! microseconds and sometimes milliseconds, so the first task to be woken is not always the first
//! to run, like a thread that the operating system preempted.
//!
//! Tasks and workers belong to a [`Process`], which can be paused and killed as a whole.
//!
//! A poll takes no time, unless the process was given [processors](Executor::give_processors).
//!
//! The *trace* is a hash over every event with its moment: two runs of a seed that differ in
//! anything differ in it.

mod clock;
mod faults;
mod machine;
mod process;
mod spawner;
mod state;
#[cfg(test)]
mod tests;
mod turns;
mod yields;

pub use clock::{SimClock, SimTimer};
pub use machine::Executor;
pub use process::Process;
pub use spawner::{SimTasks, Spawner};
pub use yields::yield_once;
