//! What may happen to a request between Carnet and a node.

use super::frames::Frame;

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node answers an error instead of running the request.
    Refused(NodeError),
    /// The node runs the request and answers an error.
    RunThen(NodeError),
    /// The connection closes before the node has the request.
    ClosedBefore,
    /// The connection closes when the node has answered.
    ClosedAfter,
    /// The node has the request after the client's timeout.
    Late,
    /// The answer comes after the client's timeout.
    AnsweredLate,
    /// The node never has the request.
    Lost,
}

/// An error of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeError {
    Server,
    Unavailable,
    Overloaded,
    WriteTimeout,
    ReadTimeout,
}

impl Fault {
    pub(super) const ALL: [Self; 13] = [
        Self::Refused(NodeError::Server),
        Self::Refused(NodeError::Unavailable),
        Self::Refused(NodeError::Overloaded),
        Self::Refused(NodeError::WriteTimeout),
        Self::Refused(NodeError::ReadTimeout),
        Self::RunThen(NodeError::Unavailable),
        Self::RunThen(NodeError::WriteTimeout),
        Self::RunThen(NodeError::ReadTimeout),
        Self::ClosedBefore,
        Self::ClosedAfter,
        Self::Late,
        Self::AnsweredLate,
        Self::Lost,
    ];
}

impl NodeError {
    /// Returns the error as the answer to a request; "native protocol v4", section 9.
    pub(super) fn answer(self, stream: [u8; 2]) -> Frame {
        const QUORUM: [u8; 2] = [0, 4];
        let counts = [0, 0, 0, 0, 0, 0, 0, 1];
        let (code, rest) = match self {
            Self::Server => (0x0000, Vec::new()),
            Self::Unavailable => (0x1000, [&QUORUM[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat()),
            Self::Overloaded => (0x1001, Vec::new()),
            Self::WriteTimeout => (0x1100, [&QUORUM[..], &counts, b"\x00\x03CAS"].concat()),
            Self::ReadTimeout => (0x1200, [&QUORUM[..], &counts, &[0]].concat()),
        };
        Frame::error(stream, code, &rest)
    }
}
