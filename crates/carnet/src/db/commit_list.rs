//! Entries of the commit table, for people who look into a database.

use carnet_base::{CommitEntry, Encoding, Error, Result, Timestamp, block_on};
use carnet_store::CommitListing;

use super::database::Db;
use crate::stores::AnyStore;

impl Db {
    /// Calls `visit` with the entry of each decided transaction whose start is in `from..to`, in any
    /// order, and returns the state of the commit table. An embedded database has no entries of
    /// aborted transactions. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`; `Unsupported` for a database in memory; errors of `visit`.
    pub fn list_commits(
        &self,
        from: Timestamp,
        to: Timestamp,
        visit: &mut (dyn FnMut(Encoding, Timestamp, CommitEntry) -> Result<()> + Send),
    ) -> Result<CommitListing> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.list_commits((from, to), visit),
            AnyStore::Cluster { store, .. } => block_on(store.list_commits((from, to), visit)),
            AnyStore::Memory(_) => {
                Err(Error::unsupported("the commit table of a database in memory cannot be listed"))
            }
        }
    }
}
