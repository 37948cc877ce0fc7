//! What becomes of `USING TIMESTAMP`.

/// What an executor does with the `USING TIMESTAMP` of a statement or batch.
///
/// Transactions have an order of their own, so a client's timestamp cannot order writes. An
/// application that was written for Cassandra may set timestamps that agree with the order in which
/// it sends its writes: ignoring them changes nothing for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Fails the statement.
    #[default]
    Refuse,
    /// Runs the statement as if it had no timestamp.
    Ignore,
}
