//! Target within this process: a directory, or a database on a cluster.

use std::sync::Arc;

use anyhow::{Context, Result};
use carnet::{Db, Value, block_on};
use carnet_base::Bytes;
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Values};

use super::super::statement::SCHEMA;
use super::load_target::{Done, LoadTarget};
use super::operation::{MULTI_GET, Operation, READ, SCAN, TABLES, WRITE, WRITE_ROW};
use crate::place::Place;

/// A database within this process, driven by CQL without a server.
pub(in crate::commands::stress) struct InProcess {
    executor: Executor,
    session: Session,
    read: Arc<Prepared>,
    write: Arc<Prepared>,
    write_row: Arc<Prepared>,
    scan: Arc<Prepared>,
    multi_get: Arc<Prepared>,
}

impl InProcess {
    /// Opens a database, and creates the tables anew.
    pub(in crate::commands::stress) fn open(place: &Place) -> Result<Self> {
        let db = place.open(Db::builder().control(true))?;
        let executor = Executor::new(db, NodeInfo::local(place.host_id("")));
        let session = Session::new();
        for text in SCHEMA.iter().chain(&TABLES) {
            block_on(executor.query(&session, text, &Parameters::default())).context(*text)?;
        }
        let prepare = |text: &str| {
            block_on(executor.prepare(&session, text, None)).with_context(|| text.to_owned())
        };
        let (read, write, scan) = (prepare(READ)?, prepare(WRITE)?, prepare(SCAN)?);
        let (write_row, multi_get) = (prepare(WRITE_ROW)?, prepare(MULTI_GET)?);
        Ok(Self { executor, session, read, write, write_row, scan, multi_get })
    }
}

fn bigint(number: i64) -> Bound {
    Bound::Bytes(Value::Bigint(number).serialize())
}

/// Serializes a `list<bigint>`: the number of elements, and each with its length.
fn list(numbers: &[i64]) -> Bound {
    let mut bytes = u32::try_from(numbers.len()).unwrap_or_default().to_be_bytes().to_vec();
    for number in numbers {
        bytes.extend_from_slice(&8_u32.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    Bound::Bytes(bytes.into())
}

fn blob(bytes: &[u8]) -> Bound {
    Bound::Bytes(Bytes::copy_from_slice(bytes))
}

impl LoadTarget for InProcess {
    fn run(&self, operation: &Operation) -> Result<Done> {
        let (prepared, values) = match operation {
            Operation::Read(key) => (&self.read, vec![bigint(*key)]),
            Operation::Write(key, value) => (&self.write, vec![bigint(*key), blob(value)]),
            Operation::WriteRow(partition, key, value) => {
                (&self.write_row, vec![bigint(*partition), bigint(*key), blob(value)])
            }
            Operation::MultiGet(keys) => (&self.multi_get, vec![list(keys)]),
            Operation::Scan(partition, first, rows) => {
                let limit = Bound::Bytes(Value::Int(*rows).serialize());
                (&self.scan, vec![bigint(*partition), bigint(*first), limit])
            }
        };
        let parameters = Parameters { values: Values::Positional(values), ..Parameters::default() };
        match block_on(self.executor.execute(&self.session, prepared, &parameters)) {
            Ok(Response::Rows(rows)) => Ok(Done::Rows(rows.rows.to_vec().len() as u64)),
            Ok(_) => Ok(Done::Rows(1)),
            Err(error) => meaning(error),
        }
    }
}

fn meaning(error: CqlError) -> Result<Done> {
    match error.kind() {
        CqlErrorKind::Overloaded { .. } | CqlErrorKind::Conflict | CqlErrorKind::Aborted => {
            Ok(Done::Refused)
        }
        CqlErrorKind::Unknown { .. } | CqlErrorKind::Timeout | CqlErrorKind::Unavailable => {
            Ok(Done::Failed)
        }
        _ => Err(error.into()),
    }
}
