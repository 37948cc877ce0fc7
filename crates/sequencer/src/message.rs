//! Messages between processes: of followers to the leader, and statements that a process forwards to
//! another one. Every request may be sent again, except [`LeaderRequest::Forward`].

use bytes::Bytes;
use carnet_base::{Error, Timestamp};
use carnet_store::{BeginKind, Claim, Outcome};

pub use crate::cells::Changes;

/// One incarnation of a process that begins transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Name of a snapshot, chosen by the process that opens it and never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A request of a follower to the leader, or of any process to another one.
#[derive(Clone, Debug)]
pub enum LeaderRequest {
    /// Release a snapshot.
    Begin {
        /// The requesting process.
        client: ClientId,
        /// Name of the snapshot: a repeated request gets the same snapshot.
        token: Token,
        /// Kind of the snapshot.
        kind: BeginKind,
        /// Whether the snapshot must include every commit acknowledged before the request, by any
        /// leader.
        is_strict: bool,
        /// Latest snapshot up to which the process knows all changes of cells; `None` if it has no
        /// cell cache, or no snapshot yet.
        known: Option<Timestamp>,
    },
    /// Give a snapshot back.
    End {
        /// The process that opened it.
        client: ClientId,
        /// Name of the snapshot.
        token: Token,
    },
    /// Decide a transaction whose cells a majority has.
    Commit {
        /// The requesting process.
        client: ClientId,
        /// Name of its snapshot.
        token: Token,
        /// Written and read cells of the transaction.
        claim: Claim,
    },
    /// Return the outcome of a transaction.
    Outcome {
        /// Start timestamp of the transaction.
        start: Timestamp,
    },
    /// Abort a transaction of any process that is not decided yet, and return its outcome.
    Abort {
        /// Start timestamp of the transaction.
        start: Timestamp,
    },
    /// Keep the snapshots of a process alive.
    Alive {
        /// Process that asks.
        client: ClientId,
        /// Oldest snapshot that the process has or requests; older ones are given back.
        oldest: Token,
    },
    /// Announce a process to the others.
    Announce {
        /// The announcing process.
        client: ClientId,
        /// The announcement; empty to withdraw it.
        what: Bytes,
    },
    /// Pass bytes to the [`ForwardHandler`](crate::ForwardHandler) of the addressed process, which
    /// need not lead.
    Forward {
        /// The bytes, which the sequencer does not interpret.
        what: Bytes,
    },
}

/// The announcements of all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Whether these are all processes: a new leader does not know all of them yet.
    pub is_complete: bool,
    /// The announcements, in any order.
    pub all: Vec<Bytes>,
}

/// A snapshot as released by the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The snapshot R.
    pub read: Timestamp,
    /// The start S, for a writer.
    pub start: Option<Timestamp>,
    /// First timestamp of the epoch that released the snapshot.
    pub epoch_first: Timestamp,
    /// See [`carnet_store::Begun::schema`].
    pub schema: Timestamp,
}

/// An answer of the leader.
#[derive(Debug)]
pub enum Response {
    /// A snapshot was released; the changes cover the cells changed since the snapshot that the
    /// process knew.
    Released(Released, Changes),
    /// The transaction committed at this timestamp, and every commit up to it is resolved.
    Committed(Timestamp),
    /// The outcome of a transaction.
    Outcome(Outcome),
    /// The request was received.
    Done,
    /// The announcements of all processes.
    Members(Members),
    /// The answer of the handler of forwarded bytes.
    Forwarded(Bytes),
    /// The request was refused, with the reason.
    Refused(Error),
    /// The addressed process does not lead, or no longer does. The request may still take effect.
    NotLeading,
}
