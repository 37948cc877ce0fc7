//! Statements, and the decoding of their values and settings.
//!
//! The two versions differ in three places. The flags of a statement's parameters take one byte in
//! v4 and four in v5, where a keyspace and "now" may follow. PREPARE has flags in v5. EXECUTE in v5
//! names the columns that the client knows.

use bytes::Bytes;
use carnet_cql::ast::BatchKind;
use carnet_cql::{Bound, Values};

use super::reader::BodyReader;
use super::types::Consistency;
use super::{ProtocolError, Version};

type Result<T> = std::result::Result<T, ProtocolError>;

/// Statement to run or prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A statement's text.
    Query {
        /// Text with bind markers.
        text: String,
        /// Values and settings.
        params: QueryParams,
    },
    /// A statement's text to prepare.
    Prepare {
        /// Text with bind markers.
        text: String,
        /// Keyspace of unqualified tables, instead of the session's.
        keyspace: Option<String>,
    },
    /// A prepared statement.
    Execute {
        /// Id of the prepared statement.
        id: Bytes,
        /// Id of the result columns that the client knows (v5).
        result_id: Option<Bytes>,
        /// Values and settings.
        params: QueryParams,
    },
    /// Several statements as one.
    Batch(Batch),
}

/// Values and settings of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryParams {
    /// Requested consistency level.
    pub consistency: Consistency,
    /// Values of the bind markers.
    pub values: Values,
    /// Whether the client does not need the description of the result's columns.
    pub skip_metadata: bool,
    /// Maximum number of rows per page; `None` for all rows in one page.
    pub page_size: Option<u32>,
    /// Paging state from the answer with the previous page.
    pub paging_state: Option<Bytes>,
    /// Consistency level of a conditional statement's read.
    pub serial_consistency: Option<Consistency>,
    /// Timestamp of the write by the client's clock, in microseconds.
    pub timestamp: Option<i64>,
    /// Keyspace of unqualified tables, instead of the session's (v5).
    pub keyspace: Option<String>,
    /// Client's current time in seconds since 1970 (v5).
    pub now_in_seconds: Option<i32>,
}

/// Several statements that run as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Requested kind of the batch.
    pub kind: BatchKind,
    /// Statements of the batch, in order.
    pub items: Vec<BatchItem>,
    /// Settings of the whole batch, without values, page size and paging state.
    pub params: QueryParams,
}

/// Statement of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// Text or id of the statement.
    pub statement: BatchStatement,
    /// Values of its bind markers, in order.
    pub values: Vec<Bound>,
}

/// Reference to a statement in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchStatement {
    /// Text of the statement.
    Text(String),
    /// Id of a prepared statement.
    Prepared(Bytes),
}

/// Reads the rest of a PREPARE behind its text.
pub(super) fn prepare(mut reader: BodyReader, version: Version, text: String) -> Result<Statement> {
    const KEYSPACE: u32 = 0x01;
    let mut keyspace = None;
    if version >= Version::V5 {
        let flags = reader.int("the flags")?.cast_unsigned();
        refuse_unknown(flags, KEYSPACE, "PREPARE")?;
        if flags & KEYSPACE != 0 {
            keyspace = Some(reader.string("the keyspace")?);
        }
    }
    Ok(Statement::Prepare { text, keyspace })
}

/// Bits of a statement's flags.
pub(super) mod param {
    pub(in crate::protocol) const VALUES: u32 = 0x01;
    pub(super) const SKIP_METADATA: u32 = 0x02;
    pub(super) const PAGE_SIZE: u32 = 0x04;
    pub(super) const PAGING_STATE: u32 = 0x08;
    pub(super) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(super) const TIMESTAMP: u32 = 0x20;
    pub(in crate::protocol) const NAMES: u32 = 0x40;
    pub(super) const KEYSPACE: u32 = 0x80;
    pub(super) const NOW_IN_SECONDS: u32 = 0x100;

    pub(super) const V4: u32 = 0x7f;
    pub(super) const V5: u32 = V4 | KEYSPACE | NOW_IN_SECONDS;
    /// Settings that a batch has for all its statements.
    pub(super) const OF_BATCH: u32 = SERIAL_CONSISTENCY | TIMESTAMP | KEYSPACE | NOW_IN_SECONDS;
}

