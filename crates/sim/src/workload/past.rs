//! Reads of what was, as of a snapshot that somebody had before, in this life of the database or an
//! earlier one, or of a wall time: they see what was there then, or are told that it is swept.

use carnet_base::{ErrorKind, KeyRange, Result, Timestamp};

use super::{Workload, table};
use crate::client::Client;
use crate::database::Database;
use crate::ledger::{Record, Told};

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    let at =
        if client.dice.percent(40) { by_wall_time(client).await? } else { of_somebody(client) };
    let Some((read, invoked)) = at else { return Ok(()) };
    let tx = match client.begin_as_of(read, invoked).await {
        Err(error) if error.kind() == ErrorKind::TooOld => return is_swept(client, read).await,
        begun => begun?,
    };
    let (reverse, cells) = (client.dice.percent(30), client.dice.count(2, 50));
    let which = client.dice.pick(&Workload::ALL);
    tx.scan(&KeyRange::table(table(which)), reverse, cells).await?;
    tx.commit().await.map(drop)
}

/// A snapshot that somebody had, and when he asked for it.
fn of_somebody<D>(client: &mut Client<D>) -> Option<(Timestamp, u64)> {
    let had = |record: &Record| {
        let read = record.read.filter(|_| !record.lost)?;
        matches!(record.told, Told::Committed(_)).then_some((read, record.invoked))
    };
    pick(client, had)
}

/// What was visible at a wall time at which somebody committed; wall times do not decrease.
async fn by_wall_time<D: Database>(client: &mut Client<D>) -> Result<Option<(Timestamp, u64)>> {
    let committed = |record: &Record| match record.told {
        Told::Committed(commit) if !record.lost => Some(commit),
        _ => None,
    };
    let (one, other) = (pick(client, committed), pick(client, committed));
    let (Some(one), Some(other)) = (one, other) else { return Ok(of_somebody(client)) };
    match visible_at(client, one.min(other), one.max(other)).await {
        // Nobody asked for it: whatever was acknowledged may be missing.
        Ok(read) => Ok(Some((read, 0))),
        Err(error) => match error.kind() {
            ErrorKind::TooOld | ErrorKind::Unsupported => Ok(of_somebody(client)),
            _ => Err(error),
        },
    }
}

/// What was visible at the wall time of the newer of two commits.
async fn visible_at<D: Database>(
    client: &Client<D>,
    older: Timestamp,
    newer: Timestamp,
) -> Result<Timestamp> {
    // What is old is known less exactly as time goes on, to an earlier time: the newer comes first.
    let later = client.db.wall_time_of(newer).await?;
    let earlier = client.db.wall_time_of(older).await?;
    if earlier > later {
        let what = format!("commit {older} was at {earlier}, the later {newer} at {later}");
        client.ledger.wrong(what);
    }
    client.db.timestamp_at(later).await
}

/// Makes sure that what was refused as too old is below the mark.
async fn is_swept<D: Database>(client: &Client<D>, read: Timestamp) -> Result<()> {
    match client.db.swept().await {
        Ok(mark) if read >= mark => {
            client.ledger.wrong(format!("snapshot {read} was refused; the mark is {mark}"));
        }
        Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    Ok(())
}

/// Picks something out of the ledger.
fn pick<D, T>(client: &mut Client<D>, of: impl Fn(&Record) -> Option<T>) -> Option<T> {
    let ledger = client.ledger.clone();
    let records = ledger.records();
    let from = client.dice.count(0, records.len().saturating_sub(1));
    let (before, behind) = records.split_at(from.min(records.len()));
    behind.iter().chain(before).find_map(of)
}
