//! File access: all files are accessed through this module.
//!
//! A [`Disk`] is one flat directory with its [`File`]s. The engine uses no other file operations,
//! so [`sim::SimDisk`] can simulate a power failure at any point, lose any subset of unsynced data,
//! fail any operation, and replay all of it from a seed.
//!
//! The engine relies only on these guarantees: bytes and length of a file survive a power failure
//! once [`File::sync_data`] has returned; creations, renames and removals survive once
//! [`Disk::sync_dir`] has returned. Before, any state is possible: pages in any order, zeros, old
//! names. After a failed sync the state of its bytes is unknown, and another sync does not help:
//! the caller must give the file up.
//!
//! # Reads
//!
//! [`File::read`] does not block, except for callers that permit it (below). The call starts the
//! read, in two steps:
//!
//! ```text
//!  read ──► preadv2(RWF_NOWAIT) ──► all bytes are in the page cache: the future is ready
//!                 │ otherwise the kernel has started to read them
//!                 └──► io_uring, or a pool of threads, waits for it ──► the waker
//! ```
//!
//! The first step makes a read from the page cache one system call without a thread switch. It also
//! helps uncached reads, because the device starts before another thread is involved.
//!
//! io_uring is the default, because a task with many concurrent reads needs less CPU than with the
//! thread pool at equal speed. A thread that blocks anyway is fastest if it reads itself:
//! [`block_on_one`](carnet_base::block_on_one) does this with every backend, and the synchronous
//! API uses it for gets and pages. With [`Backend::Inline`] all reads block, so an executor must
//! not poll those futures. See docs/design/0014-io-scheduler.md#figures.
//!
//! # Writes
//!
//! Writes and syncs block their caller: the log has its flusher, tables have their workers.
//!
//! * A sync of a growing file is slow, because its length changes. `fallocate` alone does not help,
//!   because its extents must still be marked as written. Overwriting zeros, or a recycled file,
//!   does.
//! * A sync of the log waits for earlier writes on the device. So tables are written by a
//!   [`BulkWriter`]: with direct I/O (`O_DIRECT`) if the file system supports it, and synced every
//!   8 MiB. Direct I/O also avoids a copy to the page cache. The drawback: a new table is cached
//!   only in the block cache, as it is read.
//! * Compaction reads with direct I/O too ([`BulkReader`]), which avoids another copy. The
//!   drawback: the kernel does not read ahead, so compaction threads wait for the device, and there
//!   are more threads than processors ([`compaction_threads`](crate::Options::compaction_threads)).
//!
//! Not implemented on purpose, because it did not help:
//!
//! * `sync_file_range`: its guarantees hold on some file systems only.
//! * Evicting a large file's pages after writing it: point reads beside it were not faster.
//!   [`File::evict`] exists for files that will not be read, and for measurements.
//! * Read-ahead advice (`posix_fadvise`): the kernel detects sequential reads.

mod bulk;
mod copy;
mod directory;
mod failure;
mod file;
mod model_check;
pub mod model_file;
mod paced;
mod promise;
mod read_only;
mod real;
mod shortage;
pub mod sim;
#[cfg(test)]
mod tests;
mod whole_file;

pub use bulk::{BulkReader, BulkWriter};
pub(crate) use copy::copy;
pub use directory::{DirectoryLock, Disk};
pub(crate) use failure::{During, shortage};
pub use file::{File, Place, ReadFuture};
pub(crate) use model_check::fits;
pub(crate) use paced::PacedDisk;
pub(crate) use read_only::ReadOnlyDisk;
pub(crate) use real::LOCK;
pub use real::{Backend, RealDisk};
pub(crate) use shortage::{Shortage, rename};
pub(crate) use whole_file::{read_all, replace};
