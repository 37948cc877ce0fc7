//! Cached roles of a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use carnet_base::{Timestamp, lock};

use super::set::Roles;
use crate::catalog::SchemaAt;

/// The roles as of the newest snapshot at which they were read or changed.
pub(crate) struct RoleCache {
    roles: ArcSwap<Roles>,
    /// Number of changes that this process has seen.
    version: AtomicU64,
    /// Timestamp of that snapshot; `None` before the first read.
    known: Mutex<Option<Timestamp>>,
}

impl RoleCache {
    pub(crate) fn new() -> Self {
        Self { roles: ArcSwap::default(), version: AtomicU64::new(0), known: Mutex::new(None) }
    }

    pub(crate) fn get(&self) -> Arc<Roles> {
        self.roles.load_full()
    }

    /// Returns a number that changes with the roles. Roles that are read after it are as new.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns `true` if the cached roles are current at a snapshot.
    pub(crate) fn is_current(&self, at: SchemaAt) -> bool {
        let known = *lock(&self.known);
        known.is_some_and(|known| at.read <= known || at.changed <= known)
    }

    /// Stores the roles of a snapshot, unless those of a later one are cached.
    pub(crate) fn offer(&self, at: Timestamp, roles: Roles) {
        let mut known = lock(&self.known);
        if known.is_some_and(|known| known > at) {
            return;
        }
        *known = Some(at);
        if roles.change() != self.roles.load().change() {
            self.roles.store(Arc::new(roles));
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::role::RoleChanges;
    use super::*;

    fn at(n: u64) -> Timestamp {
        Timestamp::new(n).unwrap()
    }

    fn with_role() -> Roles {
        let mut roles = Roles::default();
        roles.create("ann", &RoleChanges::default()).unwrap();
        roles.count_change();
        roles
    }

    #[test]
    fn older_snapshot_does_not_replace_a_newer_one() {
        let cache = RoleCache::new();
        cache.offer(at(5), with_role());
        cache.offer(at(4), Roles::default());
        assert_eq!(*cache.get(), with_role());
    }

    #[test]
    fn version_counts_changes_of_roles_only() {
        let cache = RoleCache::new();
        cache.offer(at(5), Roles::default());
        assert_eq!(cache.version(), 0);
        cache.offer(at(6), with_role());
        cache.offer(at(7), with_role());
        assert_eq!(cache.version(), 1, "a schema change in between is none of the roles");
        assert!(cache.is_current(SchemaAt { read: at(9), changed: at(7) }));
        assert!(!cache.is_current(SchemaAt { read: at(9), changed: at(8) }));
    }
}
