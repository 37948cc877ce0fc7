//! Changes of rows of a table with indexes and views, which agree with the table at every snapshot.
//!
//! ```text
//!  clients of all processes    change rows ─ create and drop indexes and views ─ build them ─ compare
//!  builder of each process     builds them in the background, until the process is killed
//! ```
//!
//! Only the `carnet` crate maintains indexes and views; over a bare store the workload does nothing.

mod compare;
mod definitions;
mod schema;

use std::sync::Arc;

use carnet::catalog::{self, KeyspaceSchema, TableSchema};
use carnet::derived::RowStore;
use carnet::{Db, Tx};
use carnet_base::{Bytes, CellKey, ErrorKind, Result, TableId};
use carnet_data::key::{self, Order};
use carnet_data::row::{Change, Column, Marker, RowDelta, RowImage};
use carnet_data::{Value, partition};
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use self::compare::differences;
pub(crate) use self::schema::schema_cell;
use self::schema::{A, B, KEYSPACE, TABLE};
use super::{Workload, cell};
use crate::client::Client;
use crate::database::Database;
use crate::random::Random;
use crate::run_record::{Part, RunRecord};

/// Number of partitions, and of rows in each.
const PARTITIONS: i64 = 2;
const ROWS: i64 = 3;

/// Creates the table if it does not exist: a loss of power may have taken it.
pub(super) async fn prepare<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    tx.put(&marker(client.process), Bytes::new())?;
    if let Some(tx) = tx.facade()
        && catalog::table(tx, KEYSPACE, TABLE).await?.is_none()
    {
        catalog::create_keyspace(tx, &KeyspaceSchema::local(KEYSPACE)).await?;
        catalog::create_table(tx, schema::table()).await?;
        for definition in schema::Definition::all() {
            if let Some(table) = table(tx).await? {
                definitions::create(tx, &table, definition, 100).await?;
            }
        }
    }
    tx.commit().await.map(drop)
}

/// Returns the cell that the verdict recognizes a transaction by: it does not see the writes of the
/// `carnet` crate.
fn marker(process: i64) -> CellKey {
    cell(Workload::Derived, process, b"")
}

/// Returns the table at the snapshot of a transaction.
async fn table(tx: &Tx) -> Result<Option<Arc<TableSchema>>> {
    catalog::table(tx, KEYSPACE, TABLE).await
}

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    match client.random.below(100) {
        0..35 => return compare(client).await,
        35..42 => match write(client, definitions::create_or_drop).await {
            // A transaction whose writes went to a file cannot drop a table.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            written => written?,
        },
        42..52 => write(client, definitions::build_some).await?,
        _ => return write(client, change_rows).await,
    }
    // A statement that creates an index or a view starts the builder of its process.
    if client.random.percent(50) {
        client.db.facade().into_iter().for_each(Db::build_derived);
    }
    Ok(())
}

/// Runs a transaction that writes.
async fn write<D: Database>(
    client: &mut Client<D>,
    act: impl AsyncFnOnce(&Tx, &TableSchema, &mut Random) -> Result<()>,
) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    tx.put(&marker(client.process), Bytes::new())?;
    if let Some(tx) = tx.facade()
        && let Some(table) = table(tx).await?
    {
        act(tx, &table, &mut client.random).await?;
    }
    tx.commit().await.map(drop)
}

async fn change_rows(tx: &Tx, table: &TableSchema, random: &mut Random) -> Result<()> {
    for _ in 0..random.between(1, 3) {
        change(RowStore::new(tx, table), table.id, random).await?;
    }
    Ok(())
}

/// Changes a random row, with values that often are equal to those of other rows.
async fn change(rows: RowStore<'_>, table: TableId, random: &mut Random) -> Result<()> {
    let key = row(table, random)?;
    match random.below(8) {
        0 => rows.delete(key).await,
        1 | 2 => {
            let mut image = RowImage::new(1);
            image.marker = Some(Marker::default());
            for column in [A, B] {
                if random.percent(70) {
                    image.set(column, Column::new(value(random)));
                }
            }
            rows.put(key, image).await
        }
        _ => {
            let mut delta = RowDelta::new(1);
            let column = if random.percent(50) { A } else { B };
            let set = Change::Set { value: value(random), expiry: None };
            delta.change(column, if random.percent(20) { Change::Deleted } else { set });
            rows.change(key, &delta).await
        }
    }
}

fn row(table: TableId, random: &mut Random) -> Result<CellKey> {
    let number = |max: i64, random: &mut Random| {
        Value::Bigint(random.below(max.unsigned_abs()).cast_signed())
    };
    let partition = partition::encode(&[number(PARTITIONS, random)])?;
    let clustering = key::encode(&[number(ROWS, random)], &[Order::Asc])?;
    Ok(CellKey::new(table, &partition, clustering))
}

fn value(random: &mut Random) -> Bytes {
    Value::Bigint(random.below(3).cast_signed()).serialize()
}

/// Compares the indexes and views with the table.
async fn compare<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    if let Some(tx) = tx.facade() {
        judge(tx, &client.run_record).await?;
    }
    tx.commit().await.map(drop)
}

/// Records differences at the snapshot of a transaction.
pub(super) async fn judge(tx: &Tx, run_record: &RunRecord) -> Result<()> {
    let Some(table) = table(tx).await? else { return Ok(()) };
    for (name, count) in differences(tx, &table).await? {
        let read = tx.read_timestamp();
        run_record.wrong(format!("at snapshot {read}: {count} cells of {name} are wrong"));
    }
    Ok(())
}

/// Completes all builds in unrecorded transactions, so that the last comparison covers every index
/// and view.
pub(super) async fn complete<D: Database>(client: &Client<D>) -> Result<()> {
    let Some(db) = client.db.facade() else { return Ok(()) };
    loop {
        let tx = db.transaction().isolation(Isolation::Snapshot).begin_async().await?;
        let Some(table) = table(&tx).await? else { return Ok(()) };
        if !definitions::build(&tx, &table, 100).await? {
            return Ok(());
        }
        tx.commit().await?;
    }
}
