//! A client: runs transactions and records its observations.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use carnet_base::{Bytes, CellKey, Cells, Error, ErrorKind, KeyRange, Result, Timestamp};
use carnet_checker::Op;
use carnet_data::{RowDelta, RowImage};
use carnet_store::{BeginKind, PageLimit};
use carnet_txn::{Entry, Isolation};

use crate::database::{Database, Transact};
use crate::executor::Executor;
use crate::random::Random;
use crate::run_record::{Look, Part, RecordId, Reported, RunRecord};

/// A client of a database, with one transaction at a time.
pub(crate) struct Client<D> {
    pub(crate) executor: Executor,
    pub(crate) db: D,
    pub(crate) run_record: RunRecord,
    pub(crate) isolation: Isolation,
    /// Whether its transactions end when they are idle.
    pub(crate) may_expire: bool,
    pub(crate) random: Random,
    pub(crate) process: i64,
}

/// A recorded transaction.
///
/// If it is dropped before its commit is requested, it was given up; if later, its outcome is
/// unknown.
pub(crate) struct Observed<T: Transact> {
    tx: T,
    executor: Executor,
    run_record: RunRecord,
    page: RecordId,
    own: BTreeSet<CellKey>,
    is_ended: Cell<bool>,
}

impl<D: Database> Client<D> {
    /// Begins a transaction.
    pub(crate) async fn begin(&mut self, part: Part, kind: BeginKind) -> Result<Observed<D::Tx>> {
        let page = self.run_record.invoke(part, self.process);
        self.begin_on(page, kind).await
    }

    /// Begins a time-travel transaction. Its snapshot could have been handed out to a transaction
    /// that was invoked at `invoked`.
    pub(crate) async fn begin_as_of(
        &mut self,
        read: Timestamp,
        invoked: u64,
    ) -> Result<Observed<D::Tx>> {
        let page = self.run_record.invoke_as_of(Part::Other, self.process, invoked);
        self.begin_on(page, BeginKind::ReadOnlyAt(read)).await
    }

    /// Takes a snapshot up again, as the same transaction.
    pub(crate) async fn resume(
        &mut self,
        page: RecordId,
        read: Timestamp,
    ) -> Result<Observed<D::Tx>> {
        self.begin_on(page, BeginKind::ReadOnlyAt(read)).await
    }

    async fn begin_on(&mut self, page: RecordId, kind: BeginKind) -> Result<Observed<D::Tx>> {
        self.executor.pause_briefly().await;
        let tx = match self.db.begin(kind, self.isolation).await {
            Ok(tx) => tx,
            Err(error) => {
                self.run_record.end(page, Reported::Aborted);
                return Err(error);
            }
        };
        let (read, start) = (tx.read_timestamp(), tx.start_timestamp());
        self.executor.note(read.get());
        self.run_record.edit(page, |record| {
            record.read = Some(read);
            record.start = start;
        });
        Ok(Observed {
            tx,
            executor: self.executor.clone(),
            run_record: self.run_record.clone(),
            page,
            own: BTreeSet::new(),
            is_ended: Cell::new(false),
        })
    }

    /// Records an error as wrong if it should never occur.
    pub(crate) fn judge(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Conflict
            | ErrorKind::TooOld
            | ErrorKind::Overloaded { .. }
            | ErrorKind::Unknown { .. }
            | ErrorKind::Unavailable => {}
            ErrorKind::Timeout if self.may_expire => self.run_record.expire(),
            kind => self.run_record.wrong(format!(
                "a client got the unexpected error {kind:?}: \
                                                   {error}"
            )),
        }
    }
}

impl<T: Transact> Observed<T> {
    pub(crate) fn read_timestamp(&self) -> Timestamp {
        self.tx.read_timestamp()
    }

    /// Reads a cell.
    pub(crate) async fn get(&self, key: &CellKey) -> Result<Option<Bytes>> {
        self.executor.pause_briefly().await;
        let entry = self.tx.get(key).await?;
        self.saw(key, entry.as_ref());
        Ok(entry.map(|entry| entry.payload))
    }

    /// Reads a cell that the replay does not compare.
    pub(crate) async fn peek(&self, key: &CellKey) -> Result<Option<Bytes>> {
        self.executor.pause_briefly().await;
        Ok(self.tx.get(key).await?.map(|entry| entry.payload))
    }

    /// Reads cells, all at once or one after the other.
    pub(crate) async fn get_all(&self, keys: &[CellKey]) -> Result<Vec<Option<Bytes>>> {
        if self.executor.below(2) == 0 {
            let mut payloads = Vec::with_capacity(keys.len());
            for key in keys {
                payloads.push(self.get(key).await?);
            }
            return Ok(payloads);
        }
        self.executor.pause_briefly().await;
        let entries = self.tx.get_many(keys).await?;
        keys.iter().zip(&entries).for_each(|(key, entry)| self.saw(key, entry.as_ref()));
        Ok(entries.into_iter().map(|entry| entry.map(|entry| entry.payload)).collect())
    }

