//! Decoding of messages.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carnet::{Bytes, DataType, Timestamp, Uuid, WallTime};
use carnet_data::{FieldKeys, TypeReference, UserType};

use super::fields::{Malformed, Reader};
use super::kinds::{
    BATCH, CANCEL, ERROR, NO_USER, NOT_HELD, REFUSED, ROLE, ROWS, STATEMENT, TRANSACTIONS, USER,
    VOID,
};
use super::message::{Answer, Caller, Preparation, Request, Statement, Task};
use crate::ast::BatchKind;
use crate::bound::Bound;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ColumnSpec, Response, Rows};

type Result<T> = std::result::Result<T, Malformed>;

/// Maximum number of types within each other. Types of results are less deep.
const TYPE_DEPTH_MAX: usize = 64;

// Types of parts have no public constants: these are the numbers of the native protocol.
const VECTOR: u16 = 0x00;
const LIST: u16 = 0x20;
const MAP: u16 = 0x21;
const SET: u16 = 0x22;
const UDT: u16 = 0x30;
const TUPLE: u16 = 0x31;

impl Request {
    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// If [`encode`](Self::encode) does not write these bytes.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let mut fields = Reader(bytes);
        fields.version()?;
        let call = fields.u64()?;
        let transaction = Uuid::from_bytes(fields.raw()?);
        let caller = take_caller(&mut fields)?;
        let left = fields.option(take_duration)?;
        let task = match fields.u8()? {
            STATEMENT => Task::Statement {
                statement: take_statement(&mut fields)?,
                page_rows: fields.option(Reader::u64)?,
                paging_state: fields.option(Reader::bytes)?,
                now: fields.option(take_time)?,
            },
            BATCH => Task::Batch {
                kind: take_batch_kind(&mut fields)?,
                statements: fields.list(10, take_statement)?,
                now: fields.option(take_time)?,
            },
            CANCEL => Task::Cancel,
            TRANSACTIONS => Task::Transactions,
            _ => return Err(Malformed::Bytes("the kind of the request is unknown")),
        };
        fields.end()?;
        Ok(Self { call, transaction, caller, left, task })
    }
}

fn take_time(fields: &mut Reader) -> Result<WallTime> {
    Ok(WallTime(fields.u64()?.cast_signed()))
}

fn take_duration(fields: &mut Reader) -> Result<Duration> {
    Ok(Duration::from_micros(fields.u64()?))
}

fn take_caller(fields: &mut Reader) -> Result<Caller> {
    let name = fields.text()?;
    let (user, is_role) = match fields.u8()? {
        NO_USER => (None, false),
        USER => (Some(fields.text()?), false),
        ROLE => (Some(fields.text()?), true),
        _ => return Err(Malformed::Bytes("the kind of a user is unknown")),
    };
    let address = match fields.u8()? {
        0 => None,
        4 => Some(IpAddr::from(fields.raw::<4>()?)),
        6 => Some(IpAddr::from(fields.raw::<16>()?)),
        _ => return Err(Malformed::Bytes("the kind of an address is unknown")),
    };
    Ok(Caller { name, user, is_role, address })
}

fn take_batch_kind(fields: &mut Reader) -> Result<BatchKind> {
    Ok(match fields.u8()? {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        _ => return Err(Malformed::Bytes("the kind of a batch is unknown")),
    })
}

fn take_statement(fields: &mut Reader) -> Result<Statement> {
    Ok(Statement {
        text: fields.text()?,
        keyspace: fields.option(Reader::text)?,
        values: fields.list(1, take_value)?,
        preparation: fields.option(take_preparation)?,
    })
}

fn take_value(fields: &mut Reader) -> Result<Bound> {
    Ok(match fields.u8()? {
        0 => Bound::Null,
        1 => Bound::Unset,
        2 => Bound::Bytes(fields.bytes()?),
        _ => return Err(Malformed::Bytes("the kind of a value is unknown")),
    })
}

fn take_preparation(fields: &mut Reader) -> Result<Preparation> {
    let id = fields.raw()?;
    let tables = fields.list(13, |fields| {
        let (keyspace, name) = (fields.option(Reader::text)?, fields.text()?);
        Ok((keyspace, name, fields.u32()?, fields.u32()?))
    })?;
    Ok(Preparation { id, tables })
}

