//! Prepared statements, and their cached plans.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use carnet::Tx;
use carnet::catalog::{Pins, TableSchema};
use carnet_admission::diagnosis::Named;
use carnet_base::TableId;
use sha2::{Digest, Sha256};

use super::named;
use super::open::names_transaction;
use super::outline::{KeptOutline, Outline};
use super::recent::Recent;
use super::statistics::{Slot, Statistics};
use crate::ast::{AlterTable, Statement, TableChange};
use crate::compile::{Plan, Tables};
use crate::cql_error::{CqlError, CqlErrorKind, StatementId};
use crate::error::Failure;
use crate::fingerprint;
use crate::forward::Preparation;
use crate::lexer;
use crate::parser::{Limits, Parsed, parse};
use crate::result::ColumnSpec;
use crate::system;

/// Default limit of the bytes of all prepared statements.
pub(super) const PREPARED_BYTES_MAX: usize = 64 << 20;

/// Divisor of the limit for one statement, so that the statements of a busy application do not
/// evict each other.
const SHARE: usize = 4;

/// Bytes of a prepared statement without its text: maps, the smallest plan, the key's columns.
const STATEMENT_BYTES: usize = 4 << 10;
/// Maximum bytes of syntax tree and plan for each token of the text. `tests/prepared_memory.rs`
/// compares the estimate with the allocator's count.
const TOKEN_BYTES: usize = 300;
/// Maximum number of copies of each byte of the text in tree and plan: literals and names.
const TEXT_COPIES: usize = 3;
/// Bytes of the description of a marker or result column, in statement and plan.
const SPEC_BYTES: usize = 512;

/// Estimates the bytes of the tree and plan of a text, before either is built.
fn text_bytes(text: &str) -> usize {
    STATEMENT_BYTES + TEXT_COPIES * text.len() + TOKEN_BYTES * lexer::count(text)
}

/// A parsed statement with its last plan.
pub(crate) struct Statements {
    pub(crate) parsed: Parsed,
    /// Text of a statement that names a transaction, which another server may hold.
    text: Option<Box<str>>,
    kept: ArcSwapOption<Kept>,
    /// Tables that the statement was prepared for, if it was prepared.
    promised: OnceLock<Promised>,
    /// Name for the diagnosis, and the keyspace of the session that it was made for.
    named: OnceLock<(Option<String>, Arc<Named>)>,
    /// Fingerprint whose figures the executions of a prepared statement are counted in.
    slot: OnceLock<Arc<Slot>>,
}

/// A plan with the schemas that it was made for. A prepared statement has one keyspace, so that its tables' names
/// always mean the same tables.
struct Kept {
    tables: Tables,
    pins: Option<Pins>,
    plan: Arc<Plan>,
}

/// Description that a client got when it prepared a statement. The client encodes its values and
/// decodes its rows by it.
struct Promised {
    id: StatementId,
    /// Ids and versions of the tables.
    tables: HashMap<(Option<String>, String), (TableId, u32)>,
}

impl Promised {
    fn new(id: StatementId, tables: Tables) -> Self {
        let version = |(name, schema): (_, Arc<TableSchema>)| (name, (schema.id, schema.version));
        Self { id, tables: tables.into_iter().map(version).collect() }
    }
}

impl Statements {
    pub(super) fn parse(text: &str) -> Result<Self, CqlError> {
        let parsed = parse(text, &Limits::default())?;
        check_options(&parsed.statement).map_err(|failure| failure.locate(text))?;
        let text = names_transaction(&parsed.statement).then(|| text.into());
        Ok(Self {
            parsed,
            text,
            kept: ArcSwapOption::empty(),
            promised: OnceLock::new(),
            named: OnceLock::new(),
            slot: OnceLock::new(),
        })
    }

    /// Returns `true` if the statement was prepared.
    pub(super) fn is_prepared(&self) -> bool {
        self.promised.get().is_some()
    }

    /// Returns `true` if the statement names a transaction.
    pub(super) const fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the text of a statement that names a transaction.
    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Returns the versions that the statement was prepared for, if it was prepared.
    pub(super) fn preparation(&self) -> Option<Preparation> {
        let Promised { id, tables } = self.promised.get()?;
        let mut tables: Vec<_> = tables
            .iter()
            .map(|((keyspace, name), (table, version))| {
                (keyspace.clone(), name.clone(), table.0, *version)
            })
            .collect();
        tables.sort_unstable();
        Some(Preparation { id: *id, tables })
    }

