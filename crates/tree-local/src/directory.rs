//! The store: nodes and the root as files.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use carnet_base::{Bytes, Error, Result, lock};
use carnet_storage::disk::{DirectoryLock, Disk, File};
use carnet_tree::{NodeId, NodeStore, ROOT_BYTES_MAX, Root, RootPointer, Swap, TransactorId};

/// Maximum length of a node's file, in bytes. The tree's largest value has 8 MiB.
pub const NODE_BYTES_MAX: u64 = 64 << 20;

/// File with the format of the directory.
const FORMAT: &str = "tree";
const FORMAT_TEXT: &[u8] = b"carnet tree 1\n";
/// The same after the first move of the root: without it, a lost root would look like an empty tree.
const ROOTED_TEXT: &[u8] = b"carnet tree 1 with root\n";
const FORMAT_TEMPORARY: &str = "tree.tmp";
const ROOT: &str = "root";
const ROOT_TEMPORARY: &str = "root.tmp";
pub(crate) const ROOT_LOCK: &str = "root.lock";
pub(crate) const GC_LOCK: &str = "gc.lock";
const WRITER: &str = "writer-";

/// Maximum number of files that are written and not synced: each is open.
const UNSYNCED_MAX: usize = 64;

/// The stores of one transactor in a directory. Clones share the transactor.
#[derive(Clone)]
pub struct Directory(Arc<Shared>);

struct Shared {
    disk: Arc<dyn Disk>,
    transactor: TransactorId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Lock of the transactor's file, from its first put on.
    writer: Option<DirectoryLock>,
    unsynced: Vec<(String, Arc<dyn File>)>,
    /// The last root that is known to be durable.
    durable: Option<Bytes>,
    /// The format says that there is a root.
    is_rooted: bool,
    /// A sync failed, so it is unknown which writes a power failure would take back.
    has_failed: bool,
}

impl Directory {
    /// Opens the tree of a directory. `transactor` must be drawn anew for each call.
    ///
    /// # Errors
    ///
    /// `Invalid` if the directory contains no tree, or one of another version; `Unavailable`.
    pub fn open(disk: Arc<dyn Disk>, transactor: TransactorId) -> Result<Self> {
        let store = Self::on(disk, transactor);
        if store.has_format()? {
            return Ok(store);
        }
        let path = store.place();
        Err(Error::invalid(format!("there is no tree in the directory {path}")))
    }

    /// Like [`Directory::open`], but an empty directory becomes an empty tree.
    ///
    /// # Errors
    ///
    /// Those of [`Directory::open`], and `Invalid` if the directory contains other files.
    pub fn create(disk: Arc<dyn Disk>, transactor: TransactorId) -> Result<Self> {
        let store = Self::on(disk, transactor);
        if store.has_format()? {
            return Ok(store);
        }
        let disk = store.disk();
        // Two processes may create the tree at the same time.
        let names = disk.list().map_err(|error| store.failed("list", "", error))?;
        let ours = [FORMAT, FORMAT_TEMPORARY, ROOT_LOCK];
        if let Some(other) = names.iter().find(|name| !ours.contains(&name.as_str())) {
            let path = store.place();
            return Err(Error::invalid(format!(
                "the directory {path} contains no tree, but other files ({other}); give an empty \
                 or a new directory"
            )));
        }
        let _lock = store.lock_root()?;
        if !store.has_format()? {
            store.replace(FORMAT_TEMPORARY, FORMAT, FORMAT_TEXT)?;
        }
        Ok(store)
    }

    fn on(disk: Arc<dyn Disk>, transactor: TransactorId) -> Self {
        Self(Arc::new(Shared { disk, transactor, state: Mutex::default() }))
    }

