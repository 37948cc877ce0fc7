//! Encoding of messages.

use std::net::IpAddr;
use std::time::Duration;

use carnet::{Bytes, DataType, WallTime};

use super::fields::Writer;
use super::kinds::{
    BATCH, CANCEL, ERROR, NO_USER, NOT_HELD, REFUSED, ROLE, ROWS, STATEMENT, TRANSACTIONS, USER,
    VERSION, VOID,
};
use super::message::{Answer, Caller, Preparation, Request, Statement, Task};
use crate::ast::BatchKind;
use crate::bound::Bound;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ColumnSpec, Response, Rows};

impl Request {
    /// Encodes the request.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::default();
        out.u8(VERSION);
        out.u64(self.call);
        out.raw(self.transaction.as_bytes());
        put_caller(&mut out, &self.caller);
        out.option(self.left, put_duration);
        match &self.task {
            Task::Statement { statement, page_rows, paging_state, now } => {
                out.u8(STATEMENT);
                put_statement(&mut out, statement);
                out.option(*page_rows, Writer::u64);
                out.option(paging_state.as_deref(), Writer::bytes);
                out.option(*now, put_time);
            }
            Task::Batch { kind, statements, now } => {
                out.u8(BATCH);
                out.u8(match kind {
                    BatchKind::Logged => 0,
                    BatchKind::Unlogged => 1,
                    BatchKind::Counter => 2,
                });
                out.list(statements, put_statement);
                out.option(*now, put_time);
            }
            Task::Cancel => out.u8(CANCEL),
            Task::Transactions => out.u8(TRANSACTIONS),
        }
        out.0.freeze()
    }
}

fn put_time(out: &mut Writer, time: WallTime) {
    out.u64(time.0.cast_unsigned());
}

fn put_duration(out: &mut Writer, duration: Duration) {
    out.u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
}

fn put_caller(out: &mut Writer, caller: &Caller) {
    out.text(&caller.name);
    match &caller.user {
        None => out.u8(NO_USER),
        Some(user) => {
            out.u8(if caller.is_role { ROLE } else { USER });
            out.text(user);
        }
    }
    match caller.address {
        None => out.u8(0),
        Some(IpAddr::V4(address)) => {
            out.u8(4);
            out.raw(&address.octets());
        }
        Some(IpAddr::V6(address)) => {
            out.u8(6);
            out.raw(&address.octets());
        }
    }
}

fn put_statement(out: &mut Writer, statement: &Statement) {
    out.text(&statement.text);
    out.option(statement.keyspace.as_deref(), Writer::text);
    out.list(&statement.values, |out, value| match value {
        Bound::Null => out.u8(0),
        Bound::Unset => out.u8(1),
        Bound::Bytes(bytes) => {
            out.u8(2);
            out.bytes(bytes);
        }
    });
    out.option(statement.preparation.as_ref(), |out, Preparation { id, tables }| {
        out.raw(id);
        out.list(tables, |out, (keyspace, name, id, version)| {
            out.option(keyspace.as_deref(), Writer::text);
            out.text(name);
            out.u32(*id);
            out.u32(*version);
        });
    });
}

impl Answer {
    /// Encodes the answer.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::default();
        out.u8(VERSION);
        match self {
            Self::NotHeld => out.u8(NOT_HELD),
            Self::Refused(why) => {
                out.u8(REFUSED);
                out.text(why);
            }
            Self::Done { result, warnings } => {
                match result {
                    Ok(Response::Rows(rows)) => {
                        out.u8(ROWS);
                        put_rows(&mut out, rows);
                    }
                    // Statements with other results are not forwarded.
                    Ok(_) => out.u8(VOID),
                    Err(error) => {
                        out.u8(ERROR);
                        put_error(&mut out, error);
                    }
                }
                out.list(warnings, |out, warning| out.text(warning));
            }
        }
        out.0.freeze()
    }
}

fn put_rows(out: &mut Writer, rows: &Rows) {
    let Rows { columns, rows, paging_state } = rows;
    out.list(columns, |out, column| {
        let ColumnSpec { keyspace, table, name, data_type } = column;
        out.text(keyspace);
        out.text(table);
        out.text(name);
        put_type(out, data_type);
    });
    out.list(&rows.iter().collect::<Vec<_>>(), |out, row| {
        for cell in row {
            out.option(*cell, Writer::bytes);
        }
    });
    out.option(paging_state.as_deref(), Writer::bytes);
}

fn put_type(out: &mut Writer, data_type: &DataType) {
    out.u16(data_type.id());
    match data_type {
        DataType::List(element) | DataType::Set(element) => put_type(out, element),
        DataType::Map(pair) => {
            put_type(out, &pair.0);
            put_type(out, &pair.1);
        }
        DataType::Vector(vector) => {
            put_type(out, &vector.0);
            out.u16(vector.1);
        }
        DataType::Tuple(fields) => out.list(fields, put_type),
        DataType::Udt(user_type) => {
            out.text(&user_type.keyspace);
            out.text(&user_type.name);
            out.list(&user_type.fields, |out, (name, data_type)| {
                out.text(name);
                put_type(out, data_type);
            });
        }
        _ => {}
    }
}

fn put_error(out: &mut Writer, error: &CqlError) {
    put_kind(out, error.kind());
    out.text(error.message());
}

fn put_kind(out: &mut Writer, kind: &CqlErrorKind) {
    match kind {
        CqlErrorKind::Syntax { line, column } => {
            out.u8(0);
            out.u64(*line as u64);
            out.u64(*column as u64);
        }
        CqlErrorKind::Invalid => out.u8(1),
        CqlErrorKind::Protocol => out.u8(2),
        CqlErrorKind::Unauthorized => out.u8(3),
        CqlErrorKind::Config => out.u8(4),
        CqlErrorKind::Unsupported => out.u8(5),
        CqlErrorKind::Unprepared { id } => {
            out.u8(6);
            out.raw(id);
        }
        CqlErrorKind::AlreadyExists { keyspace, table } => {
            out.u8(7);
            out.text(keyspace);
            out.option(table.as_deref(), Writer::text);
        }
        CqlErrorKind::FunctionFailure { keyspace, function, argument_types } => {
            out.u8(8);
            out.text(keyspace);
            out.text(function);
            out.list(argument_types, |out, name| out.text(name));
        }
        CqlErrorKind::Conflict => out.u8(9),
        CqlErrorKind::Aborted => out.u8(10),
        CqlErrorKind::Raised => out.u8(11),
        CqlErrorKind::Overloaded { retry_after } => {
            out.u8(12);
            put_duration(out, *retry_after);
        }
        CqlErrorKind::Unknown { start } => {
            out.u8(13);
            out.u64(start.get());
        }
        CqlErrorKind::Timeout => out.u8(14),
        CqlErrorKind::Unavailable => out.u8(15),
        CqlErrorKind::Corrupted => out.u8(16),
        CqlErrorKind::Killed => out.u8(17),
    }
}