    /// Records the result of reading a cell, unless the transaction wrote it.
    fn saw(&self, key: &CellKey, entry: Option<&Entry>) {
        if self.own.contains(key) {
            return;
        }
        let (key, found) = (key.as_bytes().to_vec(), entry.map(|entry| entry.start));
        self.run_record.edit(self.page, |record| record.looks.push(Look::Point { key, found }));
    }

    /// Reads a page of a range; returns its cells and the rest of the range.
    pub(crate) async fn page_of(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells: usize,
    ) -> Result<(Vec<(CellKey, Bytes)>, Option<KeyRange>)> {
        self.executor.pause_briefly().await;
        let page = self.tx.range(range, reverse, PageLimit::cells(cells)).await?;
        self.write_down(range, reverse, page.resume.as_ref(), &page.cells);
        let behind = page.cells.iter().skip(1);
        let in_order =
            page.cells.iter().zip(behind).all(|(one, other)| (one.key < other.key) != reverse);
        if !in_order {
            self.run_record.wrong("the cells of a page are not in order");
        }
        Ok((page.cells.share_all().collect(), page.resume))
    }

    /// Reads a range to its end, page by page.
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

    /// Records the contents of a page, in pieces between the transaction's own cells: it did not
    /// see writes of others in those.
    fn write_down(&self, range: &KeyRange, reverse: bool, rest: Option<&KeyRange>, cells: &Cells) {
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
            .filter(|cell| !self.own.contains(&cell.key.to_key()))
            .map(|cell| (cell.key.as_bytes().to_vec(), cell.start))
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
        self.run_record.edit(self.page, |record| record.looks.extend(looks));
    }

    /// Writes a cell.
    pub(crate) fn put(&mut self, key: &CellKey, payload: impl Into<Bytes>) -> Result<()> {
        self.own.insert(key.clone());
        self.tx.put(key.clone(), payload.into())?;
        self.wrote(key, false);
        Ok(())
    }

    /// Changes a part of a row, which is read only if the database requires it.
    pub(crate) async fn change(&mut self, key: &CellKey, delta: &RowDelta) -> Result<()> {
        if self.tx.change(key, delta)? {
            self.own.insert(key.clone());
            self.wrote(key, false);
            return Ok(());
        }
        let payload = self.get(key).await?;
        let mut image = payload.as_ref().map(RowImage::decode).transpose()?.unwrap_or_default();
        delta.apply(&mut image)?;
        self.put(key, image.encode())
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
        self.run_record.edit(self.page, |record| {
            record.writes.retain(|(other, _)| *other != key);
            record.writes.push((key, deletes));
        });
    }

    /// Records an operation of the client, for a history.
    pub(crate) fn did(&self, op: Op) {
        self.run_record.edit(self.page, |record| record.ops.push(op));
    }

    /// Returns the transaction, whose reads and writes through it are not recorded.
    pub(crate) fn facade(&self) -> Option<&carnet::Tx> {
        self.tx.facade()
    }

    /// Commits the transaction.
    pub(crate) async fn commit(self) -> Result<Timestamp> {
        self.executor.pause_briefly().await;
        // Some clients take their time: meanwhile leaders change, and others commit.
        if self.executor.below(100) < 3 {
            let micros = 1_000 + self.executor.below(40_000);
            self.executor.sleep(Duration::from_micros(micros)).await;
        }
        self.run_record.edit(self.page, |record| record.reported = Reported::Unknown);
        let result = self.tx.commit().await;
        let reported = match &result {
            Ok(commit) => Reported::Committed(*commit),
            Err(error) if matches!(error.kind(), ErrorKind::Unknown { .. }) => Reported::Unknown,
            Err(_) => Reported::Aborted,
        };
        self.executor.note(result.as_ref().map_or(0, |commit| commit.get()));
        self.end(reported);
        result
    }

    /// Rolls the transaction back.
    pub(crate) fn rollback(self) {
        self.tx.rollback();
        self.end(Reported::Aborted);
    }

    /// Gives the snapshot back, to be taken up again later.
    pub(crate) fn let_go(self) -> RecordId {
        self.is_ended.set(true);
        self.tx.rollback();
        self.page
    }

    fn end(&self, reported: Reported) {
        self.is_ended.set(true);
        self.run_record.end(self.page, reported);
    }
}

impl<T: Transact> Drop for Observed<T> {
    fn drop(&mut self) {
        if !self.is_ended.get() {
            let reported = self.run_record.edit(self.page, |record| record.reported);
            let reported = if reported == Reported::Unknown { reported } else { Reported::Aborted };
            self.run_record.end(self.page, reported);
        }
    }
}
