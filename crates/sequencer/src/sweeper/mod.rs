//! Runs rounds of the sweep: at each interval, and on request.

mod round;

use std::sync::{Arc, Weak};
use std::time::Duration;

use carnet_base::{Result, Timer, Timestamp};
use carnet_store::cluster::Cluster;

use crate::leader::Leader;
use crate::sweep::SweepReport;

/// Runs a round at each interval, as long as the term lasts.
pub(crate) async fn drive<C: Cluster>(
    leader: Weak<Leader<C>>,
    timer: Arc<dyn Timer>,
    every: Duration,
) {
    while !every.is_zero() {
        timer.wait(every).await;
        let Some(leader) = leader.upgrade() else { return };
        if leader.is_over() {
            return;
        }
        step(&leader).await;
    }
}

/// Runs a round up to the retention, and logs the result.
async fn step<C: Cluster>(leader: &Arc<Leader<C>>) {
    match sweep_past_retention(leader).await {
        Ok(report) if report.cells > 0 => {
            tracing::info!(?report, "swept invisible versions");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the sweep goes on in its next round"),
    }
}

/// Runs a round now, up to the retention.
pub(crate) async fn sweep_past_retention<C: Cluster>(
    leader: &Arc<Leader<C>>,
) -> Result<SweepReport> {
    note_time(leader);
    let wanted = leader.sweep().retained(leader.timer().now());
    run_round(leader, wanted).await
}

/// Runs a round now, of all versions that no snapshot of this term sees, without regard to the
/// retention.
pub(crate) async fn sweep_now<C: Cluster>(leader: &Arc<Leader<C>>) -> Result<SweepReport> {
    note_time(leader);
    run_round(leader, leader.published()).await
}

/// Notes P and the time. Without commits P moves on, because snapshots at one P would all be as old
/// as the first of them, and nothing would expire.
fn note_time<C: Cluster>(leader: &Leader<C>) {
    if leader.sweep().note(leader.sample()) {
        leader.publish_idle();
    }
}

async fn run_round<C: Cluster>(leader: &Arc<Leader<C>>, wanted: Timestamp) -> Result<SweepReport> {
    let _busy = leader.sweep().begin_round()?;
    log_holder(leader, wanted);
    let round = round::run(leader, leader.sweep().options(), wanted).await;
    leader.sweep().end_round(&round);
    round
}

/// Logs the process that has blocked the sweep for longer than the retention.
fn log_holder<C: Cluster>(leader: &Leader<C>, wanted: Timestamp) {
    let Some(holder) = leader.oldest_snapshot() else { return };
    if holder.read < wanted && holder.since > leader.sweep().options().retention {
        tracing::warn!(
            client = holder.client.0,
            snapshot = %holder.read,
            since = ?holder.since,
            "a snapshot in use holds the sweep back"
        );
    }
}
