//! List-append, the most revealing workload: a read of a list shows which appends it saw, and in
//! which order.

use carnet_base::{CellKey, Result};
use carnet_checker::{Key, Op};
use carnet_store::BeginKind;

use super::{Numbers, Workload, cell, decode, partition};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::Part;

/// Number of lists in use at a time.
const LISTS: i64 = 6;
/// Number of appends after which a list is replaced by another, to keep lists short.
const LIST_AGE: i64 = 120;

/// Draws a list in use: the lists move on with the numbers that were handed out.
fn draw<D: Database>(client: &mut Client<D>, newest: i64) -> i64 {
    let which = i64::try_from(client.random.below(LISTS.unsigned_abs())).unwrap_or_default();
    which + LISTS * ((newest + which * LIST_AGE / LISTS) / LIST_AGE)
}

/// Appends to and reads lists in one cell each.
pub(super) async fn in_cells<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    let only_reads = client.random.percent(20);
    if only_reads {
        return read_cells(client, numbers).await;
    }
    let mut tx = client.begin(Part::Lists, BeginKind::ReadWrite).await?;
    for _ in 0..client.random.count(1, 4) {
        let list = draw(client, numbers.0.get());
        let (key, name) = (cell(Workload::Lists, list, ""), Key::Int(list));
        let bytes = tx.get(&key).await?.unwrap_or_default();
        if client.random.percent(50) {
            tx.did(Op::ReadList { key: name, list: decode(&bytes) });
            continue;
        }
        let element = numbers.fresh();
        let longer = [&bytes[..], &element.to_be_bytes()].concat();
        tx.did(Op::Append { key: name, element });
        tx.put(&key, longer)?;
    }
    tx.commit().await.map(drop)
}

async fn read_cells<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    let tx = client.begin(Part::Lists, BeginKind::ReadOnly).await?;
    let count = client.random.count(1, 6);
    let lists: Vec<i64> = (0..count).map(|_| draw(client, numbers.0.get())).collect();
    let cells: Vec<CellKey> = lists.iter().map(|list| cell(Workload::Lists, *list, "")).collect();
    let found = tx.get_all(&cells).await?;
    for (list, bytes) in lists.into_iter().zip(found) {
        tx.did(Op::ReadList { key: Key::Int(list), list: decode(&bytes.unwrap_or_default()) });
    }
    tx.commit().await.map(drop)
}

/// Appends to and reads lists with a cell for each element, so that absent cells matter as well.
pub(super) async fn in_rows<D: Database>(client: &mut Client<D>, numbers: &Numbers) -> Result<()> {
    let mut tx = client.begin(Part::Lists, BeginKind::ReadWrite).await?;
    for _ in 0..client.random.count(1, 3) {
        let list = draw(client, numbers.0.get());
        // A different name than that of the same list in one cell.
        let name = Key::Int(-1 - list);
        let (reverse, cells) = (client.random.percent(30), client.random.count(1, 12));
        let mut rows = tx.scan(&partition(Workload::Rows, list), reverse, cells).await?;
        if reverse {
            rows.reverse();
        }
        let elements: Vec<i64> = rows.iter().flat_map(|(_, payload)| decode(payload)).collect();
        if client.random.percent(50) {
            tx.did(Op::ReadList { key: name, list: elements });
            continue;
        }
        let element = numbers.fresh();
        let next = u32::try_from(elements.len()).unwrap_or(u32::MAX).to_be_bytes();
        tx.did(Op::Append { key: name, element });
        tx.put(&cell(Workload::Rows, list, next), element.to_be_bytes().to_vec())?;
    }
    tx.commit().await.map(drop)
}
