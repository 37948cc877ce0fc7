//! Decoding of requests' bodies.
//!
//! The two versions differ in three places. The flags of a statement's parameters take one byte in
//! v4 and four in v5, where a keyspace and "now" may follow. PREPARE has flags in v5. EXECUTE in v5
//! names the columns that the client knows.

use bytes::Bytes;
use carnet_cql::ast::BatchKind;
use carnet_cql::{Bound, Values};

use super::frame::{Frame, flags};
use super::reader::BodyReader;
use super::types::{Consistency, EventType};
use super::{Opcode, ProtocolError, Version};

type Result<T> = std::result::Result<T, ProtocolError>;

/// Maximum length of a SASL token, in bytes: a user and a password need far less.
const AUTH_TOKEN_LEN_MAX: usize = 4096;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolRequest {
    /// Begins the connection, with these options in the order sent.
    Startup(Vec<(String, String)>),
    /// Requests the supported STARTUP options.
    Options,
    /// A step of the SASL exchange.
    AuthResponse(Option<Bytes>),
    /// Requests events of these types.
    Register(Vec<EventType>),
    /// A statement to run.
    Statement(Statement),
}

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

impl ProtocolRequest {
    /// Decodes the body of a frame.
    ///
    /// # Errors
    ///
    /// Malformed, if the body violates a rule.
    pub fn decode(frame: &Frame) -> Result<Self> {
        let (version, opcode) = (frame.header.version, frame.header.opcode);
        let mut reader = BodyReader::new(frame.body.clone());
        if frame.header.has(flags::CUSTOM_PAYLOAD) {
            reader.skip_bytes_map("the custom payload")?;
        }
        Self::read(&mut reader, version, opcode)
    }

    fn read(reader: &mut BodyReader, version: Version, opcode: Opcode) -> Result<Self> {
        match opcode {
            Opcode::Startup => reader.string_map("the STARTUP options").map(Self::Startup),
            Opcode::Options => Ok(Self::Options),
            Opcode::AuthResponse => auth_token(reader).map(Self::AuthResponse),
            Opcode::Register => {
                let names = reader.string_list("the event types")?;
                let types = names.iter().map(|name| EventType::from_name(name));
                types.collect::<Result<_>>().map(Self::Register)
            }
            Opcode::Query => query(reader, version).map(Self::Statement),
            Opcode::Prepare => prepare(reader, version).map(Self::Statement),
            Opcode::Execute => execute(reader, version).map(Self::Statement),
            Opcode::Batch => batch(reader, version).map(Self::Statement),
            other => Err(ProtocolError::malformed(format!("{} is no request", other.name()))),
        }
    }
}

fn auth_token(reader: &mut BodyReader) -> Result<Option<Bytes>> {
    let token = reader.bytes("the SASL token")?;
    match token {
        Some(token) if token.len() > AUTH_TOKEN_LEN_MAX => Err(ProtocolError::malformed(format!(
            "the SASL token has {} bytes; {AUTH_TOKEN_LEN_MAX} are allowed",
            token.len()
        ))),
        token => Ok(token),
    }
}

fn query(reader: &mut BodyReader, version: Version) -> Result<Statement> {
    let text = reader.long_string("the query")?;
    let params = query_params(reader, version)?;
    Ok(Statement::Query { text, params })
}

