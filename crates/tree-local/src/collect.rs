//! Garbage collection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use carnet_base::{Bytes, Result};
use carnet_storage::disk::DirectoryLock;
use carnet_tree::{NodeId, Root, TransactorId};

use crate::directory::{Directory, GC_LOCK, parse_writer, writer};
use crate::walk::walk;

/// Result of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of nodes that the newest root refers to.
    pub kept: u64,
    /// Number of unreachable nodes of open transactors, which a move in progress may need.
    pub pending: u64,
    /// Number of removed nodes.
    pub removed: u64,
    /// Total size of the removed nodes, in bytes.
    pub removed_bytes: u64,
}

/// Names in the directory that garbage collection is concerned with.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) nodes: Vec<NodeId>,
    writers: Vec<TransactorId>,
}

impl Names {
    pub(crate) fn read(store: &Directory) -> Result<Self> {
        let names = store.disk().list().map_err(|error| store.failed("list", "", error))?;
        let mut found = Self::default();
        for name in names {
            found.nodes.extend(NodeId::parse(&name));
            found.writers.extend(parse_writer(&name));
        }
        Ok(found)
    }
}

/// State of a transactor: its lock if it has ended.
pub(crate) enum Writer {
    Open,
    Ended(#[expect(dead_code, reason = "only its drop matters")] Option<DirectoryLock>),
}

impl Directory {
    /// Removes nodes that the newest root does not refer to and that no move in progress may need.
    /// Other transactors may work meanwhile. Its memory grows by some 100 bytes for each node.
    ///
    /// Nodes are listed first, then transactors are looked up, then the root is read. So a listed
    /// node that this root does not reach can only be reached by a later root if its transactor was
    /// open, and if its attempt is newer than the transactor's last move.
    ///
    /// # Errors
    ///
    /// `Corrupted` if a node below the root is missing or damaged: then nothing was removed.
    /// `Unavailable`.
    pub async fn collect(&self) -> Result<Collected> {
        let _lock = self.wait_for(GC_LOCK)?;
        let names = Names::read(self)?;
        let writers = self.writers(&names)?;
        // The root must be durable: a power failure must not bring back a root whose nodes are gone.
        let (_, root) = self.newest()?;
        let reached = walk(self, &root, false, |_| {}).await?;
        let mut collected = Collected { kept: reached.len() as u64, ..Collected::default() };
        for id in names.nodes.iter().filter(|id| !reached.contains(id)) {
            if may_be_needed(*id, &root, &writers) {
                collected.pending += 1;
                continue;
            }
            let name = id.to_string();
            let file = self.disk().open(&name).and_then(|file| file.len());
            let bytes = file.map_err(|error| self.failed("read", &name, error))?;
            self.remove(&name)?;
            collected.removed += 1;
            collected.removed_bytes += bytes;
        }
        for transactor in &names.writers {
            if matches!(writers.get(transactor), Some(Writer::Ended(_))) {
                self.remove(&writer(*transactor))?;
            }
        }
        Ok(collected)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.disk().remove(name) {
            // Its transactor has removed its file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| self.failed("remove", name, error)),
        }
    }

    /// Returns the state of each transactor that has a node or a file. A transactor makes its file
    /// before its first node, and never locks it again after it has ended.
    pub(crate) fn writers(&self, names: &Names) -> Result<HashMap<TransactorId, Writer>> {
        let with_nodes = names.nodes.iter().map(|id| id.transactor);
        let mut writers = HashMap::new();
        for transactor in with_nodes.chain(names.writers.iter().copied()) {
            if let Entry::Vacant(entry) = writers.entry(transactor) {
                entry.insert(self.look_at(transactor)?);
            }
        }
        Ok(writers)
    }

    fn look_at(&self, transactor: TransactorId) -> Result<Writer> {
        let name = writer(transactor);
        let exists = self.disk().exists(&name);
        if !exists.map_err(|error| self.failed("find", &name, error))? {
            return Ok(Writer::Ended(None));
        }
        let locked = self.disk().lock_named(&name, false);
        Ok(match locked.map_err(|error| self.failed("lock", &name, error))? {
            None => Writer::Open,
            ended => Writer::Ended(ended),
        })
    }

    /// Returns the newest root's bytes, and its contents.
    pub(crate) fn newest(&self) -> Result<(Option<Bytes>, Root)> {
        let bytes = self.durable_root()?;
        let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
        Ok((bytes, root))
    }
}

/// Returns `true` if a move in progress may make a root that reaches a node.
pub(crate) fn may_be_needed(
    id: NodeId,
    root: &Root,
    writers: &HashMap<TransactorId, Writer>,
) -> bool {
    match writers.get(&id.transactor) {
        Some(Writer::Open) => {
            root.last_attempt(id.transactor).is_none_or(|last| id.attempt() > last)
        }
        // A transactor that is not known here began after the nodes were listed.
        Some(Writer::Ended(_)) => false,
        None => true,
    }
}
