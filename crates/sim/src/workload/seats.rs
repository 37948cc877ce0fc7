//! Phantoms. Whoever books a seat counts those that are taken; nobody writes what another reads
//! or writes, only into the range that it counted.

use carnet_base::Result;
use carnet_checker::invariant;
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use super::{Workload, cell, partition};
use crate::client::Client;
use crate::database::Database;
use crate::ledger::Part;

const FLIGHTS: u64 = 2;
const SEATS: usize = 8;

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let flight = i64::try_from(client.dice.below(FLIGHTS)).unwrap_or_default();
    let (reverse, cells) = (client.dice.percent(30), client.dice.count(1, 10));
    let booked = tx.scan(&partition(Workload::Seats, flight), reverse, cells).await?;
    if let Err(wrong) = invariant::seated(flight, booked.len(), SEATS)
        && client.isolation != Isolation::Snapshot
    {
        client.ledger.wrong(format!("at snapshot {}: {wrong}", tx.read_timestamp()));
    }
    if booked.len() < SEATS {
        let passenger = client.dice.below(1 << 40).to_be_bytes();
        tx.put(&cell(Workload::Seats, flight, passenger), "booked")?;
    } else {
        // It has left: the next one is empty, or nearly.
        let stay = client.dice.count(0, 3);
        for (passenger, _) in booked.iter().skip(stay) {
            tx.delete(passenger)?;
        }
    }
    tx.commit().await.map(drop)
}
