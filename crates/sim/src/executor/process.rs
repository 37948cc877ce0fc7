//! A process of the simulated system.

/// A process of the simulated system: it is paused and killed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);
