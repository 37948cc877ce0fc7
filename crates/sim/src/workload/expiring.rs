//! Rows with a time to live, and counters with long chains of additions, over a cluster.
//!
//! Rows describe themselves: another row, or another column, has the expiry of a part that may be
//! gone. So a reader finds a part that was removed too early, although its reads are not compared
//! with a replay, which knows no expiries.

use carnet_base::{Bytes, CellKey, Clock as _, ColumnId, Result};
use carnet_data::RowDelta;
use carnet_data::row::{Change, Column, RowImage};
use carnet_store::BeginKind;

use super::{Numbers, Workload, cell};
use crate::client::{Client, Observed};
use crate::database::Database;
use crate::run_record::Part;

/// Number of rows of each kind.
const ROWS: u64 = 4;
/// The part that expires, and its number.
const EXPIRING: ColumnId = ColumnId(1);
/// Number and expiry of that part; it stays.
const DESCRIPTION: ColumnId = ColumnId(2);
const COUNTER: ColumnId = ColumnId(3);
/// Difference between the true time and the clock of a server: two servers differ by less than a
/// minute.
pub(crate) const CLOCK_ERROR_SECONDS: u64 = 29;
/// Number of seconds after which a part has expired by all clocks.
const EXPIRED_SECONDS: i64 = 100;

/// Row of which all parts expire; its description is another row.
fn whole(number: u64) -> CellKey {
    cell(Workload::Expiring, 0, number.to_be_bytes())
}

/// Row that describes another one.
fn description(number: u64) -> CellKey {
    cell(Workload::Expiring, 1, number.to_be_bytes())
}

/// Row that keeps its description when the rest has expired.
fn partial(number: u64) -> CellKey {
    cell(Workload::Expiring, 2, number.to_be_bytes())
}

/// One of two counters with the same value.
fn counter(number: u64) -> CellKey {
    cell(Workload::Expiring, 3, number.to_be_bytes())
}

pub(super) async fn run<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    match client.random.below(10) {
        0 | 1 => {
            let expiry = now(client) - EXPIRED_SECONDS + client.random.below(140).cast_signed();
            put(client, numbers, expiry).await
        }
        2..=6 => count(client).await,
        _ => audit(client).await,
    }
}

/// Returns the true second.
fn now<D: Database>(client: &Client<D>) -> i64 {
    client.executor.clock().wall().0 / 1_000_000
}

/// Writes a row of each kind, as an image or a delta.
async fn put<D: Database>(client: &mut Client<D>, numbers: &Numbers, expiry: i64) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let (row, number) = (client.random.below(ROWS), numbers.fresh());
    let value = Bytes::copy_from_slice(&number.to_be_bytes());
    let described = Bytes::from([number.to_be_bytes(), expiry.to_be_bytes()].concat());
    let column = Column::new(value.clone()).expiring(Some(expiry));
    let mut image = RowImage::new(1);
    image.set(EXPIRING, column.clone());
    tx.put(&whole(row), image.encode())?;
    let mut image = RowImage::new(1);
    image.set(DESCRIPTION, Column::new(described.clone()));
    tx.put(&description(row), image.encode())?;
    if client.random.percent(50) {
        image.set(EXPIRING, column);
        tx.put(&partial(row), image.encode())?;
    } else {
        let mut delta = RowDelta::new(1);
        delta.change(EXPIRING, Change::Set { value, expiry: Some(expiry) });
        delta.change(DESCRIPTION, Change::Set { value: described, expiry: None });
        tx.change(&partial(row), &delta).await?;
    }
    tx.commit().await.map(drop)
}

/// Adds one to both counters.
pub(crate) async fn count<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    for number in 0..2 {
        let mut delta = RowDelta::new(1);
        delta.change(COUNTER, Change::Added(1));
        tx.change(&counter(number), &delta).await?;
    }
    tx.commit().await.map(drop)
}

