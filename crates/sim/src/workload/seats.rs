//! Phantoms. A booking counts the taken seats. No transaction writes a cell that another reads or
//! writes, only cells in the range that it counted.

use carnet_base::Result;
use carnet_checker::invariant;
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use super::{Workload, cell, partition};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::Part;

const FLIGHTS: u64 = 2;
const SEATS: usize = 8;

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let flight = i64::try_from(client.random.below(FLIGHTS)).unwrap_or_default();
    let (reverse, cells) = (client.random.percent(30), client.random.count(1, 10));
    let booked = tx.scan(&partition(Workload::Seats, flight), reverse, cells).await?;
    if let Err(wrong) = invariant::seated(flight, booked.len(), SEATS)
        && client.isolation != Isolation::Snapshot
    {
        client.run_record.wrong(format!("at snapshot {}: {wrong}", tx.read_timestamp()));
    }
    if booked.len() < SEATS {
        let passenger = client.random.below(1 << 40).to_be_bytes();
        tx.put(&cell(Workload::Seats, flight, passenger), "booked")?;
    } else {
        // The flight has left: the next one is empty, or nearly.
        let stay = client.random.count(0, 3);
        for (passenger, _) in booked.iter().skip(stay) {
            tx.delete(passenger)?;
        }
    }
    tx.commit().await.map(drop)
}
