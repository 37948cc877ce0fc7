//! Write skew. One of two doctors must be on call. Each checks that the other is before going home,
//! and of two who check at the same time only one may go.

use carnet_base::Result;
use carnet_checker::invariant;
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use super::{Workload, cell};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::Part;

const PAIRS: u64 = 3;

/// A doctor who went home has a cell; one on call has none.
pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    let pair = i64::try_from(client.random.below(PAIRS)).unwrap_or_default();
    let doctors = ["a", "b"].map(|name| cell(Workload::Doctors, pair, name));
    let found = tx.get_all(&doctors).await?;
    let gone = [0, 1].map(|doctor: usize| found[doctor].is_some());
    let me = client.random.count(0, 1);
    if let Err(wrong) = invariant::on_call(pair, gone)
        && client.isolation != Isolation::Snapshot
    {
        client.run_record.wrong(format!("at snapshot {}: {wrong}", tx.read_timestamp()));
    }
    match gone {
        [false, false] => tx.put(&doctors[me], "gone")?,
        _ => {
            for doctor in &doctors {
                tx.delete(doctor)?;
            }
        }
    }
    tx.commit().await.map(drop)
}