/// Reads all rows twice, by the clock of a server.
async fn audit<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    let error = client.random.below(2 * CLOCK_ERROR_SECONDS + 1);
    let moment = now(client) + error.cast_signed() - CLOCK_ERROR_SECONDS.cast_signed();
    for _ in 0..2 {
        for row in 0..ROWS {
            let described = tx.peek(&description(row)).await?;
            let found = tx.peek(&whole(row)).await?;
            check(client, &tx, described.as_ref(), found.as_ref(), moment)?;
            let found = tx.peek(&partial(row)).await?;
            check(client, &tx, found.as_ref(), found.as_ref(), moment)?;
        }
        let [one, other] = [tx.peek(&counter(0)).await?, tx.peek(&counter(1)).await?];
        let [one, other] = [one, other].map(|row| row.as_ref().map(RowImage::decode));
        let [one, other] = [one.transpose()?, other.transpose()?]
            .map(|row| row.and_then(|row| row.value(COUNTER).cloned()));
        if one != other {
            wrong(client, &tx, &format!("the counters are {one:?} and {other:?}"));
        }
        client.executor.sleep(client.random.micros(10, 20_000)).await;
    }
    tx.commit().await.map(drop)
}

/// Checks that a part is there as described, unless it has expired.
fn check<D: Database>(
    client: &Client<D>,
    tx: &Observed<D::Tx>,
    described: Option<&Bytes>,
    found: Option<&Bytes>,
    moment: i64,
) -> Result<()> {
    let Some(described) = described else { return Ok(()) };
    let described = RowImage::decode(described)?;
    let described = described.value(DESCRIPTION).map_or(&[][..], |value| &value[..]);
    let Some((number, expiry)) = described.split_first_chunk::<8>() else {
        wrong(client, tx, "a description is gone");
        return Ok(());
    };
    let expiry = expiry.try_into().map_or(i64::MIN, i64::from_be_bytes);
    let row = found.map(RowImage::decode).transpose()?.unwrap_or_default();
    let is_there = row.value(EXPIRING).is_some_and(|value| value[..] == number[..]);
    if expiry > moment && !is_there {
        let number = i64::from_be_bytes(*number);
        wrong(client, tx, &format!("part {number} expires at {expiry}, and is gone at {moment}"));
    }
    Ok(())
}

fn wrong<D: Database>(client: &Client<D>, tx: &Observed<D::Tx>, what: &str) {
    client.run_record.wrong(format!("at snapshot {}: {what}", tx.read_timestamp()));
}

/// Cells that are checked for growth, after a run without faults.
pub(crate) struct Grown {
    /// Rows that have expired by all clocks.
    pub(crate) expired: Vec<CellKey>,
    /// Rows with many additions, and no reader.
    pub(crate) counted: Vec<CellKey>,
}

/// Number of steps of each kind after which the cluster would have grown, if nothing were removed.
pub(crate) const PUTS: u64 = ROWS * 4;
pub(crate) const COUNTS: u64 = 40;

/// Puts a row that has expired by all clocks.
pub(crate) async fn put_expired<D: Database>(
    client: &mut Client<D>,
    numbers: &Numbers,
) -> Result<()> {
    let expiry = now(client) - EXPIRED_SECONDS;
    put(client, numbers, expiry).await
}

/// Returns the cells that have grown by then.
pub(crate) async fn grown<D: Database>(client: &mut Client<D>) -> Result<Grown> {
    let mut expired = Vec::new();
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    for row in 0..ROWS {
        let described = tx.peek(&description(row)).await?.unwrap_or_default();
        let image = RowImage::decode(&described).unwrap_or_default();
        let expiry = image.value(DESCRIPTION).and_then(|value| value.last_chunk::<8>().copied());
        let is_old = |expiry| i64::from_be_bytes(expiry) < now(client) - 95;
        expired.extend(expiry.filter(|expiry| is_old(*expiry)).map(|_| whole(row)));
    }
    tx.commit().await?;
    Ok(Grown { expired, counted: (0..2).map(counter).collect() })
}
