//! Transactions of the C API that detect conflicts, by locks or at commit.

use std::ptr::{self, NonNull};

use anyhow::{Result, anyhow};
use librocksdb_sys as sys;

use super::{Database, Raw, ReadOptions, WriteOptions, bytes, chars, checked, owned};

handle!(
    /// Handle of a `rocksdb::TransactionOptions`.
    LockOptions,
    rocksdb_transaction_options_t,
    rocksdb_transaction_options_create,
    rocksdb_transaction_options_destroy
);
setters!(LockOptions { deadlock_detect: bool => rocksdb_transaction_options_set_deadlock_detect, });

handle!(
    /// Handle of a `rocksdb::OptimisticTransactionOptions`.
    OptimisticOptions,
    rocksdb_optimistictransaction_options_t,
    rocksdb_optimistictransaction_options_create,
    rocksdb_optimistictransaction_options_destroy
);

/// Prefixes of the statuses of a conflict: `Status::Busy` (also for a deadlock),
/// `Status::TryAgain`, and `Status::TimedOut` of a lock.
const CONFLICTS: [&str; 3] =
    ["Resource busy", "Operation failed. Try again.", "Operation timed out"];

/// A transaction, whose memory the next one reuses, as RocksDB's documentation recommends.
pub(crate) struct Transaction<'db> {
    raw: Option<NonNull<sys::rocksdb_transaction_t>>,
    db: &'db Database,
    write_options: &'db WriteOptions,
    read_options: ReadOptions,
    locks: LockOptions,
    optimistic: OptimisticOptions,
}

impl<'db> Transaction<'db> {
    /// Creates a handle without a transaction.
    pub(crate) fn new(
        db: &'db Database,
        write_options: &'db WriteOptions,
        locks: LockOptions,
    ) -> Self {
        Self {
            raw: None,
            db,
            write_options,
            read_options: ReadOptions::new(),
            locks,
            optimistic: OptimisticOptions::new(),
        }
    }

    /// Begins a transaction; the previous one must have ended.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let old = self.raw.take().map_or(ptr::null_mut(), NonNull::as_ptr);
        let write_options = self.write_options.raw.as_ptr();
        // SAFETY: database and options are valid; the old transaction belongs to this handle, and
        // the call takes it over.
        let raw = unsafe {
            match self.db.raw {
                Raw::Plain(_) => return Err(anyhow!("a plain RocksDB has no transactions")),
                Raw::Locking(db, _) => sys::rocksdb_transaction_begin(
                    db.as_ptr(),
                    write_options,
                    self.locks.raw.as_ptr(),
                    old,
                ),
                Raw::Optimistic(db, _) => sys::rocksdb_optimistictransaction_begin(
                    db.as_ptr(),
                    write_options,
                    self.optimistic.raw.as_ptr(),
                    old,
                ),
            }
        };
        self.raw = Some(owned(raw));
        Ok(())
    }

    /// Reads a value, protects it from other writers until the commit, and passes it to `take`;
    /// `None` on a conflict.
    pub(crate) fn get_for_update<T>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<Option<T>> {
        let (raw, options) = (self.raw()?, self.read_options.raw.as_ptr());
        // SAFETY: transaction and options are valid and not shared, the length is the slice's.
        let pinned = attempted(|error| unsafe {
            sys::rocksdb_transaction_get_pinned_for_update(
                raw,
                options,
                chars(key),
                key.len(),
                1,
                error,
            )
        })?;
        let Some(pinned) = pinned else { return Ok(None) };
        let Some(pinned) = NonNull::new(pinned) else { return Ok(Some(take(None))) };
        let mut len = 0;
        // SAFETY: the slice is pinned until it is destroyed below; `take` cannot keep it, because
        // its argument lives no longer than the call.
        unsafe {
            let value = sys::rocksdb_pinnableslice_value(pinned.as_ptr(), &raw mut len);
            let taken = take(Some(bytes(value, len)));
            sys::rocksdb_pinnableslice_destroy(pinned.as_ptr());
            Ok(Some(taken))
        }
    }

    /// Puts a value; `None` on a conflict.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<()>> {
        let raw = self.raw()?;
        // SAFETY: the transaction is valid and not shared; key and value are copied, and their
        // lengths are those of the slices.
        attempted(|error| unsafe {
            let (key_chars, value_chars) = (chars(key), chars(value));
            sys::rocksdb_transaction_put(
                raw,
                key_chars,
                key.len(),
                value_chars,
                value.len(),
                error,
            );
        })
    }

    /// Commits; `None` on a conflict.
    pub(crate) fn commit(&mut self) -> Result<Option<()>> {
        let raw = self.raw()?;
        // SAFETY: the transaction is valid and not shared.
        attempted(|error| unsafe { sys::rocksdb_transaction_commit(raw, error) })
    }

    /// Rolls the transaction back.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        let raw = self.raw()?;
        // SAFETY: the transaction is valid and not shared.
        checked(|error| unsafe { sys::rocksdb_transaction_rollback(raw, error) })
    }

    fn raw(&mut self) -> Result<*mut sys::rocksdb_transaction_t> {
        self.raw.map(NonNull::as_ptr).ok_or_else(|| anyhow!("no transaction was begun"))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: this handle owns the transaction, and the database is borrowed, so open.
            unsafe { sys::rocksdb_transaction_destroy(raw.as_ptr()) }
        }
    }
}

/// Runs a call; returns `None` if it fails with a conflict.
fn attempted<T>(call: impl FnOnce(*mut *mut std::ffi::c_char) -> T) -> Result<Option<T>> {
    match checked(call) {
        Ok(result) => Ok(Some(result)),
        Err(error) => {
            let text = error.to_string();
            let status = text.strip_prefix(super::ERROR_PREFIX).unwrap_or(&text);
            if CONFLICTS.iter().any(|conflict| status.starts_with(conflict)) {
                Ok(None)
            } else {
                Err(error)
            }
        }
    }
}