    /// Makes a new statement one that was prepared at another server.
    pub(super) fn promise(&self, preparation: Preparation) {
        let Preparation { id, tables } = preparation;
        let tables = tables
            .into_iter()
            .map(|(keyspace, name, table, version)| ((keyspace, name), (TableId(table), version)));
        // The statement is new, so no description is set yet.
        let _ = self.promised.set(Promised { id, tables: tables.collect() });
    }

    /// Fails if the statement was prepared for other versions of its tables.
    pub(super) fn check_promised(&self, tables: &Tables) -> Result<(), CqlError> {
        let Some(Promised { id, tables: promised }) = self.promised.get() else { return Ok(()) };
        let is_same = promised.len() == tables.len()
            && tables
                .iter()
                .all(|(name, schema)| promised.get(name) == Some(&(schema.id, schema.version)));
        if is_same {
            return Ok(());
        }
        Err(CqlError::new(
            CqlErrorKind::Unprepared { id: *id },
            "a table of the prepared statement has changed: prepare it again",
        ))
    }

    /// Returns the plan if the schemas that it was compiled for are the newest at a transaction's snapshot.
    /// `check` may refuse the tables to the statement's user.
    pub(super) fn pinned_plan(
        &self,
        tx: &Tx,
        check: impl FnOnce(&Tables) -> Result<(), CqlError>,
    ) -> Result<Option<Arc<Plan>>, CqlError> {
        let kept = self.kept.load();
        let Some(Kept { pins: Some(pins), plan, tables }) = kept.as_deref() else {
            return Ok(None);
        };
        if !pins.apply(tx)? {
            return Ok(None);
        }
        check(tables)?;
        Ok(Some(Arc::clone(plan)))
    }

    /// Returns the plan if it was compiled for these schemas, which the transaction has read.
    pub(super) fn cached_plan(&self, tx: &Tx, tables: &Tables) -> Option<Arc<Plan>> {
        let kept = self.kept.load();
        let Kept { tables: known, plan, .. } = kept.as_deref()?;
        let is_same = known.len() == tables.len()
            && tables.iter().all(|(name, schema)| {
                known.get(name).is_some_and(|known| Arc::ptr_eq(known, schema))
            });
        is_same.then(|| self.keep_plan(tx, known.clone(), Arc::clone(plan)))
    }

    /// Returns the statement's name for the diagnosis. A prepared statement makes it once: under overload every
    /// statement has waited and needs it.
    pub(super) fn named(&self, keyspace: Option<&str>) -> Arc<Named> {
        let make = || Arc::new(named::name(&self.parsed.statement, keyspace));
        let (of, named) = self.named.get_or_init(|| (keyspace.map(str::to_owned), make()));
        if of.as_deref() == keyspace { Arc::clone(named) } else { make() }
    }

    /// Returns the statement's fingerprint. A prepared statement finds it once, and has one keyspace.
    pub(super) fn slot(&self, statistics: &Statistics, keyspace: Option<&str>) -> &Arc<Slot> {
        self.slot.get_or_init(|| {
            let of_names = named::keyspace_of_names(&self.parsed.statement, keyspace);
            let id = fingerprint::in_keyspace(self.parsed.fingerprint, of_names);
            statistics.slot(id, || named::fingerprint(&self.parsed.statement, keyspace))
        })
    }

    /// Keeps the plan for later runs: those of a prepared statement, and retries.
    pub(super) fn keep_plan(&self, tx: &Tx, tables: Tables, plan: Arc<Plan>) -> Arc<Plan> {
        let is_stored = |schema: &&Arc<TableSchema>| !system::is_system_keyspace(&schema.keyspace);
        let pin = || Pins::new(tx, tables.values().filter(is_stored));
        let pins = self.is_prepared().then(pin).flatten();
        self.kept.store(Some(Arc::new(Kept { tables, pins, plan: Arc::clone(&plan) })));
        plan
    }
}

/// Checks the names and types of the options that a statement sets.
fn check_options(statement: &Statement) -> Result<(), Failure> {
    match statement {
        Statement::CreateKeyspace(create) => system::check_keyspace_options(&create.options),
        Statement::AlterKeyspace(alter) => system::check_keyspace_options(&alter.options),
        Statement::CreateTable(create) => system::check_table_options(&create.options),
        Statement::CopyTable(copy) => system::check_table_options(&copy.options),
        Statement::CreateView(create) => system::check_table_options(&create.options),
        Statement::AlterView(alter) => system::check_table_options(&alter.options),
        Statement::AlterTable(AlterTable { change: TableChange::Options(options), .. }) => {
            system::check_table_options(options)
        }
        _ => Ok(()),
    }
}

