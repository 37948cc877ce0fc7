//! Options. The defaults are the fastest strictly serializable configuration; each option disables
//! one optimization, to measure its effect.

use std::time::Duration;

use crate::root::ROOT_BYTES_MAX;

/// Options of a [`Tree`](crate::Tree). Transactors of one tree may use different ones.
#[derive(Clone, Debug)]
pub struct Options {
    /// Verifies for read-only transactions that their root is the newest. Otherwise they are
    /// serializable, may be stale, and cost no messages. Default: `true`.
    pub verify_reads: bool,
    /// Lets a batch begin with the root of the previous batch instead of reading it, unless recent
    /// guesses were stale. Default: `true`.
    pub cache_root: bool,
    /// Memory limit of the node cache in bytes; 0 disables it. Default: 64 MiB.
    pub cache_bytes: usize,
    /// Maximum number of transactions per move of the root; at least 1. A higher limit saves
    /// messages; a lower one reduces the work to repeat after a lost move. Default: 1024.
    pub batch_transactions_max: usize,
    /// Batches begin at multiples of this interval, so a transaction waits half of it on average
    /// and more transactions share a move. With zero, a batch begins when the previous one ends.
    /// Default: zero.
    pub batch_interval: Duration,
    /// Maximum number of concurrent node reads. Default: 64.
    pub reads_in_flight: usize,
    /// Maximum number of concurrent node puts. Default: 64.
    pub writes_in_flight: usize,
    /// After this number of lost moves, a batch fails with `Conflict`; 1 disables retries. Default:
    /// no limit, because each lost move is the success of another transactor.
    pub attempts_max: usize,
    /// After its *n*-th lost move, a batch waits a random time up to 2ⁿ⁻¹ times this, limited to 64
    /// times this and to four times the maximum of this and the time of a move. After a lost move,
    /// a transactor also rests after its next moves, so that others can win. Zero disables both.
    /// Default: 5 ms.
    pub backoff: Duration,
    /// Wait before a missing node is read again. Default: 5 ms.
    pub missing_wait: Duration,
    /// Time from the begin of a batch during which errors of the stores are retried. After it, the
    /// transactions fail with `Unavailable`, or with `Unknown` if the root may have been moved or
    /// may still be. Default: 30 s.
    pub retry_timeout: Duration,
    /// Timeout after which a call is repeated, or the root is read to resolve a compare-and-set;
    /// the first call stays open, and its answer counts. The timeout adapts to the answer times, up
    /// to half of [`Options::retry_timeout`]. Default: none, for stores with their own timeouts.
    pub answer_timeout: Option<Duration>,
    /// The stores' answers are exact, as the answers of one file system are: a node that is not found does
    /// not exist, and a compare-and-set has no effect after its mismatch or error. Then a missing
    /// node below the newest root is reported as damage at once, a lost move is retried even if more
    /// transactors than the root remembers have moved it meanwhile, and a failed move that left the
    /// root as it was is known to have written nothing. Default: `false`.
    pub exact_stores: bool,
    /// **Wrong on purpose**: treats a missing node as empty, which loses updates. Checkers use it
    /// to show that they detect this. Default: `false`.
    pub ignore_missing: bool,
    /// Layout of new roots and nodes. Default: [`Shape::default`].
    pub shape: Shape,
}

/// Layout of new roots and nodes. All layouts can be read.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Maximum size of the newest writes in the root, in bytes, at most 3072; 0 applies every write
    /// to the tree at once. Default: 3072.
    pub buffer_bytes: usize,
    /// Maximum size of the run in bytes: a node with writes that left the root's buffer, until they
    /// are applied to the tree together; 0 disables it. Default: 32 KiB.
    pub run_bytes_max: usize,
    /// Maximum size of a leaf in bytes; a larger one is split into up to 32. Large leaves need
    /// fewer nodes, small ones fewer bytes per put. Default: 16 KiB.
    pub leaf_bytes_max: usize,
    /// Values of more bytes are stored in a separate node. Default: 256.
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

/// Size of the root without its history, top and framing.
const BUFFER_BYTES_MAX: usize = 3 * ROOT_BYTES_MAX / 4;

impl Shape {
    /// Returns a layout with one map of all keys and each value in a separate node: the baseline of
    /// comparisons.
    #[must_use]
    pub const fn flat() -> Self {
        Self { buffer_bytes: 0, run_bytes_max: 0, leaf_bytes_max: usize::MAX, inline_bytes_max: 0 }
    }

    /// Returns a layout without buffer and run, with small leaves: each move of the root puts the
    /// paths of the changed keys.
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
            retry_timeout: Duration::from_secs(30),
            answer_timeout: None,
            exact_stores: false,
            ignore_missing: false,
            shape: Shape::default(),
        }
    }
}
