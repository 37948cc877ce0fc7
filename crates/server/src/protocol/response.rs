//! Encoding of responses' bodies.

use bytes::Bytes;
use carnet_base::Uuid;
use carnet_cql::result::{Columns, Rows, SchemaChange};

use super::error::ErrorResponse;
use super::event::Event;
use super::types::{encoded, put_change};
use super::writer::{Oversize, Writer};
use super::{Opcode, Version};

/// Answer to a request, or an event.
#[derive(Clone, Debug)]
pub enum Response {
    /// The request failed.
    Error(ErrorResponse),
    /// The connection is ready.
    Ready,
    /// The client must log in, with the authenticator of this class.
    Authenticate(&'static str),
    /// Supported STARTUP options, each with its values.
    Supported(Vec<(&'static str, Vec<&'static str>)>),
    /// The log-in succeeded. The token is null.
    AuthSuccess,
    /// The statement has no result.
    Void,
    /// A page of rows, with the form of its metadata.
    Rows(Rows, MetadataForm),
    /// The session's keyspace was changed to this one.
    SetKeyspace(String),
    /// The statement is prepared.
    Prepared(Prepared),
    /// The statement changed the schema.
    SchemaChange(SchemaChange),
    /// An event outside of the connection.
    Event(Event),
}

/// What stands before the body of a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// Id of the session of the statement's trace.
    pub trace: Option<Uuid>,
    /// Warnings for people; drivers log them.
    pub warnings: &'a [String],
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Id, which is the same for the same text and keyspace on every server.
    pub id: Bytes,
    /// Bind markers, in order.
    pub markers: Columns,
    /// Index of each partition key column's marker, so that drivers can compute the token; empty if
    /// a column has none.
    pub partition_key: Vec<u16>,
    /// Columns of its rows; none for a statement without rows.
    pub result: Columns,
}

/// Form of a page's column descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataForm {
    /// All descriptions of the columns.
    Full,
    /// Only the number of columns: the client knows them.
    Skipped,
    /// All descriptions, marked as different from the ones known to the client (v5).
    Changed,
}

impl MetadataForm {
    /// Returns the form for a page.
    ///
    /// `known` is the id of the columns that the client knows, which v5 sends with EXECUTE. v4 has
    /// no such id: the columns may have changed since this client prepared the statement, and
    /// another client may have prepared it again. So a client of v4 always gets the descriptions,
    /// by which drivers decode where a response has them.
    #[must_use]
    pub fn choose(skip: bool, known: Option<&[u8]>, columns: &Columns) -> Self {
        match (known, encoded(columns)) {
            (Some(known), Ok(encoded)) if known != encoded.id() => Self::Changed,
            (Some(_), Ok(_)) if skip => Self::Skipped,
            _ => Self::Full,
        }
    }
}

/// Bits of a result's metadata flags.
mod metadata {
    pub(super) const ONE_TABLE: i32 = 0x01;
    pub(super) const MORE_PAGES: i32 = 0x02;
    pub(super) const NONE: i32 = 0x04;
    pub(super) const CHANGED: i32 = 0x08;
}

/// Kinds of RESULT responses.
mod kind {
    pub(super) const VOID: i32 = 1;
    pub(super) const ROWS: i32 = 2;
    pub(super) const SET_KEYSPACE: i32 = 3;
    pub(super) const PREPARED: i32 = 4;
    pub(super) const SCHEMA_CHANGE: i32 = 5;
}

