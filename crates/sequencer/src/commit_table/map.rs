//! Changes of the coordination map.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carnet_base::{Encoding, Error, Result, Timestamp};
use carnet_store::cluster::{Cluster, Fault, ReadMode, Register, SetAnswer};

use super::table::CommitTable;
use super::tries::{FIRST_WAIT, LONGEST_WAIT, READER_TRIES};
use crate::coordination::{EncodingMap, check};

impl<C: Cluster> CommitTable<C> {
    /// Extends the map to every start below a bound if necessary, and reads it.
    pub(crate) async fn coordinate(&self, bound: Timestamp) -> Result<()> {
        let further = bound.checked_add(self.coordination_step).unwrap_or(Timestamp::MAX);
        self.change_map(|map| {
            let Some(map) = map else {
                check(self.first_encoding)?;
                return Ok(Some(EncodingMap::starting_with(self.first_encoding, further)));
            };
            Ok((map.valid_through() < bound).then(|| map.extended(further)))
        })
        .await?;
        Ok(())
    }

    /// Installs another encoding for all starts that are not decided yet, and returns the first of
    /// them; `None` if it is the last encoding already. It takes effect once the leader has used up
    /// the starts of the previous one; nothing is copied and nothing waits.
    ///
    /// # Errors
    ///
    /// `Invalid` for an encoding that a cluster cannot have; `Unavailable`.
    pub async fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        check(to)?;
        // A change whose answer was lost looks like a change by another process.
        let is_news = AtomicBool::new(false);
        let map = self
            .change_map(|map| match map {
                Some(map) if map.spans().last().is_some_and(|(_, last)| last == to) => Ok(None),
                Some(map) => {
                    is_news.store(true, Ordering::Relaxed);
                    map.followed_by(to).map(Some)
                }
                None => Err(Error::unavailable("the database has not been started yet")),
            })
            .await?;
        let first = map.spans().last().map(|(first, _)| first);
        Ok(first.filter(|_| is_news.into_inner()))
    }

    async fn change_map(
        &self,
        change: impl Fn(Option<&EncodingMap>) -> Result<Option<EncodingMap>>,
    ) -> Result<Arc<EncodingMap>> {
        let mut wait = FIRST_WAIT;
        for _ in 0..READER_TRIES {
            let read = self.cluster.read_register(Register::Coordination, ReadMode::Serial).await;
            let stored = read?;
            let map = stored.as_deref().map(EncodingMap::decode).transpose()?;
            let changed = change(map.as_ref())?;
            let new = match (changed, map) {
                (Some(new), _) => new,
                (None, Some(map)) => return Ok(self.keep_map(map)),
                (None, None) => return Err(Error::unavailable("there is no coordination map")),
            };
            let (register, bytes) = (Register::Coordination, new.encode());
            match self.cluster.compare_and_set(register, stored.as_ref(), &bytes).await {
                Ok(SetAnswer::Applied) => return Ok(self.keep_map(new)),
                // Read again: either the change is there, or it is tried again.
                Ok(SetAnswer::Refused(_)) | Err(Fault::Unknown(_)) => {}
                Err(Fault::Failed(error)) => return Err(error),
            }
            self.timer.wait(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Err(Error::unavailable("the coordination map could not be changed; try again"))
    }
}
