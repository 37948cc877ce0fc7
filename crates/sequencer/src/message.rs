//! What followers and the leader say to each other. Every request may be sent again.

use bytes::Bytes;
use carnet_base::{Error, Timestamp};
use carnet_store::{BeginKind, Claim, Outcome};

pub use crate::cells::Changes;

/// Names a process that begins transactions, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Names a snapshot of a process, given by the process itself. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What a follower asks the leader.
#[derive(Clone, Debug)]
pub enum Request {
    /// Release a snapshot.
    Begin {
        /// Who asks.
        client: ClientId,
        /// What it is called: asked for twice it is the same one.
        token: Token,
        /// What for.
        kind: BeginKind,
        /// Whether it must include all that was acknowledged before, by whichever leader.
        is_strict: bool,
        /// Up to which snapshot it knows all changes of cells; `None` where it keeps none, or knows of
        /// no snapshot yet.
        known: Option<Timestamp>,
    },
    /// Give a snapshot back.
    End {
        /// Who had it.
        client: ClientId,
        /// Which one.
        token: Token,
    },
    /// Decide a transaction whose cells a majority has.
    Commit {
        /// Who asks.
        client: ClientId,
        /// Its snapshot.
        token: Token,
        /// What it wrote and relied on.
        claim: Claim,
    },
    /// Tell what became of a transaction.
    Outcome {
        /// Its start.
        start: Timestamp,
    },
    /// Keep this process's snapshots.
    Alive {
        /// Whose.
        client: ClientId,
        /// The oldest that it has or asks for: older ones are given back.
        oldest: Token,
    },
    /// Tell others of this process.
    Announce {
        /// Which one.
        client: ClientId,
        /// What to tell them; nothing more where it is empty.
        what: Bytes,
    },
}

/// What processes announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Whether these are all: a leader who is new does not know everybody yet.
    pub is_complete: bool,
    /// What they announce, in any order.
    pub all: Vec<Bytes>,
}

/// A snapshot as the leader releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The snapshot R.
    pub read: Timestamp,
    /// The start S of a writer.
    pub start: Option<Timestamp>,
    /// The first timestamp of the epoch that released it.
    pub epoch_first: Timestamp,
    /// As [`carnet_store::Begun::schema`].
    pub schema: Timestamp,
}

/// What the leader answers.
#[derive(Debug)]
pub enum Response {
    /// A snapshot was released, and these cells have changed up to it since the one that was known.
    Released(Released, Changes),
    /// A transaction committed at that timestamp, and everything up to it is resolved.
    Committed(Timestamp),
    /// What became of a transaction.
    Outcome(Outcome),
    /// Heard.
    Done,
    /// What all processes announce.
    Members(Members),
    /// It cannot be, and why.
    Refused(Error),
    /// Whoever was asked does not lead, or does not any more: what was asked for may be under way.
    NotLeading,
}
