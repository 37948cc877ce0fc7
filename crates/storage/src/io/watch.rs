//! Observers of reads.

use carnet_base::Moment;

/// Observer of reads that reach the device.
pub trait Watch: Send + Sync {
    /// Returns the current time; called before a read reaches the device.
    fn begun(&self) -> Moment;

    /// Called when a read has ended, with its size in bytes and its start time.
    fn ended(&self, bytes: usize, begun: Moment);
}
