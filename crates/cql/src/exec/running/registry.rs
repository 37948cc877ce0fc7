//! The list of running statements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use carnet_base::{lock, stripe};

use super::entry::Entry;

/// Number of shards; threads register statements in separate shards if there are enough.
const SHARDS: usize = 16;
/// Bits of an id below the tag of the server.
const COUNT_BITS: u32 = 40;

/// Running statements of a server.
pub(in crate::exec) struct Running {
    /// Tag of the server, or 0.
    tag: u64,
    next: AtomicU64,
    shards: [Mutex<HashMap<u64, Arc<Entry>>>; SHARDS],
}

impl Running {
    pub(in crate::exec) fn new(tag: u16) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { tag: u64::from(tag), next: AtomicU64::new(1), shards }
    }

    /// Registers a statement, and returns its shard.
    pub(in crate::exec) fn enter(&self, make: impl FnOnce(u64) -> Entry) -> (usize, Arc<Entry>) {
        let count = self.next.fetch_add(1, Ordering::Relaxed) & ((1 << COUNT_BITS) - 1);
        let id = (self.tag << COUNT_BITS) | count;
        let entry = Arc::new(make(id));
        let shard = stripe(SHARDS);
        lock(&self.shards[shard]).insert(id, Arc::clone(&entry));
        (shard, entry)
    }

    /// Removes a statement.
    pub(in crate::exec) fn leave(&self, shard: usize, id: u64) {
        let left = lock(&self.shards[shard]).remove(&id);
        drop(left);
    }

    /// Returns the statements, the oldest first.
    pub(in crate::exec) fn list(&self) -> Vec<Arc<Entry>> {
        let of_shard = |shard: &Mutex<HashMap<_, Arc<Entry>>>| {
            lock(shard).values().cloned().collect::<Vec<_>>()
        };
        let mut list: Vec<_> = self.shards.iter().flat_map(of_shard).collect();
        list.sort_unstable_by_key(|entry| entry.id);
        list
    }

    pub(in crate::exec) fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.shards.iter().find_map(|shard| lock(shard).get(&id).cloned())
    }

    /// Returns `true` for an id that another server gave.
    pub(in crate::exec) const fn is_of_another(&self, id: u64) -> bool {
        id >> COUNT_BITS != self.tag
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Moment;

    use super::super::entry::EntryState;
    use super::super::source::StatementSource;
    use super::*;

    fn entry(id: u64) -> Entry {
        Entry {
            id,
            client: "c".into(),
            user: None,
            began: Moment::default(),
            admission: None,
            source: StatementSource::Unknown,
            keyspace: None,
            state: EntryState::of(None).into(),
        }
    }

    /// An operator asks another server by mistake.
    #[test]
    fn server_takes_no_id_of_another() {
        let (one, other) = (Running::new(3), Running::new(4));
        let (shard, entered) = one.enter(entry);
        assert!(one.find(entered.id).is_some() && other.find(entered.id).is_none());
        assert!(!one.is_of_another(entered.id) && other.is_of_another(entered.id));
        assert!(i64::try_from(entered.id).is_ok(), "ids are bigints");
        one.leave(shard, entered.id);
        assert!(one.find(entered.id).is_none() && one.list().is_empty());
        let (_, alone) = Running::new(0).enter(entry);
        assert_eq!(alone.id, 1);
    }
}
