//! A client: it runs transactions and writes down what it saw.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use carnet_base::{Bytes, CellKey, Error, ErrorKind, KeyRange, Result, Timestamp};
use carnet_checker::Op;
use carnet_store::{BeginKind, PageLimit};
use carnet_txn::{Entry, Isolation};

use crate::database::{Database, Transact};
use crate::dice::Dice;
use crate::executor::Executor;
use crate::ledger::{Ledger, Look, Page, Part, Told};

/// A client of a database: one transaction at a time.
pub(crate) struct Client<D> {
    pub(crate) executor: Executor,
    pub(crate) db: D,
    pub(crate) ledger: Ledger,
    pub(crate) isolation: Isolation,
    /// Whether its transactions end when it does not call them.
    pub(crate) may_expire: bool,
    pub(crate) dice: Dice,
    pub(crate) process: i64,
}

/// A transaction that is written down.
///
/// Dropped before its commit was asked for, it was given up; dropped later, nobody knows.
pub(crate) struct Observed<T: Transact> {
    tx: T,
    executor: Executor,
    ledger: Ledger,
    page: Page,
    own: BTreeSet<CellKey>,
    is_ended: Cell<bool>,
}

impl<D: Database> Client<D> {
    /// Begins a transaction.
    pub(crate) async fn begin(&mut self, part: Part, kind: BeginKind) -> Result<Observed<D::Tx>> {
        let page = self.ledger.invoke(part, self.process);
        self.begin_on(page, kind).await
    }

    /// Begins a transaction that reads what was: of a snapshot that could have been handed out to
    /// one which was invoked at a moment.
    pub(crate) async fn begin_as_of(
        &mut self,
        read: Timestamp,
        invoked: u64,
    ) -> Result<Observed<D::Tx>> {
        let page = self.ledger.invoke_as_of(Part::Other, self.process, invoked);
        self.begin_on(page, BeginKind::ReadOnlyAt(read)).await
    }

    /// Takes a snapshot up again: it is the same transaction still.
    pub(crate) async fn resume(&mut self, page: Page, read: Timestamp) -> Result<Observed<D::Tx>> {
        self.begin_on(page, BeginKind::ReadOnlyAt(read)).await
    }

    async fn begin_on(&mut self, page: Page, kind: BeginKind) -> Result<Observed<D::Tx>> {
        self.executor.breathe().await;
        let tx = match self.db.begin(kind, self.isolation).await {
            Ok(tx) => tx,
            Err(error) => {
                self.ledger.end(page, Told::Aborted);
                return Err(error);
            }
        };
        let (read, start) = (tx.read_timestamp(), tx.start_timestamp());
        self.executor.note(read.get());
        self.ledger.edit(page, |record| {
            record.read = Some(read);
            record.start = start;
        });
        Ok(Observed {
            tx,
            executor: self.executor.clone(),
            ledger: self.ledger.clone(),
            page,
            own: BTreeSet::new(),
            is_ended: Cell::new(false),
        })
    }

    /// Says what is wrong with an error, if it should never have been seen.
    pub(crate) fn judge(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Conflict
            | ErrorKind::TooOld
            | ErrorKind::Overloaded { .. }
            | ErrorKind::Unknown { .. }
            | ErrorKind::Unavailable => {}
            ErrorKind::Timeout if self.may_expire => self.ledger.expire(),
            kind => self.ledger.wrong(format!("a client was told {kind:?}: {error}")),
        }
    }
}

impl<T: Transact> Observed<T> {
    pub(crate) fn read_timestamp(&self) -> Timestamp {
        self.tx.read_timestamp()
    }

    /// Reads a cell.
    pub(crate) async fn get(&self, key: &CellKey) -> Result<Option<Bytes>> {
        self.executor.breathe().await;
        let entry = self.tx.get(key).await?;
        self.saw(key, entry.as_ref());
        Ok(entry.map(|entry| entry.payload))
    }

    /// Reads cells: all at once, or one after the other.
    pub(crate) async fn get_all(&self, keys: &[CellKey]) -> Result<Vec<Option<Bytes>>> {
        if self.executor.below(2) == 0 {
            let mut payloads = Vec::with_capacity(keys.len());
            for key in keys {
                payloads.push(self.get(key).await?);
            }
            return Ok(payloads);
        }
        self.executor.breathe().await;
        let entries = self.tx.get_many(keys).await?;
        keys.iter().zip(&entries).for_each(|(key, entry)| self.saw(key, entry.as_ref()));
        Ok(entries.into_iter().map(|entry| entry.map(|entry| entry.payload)).collect())
    }

    /// Writes down what it saw of a cell, unless that was its own.
    fn saw(&self, key: &CellKey, entry: Option<&Entry>) {
        if self.own.contains(key) {
            return;
        }
        let (key, found) = (key.as_bytes().to_vec(), entry.map(|entry| entry.start));
        self.ledger.edit(self.page, |record| record.looks.push(Look::Point { key, found }));
    }

