//! Parsed schemas, and whether one that was read before may be used without reading it again.
//!
//! A version never changes, so that what was parsed from it is never stale. Whether it is still
//! the *newest* version at a snapshot is another question: most transactions answer it without a
//! read, by a *generation* that every change of schema ends.
//!
//! ```text
//!  change:    begin ── decide C ── publish C ── end: changed_at = C, generation + 1
//!  use:       R taken;  nothing changing, same generation, R ≥ the snapshot it was read at
//! ```
//!
//! A snapshot R ≥ C is handed out after C was published, so after `begin`: whoever holds it sees
//! either the change under way or the next generation. What was read at a snapshot below
//! `changed_at` is not kept; at first that is where the database was opened. The commit still
//! depends on the schema's cell: a change that comes between R and the commit conflicts, whichever
//! way the schema was found.
//!
//! Over a cluster other processes change schemas, too, and end no generation here. What was read
//! at a snapshot is used at that very snapshot alone: once for each transaction and table.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carnet_base::{CellHash, Result, Timestamp};
use carnet_txn::Entry;

use super::schema::TableSchema;

/// More tables than this are parsed anew each time.
const TABLES_MAX: usize = 4096;

/// Tells the caches of several databases in one process apart.
static CACHES: AtomicU64 = AtomicU64::new(0);

/// Parsed schemas. See the module's essay.
pub(crate) struct SchemaCache {
    id: u64,
    /// Other processes change schemas, too.
    is_shared: bool,
    parsed: Mutex<HashMap<String, Tables>>,
    /// Changes of schema under way.
    changing: AtomicU64,
    generation: AtomicU64,
    changed_at: AtomicU64,
}

/// A keyspace's tables by name.
type Tables = HashMap<String, Parsed>;

struct Parsed {
    /// Names the version of the cell.
    start: Timestamp,
    schema: Arc<TableSchema>,
    /// The cell.
    cell: CellHash,
    /// The snapshot at which it was read, and the generation in which that was.
    known: Option<(Timestamp, u64)>,
}

/// A schema that was found, and when it may be used again without a look at the cache.
#[derive(Clone)]
pub(crate) struct Pin {
    pub(crate) schema: Arc<TableSchema>,
    /// The schema's cell.
    pub(crate) cell: CellHash,
    cache: u64,
    since: Timestamp,
    generation: u64,
}

/// A change of schema under way. Where its commit is given up before its end is known, nothing
/// is used without being read any more.
pub(crate) struct Change<'a>(&'a SchemaCache);

impl Change<'_> {
    /// Ends the change: at a commit, or because it was refused.
    pub(crate) fn end(self, commit: Option<Timestamp>) {
        if let Some(commit) = commit {
            self.0.changed_at.fetch_max(commit.get(), Ordering::SeqCst);
        }
        self.0.generation.fetch_add(1, Ordering::SeqCst);
        self.0.changing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SchemaCache {
    /// Makes an empty cache of a database whose last commit is `published`: when schemas changed
    /// up to there is not known.
    pub(crate) fn opened_at(published: Timestamp, is_shared: bool) -> Self {
        Self {
            id: CACHES.fetch_add(1, Ordering::Relaxed),
            is_shared,
            parsed: Mutex::default(),
            changing: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            changed_at: AtomicU64::new(published.get()),
        }
    }

    /// Begins a change of schema, before its commit is asked for.
    pub(crate) fn begin_change(&self) -> Change<'_> {
        self.changing.fetch_add(1, Ordering::SeqCst);
        Change(self)
    }

    /// The generation, where no change is under way.
    pub(crate) fn generation(&self) -> Option<u64> {
        let quiet = self.changing.load(Ordering::SeqCst) == 0;
        quiet.then(|| self.generation.load(Ordering::SeqCst))
    }

    /// Returns the schema that is the newest at a snapshot, where that is known.
    pub(crate) fn find(&self, keyspace: &str, name: &str, read: Timestamp) -> Option<Pin> {
        let generation = self.generation()?;
        let parsed = self.lock();
        let found = parsed.get(keyspace)?.get(name)?;
        let (since, known) = found.known?;
        (known == generation && self.reaches(since, read)).then(|| Pin {
            schema: Arc::clone(&found.schema),
            cell: found.cell,
            cache: self.id,
            since,
            generation,
        })
    }

    /// Tells whether a schema that was found before is the newest at a snapshot.
    pub(crate) fn is_current(&self, pin: &Pin, read: Timestamp) -> bool {
        pin.cache == self.id
            && self.generation() == Some(pin.generation)
            && self.reaches(pin.since, read)
    }

    /// Tells whether what was the newest at one snapshot is so at another, of one generation.
    fn reaches(&self, since: Timestamp, read: Timestamp) -> bool {
        if self.is_shared { read == since } else { read >= since }
    }

    /// Parses what was read at a snapshot, in a generation.
    pub(crate) fn parse(
        &self,
        (keyspace, name): (&str, &str),
        cell: CellHash,
        entry: &Entry,
        read: Timestamp,
        generation: Option<u64>,
    ) -> Result<Arc<TableSchema>> {
        let current = generation.filter(|_| read.get() >= self.changed_at.load(Ordering::SeqCst));
        let known = current.filter(|_| generation == self.generation()).map(|known| (read, known));
        let mut parsed = self.lock();
        let found = parsed.get_mut(keyspace).and_then(|tables| tables.get_mut(name));
        if let Some(found) = found
            && found.start == entry.start
        {
            found.known = known.or(found.known);
            return Ok(Arc::clone(&found.schema));
        }
        let schema = Arc::new(TableSchema::decode(keyspace, name, &entry.payload)?);
        if parsed.values().map(HashMap::len).sum::<usize>() >= TABLES_MAX {
            parsed.clear();
        }
        let entry = Parsed { start: entry.start, schema: Arc::clone(&schema), cell, known };
        parsed.entry(keyspace.to_owned()).or_default().insert(name.to_owned(), entry);
        Ok(schema)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tables>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{CellKey, PartitionKey, TableId, Token, Uuid};

    use super::*;
    use crate::catalog::TableKind;

    #[test]
    fn what_was_read_before_the_opening_is_not_taken_for_the_newest() {
        let at = |number| Timestamp::new(number).unwrap();
        let cache = SchemaCache::opened_at(at(10), false);
        let cell = CellKey::new(TableId(3), &PartitionKey::first_at(Token(0)), "t").hash();
        let payload = TableSchema::new("ks", "t", TableKind::Raw, Uuid::nil()).encode();
        let entry = Entry { start: at(5), payload };
        for (read, known) in [(at(9), false), (at(10), true)] {
            cache.parse(("ks", "t"), cell, &entry, read, cache.generation()).unwrap();
            assert_eq!(cache.find("ks", "t", at(11)).is_some(), known, "read at {read}");
        }
    }

    #[test]
    fn what_others_change_too_is_known_at_one_snapshot() {
        let at = |number| Timestamp::new(number).unwrap();
        let cache = SchemaCache::opened_at(at(10), true);
        let cell = CellKey::new(TableId(3), &PartitionKey::first_at(Token(0)), "t").hash();
        let payload = TableSchema::new("ks", "t", TableKind::Raw, Uuid::nil()).encode();
        let entry = Entry { start: at(5), payload };
        cache.parse(("ks", "t"), cell, &entry, at(12), cache.generation()).unwrap();
        let pin = cache.find("ks", "t", at(12)).unwrap();
        assert!(cache.is_current(&pin, at(12)));
        assert!(!cache.is_current(&pin, at(13)) && cache.find("ks", "t", at(13)).is_none());
    }
}
