//! Long read-only scans beside writers: a snapshot sees the same data to the end, despite flushes,
//! compactions and sweeps.

use carnet_base::{ErrorKind, KeyRange, Result};
use carnet_store::BeginKind;

use super::{Workload, table};
use crate::client::{Client, Observed};
use crate::database::{Database, Transact};
use crate::run_record::Part;

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    let gives_back = client.random.percent(30);
    let (reverse, cells) = (client.random.percent(30), client.random.count(2, 20));
    let which = client.random.pick(&Workload::ALL);
    let mut rest = Some(KeyRange::table(table(which)));
    while let Some(range) = rest {
        rest = tx.page_of(&range, reverse, cells).await?.1;
        if client.random.percent(30) {
            client.executor.sleep(client.random.micros(10, 5_000)).await;
        }
        if gives_back && client.random.percent(30) {
            let read = tx.read_timestamp();
            let page = tx.let_go();
            client.executor.sleep(client.random.micros(10, 20_000)).await;
            tx = match client.resume(page, read).await {
                Err(error) if error.kind() == ErrorKind::TooOld => return Ok(()),
                taken_up => taken_up?,
            };
        }
    }
    tx.commit().await.map(drop)
}

pub(super) async fn read_tables<T: Transact>(tx: &Observed<T>) -> Result<()> {
    for workload in Workload::ALL {
        tx.scan(&KeyRange::table(table(workload)), false, 100).await?;
    }
    Ok(())
}
