//! The rates of faults.

/// Rates of faults, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultRates {
    /// Lost messages of blind writes.
    pub(crate) lost: u64,
    /// Late messages of blind writes.
    pub(crate) late: u64,
    /// Conditional writes that end without an answer.
    pub(crate) unanswered: u64,
}