    /// Reads a page of a range; returns its cells and what is left of it.
    pub(crate) async fn page_of(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells: usize,
    ) -> Result<(Vec<(CellKey, Bytes)>, Option<KeyRange>)> {
        self.executor.breathe().await;
        let page = self.tx.range(range, reverse, PageLimit::cells(cells)).await?;
        self.write_down(range, reverse, page.resume.as_ref(), &page.cells);
        let in_order = page.cells.windows(2).all(|two| (two[0].0 < two[1].0) != reverse);
        if !in_order {
            self.ledger.wrong("a page's cells are not in order");
        }
        let cells = page.cells.into_iter().map(|(key, entry)| (key, entry.payload)).collect();
        Ok((cells, page.resume))
    }

    /// Reads a range to its end, a page at a time.
    pub(crate) async fn scan(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells: usize,
    ) -> Result<Vec<(CellKey, Bytes)>> {
        let (mut found, mut rest) = (Vec::new(), Some(range.clone()));
        while let Some(range) = rest {
            let (page, left) = self.page_of(&range, reverse, cells).await?;
            found.extend(page);
            rest = left;
        }
        Ok(found)
    }

    /// Writes down what a page covered, in pieces between the cells that are the transaction's
    /// own: what others left in those it did not see.
    fn write_down(
        &self,
        range: &KeyRange,
        reverse: bool,
        rest: Option<&KeyRange>,
        cells: &[(CellKey, Entry)],
    ) {
        let Some((mut lower, mut upper)) = range.byte_bounds() else { return };
        if let Some((rest_lower, rest_upper)) = rest.and_then(KeyRange::byte_bounds) {
            if reverse {
                lower = rest_upper;
            } else {
                upper = rest_lower;
            }
        }
        let mut found: Vec<(Vec<u8>, Timestamp)> = cells
            .iter()
            .filter(|(key, _)| !self.own.contains(key))
            .map(|(key, entry)| (key.as_bytes().to_vec(), entry.start))
            .collect();
        if reverse {
            found.reverse();
        }
        let mut from = lower.to_vec();
        let mut looks = Vec::new();
        let mut cut = |from: Vec<u8>, to: Vec<u8>, found: &mut Vec<(Vec<u8>, Timestamp)>| {
            let behind = found.partition_point(|(key, _)| *key < to);
            let rest = found.split_off(behind);
            let found = std::mem::replace(found, rest);
            if from < to {
                looks.push(Look::Range { from, to, found });
            }
        };
        for own in self.own.iter().map(CellKey::as_bytes) {
            if **own >= *from && *own < upper {
                cut(from, own.to_vec(), &mut found);
                from = own.to_vec();
                from.push(0);
            }
        }
        cut(from, upper.to_vec(), &mut found);
        self.ledger.edit(self.page, |record| record.looks.extend(looks));
    }

    /// Writes a cell.
    pub(crate) fn put(&mut self, key: &CellKey, payload: impl Into<Bytes>) -> Result<()> {
        self.own.insert(key.clone());
        self.tx.put(key.clone(), payload.into())?;
        self.wrote(key, false);
        Ok(())
    }

    /// Deletes a cell.
    pub(crate) fn delete(&mut self, key: &CellKey) -> Result<()> {
        self.own.insert(key.clone());
        self.tx.delete(key.clone())?;
        self.wrote(key, true);
        Ok(())
    }

    fn wrote(&self, key: &CellKey, deletes: bool) {
        let key = key.as_bytes().to_vec();
        self.ledger.edit(self.page, |record| {
            record.writes.retain(|(other, _)| *other != key);
            record.writes.push((key, deletes));
        });
    }

    /// Writes down what the client did, for a history.
    pub(crate) fn did(&self, op: Op) {
        self.ledger.edit(self.page, |record| record.ops.push(op));
    }

    /// Commits.
    pub(crate) async fn commit(self) -> Result<Timestamp> {
        self.executor.breathe().await;
        // Some take their time: meanwhile leaders change, and others commit.
        if self.executor.below(100) < 3 {
            let micros = 1_000 + self.executor.below(40_000);
            self.executor.sleep(Duration::from_micros(micros)).await;
        }
        self.ledger.edit(self.page, |record| record.told = Told::Unknown);
        let result = self.tx.commit().await;
        let told = match &result {
            Ok(commit) => Told::Committed(*commit),
            Err(error) if matches!(error.kind(), ErrorKind::Unknown { .. }) => Told::Unknown,
            Err(_) => Told::Aborted,
        };
        self.executor.note(result.as_ref().map_or(0, |commit| commit.get()));
        self.end(told);
        result
    }

    /// Gives the transaction up.
    pub(crate) fn rollback(self) {
        self.tx.rollback();
        self.end(Told::Aborted);
    }

    /// Gives a snapshot back that will be taken up again.
    pub(crate) fn let_go(self) -> Page {
        self.is_ended.set(true);
        self.tx.rollback();
        self.page
    }

    fn end(&self, told: Told) {
        self.is_ended.set(true);
        self.ledger.end(self.page, told);
    }
}

impl<T: Transact> Drop for Observed<T> {
    fn drop(&mut self) {
        if !self.is_ended.get() {
            let told = self.ledger.edit(self.page, |record| record.told);
            let told = if told == Told::Unknown { told } else { Told::Aborted };
            self.ledger.end(self.page, told);
        }
    }
}
