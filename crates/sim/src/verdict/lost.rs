//! What went with the power, of transactions whose outcomes the database has forgotten.
//!
//! Their entries were swept, so that it cannot say which of the last commits it lost. What they
//! wrote says it: nothing is written after a loss of power before this is found out, so that the
//! newest of them that is still there has every older one behind it.

use std::collections::HashSet;

use carnet_base::{Bytes, CellKey, Result, Timestamp};
use carnet_store::BeginKind;
use carnet_txn::Isolation;

use crate::database::{Database, Transact};

/// A commit of which the database knows nothing any more.
pub(super) struct Forgotten {
    pub(super) start: Timestamp,
    pub(super) commit: Timestamp,
    pub(super) writes: Vec<(Vec<u8>, bool)>,
}

/// Returns the starts of those that are lost.
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
            // It deleted what is not there: either so, or it never was.
            None => unseen.push(of.start),
        }
    }
    tx.rollback();
    Ok(lost)
}

/// Tells whether a commit that no later one has overwritten is there, as far as a write of its
/// shows it.
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
