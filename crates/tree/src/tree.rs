//! The handle that applications hold.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use carnet_base::{Bytes, Result, Rng, Timer};

use crate::batch::Core;
use crate::id::TransactorId;
use crate::job::{Call, Lane, Slot, Waiting};
use crate::options::Options;
use crate::stats::Stats;
use crate::store::{NodeStore, RootPointer};
use crate::view::View;

/// A transactional map from keys to values in a [`NodeStore`] and a [`RootPointer`]. Clones share
/// one transactor; other processes have their own on the same stores.
pub struct Tree<N, R> {
    core: Arc<Core<N, R>>,
    lane: Arc<Lane>,
}

impl<N, R> Clone for Tree<N, R> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), lane: Arc::clone(&self.lane) }
    }
}

impl<N: NodeStore, R: RootPointer> Tree<N, R> {
    /// Opens a tree; where no root was ever set, an empty one. Reads nothing yet.
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

    /// Opens a tree under a transactor's name that the caller drew, where a store has to know it.
    /// Two lives under one name destroy the tree.
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
        Self { core: Arc::new(core), lane: Arc::default() }
    }

    /// Runs a transaction. `keys` is what it will probably read: these keys are read ahead, all
    /// at once; others are read when the code asks for them, and it is run again from its start.
    ///
    /// The code may run any number of times, each time on the state of one moment; what it
    /// returned last counts. An error of its own gives the transaction up, and is as true as a
    /// result: with [`Options::verify_reads`] it was the right answer at a moment between call
    /// and return.
    ///
    /// The transaction begins when this is called. Dropping the future does not undo it.
    ///
    /// # Errors
    ///
    /// What the code returned; `Conflict` after [`Options::attempts_max`] lost moves,
    /// `Unavailable` where nothing was written, `Unknown` where that is not known, and
    /// `Corrupted`.
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
        Waiting::new(slot, Arc::clone(&self.lane), self.core.wakers(), start)
    }

    /// Reads one key.
    ///
    /// # Errors
    ///
    /// As [`Tree::update`].
    pub fn get(
        &self,
        key: Bytes,
    ) -> impl Future<Output = Result<Option<Bytes>>> + Send + use<N, R> {
        self.update(vec![key.clone()], move |view| view.get(&key))
    }

    /// Writes one key.
    ///
    /// # Errors
    ///
    /// As [`Tree::update`], and `Invalid` for what is too long.
    pub fn put(
        &self,
        key: Bytes,
        value: Bytes,
    ) -> impl Future<Output = Result<()>> + Send + use<N, R> {
        self.update(Vec::new(), move |view| view.put(key.clone(), value.clone()))
    }

    /// Tells of a root that another transactor has set, for certain: the next batch can begin with
    /// it instead of reading the root. What comes late or twice does no harm.
    ///
    /// # Errors
    ///
    /// `Corrupted` where the bytes are no root.
    pub fn suggest_root(&self, root: Bytes) -> Result<()> {
        self.core.suggest(root)
    }

    /// Returns what this transactor has done.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// Returns this transactor's name.
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
