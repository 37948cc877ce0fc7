//! Safe wrappers of the part of RocksDB's C API that the benchmark uses; its only caller.
//!
//! All unsafe blocks rely on these rules of the API: an object lives from its `create` or `open` to
//! its `destroy` or `close`; options are copied when a database is opened; a database may be used
//! by any number of threads at once, but a batch, a view or an iterator by one at a time; snapshots
//! and iterators are released before their database is closed; an error is a string that the caller
//! frees.
#![expect(unsafe_code, reason = "a C interface")]

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use anyhow::{Result, anyhow, bail};
use librocksdb_sys as sys;

/// Declares a handle of the C API: created by `$create`, freed by `$destroy` on drop.
macro_rules! handle {
    ($(#[doc = $doc:literal])+ $name:ident, $raw:ident, $create:ident, $destroy:ident) => {
        $(#[doc = $doc])+
        pub(crate) struct $name {
            raw: NonNull<sys::$raw>,
        }

        impl $name {
            /// Creates an object with the library's defaults.
            pub(crate) fn new() -> Self {
                // SAFETY: takes nothing and returns a new object, which this handle owns.
                Self { raw: owned(unsafe { sys::$create() }) }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this handle owns the object, and nothing refers to it any more.
                unsafe { sys::$destroy(self.raw.as_ptr()) }
            }
        }
    };
}

/// Declares setters of plain values on a handle.
macro_rules! setters {
    ($name:ident { $($setter:ident: $type:ty => $function:ident,)+ }) => {
        impl $name {
            $(
                /// Sets the option with the method's name.
                pub(crate) fn $setter(&mut self, value: $type) {
                    // SAFETY: the handle is valid and not shared; the value is passed by copy.
                    unsafe { sys::$function(self.raw.as_ptr(), value.into()) }
                }
            )+
        }
    };
}

mod transaction;

pub(crate) use transaction::{LockOptions, Transaction};

handle!(
    /// Handle of a `rocksdb::Options`.
    Options,
    rocksdb_options_t,
    rocksdb_options_create,
    rocksdb_options_destroy
);
setters!(Options {
    create_if_missing: bool => rocksdb_options_set_create_if_missing,
    write_buffer_size: usize => rocksdb_options_set_write_buffer_size,
    max_write_buffer_number: i32 => rocksdb_options_set_max_write_buffer_number,
    max_background_jobs: i32 => rocksdb_options_set_max_background_jobs,
    compression: i32 => rocksdb_options_set_compression,
    unordered_write: bool => rocksdb_options_set_unordered_write,
    two_write_queues: bool => rocksdb_options_set_two_write_queues,
    avoid_flush_during_shutdown: bool => rocksdb_options_set_avoid_flush_during_shutdown,
});

handle!(
    /// Handle of a `rocksdb::BlockBasedTableOptions`.
    TableOptions,
    rocksdb_block_based_table_options_t,
    rocksdb_block_based_options_create,
    rocksdb_block_based_options_destroy
);
setters!(TableOptions {
    block_size: usize => rocksdb_block_based_options_set_block_size,
    cache_index_and_filter_blocks: bool =>
        rocksdb_block_based_options_set_cache_index_and_filter_blocks,
    data_block_index_type: i32 => rocksdb_block_based_options_set_data_block_index_type,
});

handle!(
    /// Handle of a `rocksdb::TransactionDBOptions`.
    TransactionOptions,
    rocksdb_transactiondb_options_t,
    rocksdb_transactiondb_options_create,
    rocksdb_transactiondb_options_destroy
);
setters!(TransactionOptions {
    write_policy: i32 => rocksdb_transactiondb_options_set_write_policy,
    skip_concurrency_control: bool => rocksdb_transactiondb_options_set_skip_concurrency_control,
});

handle!(
    /// Handle of a `rocksdb::WriteOptions`.
    WriteOptions,
    rocksdb_writeoptions_t,
    rocksdb_writeoptions_create,
    rocksdb_writeoptions_destroy
);
setters!(WriteOptions { sync: bool => rocksdb_writeoptions_set_sync, });

// SAFETY: writes only read the options, which no setter changes once they are shared: setters
// take `&mut self`.
unsafe impl Sync for WriteOptions {}
// SAFETY: plain memory, bound to no thread.
unsafe impl Send for WriteOptions {}

handle!(
    /// Handle of a `rocksdb::ReadOptions`.
    ReadOptions,
    rocksdb_readoptions_t,
    rocksdb_readoptions_create,
    rocksdb_readoptions_destroy
);

handle!(
    /// `rocksdb::FlushOptions`: by default a flush is waited for.
    FlushOptions,
    rocksdb_flushoptions_t,
    rocksdb_flushoptions_create,
    rocksdb_flushoptions_destroy
);

handle!(
    /// Handle of a `rocksdb::WriteBatch`.
    WriteBatch,
    rocksdb_writebatch_t,
    rocksdb_writebatch_create,
    rocksdb_writebatch_destroy
);

/// A block cache that all tables of a database share.
pub(crate) struct Cache {
    raw: NonNull<sys::rocksdb_cache_t>,
}

impl Cache {
    /// Creates a `HyperClockCache`, which estimates the size of its entries at run time.
    pub(crate) fn hyper_clock(bytes: usize) -> Self {
        // SAFETY: takes numbers and returns a new object, which this handle owns.
        Self { raw: owned(unsafe { sys::rocksdb_cache_create_hyper_clock(bytes, 0) }) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: this handle owns its reference; options that use the cache hold their own.
        unsafe { sys::rocksdb_cache_destroy(self.raw.as_ptr()) }
    }
}

impl TableOptions {
    /// Sets the block cache.
    pub(crate) fn block_cache(&mut self, cache: &Cache) {
        // SAFETY: both are valid; the options take a reference of their own to the cache.
        unsafe {
            sys::rocksdb_block_based_options_set_block_cache(self.raw.as_ptr(), cache.raw.as_ptr());
        }
    }

    /// Gives each table a Bloom filter over whole keys.
    pub(crate) fn bloom_filter(&mut self, bits_per_key: f64) {
        // SAFETY: the options take over the policy that was just made.
        unsafe {
            let policy = sys::rocksdb_filterpolicy_create_bloom_full(bits_per_key);
            sys::rocksdb_block_based_options_set_filter_policy(self.raw.as_ptr(), policy);
        }
    }
}

impl Options {
    /// Sets the format of tables.
    pub(crate) fn tables(&mut self, tables: &TableOptions) {
        // SAFETY: both are valid; the table options are copied.
        unsafe {
            sys::rocksdb_options_set_block_based_table_factory(
                self.raw.as_ptr(),
                tables.raw.as_ptr(),
            );
        }
    }
}

impl WriteBatch {
    /// Empties the batch and keeps its memory.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the batch is valid and not shared.
        unsafe { sys::rocksdb_writebatch_clear(self.raw.as_ptr()) }
    }

    /// Adds a put.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: the batch is valid and not shared; it copies key and value, whose lengths are
        // those of the slices.
        unsafe {
            sys::rocksdb_writebatch_put(
                self.raw.as_ptr(),
                chars(key),
                key.len(),
                chars(value),
                value.len(),
            );
        }
    }
}

/// An open database.
pub(crate) struct Database {
    raw: Raw,
}

#[derive(Clone, Copy)]
enum Raw {
    Plain(NonNull<sys::rocksdb_t>),
    /// A database whose transactions lock, and the handle of its base database.
    Locking(NonNull<sys::rocksdb_transactiondb_t>, NonNull<sys::rocksdb_t>),
    /// A database whose transactions are checked at commit, and the handle of its base database.
    Optimistic(NonNull<sys::rocksdb_optimistictransactiondb_t>, NonNull<sys::rocksdb_t>),
}

/// The database that reads use.
#[derive(Clone, Copy)]
enum Readable {
    Plain(NonNull<sys::rocksdb_t>),
    Locking(NonNull<sys::rocksdb_transactiondb_t>),
}

// SAFETY: RocksDB's databases are made to be used by many threads at once.
unsafe impl Sync for Database {}
// SAFETY: and are bound to none.
unsafe impl Send for Database {}

impl Database {
    /// Opens a plain database.
    pub(crate) fn open(options: &Options, path: &Path) -> Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: options and path are valid for the call, which copies them.
        let raw = checked(|error| unsafe {
            sys::rocksdb_open(options.raw.as_ptr(), path.as_ptr(), error)
        })?;
        Ok(Self { raw: Raw::Plain(owned(raw)) })
    }

    /// Opens a database with optimistic transactions.
    pub(crate) fn open_optimistic(options: &Options, path: &Path) -> Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: options and path are valid for the call, which copies them.
        let raw = owned(checked(|error| unsafe {
            sys::rocksdb_optimistictransactiondb_open(options.raw.as_ptr(), path.as_ptr(), error)
        })?);
        // SAFETY: the database is open; the handle is given back before it is closed.
        let base = owned(unsafe { sys::rocksdb_optimistictransactiondb_get_base_db(raw.as_ptr()) });
        Ok(Self { raw: Raw::Optimistic(raw, base) })
    }

    /// Opens a database with locking transactions.
    pub(crate) fn open_locking(
        options: &Options,
        transactions: &TransactionOptions,
        path: &Path,
    ) -> Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: options and path are valid for the call, which copies them.
        let raw = owned(checked(|error| unsafe {
            sys::rocksdb_transactiondb_open(
                options.raw.as_ptr(),
                transactions.raw.as_ptr(),
                path.as_ptr(),
                error,
            )
        })?);
        // SAFETY: the database is open; the handle is given back before it is closed.
        let base = owned(unsafe { sys::rocksdb_transactiondb_get_base_db(raw.as_ptr()) });
        Ok(Self { raw: Raw::Locking(raw, base) })
    }

    /// Writes a batch.
    pub(crate) fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        let (options, batch) = (options.raw.as_ptr(), batch.raw.as_ptr());
        // SAFETY: database and options are valid, and the batch is not used elsewhere during the
        // call.
        checked(|error| unsafe {
            match self.raw {
                Raw::Plain(db) => sys::rocksdb_write(db.as_ptr(), options, batch, error),
                Raw::Locking(db, _) => {
                    sys::rocksdb_transactiondb_write(db.as_ptr(), options, batch, error);
                }
                Raw::Optimistic(db, _) => {
                    sys::rocksdb_optimistictransactiondb_write(db.as_ptr(), options, batch, error);
                }
            }
        })
    }

    /// Writes the memtable to a file, and waits for it.
    pub(crate) fn flush(&self) -> Result<()> {
        let options = FlushOptions::new();
        // SAFETY: database and options are valid.
        checked(|error| unsafe {
            sys::rocksdb_flush(self.base().as_ptr(), options.raw.as_ptr(), error);
        })
    }

    /// Runs a full compaction, and waits for it.
    pub(crate) fn compact(&self) {
        // SAFETY: the database is valid; null bounds mean the first and the last key.
        unsafe {
            sys::rocksdb_compact_range(self.base().as_ptr(), ptr::null(), 0, ptr::null(), 0);
        }
    }

    /// Returns a view that always reads the latest committed state.
    pub(crate) fn latest(&self) -> View<'_> {
        View::new(self.read_through(), None)
    }

    /// Returns a view of the current state.
    pub(crate) fn snapshot(&self) -> View<'_> {
        // SAFETY: the database is valid, and the view, which releases it, borrows the database.
        let snapshot = unsafe {
            match self.read_through() {
                Readable::Plain(db) => sys::rocksdb_create_snapshot(db.as_ptr()),
                Readable::Locking(db) => sys::rocksdb_transactiondb_create_snapshot(db.as_ptr()),
            }
        };
        View::new(self.read_through(), Some(owned(snapshot.cast_mut())))
    }

    const fn base(&self) -> NonNull<sys::rocksdb_t> {
        match self.raw {
            Raw::Plain(db) | Raw::Locking(_, db) | Raw::Optimistic(_, db) => db,
        }
    }

    /// Reads outside transactions use the base database, except with WritePrepared, whose own
    /// database knows which writes are committed.
    const fn read_through(&self) -> Readable {
        match self.raw {
            Raw::Locking(db, _) => Readable::Locking(db),
            Raw::Plain(db) | Raw::Optimistic(_, db) => Readable::Plain(db),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: views borrow the database, so none is left; each handle is freed once.
        unsafe {
            match self.raw {
                Raw::Plain(db) => sys::rocksdb_close(db.as_ptr()),
                Raw::Locking(db, base) => {
                    sys::rocksdb_transactiondb_close_base_db(base.as_ptr());
                    sys::rocksdb_transactiondb_close(db.as_ptr());
                }
                Raw::Optimistic(db, base) => {
                    sys::rocksdb_optimistictransactiondb_close_base_db(base.as_ptr());
                    sys::rocksdb_optimistictransactiondb_close(db.as_ptr());
                }
            }
        }
    }
}

