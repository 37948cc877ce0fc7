//! A few small values that must be linearizable.

use std::future::Future;

use carnet_base::Bytes;

use super::fault::Faulty;

/// Names a small value of the database: one row of a table with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// Who leads: epoch, owner, bound of timestamps, wall time, range still to be fenced.
    Lease,
    /// Which encoding is in force for which starts, and up to where that is decided.
    Coordination,
    /// Up to where the sweep may have deleted versions and entries.
    SweepMark,
}

/// How a register is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Linearizable: it completes rounds under way, and sees all that were done before it began.
    Serial,
    /// A plain read at QUORUM: it sees whatever was acknowledged before it began.
    Quorum,
}

/// What a compare-and-set answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// The register held what was expected, and holds the new value now.
    Applied,
    /// It held something else, which it still holds.
    Refused(Option<Bytes>),
}

/// Keeps registers.
pub trait Registers: Send + Sync + 'static {
    /// Reads a register; `None` where it was never set.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_register(
        &self,
        register: Register,
        mode: ReadMode,
    ) -> impl Future<Output = Faulty<Option<Bytes>>> + Send;

    /// Sets a register that holds `expected`, `None` where it must never have been set. The whole
    /// value is compared.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault); after [`Fault::Unknown`](super::Fault::Unknown) it may be set at
    /// any later time, until a SERIAL read or another compare-and-set has been answered.
    fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> impl Future<Output = Faulty<SetAnswer>> + Send;
}