fn prepare(reader: &mut BodyReader, version: Version) -> Result<Statement> {
    const KEYSPACE: u32 = 0x01;
    let text = reader.long_string("the query")?;
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

fn execute(reader: &mut BodyReader, version: Version) -> Result<Statement> {
    let id = reader.short_bytes("the statement's id")?;
    let result_id = match version {
        Version::V4 => None,
        Version::V5 => Some(reader.short_bytes("the result's id")?),
    };
    let params = query_params(reader, version)?;
    Ok(Statement::Execute { id, result_id, params })
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

fn query_params(reader: &mut BodyReader, version: Version) -> Result<QueryParams> {
    let consistency = Consistency::read(reader)?;
    let flags = param_flags(reader, version, "a statement")?;
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

fn batch(reader: &mut BodyReader, version: Version) -> Result<Statement> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, opcode: Opcode, body: &'static [u8]) -> Result<ProtocolRequest> {
        ProtocolRequest::read(&mut BodyReader::new(Bytes::from_static(body)), version, opcode)
    }

    fn statement(version: Version, opcode: Opcode, body: &'static [u8]) -> Statement {
        match read(version, opcode, body).unwrap() {
            ProtocolRequest::Statement(statement) => statement,
            other => panic!("not a statement: {other:?}"),
        }
    }

    #[test]
    fn v4_query_with_every_parameter_is_decoded() {
        let body = b"\0\0\0\x01q\0\x06\x3f\0\x02\0\0\0\x01v\xff\xff\xff\xff\0\0\0\x64\
            \0\0\0\x02ps\0\x08\0\0\0\0\0\0\0\x2a";
        let Statement::Query { text, params } = statement(Version::V4, Opcode::Query, body) else {
            panic!("a query");
        };
        assert_eq!(text, "q");
        let want = QueryParams {
            consistency: Consistency::LocalQuorum,
            values: Values::Positional(vec![Bound::Bytes(Bytes::from_static(b"v")), Bound::Null]),
            skip_metadata: true,
            page_size: Some(100),
            paging_state: Some(Bytes::from_static(b"ps")),
            serial_consistency: Some(Consistency::Serial),
            timestamp: Some(42),
            keyspace: None,
            now_in_seconds: None,
        };
        assert_eq!(params, want);
    }

    #[test]
    fn v5_execute_with_names_keyspace_and_now_is_decoded() {
        let body = b"\0\x02id\0\x02md\0\x01\0\0\x01\xc1\0\x01\0\x01n\xff\xff\xff\xfe\
            \0\x02ks\0\0\0\x07";
        let Statement::Execute { id, result_id, params } =
            statement(Version::V5, Opcode::Execute, body)
        else {
            panic!("an execute");
        };
        assert_eq!((id, result_id), (Bytes::from_static(b"id"), Some(Bytes::from_static(b"md"))));
        assert_eq!(params.values, Values::Named(vec![("n".into(), Bound::Unset)]));
        assert_eq!(params.keyspace.as_deref(), Some("ks"));
        assert_eq!(params.now_in_seconds, Some(7));
    }

    #[test]
    fn batch_of_text_and_prepared_is_decoded() {
        let body = b"\x01\0\x02\0\0\0\0\x01q\0\x01\0\0\0\x01v\x01\0\x02id\0\0\0\x01\x20\
            \0\0\0\0\0\0\0\x05";
        let Statement::Batch(batch) = statement(Version::V4, Opcode::Batch, body) else {
            panic!("a batch");
        };
        assert_eq!(batch.kind, BatchKind::Unlogged);
        assert_eq!(batch.items.len(), 2);
        assert_eq!(batch.items[0].statement, BatchStatement::Text("q".into()));
        assert_eq!(batch.items[0].values, [Bound::Bytes(Bytes::from_static(b"v"))]);
        assert_eq!(batch.items[1].statement, BatchStatement::Prepared(Bytes::from_static(b"id")));
        assert_eq!(batch.params.timestamp, Some(5));
    }

    #[test]
    fn prepare_has_flags_in_v5_only() {
        let want = |keyspace: Option<&str>| Statement::Prepare {
            text: "q".into(),
            keyspace: keyspace.map(Into::into),
        };
        let v4 = statement(Version::V4, Opcode::Prepare, b"\0\0\0\x01q");
        assert_eq!(v4, want(None));
        let v5 = statement(Version::V5, Opcode::Prepare, b"\0\0\0\x01q\0\0\0\x01\0\x02ks");
        assert_eq!(v5, want(Some("ks")));
    }

    #[test]
    fn malformed_requests_are_refused() {
        let refused = |version, opcode, body: &'static [u8]| {
            read(version, opcode, body).unwrap_err().to_string()
        };
        let query = |body| refused(Version::V4, Opcode::Query, body);
        assert!(query(b"\0\0\0\x01q\0\x0b\0").contains("0x000b is not a consistency"));
        assert!(query(b"\0\0\0\x01q\0\x01\x80").contains("flags 0x80"));
        assert!(query(b"\0\0\0\x01\xff\0\x01\0").contains("UTF-8"));
        assert!(query(b"\xff\xff\xff\xff").contains("-1 bytes"));
        assert!(query(b"\0\0\0\x01q\0\x01\x01\xff\xff").contains("65535 items"));
        let batch = |body| refused(Version::V4, Opcode::Batch, body);
        assert!(batch(b"\x03").contains("kind 3"));
        assert!(batch(b"\0\0\x01\x02\0\0\0\0").contains("not 2"));
        assert!(batch(b"\0\0\0\0\x01\x40").contains("flags 0x40"));
        let other = refused(Version::V4, Opcode::Register, b"\0\x01\0\x01X");
        assert!(other.contains("no events named"));
        let long =
            refused(Version::V4, Opcode::AuthResponse, [[0, 0, 0x10, 1]; 2000].as_flattened());
        assert!(long.contains("4097"), "{long}");
    }

    #[test]
    fn startup_takes_any_options() {
        let body = b"\0\x02\0\x0bCQL_VERSION\0\x053.0.0\0\x01X\0\x01y";
        let ProtocolRequest::Startup(options) = read(Version::V5, Opcode::Startup, body).unwrap()
        else {
            panic!("a startup");
        };
        assert_eq!(options[0], ("CQL_VERSION".into(), "3.0.0".into()));
        assert_eq!(options[1], ("X".into(), "y".into()));
    }
}
