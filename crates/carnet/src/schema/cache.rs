//! Cache of parsed schemas, with validity intervals of snapshots.
//!
//! A version never changes, so that its parsed form is never stale. Whether it is still the
//! *newest* version at a snapshot is a separate question. Most transactions answer it without a
//! read: the component that issues snapshots sees every commit, and returns with each snapshot the
//! last change of any system table.
//!
//! ```text
//!   a version was the newest at snapshots   from ──── through
//!   it is at R where   from ≤ R ≤ through   no other version in between
//!                or    schema(R) ≤ through < R   nothing changed since
//! ```
//!
//! The same holds over a cluster, where other processes change schemas too: their commits go
//! through the same leader, and a new leader takes the beginning of its term for the last change.
//! The commit still depends on the schema's cell: a change between R and the commit conflicts,
//! whether the schema was cached or read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use carnet_base::{CellHash, Result, TableId, Timestamp, lock};

use super::limits::KEYSPACES_MAX;
use super::table::TableSchema;
use super::user_types::UserTypes;

/// Maximum number of cached schemas. The cache is cleared when it is full.
const TABLES_MAX: usize = 4096;

/// Number of caches created. Distinguishes the caches of several databases in one process.
static CACHES: AtomicU64 = AtomicU64::new(0);

/// Parsed schemas. See the module documentation.
pub(crate) struct SchemaCache {
    id: u64,
    parsed: Mutex<HashMap<String, Tables>>,
    /// User-defined types by keyspace, with the start timestamp of the version of its cell.
    types: Mutex<HashMap<String, (Timestamp, Arc<UserTypes>)>>,
}

/// Tables of a keyspace by name.
type Tables = HashMap<String, Parsed>;

struct Parsed {
    /// Start timestamp of the cell's version.
    start: Timestamp,
    schema: Arc<TableSchema>,
    /// Hash of the cell.
    cell: CellHash,
    newest: Newest,
}

/// A snapshot, with the timestamp of the last change of a system table. If `changed` lies above
/// `read`, it says nothing about the snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaAt {
    pub(crate) read: Timestamp,
    pub(crate) changed: Timestamp,
}

/// Range of snapshots at which a version was found to be the newest.
#[derive(Clone, Copy, Debug)]
struct Newest {
    from: Timestamp,
    through: Timestamp,
}

impl Newest {
    fn is_at(self, snapshot: SchemaAt) -> bool {
        self.from <= snapshot.read
            && (snapshot.read <= self.through || snapshot.changed <= self.through)
    }

    fn add(&mut self, read: Timestamp) {
        self.from = self.from.min(read);
        self.through = self.through.max(read);
    }
}

/// A cached schema, with the snapshots at which it can be used without looking it up again.
#[derive(Clone)]
pub(crate) struct Pin {
    pub(crate) schema: Arc<TableSchema>,
    /// Hash of the schema's cell.
    pub(crate) cell: CellHash,
    cache: u64,
    newest: Newest,
}

impl SchemaCache {
    pub(crate) fn new() -> Self {
        let id = CACHES.fetch_add(1, Ordering::Relaxed);
        Self { id, parsed: Mutex::default(), types: Mutex::default() }
    }

    /// Returns the newest schema at a snapshot, if the cache knows it.
    pub(crate) fn find(&self, keyspace: &str, name: &str, snapshot: SchemaAt) -> Option<Pin> {
        let parsed = lock(&self.parsed);
        let found = parsed.get(keyspace)?.get(name)?;
        found.newest.is_at(snapshot).then(|| Pin {
            schema: Arc::clone(&found.schema),
            cell: found.cell,
            cache: self.id,
            newest: found.newest,
        })
    }

    /// Returns `true` if a pinned schema is the newest at a snapshot.
    pub(crate) fn is_current(&self, pin: &Pin, snapshot: SchemaAt) -> bool {
        pin.cache == self.id && pin.newest.is_at(snapshot)
    }

    /// Returns the cached schema of a table.
    pub(crate) fn by_id(&self, id: TableId) -> Option<Arc<TableSchema>> {
        let parsed = lock(&self.parsed);
        let mut tables = parsed.values().flat_map(HashMap::values);
        tables.find(|found| found.schema.id == id).map(|found| Arc::clone(&found.schema))
    }