    /// Returns `true` if the directory contains a tree of this version.
    fn has_format(&self) -> Result<bool> {
        let Some(bytes) = self.file(FORMAT, 1024)? else { return Ok(false) };
        if bytes == FORMAT_TEXT || bytes == ROOTED_TEXT {
            self.state().is_rooted = bytes == ROOTED_TEXT;
            return Ok(true);
        }
        let (path, text) = (self.disk().path(FORMAT), String::from_utf8_lossy(&bytes));
        Err(Error::invalid(format!(
            "{path} begins with {:?}, and this program knows {:?}: the directory contains no tree \
             of this version",
            text.chars().take(20).collect::<String>(),
            String::from_utf8_lossy(FORMAT_TEXT),
        )))
    }

    /// Returns the directory's path, for messages.
    pub(crate) fn place(&self) -> String {
        let disk = self.disk();
        disk.directory().map_or_else(|| disk.path(""), |path| path.display().to_string())
    }

    /// Returns the path of a node, for messages.
    pub(crate) fn path(&self, id: NodeId) -> String {
        self.disk().path(&id.to_string())
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.0.disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    pub(crate) fn failed(&self, verb: &str, name: &str, error: io::Error) -> Error {
        let path = if name.is_empty() { self.place() } else { self.disk().path(name) };
        Error::unavailable(format!("cannot {verb} {path}")).with_source(error)
    }

    /// Reads a whole small file, without waiting for another thread; `None` if it does not exist.
    fn file(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let failed = |error| self.failed("read", name, error);
        let file = match self.disk().open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let len = self.checked_len(name, file.len().map_err(failed)?, bytes_max)?;
        let mut bytes = vec![0; len];
        let read = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    fn checked_len(&self, name: &str, len: u64, bytes_max: u64) -> Result<usize> {
        usize::try_from(len).ok().filter(|_| len <= bytes_max).ok_or_else(|| {
            let path = self.disk().path(name);
            Error::corrupted(format!("{path} has {len} bytes, above the limit of {bytes_max}"))
        })
    }

    /// Replaces a file durably.
    fn replace(&self, temporary: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let disk = self.disk();
        disk.check_directory()?;
        let written = disk.create(temporary).and_then(|file| {
            file.write_at(bytes, 0)?;
            file.sync_data()
        });
        written.map_err(|error| self.failed("write", temporary, error))?;
        disk.rename(temporary, name).map_err(|error| self.failed("replace", name, error))?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<()> {
        self.disk().sync_dir().map_err(|error| self.sync_failed("", error))
    }

    fn sync_failed(&self, name: &str, error: io::Error) -> Error {
        self.state().has_failed = true;
        self.failed("sync", name, error)
    }

    fn check(&self) -> Result<()> {
        if !self.state().has_failed {
            return Ok(());
        }
        let path = self.place();
        Err(Error::unavailable(format!(
            "a sync in the directory {path} has failed, so the state of its files is unknown: look \
             for errors of the device, then open the directory again"
        )))
    }

    fn lock_root(&self) -> Result<DirectoryLock> {
        self.wait_for(ROOT_LOCK)
    }

    /// Waits for a lock and takes it.
    pub(crate) fn wait_for(&self, name: &str) -> Result<DirectoryLock> {
        let failed = |error| self.failed("lock", name, error);
        let locked = self.disk().lock_named(name, true).map_err(failed)?;
        locked.ok_or_else(|| failed(io::ErrorKind::WouldBlock.into()))
    }

    /// Takes the lock that tells garbage collection that this transactor may put nodes.
    fn hold_writer(&self) -> Result<()> {
        let mut state = self.state();
        if state.writer.is_none() {
            state.writer = Some(self.wait_for(&writer(self.0.transactor))?);
        }
        Ok(())
    }

    fn root(&self) -> Result<Option<Bytes>> {
        let mut bytes = self.file(ROOT, ROOT_BYTES_MAX as u64)?;
        if bytes.is_none() && !self.state().is_rooted {
            // Another transactor may have made the first move since the format was read.
            self.has_format()?;
            bytes = self.file(ROOT, ROOT_BYTES_MAX as u64)?;
        }
        let Some(bytes) = bytes else {
            if self.state().is_rooted {
                let path = self.disk().path(ROOT);
                return Err(Error::corrupted(format!("{path} is missing: restore the file")));
            }
            return Ok(None);
        };
        let bytes = Bytes::from(bytes);
        Root::decode(&bytes)
            .map_err(|error| Error::corrupted(self.disk().path(ROOT)).with_source(error))?;
        Ok(Some(bytes))
    }

    /// Returns the newest root, which is durable.
    pub(crate) fn durable_root(&self) -> Result<Option<Bytes>> {
        self.check()?;
        let root = self.root()?;
        if root.is_none() || root == self.state().durable {
            return Ok(root);
        }
        // The lock waits for a process that is about to sync its move.
        let _lock = match self.disk().lock_named(ROOT_LOCK, true) {
            Err(error) if only_reads(&error) => return Ok(root),
            locked => locked.map_err(|error| self.failed("lock", ROOT_LOCK, error))?,
        };
        let root = self.root()?;
        self.sync_directory()?;
        self.state().durable.clone_from(&root);
        Ok(root)
    }

    fn sync_nodes(&self) -> Result<()> {
        let unsynced = std::mem::take(&mut self.state().unsynced);
        for (name, file) in unsynced {
            file.sync_data().map_err(|error| self.sync_failed(&name, error))?;
        }
        Ok(())
    }

    fn put_now(&self, id: NodeId, bytes: &Bytes) -> Result<()> {
        self.check()?;
        let name = id.to_string();
        if bytes.len() as u64 > NODE_BYTES_MAX {
            let len = bytes.len();
            return Err(Error::invalid(format!(
                "a node of {len} bytes is above the limit of {NODE_BYTES_MAX} bytes"
            )));
        }
        self.hold_writer()?;
        let failed = |error| self.failed("write", &name, error);
        let file = self.disk().create(&name).map_err(failed)?;
        file.write_at(bytes, 0).map_err(failed)?;
        let is_full = {
            let unsynced = &mut self.state().unsynced;
            unsynced.push((name.clone(), file));
            unsynced.len() >= UNSYNCED_MAX
        };
        if is_full { self.sync_nodes() } else { Ok(()) }
    }

    fn swap_now(&self, from: Option<&Bytes>, to: &Bytes) -> Result<Swap> {
        self.check()?;
        let _lock = self.lock_root()?;
        if self.root()?.as_ref() != from {
            return Ok(Swap::Mismatch);
        }
        self.replace(ROOT_TEMPORARY, ROOT, to)?;
        self.state().durable = Some(to.clone());
        if !self.state().is_rooted {
            // Only once the root is durable: a power failure must not leave the word without a root.
            self.replace(FORMAT_TEMPORARY, FORMAT, ROOTED_TEXT)?;
            self.state().is_rooted = true;
        }
        Ok(Swap::Done)
    }
}

/// Returns `true` for errors of a medium or a user that may only read.
pub(crate) fn only_reads(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Returns the name of a transactor's file.
pub(crate) fn writer(transactor: TransactorId) -> String {
    format!("{WRITER}{transactor}")
}

/// Parses the name of a transactor's file.
pub(crate) fn parse_writer(name: &str) -> Option<TransactorId> {
    let number = u64::from_str_radix(name.strip_prefix(WRITER)?, 16).ok()?;
    Some(TransactorId(number)).filter(|transactor| writer(*transactor) == name)
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.writer.is_some() {
            // A file that stays is removed by garbage collection.
            let _ = self.disk.remove(&writer(self.transactor));
        }
    }
}

impl NodeStore for Directory {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        self.put_now(id, &bytes)
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        let name = id.to_string();
        let failed = |error| self.failed("read", &name, error);
        let file = match self.disk().open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let len = self.checked_len(&name, file.len().map_err(failed)?, NODE_BYTES_MAX)?;
        Ok(Some(file.read(0, len).await.map_err(failed)?))
    }

    async fn sync(&self) -> Result<()> {
        self.check()?;
        self.sync_nodes()?;
        self.sync_directory()
    }
}

impl RootPointer for Directory {
    async fn read(&self) -> Result<Option<Bytes>> {
        self.durable_root()
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        self.swap_now(from.as_ref(), &to)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({}, transactor {})", self.place(), self.0.transactor)
    }
}
