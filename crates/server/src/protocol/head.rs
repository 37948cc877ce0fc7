//! Head of a statement's request: its first part, which admission needs.
//!
//! Under overload most statements are refused, and a refusal must cost far less than the statement. So a
//! request is decoded in two steps, the second of which goes on where the first ended:
//!
//! ```text
//!   EXECUTE   id │ result id (v5) │ consistency │ flags ┃ values │ page size │ …
//!   QUERY     text (not yet checked)                    ┃ consistency │ flags │ values │ …
//!   PREPARE   text (not yet checked)                    ┃ flags │ keyspace (v5)
//!   BATCH                                               ┃ statements │ consistency │ …
//!             ──────────── StatementHead ────────────▶     ── StatementHead::decode ──▶
//! ```

use bytes::Bytes;

use super::marker_values::MarkerValues;
use super::reader::{BodyReader, utf8};
use super::statement::{Statement, batch, param, param_flags, prepare, query_params};
use super::types::Consistency;
use super::{Opcode, ProtocolError, Version};

type Result<T> = std::result::Result<T, ProtocolError>;

/// Maximum bytes of a text that admission examines.
const TEXT_LEN_MAX: usize = 4 << 10;

/// Statement of which the head is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementHead {
    kind: Kind,
    version: Version,
    /// The rest of the body.
    rest: BodyReader,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Query(Bytes),
    Prepare(Bytes),
    Execute { id: Bytes, result_id: Option<Bytes>, consistency: Consistency, flags: u32 },
    Batch,
}

/// Parts of a statement that admission needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'f> {
    /// A statement's text, or its first 4 KiB.
    Query(&'f str),
    /// A prepared statement.
    Execute {
        /// Id of the statement.
        id: &'f [u8],
        /// Values of its markers.
        values: MarkerValues<'f>,
    },
    /// A text to prepare.
    Prepare,
    /// A batch of statements.
    Batch,
}

impl StatementHead {
    /// Decodes the head of a statement's body.
    ///
    /// # Errors
    ///
    /// Malformed, if the head violates a rule, or the opcode is not one of a statement.
    pub fn read(mut reader: BodyReader, version: Version, opcode: Opcode) -> Result<Self> {
        let kind = match opcode {
            Opcode::Query => Kind::Query(reader.long_bytes("the query")?),
            Opcode::Prepare => Kind::Prepare(reader.long_bytes("the query")?),
            Opcode::Execute => execute(&mut reader, version)?,
            Opcode::Batch => Kind::Batch,
            other => {
                return Err(ProtocolError::malformed(format!("{} is no request", other.name())));
            }
        };
        Ok(Self { kind, version, rest: reader })
    }

    /// Returns what admission needs.
    #[must_use]
    pub fn peek(&self) -> Peek<'_> {
        match &self.kind {
            Kind::Query(text) => Peek::of_text(text),
            Kind::Prepare(_) => Peek::Prepare,
            Kind::Execute { id, flags, .. } => {
                let in_order = flags & (param::VALUES | param::NAMES) == param::VALUES;
                let values = if in_order { self.rest.rest() } else { &[] };
                Peek::Execute { id, values: MarkerValues::new(values) }
            }
            Kind::Batch => Peek::Batch,
        }
    }

    /// Decodes the rest of the statement.
    ///
    /// # Errors
    ///
    /// Malformed, if the body violates a rule.
    pub fn decode(self) -> Result<Statement> {
        let Self { kind, version, rest: mut reader } = self;
        match kind {
            Kind::Query(text) => {
                let text = utf8(&text, "the query")?;
                let consistency = Consistency::read(&mut reader)?;
                let flags = param_flags(&mut reader, version, "a statement")?;
                let params = query_params(&mut reader, consistency, flags)?;
                Ok(Statement::Query { text, params })
            }
            Kind::Prepare(text) => prepare(reader, version, utf8(&text, "the query")?),
            Kind::Execute { id, result_id, consistency, flags } => {
                let params = query_params(&mut reader, consistency, flags)?;
                Ok(Statement::Execute { id, result_id, params })
            }
            Kind::Batch => batch(reader, version),
        }
    }
}

fn execute(reader: &mut BodyReader, version: Version) -> Result<Kind> {
    let id = reader.short_bytes("the statement's id")?;
    let result_id = match version {
        Version::V4 => None,
        Version::V5 => Some(reader.short_bytes("the result's id")?),
    };
    let consistency = Consistency::read(reader)?;
    let flags = param_flags(reader, version, "a statement")?;
    Ok(Kind::Execute { id, result_id, consistency, flags })
}

impl<'f> Peek<'f> {
    /// Returns what admission needs of a text: its beginning, up to the first invalid UTF-8 byte.
    #[must_use]
    pub fn of_text(text: &'f [u8]) -> Self {
        let first = &text[..text.len().min(TEXT_LEN_MAX)];
        Self::Query(first.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