    /// Returns a version of a schema that is the newest at a snapshot, if it was parsed before.
    pub(crate) fn parsed(
        &self,
        keyspace: &str,
        name: &str,
        start: Timestamp,
        read: Timestamp,
    ) -> Option<Arc<TableSchema>> {
        let mut parsed = lock(&self.parsed);
        let found = parsed.get_mut(keyspace)?.get_mut(name)?;
        if found.start != start {
            return None;
        }
        found.newest.add(read);
        Some(Arc::clone(&found.schema))
    }

    /// Caches the parsed newest version at a snapshot.
    pub(crate) fn insert(
        &self,
        schema: &Arc<TableSchema>,
        cell: CellHash,
        start: Timestamp,
        read: Timestamp,
    ) {
        let mut parsed = lock(&self.parsed);
        if parsed.values().map(HashMap::len).sum::<usize>() >= TABLES_MAX {
            parsed.clear();
        }
        let newest = Newest { from: read, through: read };
        let entry = Parsed { start, schema: Arc::clone(schema), cell, newest };
        parsed.entry(schema.keyspace.clone()).or_default().insert(schema.name.clone(), entry);
    }

    /// Returns the user-defined types of a version of a keyspace, which all its tables share. Makes
    /// them if another version is cached.
    pub(crate) fn types(
        &self,
        keyspace: &str,
        start: Timestamp,
        make: impl FnOnce() -> Result<UserTypes>,
    ) -> Result<Arc<UserTypes>> {
        if let Some((_, types)) = lock(&self.types).get(keyspace).filter(|(at, _)| *at == start) {
            return Ok(Arc::clone(types));
        }
        let types = Arc::new(make()?);
        let mut cached = lock(&self.types);
        if cached.len() >= KEYSPACES_MAX {
            cached.clear();
        }
        cached.insert(keyspace.to_owned(), (start, Arc::clone(&types)));
        Ok(types)
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, TableId, Token, Uuid};

    use super::*;
    use crate::schema::TableKind;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    /// Reads a version of the table's cell at a snapshot.
    fn read(cache: &SchemaCache, start: u64, snapshot: u64) {
        let cell = CellKey::new(TableId(3), &PartitionKey::first_at(Token(0)), "t").hash();
        if cache.parsed("ks", "t", at(start), at(snapshot)).is_none() {
            let schema = TableSchema::new("ks", "t", TableKind::Raw, Uuid::nil());
            cache.insert(&Arc::new(schema), cell, at(start), at(snapshot));
        }
    }

    fn knows(cache: &SchemaCache, snapshot: u64, changed: u64) -> bool {
        let snapshot = SchemaAt { read: at(snapshot), changed: at(changed) };
        let pin = cache.find("ks", "t", snapshot);
        pin.is_some_and(|pin| cache.is_current(&pin, snapshot))
    }

    #[test]
    fn schema_is_cached_until_system_table_changes() {
        let cache = SchemaCache::new();
        assert!(!knows(&cache, 12, 5));
        read(&cache, 5, 12);
        for (snapshot, changed, known) in [
            (12, 12, true),
            (20, 8, true),
            (20, 12, true),
            (20, 13, false),
            // A change that is not yet published.
            (12, 30, true),
            (11, 8, false),
        ] {
            assert_eq!(knows(&cache, snapshot, changed), known, "{snapshot}, {changed}");
        }
        read(&cache, 5, 20);
        assert!(knows(&cache, 15, 40) && knows(&cache, 22, 20));
        read(&cache, 21, 22);
        assert!(!knows(&cache, 20, 5), "another version is the newest");
    }

    #[test]
    fn pin_of_another_database_is_not_current() {
        let (cache, other) = (SchemaCache::new(), SchemaCache::new());
        read(&cache, 5, 12);
        let snapshot = SchemaAt { read: at(12), changed: at(5) };
        let pin = cache.find("ks", "t", snapshot).unwrap();
        assert!(cache.is_current(&pin, snapshot) && !other.is_current(&pin, snapshot));
    }
}