impl Answer {
    /// Decodes an answer.
    ///
    /// # Errors
    ///
    /// If [`encode`](Self::encode) does not write these bytes.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let mut fields = Reader(bytes);
        fields.version()?;
        let result = match fields.u8()? {
            NOT_HELD => {
                fields.end()?;
                return Ok(Self::NotHeld);
            }
            REFUSED => {
                let why = fields.text()?;
                fields.end()?;
                return Ok(Self::Refused(why));
            }
            VOID => Ok(Response::Void),
            ROWS => Ok(Response::Rows(take_rows(&mut fields)?)),
            ERROR => Err(take_error(&mut fields)?),
            _ => return Err(Malformed::Bytes("the kind of the answer is unknown")),
        };
        let warnings = fields.list(4, Reader::text)?;
        fields.end()?;
        Ok(Self::Done { result, warnings })
    }
}

fn take_rows(fields: &mut Reader) -> Result<Rows> {
    let columns = fields.list(14, |fields| {
        Ok(ColumnSpec {
            keyspace: fields.text()?,
            table: fields.text()?,
            name: fields.text()?,
            data_type: take_type(fields, TYPE_DEPTH_MAX)?,
        })
    })?;
    // Rows without columns would take no bytes.
    let count = fields.count(columns.len().max(1))?;
    if columns.is_empty() && count > 0 {
        return Err(Malformed::Bytes("rows have no columns"));
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let cells = columns.iter().map(|_| fields.option(Reader::bytes));
        rows.push(cells.collect::<Result<Vec<_>>>()?);
    }
    Ok(Rows {
        columns: columns.into(),
        rows: rows.into(),
        paging_state: fields.option(Reader::bytes)?,
    })
}

fn take_type(fields: &mut Reader, depth: usize) -> Result<DataType> {
    let depth = depth.checked_sub(1).ok_or(Malformed::Bytes("a type is too deep"))?;
    Ok(match fields.u16()? {
        LIST => DataType::list(take_type(fields, depth)?),
        SET => DataType::set(take_type(fields, depth)?),
        MAP => {
            let key = take_type(fields, depth)?;
            DataType::map(key, take_type(fields, depth)?)
        }
        VECTOR => {
            let element = take_type(fields, depth)?;
            match fields.u16()? {
                0 => return Err(Malformed::Bytes("a vector has no elements")),
                dimensions => DataType::vector(element, dimensions),
            }
        }
        TUPLE => DataType::tuple(fields.list(2, |fields| take_type(fields, depth))?),
        UDT => {
            let (keyspace, name) = (fields.text()?, fields.text()?);
            let field = |fields: &mut Reader| Ok((fields.text()?, take_type(fields, depth)?));
            let fields = fields.list(6, field)?;
            DataType::Udt(Arc::new(UserType {
                keyspace,
                name,
                fields,
                reference: TypeReference::default(),
                keys: FieldKeys::Open,
            }))
        }
        scalar => DataType::from_id(scalar).ok_or(Malformed::Bytes("a type is unknown"))?,
    })
}

fn take_error(fields: &mut Reader) -> Result<CqlError> {
    let kind = take_kind(fields)?;
    Ok(CqlError::new(kind, fields.text()?))
}

fn take_kind(fields: &mut Reader) -> Result<CqlErrorKind> {
    let number = |fields: &mut Reader| {
        usize::try_from(fields.u64()?).map_err(|_| Malformed::Bytes("a number is too large"))
    };
    Ok(match fields.u8()? {
        0 => CqlErrorKind::Syntax { line: number(fields)?, column: number(fields)? },
        1 => CqlErrorKind::Invalid,
        2 => CqlErrorKind::Protocol,
        3 => CqlErrorKind::Unauthorized,
        4 => CqlErrorKind::Config,
        5 => CqlErrorKind::Unsupported,
        6 => CqlErrorKind::Unprepared { id: fields.raw()? },
        7 => CqlErrorKind::AlreadyExists {
            keyspace: fields.text()?,
            table: fields.option(Reader::text)?,
        },
        8 => CqlErrorKind::FunctionFailure {
            keyspace: fields.text()?,
            function: fields.text()?,
            argument_types: fields.list(4, Reader::text)?,
        },
        9 => CqlErrorKind::Conflict,
        10 => CqlErrorKind::Aborted,
        11 => CqlErrorKind::Raised,
        12 => CqlErrorKind::Overloaded { retry_after: take_duration(fields)? },
        13 => CqlErrorKind::Unknown {
            start: Timestamp::new(fields.u64()?)
                .ok_or(Malformed::Bytes("a timestamp has more than 63 bits"))?,
        },
        14 => CqlErrorKind::Timeout,
        15 => CqlErrorKind::Unavailable,
        16 => CqlErrorKind::Corrupted,
        17 => CqlErrorKind::Killed,
        _ => return Err(Malformed::Bytes("the kind of an error is unknown")),
    })
}
