//! Checks that nothing grows without a bound: chains of deltas, and rows that have expired.

use std::cell::RefCell;
use std::time::Duration;

use carnet_base::{KeyRange, Version};
use carnet_store::cluster::{CellVersions, ClusterCells};
use carnet_store::{PageLimit, looks_like_delta};

use super::world::{OfProcess, World, without_faults};
use crate::workload::expiring::{self, Grown};

/// Longest retention of a run that is checked for expired rows.
const RETENTION_MAX: Duration = Duration::from_millis(100);
/// Maximum number of deltas above the newest row: the leader folds after eight, while some more arrive.
const DELTAS_MAX: usize = 12;

/// Lets rows expire and chains grow, without faults, and looks at the cluster some time later.
pub(super) async fn check<D: OfProcess>(world: &World) -> Result<(), String> {
    // Each step may fail: some clients take more time for a commit than the idle limit.
    for _ in 0..expiring::PUTS {
        let put = async |client: &mut _| expiring::put_expired(client, &world.numbers).await;
        without_faults::<D>(world, put).await?;
    }
    for _ in 0..expiring::COUNTS {
        without_faults::<D>(world, async |client| expiring::count(client).await).await?;
    }
    let grown = RefCell::new(None);
    without_faults::<D>(world, async |client| {
        grown.replace(Some(expiring::grown(client).await?));
        Ok(())
    })
    .await?;
    world.executor.sleep(Duration::from_secs(1)).await;
    let Some(Grown { expired, counted }) = grown.take() else { return Ok(()) };
    let sweep = world.setup.options.sweep;
    let is_swept = !sweep.every.is_zero() && sweep.retention <= RETENTION_MAX;
    for key in counted {
        let versions = versions(world, &key).await?;
        let deltas = versions.iter().take_while(|version| looks_like_delta(version)).count();
        if deltas > DELTAS_MAX {
            return Err(format!("a counter has {deltas} deltas above its newest row"));
        }
    }
    for key in expired.into_iter().filter(|_| is_swept) {
        let left = versions(world, &key).await?.len();
        if left > 0 {
            return Err(format!("{left} versions are left of a row that has expired"));
        }
    }
    Ok(())
}

async fn versions(world: &World, key: &carnet_base::CellKey) -> Result<Vec<Version>, String> {
    let range = KeyRange::table(key.table());
    let page = world.cluster.scan_versions(&range, PageLimit::cells(1_000)).await;
    let cells = page.map_err(|fault| fault.to_string())?.cells;
    let found = cells.into_iter().find(|CellVersions { key: found, .. }| found == key);
    Ok(found.map(|found| found.versions).unwrap_or_default())
}