impl Response {
    /// Returns the opcode of the response.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Supported(_) => Opcode::Supported,
            Self::AuthSuccess => Opcode::AuthSuccess,
            Self::Event(_) => Opcode::Event,
            Self::Void
            | Self::Rows(..)
            | Self::SetKeyspace(_)
            | Self::Prepared(_)
            | Self::SchemaChange(_) => Opcode::Result,
        }
    }

    /// Returns `true` for a response whose body has a custom payload.
    #[must_use]
    pub const fn has_payload(&self) -> bool {
        matches!(self, Self::Error(error) if !error.payload.is_empty())
    }

    /// Writes the body, after the id of a trace, the warnings and the custom payload if there are any.
    ///
    /// # Errors
    ///
    /// [`Oversize`] if the response exceeds the protocol's limits.
    pub fn encode(self, version: Version, notes: Notes<'_>) -> Result<Bytes, Oversize> {
        let mut out = Writer::new();
        self.write(&mut out, version, notes)?;
        out.finish()
    }

    /// Writes the body into a writer.
    pub(super) fn write(
        self,
        out: &mut Writer,
        version: Version,
        Notes { trace, warnings }: Notes<'_>,
    ) -> Result<(), Oversize> {
        if let Some(trace) = trace {
            out.raw(trace.as_bytes());
        }
        if !warnings.is_empty() {
            out.short_len(warnings.len(), "the warnings");
            for warning in warnings {
                out.message(warning);
            }
        }
        if let Self::Error(error) = &self {
            error.put_payload(out);
        }
        self.put(out, version)
    }

    fn put(self, out: &mut Writer, version: Version) -> Result<(), Oversize> {
        match self {
            Self::Error(error) => error.put(out, version),
            Self::Ready => {}
            Self::Authenticate(class) => out.string(class),
            Self::Supported(options) => {
                out.short_len(options.len(), "the options");
                for (name, values) in &options {
                    out.string(name);
                    out.string_list(values);
                }
            }
            Self::AuthSuccess => out.bytes(None),
            Self::Void => out.int(kind::VOID),
            Self::Rows(rows, form) => {
                out.int(kind::ROWS);
                put_rows(out, &rows, form)?;
            }
            Self::SetKeyspace(keyspace) => {
                out.int(kind::SET_KEYSPACE);
                out.string(&keyspace);
            }
            Self::Prepared(prepared) => {
                out.int(kind::PREPARED);
                put_prepared(out, version, &prepared)?;
            }
            Self::SchemaChange(change) => {
                out.int(kind::SCHEMA_CHANGE);
                put_change(&change, out);
            }
            Self::Event(event) => event.put(out),
        }
        Ok(())
    }
}

fn put_rows(out: &mut Writer, rows: &Rows, form: MetadataForm) -> Result<(), Oversize> {
    put_result_metadata(out, &rows.columns, rows.paging_state.as_ref(), form)?;
    out.int_len(rows.rows.len(), "the rows");
    out.reserve(rows.rows.encoded().len());
    out.raw(rows.rows.encoded());
    Ok(())
}

fn put_result_metadata(
    out: &mut Writer,
    columns: &Columns,
    paging_state: Option<&Bytes>,
    form: MetadataForm,
) -> Result<(), Oversize> {
    let encoded = encoded(columns)?;
    let mut flags = match form {
        MetadataForm::Skipped => metadata::NONE,
        MetadataForm::Changed => metadata::CHANGED,
        MetadataForm::Full => 0,
    };
    if form != MetadataForm::Skipped && encoded.one_table {
        flags |= metadata::ONE_TABLE;
    }
    if paging_state.is_some() {
        flags |= metadata::MORE_PAGES;
    }
    out.int(flags);
    out.int_len(columns.len(), "the columns");
    if let Some(state) = paging_state {
        out.bytes(Some(state));
    }
    if form == MetadataForm::Changed {
        out.short_bytes(encoded.id());
    }
    if form != MetadataForm::Skipped {
        out.raw(&encoded.bytes);
    }
    Ok(())
}

fn put_prepared(out: &mut Writer, version: Version, prepared: &Prepared) -> Result<(), Oversize> {
    let markers = encoded(&prepared.markers)?;
    out.short_bytes(&prepared.id);
    if version >= Version::V5 {
        out.short_bytes(encoded(&prepared.result)?.id());
    }
    out.int(if markers.one_table { metadata::ONE_TABLE } else { 0 });
    out.int_len(prepared.markers.len(), "the markers");
    out.int_len(prepared.partition_key.len(), "the partition key");
    for index in &prepared.partition_key {
        out.short(*index);
    }
    out.raw(&markers.bytes);
    // A statement without rows has no columns to describe, which differs from hiding them.
    let form = if prepared.result.is_empty() { MetadataForm::Skipped } else { MetadataForm::Full };
    put_result_metadata(out, &prepared.result, None, form)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