/// The flags determine the order of the following fields: an unknown one makes the rest unreadable.
fn refuse_unknown(flags: u32, known: u32, what: &str) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(ProtocolError::malformed(format!(
            "{what} has no flags {unknown:#x} in this version"
        ))),
    }
}

pub(super) fn param_flags(reader: &mut BodyReader, version: Version, what: &str) -> Result<u32> {
    let (flags, known) = match version {
        Version::V4 => (u32::from(reader.byte("the flags")?), param::V4),
        Version::V5 => (reader.int("the flags")?.cast_unsigned(), param::V5),
    };
    refuse_unknown(flags, known, what)?;
    Ok(flags)
}

/// Reads the values and settings of a statement behind its consistency and flags.
pub(super) fn query_params(
    reader: &mut BodyReader,
    consistency: Consistency,
    flags: u32,
) -> Result<QueryParams> {
    let has = |flag| flags & flag != 0;
    let mut params = QueryParams { consistency, ..QueryParams::default() };
    params.skip_metadata = has(param::SKIP_METADATA);
    if has(param::VALUES) {
        params.values = if has(param::NAMES) {
            Values::Named(reader.list(6, "the values", named_value)?)
        } else {
            Values::Positional(reader.list(4, "the values", |r| r.value("a value"))?)
        };
    }
    if has(param::PAGE_SIZE) {
        // Zero and negative numbers mean "do not page", like in Cassandra.
        let rows = reader.int("the page size")?;
        params.page_size = u32::try_from(rows).ok().filter(|rows| *rows > 0);
    }
    if has(param::PAGING_STATE) {
        params.paging_state = reader.bytes("the paging state")?;
    }
    trailing_params(reader, flags, &mut params)?;
    Ok(params)
}

/// Reads the parameters that single statements and batches share.
fn trailing_params(reader: &mut BodyReader, flags: u32, params: &mut QueryParams) -> Result<()> {
    let has = |flag| flags & flag != 0;
    if has(param::SERIAL_CONSISTENCY) {
        params.serial_consistency = Some(Consistency::read(reader)?);
    }
    if has(param::TIMESTAMP) {
        params.timestamp = Some(reader.long("the timestamp")?);
    }
    if has(param::KEYSPACE) {
        params.keyspace = Some(reader.string("the keyspace")?);
    }
    if has(param::NOW_IN_SECONDS) {
        params.now_in_seconds = Some(reader.int("now in seconds")?);
    }
    Ok(())
}

fn named_value(reader: &mut BodyReader) -> Result<(String, Bound)> {
    Ok((reader.string("a marker's name")?, reader.value("a value")?))
}

/// Reads a BATCH.
pub(super) fn batch(mut reader: BodyReader, version: Version) -> Result<Statement> {
    let reader = &mut reader;
    let kind = match reader.byte("the kind of batch")? {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        other => {
            return Err(ProtocolError::malformed(format!("there is no batch of kind {other}")));
        }
    };
    // The shortest item: its kind, an empty id, no values.
    let items = reader.list(5, "the batch", batch_item)?;
    let consistency = Consistency::read(reader)?;
    let flags = param_flags(reader, version, "a batch")?;
    // Names of values would follow the values that need them, so they cannot be decoded.
    refuse_unknown(flags, param::OF_BATCH, "a batch")?;
    let mut params = QueryParams { consistency, ..QueryParams::default() };
    trailing_params(reader, flags, &mut params)?;
    Ok(Statement::Batch(Batch { kind, items, params }))
}

fn batch_item(reader: &mut BodyReader) -> Result<BatchItem> {
    let statement = match reader.byte("the kind of a batch's statement")? {
        0 => BatchStatement::Text(reader.long_string("the query")?),
        1 => BatchStatement::Prepared(reader.short_bytes("the statement's id")?),
        other => {
            return Err(ProtocolError::malformed(format!(
                "a batch's statement is text (0) or prepared (1), not {other}"
            )));
        }
    };
    let values = reader.list(4, "the values", |reader| reader.value("a value"))?;
    Ok(BatchItem { statement, values })
}
