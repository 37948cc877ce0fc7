//! The tree handle for applications.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use carnet_base::{Bytes, Result, Rng, Timer};

use crate::batch::Core;
use crate::id::TransactorId;
use crate::job::{Call, JobDriver, Slot, Waiting};
use crate::options::Options;
use crate::stats::Stats;
use crate::store::{NodeStore, RootPointer};
use crate::view::View;

/// A transactional map from keys to values in a [`NodeStore`] and a [`RootPointer`]. Clones share a
/// transactor; other processes have their own transactors on the same stores.
pub struct Tree<N, R> {
    core: Arc<Core<N, R>>,
    driver: Arc<JobDriver>,
}

impl<N, R> Clone for Tree<N, R> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), driver: Arc::clone(&self.driver) }
    }
}

impl<N: NodeStore, R: RootPointer> Tree<N, R> {
    /// Opens a tree, which is empty if no root was ever set. Reads nothing yet.
    #[must_use]
    pub fn open(
        nodes: N,
        root: R,
        timer: Arc<dyn Timer>,
        mut rng: Box<dyn Rng>,
        options: Options,
    ) -> Self {
        let transactor = TransactorId(rng.next_u64());
        Self::open_as(transactor, nodes, root, timer, rng, options)
    }

    /// Opens a tree with a transactor id that the caller drew, for stores that have to know it. Two
    /// handles with the same id destroy the tree.
    #[must_use]
    pub fn open_as(
        transactor: TransactorId,
        nodes: N,
        root: R,
        timer: Arc<dyn Timer>,
        rng: Box<dyn Rng>,
        options: Options,
    ) -> Self {
        let core = Core::new(transactor, nodes, root, timer, rng, options);
        Self { core: Arc::new(core), driver: Arc::default() }
    }

    /// Runs a transaction. `keys` are the keys that it will probably read: they are read ahead
    /// concurrently. Other keys are read when the code gets them; then the code runs again from its
    /// start.
    ///
    /// The code may run any number of times, each time on the state of one moment; the last result
    /// counts. An error of the code aborts the transaction, and is as consistent as a result: with
    /// [`Options::verify_reads`], it was correct at a moment between call and return.
    ///
    /// The transaction begins at this call. Dropping the future does not undo it.
    ///
    /// # Errors
    ///
    /// Errors of the code. `Conflict` after [`Options::attempts_max`] lost moves, `Unavailable` if
    /// nothing was written, `Unknown` if this is uncertain, and `Corrupted`.
    pub fn update<T, F>(
        &self,
        keys: Vec<Bytes>,
        code: F,
    ) -> impl Future<Output = Result<T>> + Send + use<T, F, N, R>
    where
        T: Send + 'static,
        F: FnMut(&mut View<'_>) -> Result<T> + Send + 'static,
    {
        let slot: Slot<T> = Arc::default();
        self.core.enqueue(Box::new(Call { keys, code, result: None, slot: Arc::clone(&slot) }));
        let core = Arc::clone(&self.core);
        let start = move || Core::driver(&core);
        Waiting::new(slot, Arc::clone(&self.driver), self.core.wakers(), start)
    }

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// The errors of [`Tree::update`].
    pub fn get(
        &self,
        key: Bytes,
    ) -> impl Future<Output = Result<Option<Bytes>>> + Send + use<N, R> {
        self.update(vec![key.clone()], move |view| view.get(&key))
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// The errors of [`Tree::update`], and `Invalid` for a key or value that is too long.
    pub fn put(
        &self,
        key: Bytes,
        value: Bytes,
    ) -> impl Future<Output = Result<()>> + Send + use<N, R> {
        self.update(Vec::new(), move |view| view.put(key.clone(), value.clone()))
    }

    /// Suggests a root that another transactor has certainly set: the next batch can begin with it
    /// instead of reading the root. Late and repeated suggestions are harmless.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are not a root.
    pub fn suggest_root(&self, root: Bytes) -> Result<()> {
        self.core.suggest(root)
    }

    /// Returns the counters of this transactor.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// Returns the id of this transactor.
    #[must_use]
    pub fn transactor(&self) -> TransactorId {
        self.core.transactor()
    }
}

impl<N, R> fmt::Debug for Tree<N, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tree")
    }
}