/// Size of the buffer to which a plain database copies values; larger than any value.
const BUFFER_BYTES: usize = 256;

/// Reads of a database at one snapshot, or always at the latest state.
pub(crate) struct View<'db> {
    /// Created on first use. Declared first, because it refers to the options.
    iterator: Option<Iterator<'db>>,
    db: Readable,
    options: ReadOptions,
    snapshot: Option<NonNull<sys::rocksdb_snapshot_t>>,
    buffer: [u8; BUFFER_BYTES],
    borrows: PhantomData<&'db Database>,
}

impl<'db> View<'db> {
    fn new(db: Readable, snapshot: Option<NonNull<sys::rocksdb_snapshot_t>>) -> Self {
        let options = ReadOptions::new();
        if let Some(snapshot) = snapshot {
            // SAFETY: both are valid; the snapshot is released after the options' last use.
            unsafe {
                sys::rocksdb_readoptions_set_snapshot(options.raw.as_ptr(), snapshot.as_ptr());
            }
        }
        let buffer = [0; BUFFER_BYTES];
        Self { iterator: None, db, options, snapshot, buffer, borrows: PhantomData }
    }

    /// Reads a value and passes it to `take`.
    pub(crate) fn get(&mut self, key: &[u8], take: impl FnOnce(Option<&[u8]>)) -> Result<()> {
        match self.db {
            Readable::Plain(db) => self.get_into_buffer(db, key, take),
            Readable::Locking(db) => self.get_pinned(db, key, take),
        }
    }

