//! Transfers between accounts. An account without money is deleted, and is recreated when it gets
//! some.

use carnet_base::{CellKey, Result};
use carnet_checker::invariant;
use carnet_store::BeginKind;

use super::{Workload, cell, decode, partition};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::Part;

const ACCOUNTS: u64 = 10;
const BALANCE: i64 = 20;

fn account(number: u64) -> CellKey {
    cell(Workload::Bank, 0, number.to_be_bytes())
}

/// Opens the accounts if there are none: a loss of power may have taken them.
pub(super) async fn open_accounts<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    if tx.scan(&partition(Workload::Bank, 0), false, 100).await?.is_empty() {
        for number in 0..ACCOUNTS {
            tx.put(&account(number), BALANCE.to_be_bytes().to_vec())?;
        }
    }
    tx.commit().await.map(drop)
}

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    if client.random.percent(25) { audit(client).await } else { transfer(client).await }
}

async fn transfer<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let from = client.random.below(ACCOUNTS);
    let to = (from + client.random.between(1, ACCOUNTS - 1)) % ACCOUNTS;
    let found = tx.get_all(&[account(from), account(to)]).await?;
    let balances: Vec<i64> =
        found.iter().map(|bytes| bytes.as_ref().map_or(0, |bytes| decode(bytes)[0])).collect();
    let all = client.random.percent(20);
    let drawn = i64::try_from(client.random.between(0, 10)).unwrap_or_default();
    let amount = if all { balances[0] } else { drawn.min(balances[0]) };
    for (number, balance) in [(from, balances[0] - amount), (to, balances[1] + amount)] {
        if balance == 0 {
            tx.delete(&account(number))?;
        } else {
            tx.put(&account(number), balance.to_be_bytes().to_vec())?;
        }
    }
    // Sometimes a client rolls back, or disconnects.
    match client.random.below(40) {
        0 => {
            tx.rollback();
            Ok(())
        }
        1 => Ok(()),
        _ => tx.commit().await.map(drop),
    }
}

async fn audit<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    let balances: Vec<i64> = if client.random.percent(30) {
        let accounts: Vec<CellKey> = (0..ACCOUNTS).map(account).collect();
        tx.get_all(&accounts).await?.iter().flatten().map(|payload| decode(payload)[0]).collect()
    } else {
        let (reverse, cells) = (client.random.percent(30), client.random.count(1, 12));
        let rows = tx.scan(&partition(Workload::Bank, 0), reverse, cells).await?;
        rows.iter().map(|(_, payload)| decode(payload)[0]).collect()
    };
    let due = BALANCE * i64::try_from(ACCOUNTS).unwrap_or_default();
    if let Err(wrong) = invariant::bank(&balances, due) {
        client.run_record.wrong(format!("at snapshot {}: {wrong}", tx.read_timestamp()));
    }
    tx.commit().await.map(drop)
}
