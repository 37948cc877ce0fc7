//! A database within this process.

use std::path::Path;

use anyhow::Result;
use carnet::{Db, ErrorKind, RawTable, SyncTx};
use carnet_checker::{Key, Op};

use super::Workload;
use super::client::{Answer, Target};

pub(super) struct Embedded {
    db: Db,
    table: RawTable,
}

impl Embedded {
    pub(super) fn open(directory: &Path, workload: Workload) -> Result<Self> {
        let db = Db::open(directory)?;
        let table = db.raw(match workload {
            Workload::ListAppend => "stress.raw_lists",
            Workload::Register => "stress.raw_registers",
        })?;
        // What an earlier run left is no part of this one's history.
        db.transact(|tx| {
            for entry in table.range::<_, &[u8]>(tx, ..) {
                table.delete(tx, entry?.0)?;
            }
            Ok(())
        })?;
        Ok(Self { db, table })
    }

    fn carry_out(&self, tx: &SyncTx, op: &Op) -> carnet::Result<Op> {
        let name = |key: &Key| key.to_string();
        Ok(match op {
            Op::Append { key, element } => {
                let list = self.table.get(tx, name(key))?.unwrap_or_default();
                self.table.put(tx, name(key), [&list[..], &element.to_be_bytes()].concat())?;
                op.clone()
            }
            Op::ReadList { key, .. } => {
                let list = self.table.get(tx, name(key))?.unwrap_or_default();
                Op::ReadList { key: key.clone(), list: numbers(&list)? }
            }
            Op::Write { key, value } => {
                self.table.put(tx, name(key), value.to_be_bytes())?;
                op.clone()
            }
            Op::ReadRegister { key, .. } => {
                let value = self.table.get(tx, name(key))?.unwrap_or_default();
                Op::ReadRegister { key: key.clone(), value: numbers(&value)?.pop() }
            }
        })
    }
}

fn numbers(bytes: &[u8]) -> carnet::Result<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(carnet::Error::corrupted("a value of this program's is cut off"));
    }
    Ok(numbers.iter().map(|number| i64::from_be_bytes(*number)).collect())
}

impl Target for Embedded {
    fn run(&self, ops: &[Op]) -> Result<Answer> {
        let body = |tx: &SyncTx| ops.iter().map(|op| self.carry_out(tx, op)).collect();
        match self.db.transact(body) {
            Ok(read) => Ok(Answer::Committed(read)),
            Err(error) => match error.kind() {
                kind if kind.is_retryable() => Ok(Answer::Aborted),
                ErrorKind::Unknown { .. } => Ok(Answer::Unknown),
                _ => Err(error.into()),
            },
        }
    }
}
