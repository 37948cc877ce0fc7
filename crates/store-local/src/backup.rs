//! Backups of the store, and stores made of them.

use std::sync::Arc;

use carnet_base::{Encoding, KeyRange, Result, Rng, Timestamp, WallTime};
use carnet_storage::TableOptionsOf;
use carnet_storage::backup::{self, About, BackupJob, Label, Progress, Restored, Vault};
use carnet_storage::disk::Disk;
use carnet_store::{WallPoint, WallTimes};

use crate::{LocalStore, bound, encodings, laid_out, times};

/// At least so far above the bound of the old life a restored one begins, and at most twice as far:
/// whatever the old one hands out after the backup, or another one that is made of it, means nothing
/// in the new one. `docs/design/0008-restore.md` has the figures.
const GAP: u64 = 1 << 44;

impl LocalStore {
    /// Begins a backup of what is in files, up to [`LocalStore::flushed`]: flush first, and all that
    /// was acknowledged is in it. Transactions go on beside it.
    ///
    /// # Errors
    ///
    /// As [`Engine::begin_backup`](carnet_storage::Engine::begin_backup).
    pub fn begin_backup(&self, vault: &dyn Vault, program: &str) -> Result<BackupJob> {
        let about = About {
            wall: self.clock.wall(),
            program: program.to_owned(),
            notes: vec![encodings::describe(&self.encodings.map())],
        };
        self.engine.begin_backup(vault, about)
    }

    /// Lets what was committed so far be flushed, without waiting for it; returns the last commit.
    pub fn seal(&self) -> Timestamp {
        self.engine.seal()
    }

    /// Returns the last commit that is in files, as every earlier one is.
    #[must_use]
    pub fn flushed(&self) -> Timestamp {
        self.engine.flushed()
    }

    /// Makes a store in an empty directory of a backup, without what committed after `as_of`. `rng`
    /// says where its timestamps begin.
    ///
    /// # Errors
    ///
    /// As [`backup::restore`].
    pub fn restore(
        from: &Arc<dyn Disk>,
        to: &Arc<dyn Disk>,
        as_of: Option<Timestamp>,
        table_options: TableOptionsOf,
        rng: &mut dyn Rng,
        tell: impl FnMut(&Progress),
    ) -> Result<Restored> {
        let gap = GAP + rng.below(GAP);
        let begin = |bound, notes: &carnet_base::Bytes| {
            let map = encodings::decode(notes, bound)?;
            let bound = bound::above(bound, gap)?;
            Ok((bound, map.extended(encodings::below(bound)).encode()))
        };
        let order =
            backup::Restore { as_of, table_options: laid_out(table_options), begin: &begin };
        backup::restore(from, to, &order, tell)
    }

    /// Returns the newest commit of a backup that was published by a wall time.
    ///
    /// # Errors
    ///
    /// `Invalid` for a time after the backup was taken, `TooOld` for one of which it knows nothing;
    /// else as [`backup::for_each_key`].
    pub fn commit_at(from: &Arc<dyn Disk>, label: &Label, wall: WallTime) -> Result<Timestamp> {
        let mut points = Vec::new();
        backup::for_each_key(from, &KeyRange::table(times::TABLE), |key| {
            points.push(times::decode(key)?);
            Ok(())
        })?;
        points.sort_unstable();
        let mut known = WallTimes::default();
        for point in points {
            known.note(point);
        }
        // A clock that was set back is taken to stand until it has caught up.
        let taken = known.last().map_or(label.wall, |last| last.wall.max(label.wall));
        // As at an opening: what committed later than a spacing after the last point would have
        // written another.
        if let Some(last) = known.last() {
            let wall = times::after(last.wall, times::SPACING_MAX).min(taken);
            known.note(WallPoint { timestamp: label.commit, wall });
        }
        Ok(known.find(wall, taken, label.commit)?.min(label.commit))
    }

    /// Lets another encoding of the commit table begin. Returns the first start that is written
    /// in it, `None` where it was the last one already. Transactions go on; nothing is copied.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped or was migrated thousands of times.
    pub fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        let Some((first, bound)) = self.encodings.migrate(&self.engine, to)? else {
            return Ok(None);
        };
        self.order.extend(bound);
        self.order.skip_to(first);
        Ok(Some(first))
    }

    /// Returns where each encoding of the commit table begins, rising.
    #[must_use]
    pub fn encodings(&self) -> Vec<(Timestamp, Encoding)> {
        self.encodings.map().spans().collect()
    }
}
