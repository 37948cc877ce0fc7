//! Treatment of `USING TIMESTAMP`.

/// Treatment of the `USING TIMESTAMP` of a statement or batch.
///
/// Transactions have their own order, so a client's timestamp cannot order writes. An application
/// that was written for Cassandra may set timestamps that agree with the order in which it sends
/// its writes. For such an application, ignoring them changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Fails the statement.
    #[default]
    Refuse,
    /// Runs the statement as if it had no timestamp.
    Ignore,
    /// Stores the timestamp as the write time, and decides by it, as Cassandra: a value that was written
    /// later remains.
    Record,
    /// Stores the timestamp as the write time, and overwrites stored values, for copies of rows.
    Overwrite,
}