    fn get_into_buffer(
        &mut self,
        db: NonNull<sys::rocksdb_t>,
        key: &[u8],
        take: impl FnOnce(Option<&[u8]>),
    ) -> Result<()> {
        let (mut len, mut found) = (0, 0);
        // SAFETY: database and options are valid, the lengths are those of the slices, and the
        // call writes at most `BUFFER_BYTES` bytes to the buffer.
        let copied = checked(|error| unsafe {
            sys::rocksdb_get_into_buffer(
                db.as_ptr(),
                self.options.raw.as_ptr(),
                chars(key),
                key.len(),
                self.buffer.as_mut_ptr().cast(),
                BUFFER_BYTES,
                &raw mut len,
                &raw mut found,
                error,
            )
        })?;
        if found == 0 {
            take(None);
        } else if copied == 0 {
            bail!("a value of {len} bytes is longer than the benchmark's");
        } else {
            take(Some(&self.buffer[..len]));
        }
        Ok(())
    }

    fn get_pinned(
        &self,
        db: NonNull<sys::rocksdb_transactiondb_t>,
        key: &[u8],
        take: impl FnOnce(Option<&[u8]>),
    ) -> Result<()> {
        // SAFETY: database and options are valid, the length is that of the slice.
        let pinned = checked(|error| unsafe {
            sys::rocksdb_transactiondb_get_pinned(
                db.as_ptr(),
                self.options.raw.as_ptr(),
                chars(key),
                key.len(),
                error,
            )
        })?;
        let Some(pinned) = NonNull::new(pinned) else {
            take(None);
            return Ok(());
        };
        let mut len = 0;
        // SAFETY: the slice is pinned until it is destroyed below; `take` cannot keep it, because
        // its argument lives no longer than the call.
        unsafe {
            let value = sys::rocksdb_pinnableslice_value(pinned.as_ptr(), &raw mut len);
            take(Some(bytes(value, len)));
            sys::rocksdb_pinnableslice_destroy(pinned.as_ptr());
        }
        Ok(())
    }

