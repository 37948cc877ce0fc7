//! Registers: a few small values that must be linearizable.

use std::future::Future;

use carnet_base::Bytes;

use super::fault::Faulty;

/// Name of a small value of the database: one row of a table with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// Lease of the leader: epoch, owner, bound of timestamps, wall time, and the range still to be
    /// fenced.
    Lease,
    /// Encoding for each range of starts, and the start up to which it is decided.
    Coordination,
    /// Marks up to which the sweep may have deleted versions and entries.
    SweepMark,
}

/// Consistency of a read of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Linearizable: completes rounds in flight, and sees all that completed before it began.
    Serial,
    /// Plain QUORUM read: sees every write acknowledged before it began.
    Quorum,
}

/// Answer to a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// The register had the expected value, and has the new one now.
    Applied,
    /// The register had, and keeps, another value.
    Refused(Option<Bytes>),
}

/// Store of compare-and-set registers.
pub trait Registers: Send + Sync + 'static {
    /// Reads a register; `None` if it was never set.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_register(
        &self,
        register: Register,
        mode: ReadMode,
    ) -> impl Future<Output = Faulty<Option<Bytes>>> + Send;

    /// Sets a register that has the value `expected`, or was never set if that is `None`. The whole
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