/// Result of preparing a statement.
#[derive(Default)]
pub(crate) struct Described {
    pub(crate) markers: Vec<ColumnSpec>,
    pub(crate) partition_key: Vec<u16>,
    pub(crate) result: Vec<ColumnSpec>,
    pub(crate) tables: Tables,
}

/// A statement that is parsed once, and run many times.
pub struct Prepared {
    /// Id of the statement: the hash of its keyspace, text and markers.
    pub id: StatementId,
    /// Bind markers of the statement.
    pub markers: Vec<ColumnSpec>,
    /// Indexes of the partition key's markers, in column order; empty if a column has no marker.
    pub partition_key_indexes: Vec<u16>,
    /// Columns of its result; empty if it returns none, or if that depends on the data.
    pub result: Vec<ColumnSpec>,
    pub(super) keyspace: Option<String>,
    pub(super) outline: KeptOutline,
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
    /// Returns the statement's canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        self.statements.parsed.statement.to_string()
    }

    /// Returns the outline of the statement. `list_len` returns the number of values that are bound to
    /// the marker of this index, if it is known.
    #[must_use]
    pub fn outline(&self, list_len: impl Fn(usize) -> Option<usize>) -> Outline<'_> {
        self.outline.of(&self.statements.parsed.statement, self.keyspace.as_deref(), list_len)
    }

    pub(super) fn new(
        text: &str,
        keyspace: Option<String>,
        statements: Statements,
        described: Described,
    ) -> Self {
        let id = id(text, keyspace.as_deref(), &described.markers);
        // The statement is new, so no description is set yet.
        let _ = statements.promised.set(Promised::new(id, described.tables));
        Self {
            id,
            markers: described.markers,
            partition_key_indexes: described.partition_key,
            result: described.result,
            outline: KeptOutline::new(&statements.parsed.statement, keyspace.as_deref()),
            keyspace,
            statements: Arc::new(statements),
        }
    }
}

/// Returns the id of a statement: SHA-256 over its keyspace, its text and the types of its markers.
///
/// The types are those by which the client encodes values: after a change of one, an earlier id does
/// not name the statement any more. Versions of the tables are not part of it, because drivers give a
/// statement up whose id changes when they prepare it again (see docs/design/0030).
fn id(text: &str, keyspace: Option<&str>, markers: &[ColumnSpec]) -> StatementId {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(keyspace.unwrap_or(""));
    add(text);
    markers.iter().for_each(|marker| add(&marker.data_type.to_string()));
    hash.finalize().into()
}

/// Prepared statements, limited by their estimated bytes.
///
/// A client that executes an evicted one is told to prepare it again.
pub(super) struct Cache(Recent<StatementId, Arc<Prepared>>);

impl Default for Cache {
    fn default() -> Self {
        Self(Recent::new(PREPARED_BYTES_MAX))
    }
}

impl Cache {
    /// Refuses a text that would take more than one statement's share. It would be evicted as soon
    /// as it was prepared, and its client would prepare it again and again.
    pub(super) fn check_text(&self, text: &str) -> Result<(), CqlError> {
        self.check(text_bytes(text))
    }

    fn check(&self, bytes: usize) -> Result<(), CqlError> {
        let bytes_max = self.0.bytes_max() / SHARE;
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(CqlError::invalid(format!(
            "the statement takes about {bytes} bytes when it is prepared; {bytes_max} are allowed \
             for one statement: split it, or send it without preparing it"
        )))
    }

    pub(super) fn keep(&self, text: &str, prepared: Prepared) -> Result<Arc<Prepared>, CqlError> {
        let specs = prepared.markers.len() + prepared.result.len();
        let bytes = text_bytes(text) + SPEC_BYTES * specs;
        self.check(bytes)?;
        let prepared = Arc::new(prepared);
        self.0.insert(prepared.id, Arc::clone(&prepared), bytes);
        Ok(prepared)
    }

    /// Removes the statement of an id, if it is this one.
    pub(super) fn forget(&self, id: &StatementId, statements: &Statements) {
        if self.0.get(id).is_some_and(|kept| std::ptr::eq(&*kept.statements, statements)) {
            self.0.remove(id);
        }
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: StatementId = id.try_into().ok()?;
        self.0.get(&id)
    }

    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        self.0.set_bytes_max(bytes_max);
    }

    /// Returns the number of statements and their estimated bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        self.0.size()
    }
}
