//! The term of a leader: one process decides for all.
//!
//! ```text
//!   commit(S)  ── rules decide: C ──▶ prefix: 7 9 12 …       one critical section
//!                                └──▶ group of S's row
//!   group      ── unresolved loop ──▶ every entry final
//!              ── resolve ─────────▶ P over the contiguous prefix, answers for C ≤ P
//!   begin      ── SERIAL read of the lease, begun after the request ──▶ R = P, S
//! ```
//!
//! # Invariants
//!
//! * The timestamps of a term form an interval: they begin at the bound that the previous term
//!   left, and lie below its own bound. The position of a start or a snapshot therefore tells its
//!   term, and requests carry no term: a start of an older term lies below this term's first
//!   timestamp.
//! * A leader decides only for the starts and snapshots of its own term. For an older start it
//!   reads the commit table, and writes the abort marker if there is no entry.
//! * A start is decided once. The decision is remembered, and repeated requests get the same
//!   answer. Once it is forgotten, the leader reads the commit table: a refused start has no entry
//!   there and gets the abort marker. A C that was drawn for a start is never replaced.
//! * P passes a commit only when its entry is final. No commit beyond P is acknowledged.
//! * Once the leader finds a later epoch in any answer, it only answers that it does not lead. The
//!   next leader answers for the requests in flight.

mod commit;
mod fold;
mod folds;
mod group;
mod outcome;
mod requests;
mod resolve;
mod snapshots;
mod state;
mod term;

pub(crate) use outcome::unknown;
pub(crate) use term::Leader;
