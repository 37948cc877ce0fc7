//! Writes the bodies of responses.

use bytes::Bytes;

use super::error::ErrorResponse;
use super::types::{Columns, SchemaChange};
use super::writer::{Oversize, Writer};
use super::{Opcode, Version};
use crate::events::Event;

/// An answer to a request, or an event.
#[derive(Clone, Debug)]
pub enum Response {
    /// The request failed.
    Error(ErrorResponse),
    /// The connection may be used.
    Ready,
    /// Say who you are, to the authenticator of that class name.
    Authenticate(&'static str),
    /// The STARTUP options that are understood, each with its values.
    Supported(Vec<(&'static str, Vec<&'static str>)>),
    /// You are who you say. The token is null.
    AuthSuccess,
    /// The statement has nothing to return.
    Void,
    /// Rows.
    Rows(Rows, MetadataForm),
    /// The session's keyspace is this now.
    SetKeyspace(String),
    /// The statement is kept.
    Prepared(Prepared),
    /// The statement changed the schema.
    SchemaChange(SchemaChange),
    /// Something happened beside the connection.
    Event(Event),
}

/// A page of rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// What the columns are.
    pub columns: Columns,
    /// The rows, each with a value or null for every column.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Where the next page begins; `None` after the last one.
    pub paging_state: Option<Bytes>,
}

/// A statement that is kept under an id.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The id: the same for the same text and keyspace, on every server.
    pub id: Bytes,
    /// The bind markers, in order.
    pub markers: Columns,
    /// For each column of the partition key the marker that holds it, so that drivers can compute
    /// the token; empty where one has none.
    pub partition_key: Vec<u16>,
    /// The columns of the rows that it returns, none where it returns none.
    pub result: Columns,
}

/// How much a page says about its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataForm {
    /// Everything.
    Full,
    /// Their number: the client knows them.
    Skipped,
    /// Everything, and that it differs from what the client knows (v5).
    Changed,
}

impl MetadataForm {
    /// Chooses the form for a page.
    ///
    /// `known` is the id of the columns that the client knows, which v5 sends with EXECUTE. v4 has
    /// no such id: a client that skips trusts the server to forget a statement whose columns change.
    #[must_use]
    pub fn choose(skip: bool, known: Option<&[u8]>, columns: &Columns) -> Self {
        match (known, columns.encoded()) {
            (Some(known), Ok(encoded)) if known != encoded.id => Self::Changed,
            _ if skip => Self::Skipped,
            _ => Self::Full,
        }
    }
}

/// The bits of a result's metadata.
mod metadata {
    pub(super) const ONE_TABLE: i32 = 0x01;
    pub(super) const MORE_PAGES: i32 = 0x02;
    pub(super) const NONE: i32 = 0x04;
    pub(super) const CHANGED: i32 = 0x08;
}

/// The kinds of RESULT.
mod kind {
    pub(super) const VOID: i32 = 1;
    pub(super) const ROWS: i32 = 2;
    pub(super) const SET_KEYSPACE: i32 = 3;
    pub(super) const PREPARED: i32 = 4;
    pub(super) const SCHEMA_CHANGE: i32 = 5;
}

impl Response {
    /// Returns the opcode that the response goes under.
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
        matches!(self, Self::Error(ErrorResponse { retry_after: Some(_), .. }))
    }

    /// Writes the body, after the warnings and the custom payload where there are any.
    ///
    /// # Errors
    ///
    /// [`Oversize`] where the protocol has no room for it.
    pub fn encode(self, version: Version, warnings: &[String]) -> Result<Bytes, Oversize> {
        let mut out = Writer::new();
        self.write(&mut out, version, warnings)?;
        out.finish()
    }

    /// Writes the body into a writer.
    pub(super) fn write(
        self,
        out: &mut Writer,
        version: Version,
        warnings: &[String],
    ) -> Result<(), Oversize> {
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
                put_rows(out, rows, form)?;
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
                change.put(out);
            }
            Self::Event(event) => event.put(out),
        }
        Ok(())
    }
}

fn put_rows(out: &mut Writer, rows: Rows, form: MetadataForm) -> Result<(), Oversize> {
    put_result_metadata(out, &rows.columns, rows.paging_state.as_ref(), form)?;
    out.int_len(rows.rows.len(), "the rows");
    let values = rows.rows.iter().flatten();
    out.reserve(values.map(|value| size_of::<i32>() + value.as_ref().map_or(0, Bytes::len)).sum());
    for row in rows.rows {
        debug_assert_eq!(row.len(), rows.columns.specs().len(), "a value for every column");
        for value in row {
            out.bytes(value.as_deref());
        }
    }
    Ok(())
}

fn put_result_metadata(
    out: &mut Writer,
    columns: &Columns,
    paging_state: Option<&Bytes>,
    form: MetadataForm,
) -> Result<(), Oversize> {
    let encoded = columns.encoded().map_err(Clone::clone)?;
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
    out.int_len(columns.specs().len(), "the columns");
    if let Some(state) = paging_state {
        out.bytes(Some(state));
    }
    if form == MetadataForm::Changed {
        out.short_bytes(&encoded.id);
    }
    if form != MetadataForm::Skipped {
        out.raw(&encoded.bytes);
    }
    Ok(())
}

fn put_prepared(out: &mut Writer, version: Version, prepared: &Prepared) -> Result<(), Oversize> {
    let markers = prepared.markers.encoded().map_err(Clone::clone)?;
    out.short_bytes(&prepared.id);
    if version >= Version::V5 {
        out.short_bytes(&prepared.result.encoded().map_err(Clone::clone)?.id);
    }
    out.int(if markers.one_table { metadata::ONE_TABLE } else { 0 });
    out.int_len(prepared.markers.specs().len(), "the markers");
    out.int_len(prepared.partition_key.len(), "the partition key");
    for index in &prepared.partition_key {
        out.short(*index);
    }
    out.raw(&markers.bytes);
    // A statement without rows has no columns to describe, which is not the same as hiding them.
    let form =
        if prepared.result.specs().is_empty() { MetadataForm::Skipped } else { MetadataForm::Full };
    put_result_metadata(out, &prepared.result, None, form)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
