//! Determines which commits were lost with the power, for transactions whose outcomes the database
//! has forgotten.
//!
//! Their entries were swept, so the database cannot tell which of the last commits it lost. Their
//! writes can: nothing is written between a loss of power and this check, so if the newest of these
//! commits still exists, all older ones do.

use std::collections::HashSet;

use carnet_base::{Bytes, CellKey, Result, Timestamp};
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use crate::database::{Database, Transact};

/// A commit that the database does not know any more.
pub(super) struct Forgotten {
    pub(super) start: Timestamp,
    pub(super) commit: Timestamp,
    pub(super) writes: Vec<(Vec<u8>, bool)>,
}

/// Returns the starts of the lost commits.
pub(super) async fn lost<D: Database>(
    db: &D,
    mut forgotten: Vec<Forgotten>,
) -> Result<HashSet<Timestamp>> {
    let mut lost = HashSet::new();
    if forgotten.is_empty() {
        return Ok(lost);
    }
    forgotten.sort_by_key(|of| std::cmp::Reverse(of.commit));
    let tx = db.begin(BeginKind::ReadOnly, Isolation::Snapshot).await?;
    let mut unseen = Vec::new();
    for of in forgotten {
        match is_there(&tx, &of).await? {
            Some(true) => break,
            Some(false) => {
                lost.extend(unseen.drain(..));
                lost.insert(of.start);
            }
            // It deleted an absent cell: either its delete is in force, or there never was a cell.
            None => unseen.push(of.start),
        }
    }
    tx.rollback();
    Ok(lost)
}

/// Returns whether a commit that no later one has overwritten exists, as far as one of its writes
/// shows.
async fn is_there<T: Transact>(tx: &T, of: &Forgotten) -> Result<Option<bool>> {
    for (key, deletes) in &of.writes {
        let key = CellKey::from_bytes(Bytes::copy_from_slice(key))?;
        match tx.get(&key).await? {
            Some(entry) => return Ok(Some(!deletes && entry.start == of.start)),
            None if !deletes => return Ok(Some(false)),
            None => {}
        }
    }
    Ok(None)
}
