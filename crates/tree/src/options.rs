//! What may be set. The defaults are the fastest that is strictly serializable; each of the
//! others takes one idea away, so that its worth can be measured.

use std::time::Duration;

use crate::root::ROOT_BYTES_MAX;

/// How a [`Tree`](crate::Tree) works. Transactors of one tree may differ in all of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether transactions that only read ask the root pointer whether their root is still the
    /// newest. Without it they are serializable, may be stale, and cost no message. Default: true.
    pub verify_reads: bool,
    /// Whether a batch may begin with the root that the one before it left, instead of reading
    /// it. Then it is read first only while that has turned out to be the better guess.
    /// Default: true.
    pub cache_root: bool,
    /// How much memory cached nodes may take; 0 caches nothing. Default: 64 MiB.
    pub cache_bytes: usize,
    /// How many transactions one move of the root may carry, at least 1. More saves messages;
    /// fewer bounds what is run again after a lost move. Default: 1024.
    pub batch_transactions_max: usize,
    /// Batches begin at multiples of this, so that a transaction waits half of it on average and
    /// more of them share a move. Zero begins a batch as soon as the one before has ended.
    /// Default: zero.
    pub batch_interval: Duration,
    /// How many nodes are read at once; 1 reads them one after the other. Default: 64.
    pub reads_in_flight: usize,
    /// How many nodes are put at once; 1 puts them one after the other. Default: 64.
    pub writes_in_flight: usize,
    /// A batch whose move was lost so often gives its transactions up with `Conflict`; 1 never
    /// tries again. Default: no limit, since each loss is another one's success.
    pub attempts_max: usize,
    /// After its *n*-th lost move a batch waits a random part of 2ⁿ⁻¹ times this, of at most 64
    /// times, and of at most four times of what a move takes, if that is more than this. Whoever
    /// has lost also rests so long after its next few moves, so that others win, too. Zero never
    /// waits. Default: 5 ms.
    pub backoff: Duration,
    /// How long to wait before a node that was not there is asked for again. Default: 5 ms.
    pub missing_wait: Duration,
    /// How long a batch goes on against a store that fails, from its beginning on. Then its
    /// transactions end with `Unavailable`, or with `Unknown` where the move may have happened or
    /// may yet. Default: 30 s.
    pub patience: Duration,
    /// Timeout after which a store is asked again, and a compare-and-set is looked for in the root;
    /// the first call stays open, and its answer counts. The timeout grows with the time that
    /// answers take, up to half of [`Options::patience`]. Default: none, for stores that end each
    /// call themselves.
    pub answer_timeout: Option<Duration>,
    /// **Wrong on purpose**: takes a node that is not there for an empty one, and loses updates.
    /// It exists so that checkers can show that they see it. Default: false.
    pub ignore_missing: bool,
    /// The form of what is written. Default: [`Shape::default`].
    pub shape: Shape,
}

/// The form in which new roots and nodes are written. All forms can be read.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many bytes of the newest writes the root holds itself, at most 3072; 0 sends every
    /// write down the tree. Default: 3072.
    pub buffer_bytes: usize,
    /// How many bytes of writes that the root has no room for wait in one node until they go down
    /// the tree together; 0 sends them at once. Default: 32 KiB.
    pub run_bytes_max: usize,
    /// A leaf of more bytes is split, into up to 32. Large leaves make for few nodes, small ones
    /// for few bytes. Default: 16 KiB.
    pub leaf_bytes_max: usize,
    /// Values of more bytes get a node of their own. Default: 256.
    pub inline_bytes_max: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            buffer_bytes: BUFFER_BYTES_MAX,
            run_bytes_max: 32 << 10,
            leaf_bytes_max: 16 << 10,
            inline_bytes_max: 256,
        }
    }
}

/// What is left of a root beside its history, top and framing.
const BUFFER_BYTES_MAX: usize = 3 * ROOT_BYTES_MAX / 4;

impl Shape {
    /// One map of all keys, each value in a node of its own: what the tree is measured against.
    #[must_use]
    pub const fn flat() -> Self {
        Self { buffer_bytes: 0, run_bytes_max: 0, leaf_bytes_max: usize::MAX, inline_bytes_max: 0 }
    }

    /// A tree alone, of small leaves: each move of the root puts the paths of the keys that it
    /// changes.
    #[must_use]
    pub const fn bare() -> Self {
        Self { buffer_bytes: 0, run_bytes_max: 0, leaf_bytes_max: 1024, inline_bytes_max: 256 }
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.min(BUFFER_BYTES_MAX)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            verify_reads: true,
            cache_root: true,
            cache_bytes: 64 << 20,
            batch_transactions_max: 1024,
            batch_interval: Duration::ZERO,
            reads_in_flight: 64,
            writes_in_flight: 64,
            attempts_max: usize::MAX,
            backoff: Duration::from_millis(5),
            missing_wait: Duration::from_millis(5),
            patience: Duration::from_secs(30),
            answer_timeout: None,
            ignore_missing: false,
            shape: Shape::default(),
        }
    }
}
