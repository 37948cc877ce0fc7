//! Prepared statements, and the plans kept with them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use carnet::base::murmur3;

use super::{CqlError, CqlErrorKind, Plan};
use crate::compile::Tables;
use crate::parser::{Limits, Parsed, parse};
use crate::result::ColumnSpec;

/// More prepared statements than this, and the oldest are forgotten: clients prepare them again.
const PREPARED_MAX: usize = 10_000;

/// A statement that has been read, with the last plan made for it.
pub(crate) struct Statements {
    pub(crate) parsed: Parsed,
    plan: Mutex<Option<(Tables, Arc<Plan>)>>,
    /// What it was prepared against, if it was.
    promised: OnceLock<Promised>,
}

/// What a client was told when it prepared a statement: it encodes its values and decodes its rows
/// by that.
struct Promised {
    id: [u8; 16],
    tables: Tables,
}

impl Statements {
    pub(super) fn parse(text: &str) -> Result<Self, CqlError> {
        let parsed = parse(text, &Limits::default())?;
        Ok(Self { parsed, plan: Mutex::default(), promised: OnceLock::new() })
    }

    /// Fails when the statement was prepared against other versions of its tables.
    pub(super) fn check_promised(&self, tables: &Tables) -> Result<(), CqlError> {
        let Some(Promised { id, tables: promised }) = self.promised.get() else { return Ok(()) };
        let is_same = promised.len() == tables.len()
            && tables.iter().all(|(name, schema)| {
                promised.get(name).is_some_and(|promised| {
                    (promised.id, promised.version) == (schema.id, schema.version)
                })
            });
        if is_same {
            return Ok(());
        }
        Err(CqlError::new(
            CqlErrorKind::Unprepared { id: *id },
            "a table of the prepared statement has changed: prepare it again",
        ))
    }

    /// Returns the plan if it was made for these very schemas.
    pub(super) fn cached_plan(&self, tables: &Tables) -> Option<Arc<Plan>> {
        let cached = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, plan) = cached.as_ref()?;
        let is_same = known.len() == tables.len()
            && tables.iter().all(|(name, schema)| {
                known.get(name).is_some_and(|known| Arc::ptr_eq(known, schema))
            });
        is_same.then(|| Arc::clone(plan))
    }

    pub(super) fn keep_plan(&self, tables: Tables, plan: Plan) -> Arc<Plan> {
        let plan = Arc::new(plan);
        let kept = Some((tables, Arc::clone(&plan)));
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        plan
    }
}

/// What preparing a statement finds out.
#[derive(Default)]
pub(crate) struct Described {
    pub(crate) markers: Vec<ColumnSpec>,
    pub(crate) partition_key: Vec<u16>,
    pub(crate) result: Vec<ColumnSpec>,
    pub(crate) tables: Tables,
}

/// A statement that was read once, to be run many times.
pub struct Prepared {
    /// Names it: the hash of its text and keyspace.
    pub id: [u8; 16],
    /// Its bind markers.
    pub markers: Vec<ColumnSpec>,
    /// The markers that give the partition key, in the order of its columns; empty where they do
    /// not.
    pub partition_key_indexes: Vec<u16>,
    /// The columns of its result; empty where it returns none, or whether depends on the data.
    pub result: Vec<ColumnSpec>,
    pub(super) keyspace: Option<String>,
    pub(super) statements: Arc<Statements>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("statement", &self.statements.parsed.statement.to_string())
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    pub(super) fn new(
        text: &str,
        keyspace: Option<String>,
        statements: Statements,
        described: Described,
    ) -> Self {
        let id = id(text, keyspace.as_deref());
        // The statement is new: nobody has promised anything for it.
        let _ = statements.promised.set(Promised { id, tables: described.tables });
        Self {
            id,
            markers: described.markers,
            partition_key_indexes: described.partition_key,
            result: described.result,
            keyspace,
            statements: Arc::new(statements),
        }
    }
}

/// Two 64-bit hashes over text and keyspace, each with a salt of its own.
fn id(text: &str, keyspace: Option<&str>) -> [u8; 16] {
    let hash = |salt: &str| {
        let keyspace = keyspace.unwrap_or("");
        murmur3::token(format!("{salt}\0{keyspace}\0{text}").as_bytes()).0.to_be_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&hash("carnet"));
    id[8..].copy_from_slice(&hash("ticket"));
    id
}

/// The statements that clients have prepared.
#[derive(Default)]
pub(super) struct Cache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    by_id: HashMap<[u8; 16], Arc<Prepared>>,
    in_order: VecDeque<[u8; 16]>,
}

impl Cache {
    pub(super) fn keep(&self, prepared: Prepared) -> Arc<Prepared> {
        let prepared = Arc::new(prepared);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.by_id.insert(prepared.id, Arc::clone(&prepared)).is_none() {
            state.in_order.push_back(prepared.id);
        }
        if state.in_order.len() > PREPARED_MAX
            && let Some(oldest) = state.in_order.pop_front()
        {
            state.by_id.remove(&oldest);
        }
        prepared
    }

    pub(super) fn forget(&self, id: &[u8; 16]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.by_id.remove(id);
        state.in_order.retain(|known| known != id);
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: [u8; 16] = id.try_into().ok()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }
}
