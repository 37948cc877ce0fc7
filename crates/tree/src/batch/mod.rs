//! Runs batches. Only this module reads and moves the root.
//!
//! ```text
//!          ┌──────────── the root has moved: again, on the newer one ◄─────────────┐
//!          ▼                                                                       │
//!  root ─► read the keys' paths ─► run each transaction ─┬─ no writes ─► verify ───┤
//!  cached  all at once, level      on what those before  │               root      │
//!  or read by level                it left               └─ writes ─► put nodes ─► compare-and-set
//! ```
//!
//! All calls of a batch precede its begin, so one read or one move of the root during the batch
//! verifies the reads of all of them.
//!
//! **A compare-and-set that ends with an error** may have moved the root, or may still move it at
//! any later time. The batch is answered only after this is resolved: the root's history contains
//! the attempt, or shows that another one replaced it. If the root has not moved at all, a *fence*
//! resolves it: a root with the same content, which the delayed attempt does not expect. If the
//! store does not answer within [`Options::retry_timeout`], the outcome is `Unknown`.

mod attempt;
mod core;
mod driver;
mod nodes;
mod roots;
mod swap;

pub(crate) use self::core::Core;