    /// Returns the view's iterator.
    pub(crate) fn iterator(&mut self) -> &mut Iterator<'db> {
        let (db, options) = (self.db, self.options.raw);
        self.iterator.get_or_insert_with(|| {
            // SAFETY: database and options are valid; the iterator is dropped before either.
            let raw = unsafe {
                match db {
                    Readable::Plain(db) => {
                        sys::rocksdb_create_iterator(db.as_ptr(), options.as_ptr())
                    }
                    Readable::Locking(db) => {
                        sys::rocksdb_transactiondb_create_iterator(db.as_ptr(), options.as_ptr())
                    }
                }
            };
            Iterator { raw: owned(raw), borrows: PhantomData }
        })
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        self.iterator = None;
        let Some(snapshot) = self.snapshot else { return };
        // SAFETY: the database is borrowed, so still open; the snapshot came from it, has no
        // readers left, and is released once.
        unsafe {
            match self.db {
                Readable::Plain(db) => {
                    sys::rocksdb_release_snapshot(db.as_ptr(), snapshot.as_ptr());
                }
                Readable::Locking(db) => {
                    sys::rocksdb_transactiondb_release_snapshot(db.as_ptr(), snapshot.as_ptr());
                }
            }
        }
    }
}

/// A cursor over a view.
pub(crate) struct Iterator<'db> {
    raw: NonNull<sys::rocksdb_iterator_t>,
    borrows: PhantomData<&'db Database>,
}

