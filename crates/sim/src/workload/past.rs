//! Time-travel reads, at an earlier snapshot of any client, in this incarnation of the database or
//! an earlier one, or at a wall time. They see the data of that time, or fail because it was swept.

use carnet_base::{ErrorKind, KeyRange, Result, Timestamp};

use super::{Workload, table};
use crate::client::Client;
use crate::database::Database;
use crate::run_record::{Record, Reported};

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let at =
        if client.random.percent(40) { by_wall_time(client).await? } else { of_somebody(client) };
    let Some((read, invoked)) = at else { return Ok(()) };
    let tx = match client.begin_as_of(read, invoked).await {
        Err(error) if error.kind() == ErrorKind::TooOld => return is_swept(client, read).await,
        begun => begun?,
    };
    let (reverse, cells) = (client.random.percent(30), client.random.count(2, 50));
    let which = client.random.pick(&Workload::ALL);
    tx.scan(&KeyRange::table(table(which)), reverse, cells).await?;
    tx.commit().await.map(drop)
}

/// Returns an earlier snapshot, and the time at which it was requested.
fn of_somebody<D>(client: &mut Client<D>) -> Option<(Timestamp, u64)> {
    let had = |record: &Record| {
        let read = record.read.filter(|_| !record.lost)?;
        matches!(record.reported, Reported::Committed(_)).then_some((read, record.invoked))
    };
    pick(client, had)
}

/// Returns the snapshot at the wall time of a commit; wall times do not decrease.
async fn by_wall_time<D: Database>(client: &mut Client<D>) -> Result<Option<(Timestamp, u64)>> {
    let committed = |record: &Record| match record.reported {
        Reported::Committed(commit) if !record.lost => Some(commit),
        _ => None,
    };
    let (one, other) = (pick(client, committed), pick(client, committed));
    let (Some(one), Some(other)) = (one, other) else { return Ok(of_somebody(client)) };
    match visible_at(client, one.min(other), one.max(other)).await {
        // It was not requested by a client, so acknowledged commits may be missing.
        Ok(read) => Ok(Some((read, 0))),
        Err(error) => match error.kind() {
            ErrorKind::TooOld | ErrorKind::Unsupported => Ok(of_somebody(client)),
            _ => Err(error),
        },
    }
}

/// Returns the snapshot at the wall time of the newer of two commits.
async fn visible_at<D: Database>(
    client: &Client<D>,
    older: Timestamp,
    newer: Timestamp,
) -> Result<Timestamp> {
    // Wall times of old commits become less exact with time, always earlier, so query the newer one
    // first.
    let later = client.db.wall_time_of(newer).await?;
    let earlier = client.db.wall_time_of(older).await?;
    if earlier > later {
        let what = format!("commit {older} was at {earlier}, the later {newer} at {later}");
        client.run_record.wrong(what);
    }
    client.db.timestamp_at(later).await
}

/// Checks that a snapshot refused as too old is below the mark.
async fn is_swept<D: Database>(client: &Client<D>, read: Timestamp) -> Result<()> {
    match client.db.swept().await {
        Ok(mark) if read >= mark => {
            client.run_record.wrong(format!("snapshot {read} was refused; the mark is {mark}"));
        }
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    Ok(())
}

/// Picks a random item from the record of the run.
fn pick<D, T>(client: &mut Client<D>, of: impl Fn(&Record) -> Option<T>) -> Option<T> {
    let run_record = client.run_record.clone();
    let records = run_record.records();
    let from = client.random.count(0, records.len().saturating_sub(1));
    let (before, behind) = records.split_at(from.min(records.len()));
    behind.iter().chain(before).find_map(of)
}
