//! Changes of single columns and counters of rows that are not read: versions that hold a part of a
//! row. Counters are changed by transfers, so that their sum is zero at every snapshot.

use carnet_base::{Bytes, CellKey, ColumnId, Result};
use carnet_checker::{Key, Op};
use carnet_data::row::{Change, RowDelta, RowImage};
use carnet_store::BeginKind;

use super::{Numbers, Workload, cell, partition};
use crate::client::{Client, Observed};
use crate::database::{Database, Transact};
use crate::run_record::Part;

/// Number of rows. The first ones have registers beside their counter; the others are sometimes
/// deleted.
const ROWS: u64 = 5;
const ROWS_WITH_REGISTERS: u64 = 2;
const COUNTER: ColumnId = ColumnId(0);
const REGISTERS: [ColumnId; 2] = [ColumnId(1), ColumnId(2)];
/// First key of these registers in the history, beyond those of [`Workload::Registers`].
const FIRST_REGISTER: i64 = 1_000;

fn row(number: u64) -> CellKey {
    cell(Workload::Columns, 0, number.to_be_bytes())
}

fn register(row: u64, column: ColumnId) -> Key {
    Key::Int(FIRST_REGISTER + 10 * i64::try_from(row).unwrap_or_default() + i64::from(column.0))
}

pub(super) async fn run<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    match client.random.below(10) {
        0..=5 => transfer(client, numbers).await,
        6 => delete(client).await,
        _ => audit(client).await,
    }
}

/// Adds an amount to one counter, subtracts it from another, and sets some registers.
async fn transfer<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    let mut tx = client.begin(Part::Registers, BeginKind::ReadWrite).await?;
    let from = client.random.below(ROWS);
    let to = (from + client.random.between(1, ROWS - 1)) % ROWS;
    let amount = i64::try_from(client.random.between(1, 9)).unwrap_or_default();
    for (number, amount) in [(from, -amount), (to, amount)] {
        let mut delta = RowDelta::new(1);
        delta.change(COUNTER, Change::Added(amount));
        for column in REGISTERS {
            if number < ROWS_WITH_REGISTERS && client.random.percent(40) {
                let value = numbers.fresh();
                tx.did(Op::Write { key: register(number, column), value });
                let value = Bytes::copy_from_slice(&value.to_be_bytes());
                delta.change(column, Change::Set { value, expiry: None });
            }
        }
        tx.change(&row(number), &delta).await?;
    }
    tx.commit().await.map(drop)
}

/// Deletes a row, and moves the value of its counter to another one. Later additions to the row
/// begin at zero.
async fn delete<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let from = client.random.between(ROWS_WITH_REGISTERS, ROWS - 1);
    let amount = match tx.get(&row(from)).await? {
        Some(payload) => number(&RowImage::decode(&payload)?, COUNTER).unwrap_or(0),
        None => return tx.commit().await.map(drop),
    };
    tx.delete(&row(from))?;
    let mut delta = RowDelta::new(1);
    delta.change(COUNTER, Change::Added(amount));
    tx.change(&row(client.random.below(ROWS_WITH_REGISTERS)), &delta).await?;
    tx.commit().await.map(drop)
}

/// Reads all rows, by their keys or as a range.
async fn audit<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Registers, BeginKind::ReadOnly).await?;
    let rows = if client.random.percent(30) {
        let keys: Vec<CellKey> = (0..ROWS).map(row).collect();
        let found = tx.get_all(&keys).await?;
        keys.into_iter().zip(found).filter_map(|(key, found)| Some((key, found?))).collect()
    } else {
        let (reverse, cells) = (client.random.percent(30), client.random.count(1, 6));
        tx.scan(&partition(Workload::Columns, 0), reverse, cells).await?
    };
    let mut sum = 0;
    let mut images = Vec::new();
    for (key, payload) in &rows {
        let image = RowImage::decode(payload)?;
        sum += number(&image, COUNTER).unwrap_or(0);
        images.push((key, image));
    }
    if sum != 0 {
        let read = tx.read_timestamp();
        client.run_record.wrong(format!("at snapshot {read}: the sum of counters is {sum}"));
    }
    read_registers(&tx, &images);
    tx.commit().await.map(drop)
}

fn read_registers<T: Transact>(tx: &Observed<T>, images: &[(&CellKey, RowImage)]) {
    for number_of_row in 0..ROWS_WITH_REGISTERS {
        let key = row(number_of_row);
        let image = images.iter().find(|(found, _)| **found == key).map(|(_, image)| image);
        for column in REGISTERS {
            let value = image.and_then(|image| number(image, column));
            tx.did(Op::ReadRegister { key: register(number_of_row, column), value });
        }
    }
}

fn number(image: &RowImage, column: ColumnId) -> Option<i64> {
    image.value(column).map(|value| value[..].try_into().map_or(i64::MIN, i64::from_be_bytes))
}