impl Iterator<'_> {
    /// Moves to the first key at or above `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator is valid and not shared; the key is read during the call.
        unsafe { sys::rocksdb_iter_seek(self.raw.as_ptr(), chars(key), key.len()) }
    }

    /// Moves to the last key at or below `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        // SAFETY: as in `seek`.
        unsafe { sys::rocksdb_iter_seek_for_prev(self.raw.as_ptr(), chars(key), key.len()) }
    }

    /// Moves to the next key; no effect at the end.
    pub(crate) fn next(&mut self) {
        // SAFETY: the iterator is valid and not shared; it is at a key, as the call requires.
        unsafe {
            if sys::rocksdb_iter_valid(self.raw.as_ptr()) != 0 {
                sys::rocksdb_iter_next(self.raw.as_ptr());
            }
        }
    }

    /// Moves to the previous key; no effect at the end.
    pub(crate) fn prev(&mut self) {
        // SAFETY: as in `next`.
        unsafe {
            if sys::rocksdb_iter_valid(self.raw.as_ptr()) != 0 {
                sys::rocksdb_iter_prev(self.raw.as_ptr());
            }
        }
    }

    /// Returns key and value, which stay valid until the iterator moves.
    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: at a key, both slices are valid until the iterator moves, which needs `&mut`.
        unsafe {
            if sys::rocksdb_iter_valid(self.raw.as_ptr()) == 0 {
                return None;
            }
            let key = sys::rocksdb_iter_key_slice(self.raw.as_ptr());
            let value = sys::rocksdb_iter_value_slice(self.raw.as_ptr());
            Some((bytes(key.data, key.size), bytes(value.data, value.size)))
        }
    }

    /// Returns the error that ended the iterator, if any.
    pub(crate) fn status(&self) -> Result<()> {
        // SAFETY: the iterator is valid.
        checked(|error| unsafe { sys::rocksdb_iter_get_error(self.raw.as_ptr(), error) })
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator is owned, and its database and options still live.
        unsafe { sys::rocksdb_iter_destroy(self.raw.as_ptr()) }
    }
}

/// Prefix of error messages.
const ERROR_PREFIX: &str = "RocksDB: ";

/// Runs a call that reports errors as a string.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&raw mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: a string that ends with a zero and is the caller's to free.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        sys::rocksdb_free(error.cast());
        Err(anyhow!("{ERROR_PREFIX}{message}"))
    }
}

/// Wraps a pointer from an infallible function, which is never null.
fn owned<T>(raw: *mut T) -> NonNull<T> {
    NonNull::new(raw).expect("RocksDB returns an object or an error")
}

const fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Makes a slice of data returned by the C API.
///
/// # Safety
///
/// `data` points to `len` bytes that stay unchanged for `'a`.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises; and not null, because it has bytes.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}
