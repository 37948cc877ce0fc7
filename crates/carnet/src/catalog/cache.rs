//! Parsed schemas, by the version of the cell that they were parsed from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use carnet_base::{Result, Timestamp};
use carnet_txn::Entry;

use super::schema::TableSchema;

/// More tables than this are parsed anew each time.
const TABLES_MAX: usize = 4096;

/// Parsed schemas. What is here is never stale: a version never changes.
#[derive(Default)]
pub(crate) struct SchemaCache {
    parsed: Mutex<HashMap<String, Tables>>,
}

/// A keyspace's tables by name, each with the start of the version it was parsed from.
type Tables = HashMap<String, (Timestamp, Arc<TableSchema>)>;

impl SchemaCache {
    pub(crate) fn parse(
        &self,
        keyspace: &str,
        name: &str,
        entry: &Entry,
    ) -> Result<Arc<TableSchema>> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parsed.get(keyspace).and_then(|tables| tables.get(name));
        if let Some((start, schema)) = known
            && *start == entry.start
        {
            return Ok(Arc::clone(schema));
        }
        let schema = Arc::new(TableSchema::decode(keyspace, name, &entry.payload)?);
        if parsed.values().map(HashMap::len).sum::<usize>() >= TABLES_MAX {
            parsed.clear();
        }
        parsed
            .entry(keyspace.to_owned())
            .or_default()
            .insert(name.to_owned(), (entry.start, Arc::clone(&schema)));
        Ok(schema)
    }
}
