//! Decoded block: the unit of the block cache and of searches.
//!
//! A block is decoded once, when it is read from disk; searches decode nothing. It is one
//! allocation ([`shared`]), so a lookup accesses few memory pages, and one address is enough to
//! prefetch a block:
//!
//! ```text
//! ┌────────┬───────┬────────────────┬────────────────┬─────────────────────────────────────────┐
//! │ header │ front │ heads: u64 × n │ places: u32 × n│ records                                 │
//! └────────┴───────┴────────────────┴────────────────┴─────────────────────────────────────────┘
//!  reference        8 bytes of each  offset of the    commit, start, key offset and length,
//!  count            key after the    record           payload length; key; expiry; payload
//!                   shared prefix
//! ```
//!
//! The fields that a search compares are adjacent, and so are the fields of its result. So a lookup
//! outside the processor caches waits for memory twice.
//!
//! **Search.** All keys of a block share their first `skip` bytes. The wanted key is compared with
//! them once; then the next eight bytes decide, as one number (the *head*). Tokens are uniformly
//! distributed and clustering keys often ascend, so linear interpolation over the heads is nearly
//! exact. The search starts at the interpolated position, brackets the key in doubling steps and
//! then bisects. Whole keys are compared only if heads are equal.
//!
//! **Versions** of a key are adjacent, newest first, and share the key's bytes. The offset of a
//! record states whether the previous entry has the same key, so a scan reads only the records that
//! it wants.

mod entry;
mod filling;
mod search;
mod shared;

pub(super) use filling::{Filling, New};
pub(super) use search::prefetch_block;
pub(super) use shared::Linked;
pub(crate) use shared::{Block, SharedBlock};
