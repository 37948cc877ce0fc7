//! A database within this process: embedded, or on a cluster.

use anyhow::Result;
use carnet::{Db, ErrorKind, RawTable, SyncTx};
use carnet_checker::{Key, Op};

use super::bank::{ACCOUNTS, BALANCE};
use super::target::{Target, TransactionOutcome};
use super::transaction::Transaction;
use super::workload::Workload;
use crate::place::Place;

pub(super) struct Embedded {
    db: Db,
    lists: RawTable,
    registers: RawTable,
    seats: RawTable,
    accounts: RawTable,
}

impl Embedded {
    pub(super) fn open(place: &Place) -> Result<Self> {
        let db = place.open(Db::builder().control(true))?;
        let lists = db.raw("carnet_stress_raw.lists")?;
        let registers = db.raw("carnet_stress_raw.registers")?;
        let seats = db.raw("carnet_stress_raw.seats")?;
        let accounts = db.raw("carnet_stress_raw.accounts")?;
        // Rows of an earlier run are not part of this one's history.
        for table in [&lists, &registers, &seats, &accounts] {
            db.transact(|tx| {
                for entry in table.range::<_, &[u8]>(tx, ..) {
                    table.delete(tx, entry?.0)?;
                }
                Ok(())
            })?;
        }
        db.transact(|tx| {
            for account in 0..ACCOUNTS {
                accounts.put(tx, account.to_be_bytes(), BALANCE.to_be_bytes())?;
            }
            Ok(())
        })?;
        Ok(Self { db, lists, registers, seats, accounts })
    }

    fn balance(&self, tx: &SyncTx, account: i64) -> carnet::Result<i64> {
        let bytes = self.accounts.get(tx, account.to_be_bytes())?.unwrap_or_default();
        Ok(numbers(&bytes)?.pop().unwrap_or_default())
    }

    fn carry_out(&self, tx: &SyncTx, workload: Workload, op: &Op) -> carnet::Result<Op> {
        let name = |key: &Key| key.to_string();
        Ok(match op {
            Op::Append { key, element } if workload == Workload::Phantom => {
                let before = self.passengers(tx, key)?.len() as u64;
                let seat = [&before.to_be_bytes()[..], &element.to_be_bytes()].concat();
                let key = [&seats_of(key)[..], &seat].concat();
                self.seats.put(tx, key, element.to_be_bytes())?;
                op.clone()
            }
            Op::ReadList { key, .. } if workload == Workload::Phantom => {
                Op::ReadList { key: key.clone(), list: self.passengers(tx, key)? }
            }
            Op::Append { key, element } => {
                let list = self.lists.get(tx, name(key))?.unwrap_or_default();
                self.lists.put(tx, name(key), [&list[..], &element.to_be_bytes()].concat())?;
                op.clone()
            }
            Op::ReadList { key, .. } => {
                let list = self.lists.get(tx, name(key))?.unwrap_or_default();
                Op::ReadList { key: key.clone(), list: numbers(&list)? }
            }
            Op::Write { key, value } => {
                self.registers.put(tx, name(key), value.to_be_bytes())?;
                op.clone()
            }
            Op::ReadRegister { key, .. } => {
                let value = self.registers.get(tx, name(key))?.unwrap_or_default();
                Op::ReadRegister { key: key.clone(), value: numbers(&value)?.pop() }
            }
        })
    }

    /// Reads a list with a row for each element, in insertion order.
    fn passengers(&self, tx: &SyncTx, flight: &Key) -> carnet::Result<Vec<i64>> {
        let rows = self.seats.prefix(tx, seats_of(flight)).map(|row| numbers(&row?.1));
        Ok(rows.collect::<carnet::Result<Vec<_>>>()?.concat())
    }
}

/// Returns the key prefix of a flight's rows.
fn seats_of(flight: &Key) -> Vec<u8> {
    format!("{flight}/").into_bytes()
}

fn numbers(bytes: &[u8]) -> carnet::Result<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(carnet::Error::corrupted("a value that carnet stress wrote is cut off"));
    }
    Ok(numbers.iter().map(|number| i64::from_be_bytes(*number)).collect())
}

impl Target for Embedded {
    fn run(&self, transaction: &Transaction) -> Result<TransactionOutcome<Vec<Op>>> {
        answer(self.db.transact(|tx| {
            let mut done = Vec::with_capacity(transaction.ops.len());
            for op in &transaction.ops {
                if op.is_read() || transaction.writes_after(&done) {
                    done.push(self.carry_out(tx, transaction.workload, op)?);
                }
            }
            Ok(done)
        }))
    }

    fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<TransactionOutcome<()>> {
        answer(self.db.transact(|tx| {
            let (payer, payee) = (self.balance(tx, from)?, self.balance(tx, to)?);
            if payer < amount {
                return Ok(());
            }
            self.accounts.put(tx, from.to_be_bytes(), (payer - amount).to_be_bytes())?;
            self.accounts.put(tx, to.to_be_bytes(), (payee + amount).to_be_bytes())
        }))
    }

    fn balances(&self) -> Result<TransactionOutcome<Vec<i64>>> {
        let snapshot = self.db.snapshot()?;
        let held = self.accounts.range::<_, &[u8]>(&snapshot, ..).map(|row| numbers(&row?.1));
        let held: carnet::Result<Vec<Vec<i64>>> = held.collect();
        answer(held.map(|held| held.concat()))
    }
}

fn answer<T>(result: carnet::Result<T>) -> Result<TransactionOutcome<T>> {
    match result {
        Ok(read) => Ok(TransactionOutcome::Committed(read)),
        Err(error) => match error.kind() {
            kind if kind.is_retryable() => Ok(TransactionOutcome::Aborted),
            ErrorKind::Unknown { .. } => Ok(TransactionOutcome::Unknown),
            _ => Err(error.into()),
        },
    }
}
