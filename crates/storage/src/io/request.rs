//! Requests to the device.

use carnet_base::Moment;

/// Maximum size of a piece of a background request, in bytes.
pub const PIECE_BYTES: usize = 128 << 10;

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction of the transfer.
    pub direction: Direction,
    /// Size in bytes.
    pub bytes: usize,
    /// Deadline; it orders reads among each other, and writes of the log.
    pub deadline: Moment,
    /// Whether the scheduler splits a background request; otherwise its sender has done so.
    pub splits: bool,
}

/// Id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);
