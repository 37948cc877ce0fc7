//! Both stores in one local directory: durable, and shared by processes.
//!
//! ```text
//! ROOT                      the root: replaced by a rename, under the lock ROOT.lock
//! node-<transactor>-<number>  a node, in its bytes
//! writer-<transactor>       locked while that transactor lives
//! GC.lock                   held while a writer comes or garbage is collected
//! ```
//!
//! A node's bytes are synced when it is put, and its name before the root is moved. The root's
//! bytes are synced before the rename, and its name before it is used. A reader that finds a root
//! of another process also syncs the directory first, because the writer may have crashed before
//! its sync.
//!
//! File I/O blocks, so a small thread pool runs it.

mod files;
mod gc;
mod pool;
#[cfg(test)]
mod sim_files;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use carnet_base::{Bytes, Error, Result, Rng, Spawn, Timer};

use self::files::{Files, Lock, RealFiles};
pub use self::gc::Collected;
use self::pool::Pool;
use crate::id::{NodeId, TransactorId};
use crate::job::lock;
use crate::options::Options;
use crate::store::{NodeStore, RootPointer, Swap};
use crate::tree::Tree;

const ROOT: &str = "ROOT";
const ROOT_NEW: &str = "ROOT.tmp";
const ROOT_LOCK: &str = "ROOT.lock";
const GC_LOCK: &str = "GC.lock";
const NODE: &str = "node-";
const WRITER: &str = "writer-";

fn writer_lock(transactor: TransactorId) -> String {
    format!("{WRITER}{transactor}")
}

fn during(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::unavailable(format!("cannot {what}")).with_source(error)
}

/// A directory with a tree. Clones share it.
#[derive(Clone)]
pub struct Directory {
    shared: Arc<Shared>,
    /// Held while the transactor lives, so that garbage collection spares its nodes.
    writer: Option<Arc<Lock>>,
}

struct Shared {
    files: Arc<dyn Files>,
    pool: Pool,
    state: Arc<Mutex<State>>,
}

/// State of the directory's names.
#[derive(Default)]
struct State {
    /// The root that is known to be durable; `None` before the first read.
    durable: Option<Option<Bytes>>,
    /// A sync of the directory failed, so names that exist now may not be durable.
    has_failed: bool,
}

impl Directory {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// `Unavailable` for an I/O error.
    pub fn open(path: &Path, spawn: &dyn Spawn) -> Result<Self> {
        let files = RealFiles::open(path).map_err(during("open the directory of a tree"))?;
        Ok(Self::on(Arc::new(files), Pool::new(spawn)))
    }

    fn on(files: Arc<dyn Files>, pool: Pool) -> Self {
        let shared = Shared { files, pool, state: Arc::default() };
        Self { shared: Arc::new(shared), writer: None }
    }

    /// Opens the directory's tree as a new transactor.
    ///
    /// # Errors
    ///
    /// `Unavailable` for an I/O error.
    pub async fn tree(
        &self,
        timer: Arc<dyn Timer>,
        mut rng: Box<dyn Rng>,
        options: Options,
    ) -> Result<Tree<Self, Self>> {
        let transactor = TransactorId(rng.next_u64());
        let writer = self.run(move |files, _| {
            // Garbage collection must not find the lock file before it is locked.
            let _gc = files.lock(GC_LOCK).map_err(during("lock the directory"))?;
            files.lock(&writer_lock(transactor)).map_err(during("lock the transactor"))
        });
        let writer = Some(Arc::new(writer.await?));
        let this = Self { shared: Arc::clone(&self.shared), writer };
        Ok(Tree::open_as(transactor, this.clone(), this, timer, rng, options))
    }

    /// Removes nodes that no root can reach any more. Transactors may continue meanwhile.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process collects garbage or opens the tree, and for an I/O error.
    /// `Corrupted` if a node of the tree is missing or damaged; then nothing is removed.
    pub async fn collect_garbage(&self) -> Result<Collected> {
        self.run(gc::collect).await
    }

    /// Runs work on the files. The transactor's lock is held until it has ended.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Files, &Mutex<State>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (files, state) = (Arc::clone(&self.shared.files), Arc::clone(&self.shared.state));
        let writer = self.writer.clone();
        let work = move || {
            let result = work(&*files, &state);
            drop(writer);
            result
        };
        self.shared.pool.run(work).await
    }
}

/// Makes all names durable. After a failed sync, the state is unknown even if a second sync
/// succeeds, so all further syncs fail.
fn sync(files: &dyn Files, state: &Mutex<State>) -> Result<()> {
    let failed = || Error::unavailable("a sync of the directory failed: open the tree again");
    if lock(state).has_failed {
        return Err(failed());
    }
    files.sync().map_err(|error| {
        lock(state).has_failed = true;
        failed().with_source(error)
    })
}

fn read_root(files: &dyn Files, state: &Mutex<State>) -> Result<Option<Bytes>> {
    let root = files.read(ROOT).map_err(during("read the root"))?;
    let is_durable = {
        let state = lock(state);
        !state.has_failed && state.durable.as_ref() == Some(&root)
    };
    if !is_durable {
        sync(files, state)?;
        lock(state).durable = Some(root.clone());
    }
    Ok(root)
}

fn swap_root(
    files: &dyn Files,
    state: &Mutex<State>,
    from: Option<&Bytes>,
    to: &Bytes,
) -> Result<Swap> {
    let _lock = files.lock(ROOT_LOCK).map_err(during("lock the root"))?;
    if read_root(files, state)?.as_ref() != from {
        return Ok(Swap::Mismatch);
    }
    files.write(ROOT_NEW, to).map_err(during("write the root"))?;
    files.rename(ROOT_NEW, ROOT).map_err(during("replace the root"))?;
    sync(files, state)?;
    lock(state).durable = Some(Some(to.clone()));
    Ok(Swap::Done)
}

impl NodeStore for Directory {
    async fn put(&self, id: NodeId, bytes: Bytes) -> Result<()> {
        self.run(move |files, _| {
            files.write(&format!("{NODE}{id}"), &bytes).map_err(during("write a node"))
        })
        .await
    }

    async fn get(&self, id: NodeId) -> Result<Option<Bytes>> {
        self.run(move |files, _| files.read(&format!("{NODE}{id}")).map_err(during("read a node")))
            .await
    }

    async fn sync(&self) -> Result<()> {
        self.run(sync).await
    }
}

impl RootPointer for Directory {
    async fn read(&self) -> Result<Option<Bytes>> {
        self.run(read_root).await
    }

    async fn compare_and_set(&self, from: Option<Bytes>, to: Bytes) -> Result<Swap> {
        self.run(move |files, state| swap_root(files, state, from.as_ref(), &to)).await
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Directory")
    }
}
