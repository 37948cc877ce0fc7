//! Executes statements.

use std::sync::Arc;

use carnet::Result;
use carnet_admission::Permit;
use carnet_base::Clock;

use super::request::{Reads, SimRequest};
use super::setup::STATEMENT;
use super::world::{ROWS, World, key};
use crate::executor::yield_once;
use crate::mutant::Mutant;

/// Number of rows in a page of a scan.
const PAGE_ROWS: usize = 8;

pub(super) async fn execute(
    world: &World,
    request: &SimRequest,
    permit: Arc<Permit>,
) -> Result<()> {
    world.processor.spend(STATEMENT);
    let deadline = request.deadline.filter(|_| !world.breaks(Mutant::DeadlineIgnored));
    let yields = !world.breaks(Mutant::SliceNeverYielded);
    let options = world.db.transaction().deadline(deadline).permit(permit);
    let yield_now: Option<carnet_base::YieldNow> = yields.then_some(yield_once);
    let tx = options.yield_now(yield_now).snapshot_async(None).await?;
    let paused_until = world.store_paused_until.get();
    world.executor.sleep(paused_until.since(world.clock.now())).await;
    let mut slice = tx.time_slice();
    let cell = world.setup.cell;
    match request.reads {
        Reads::Keys { first, count } => {
            for number in first..first + count {
                if let Some(slice) = &mut slice {
                    slice.check().await;
                }
                world.processor.spend(cell);
                let found = world.table.get(&tx, key(number % ROWS)).await?;
                debug_assert!(found.is_some(), "row {number} is there");
            }
        }
        Reads::Range { first, count } => {
            let mut rows = world.table.range(&tx, key(first)..).page(PAGE_ROWS);
            for _ in 0..count / PAGE_ROWS as u64 {
                if let Some(slice) = &mut slice {
                    slice.check().await;
                }
                world.processor.spend(cell * u32::try_from(PAGE_ROWS).unwrap_or(u32::MAX));
                rows.next_page().await?;
            }
        }
    }
    Ok(())
}
