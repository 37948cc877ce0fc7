//! Backup and restore of the store.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Encoding, KeyRange, Result, Rng, Timestamp, WallTime};
use carnet_storage::TableOptionsOf;
use carnet_storage::backup::{self, About, BackupJob, Label, Progress, Restored, Vault};
use carnet_storage::disk::Disk;
use carnet_store::{WallPoint, WallTimes};

use crate::{LocalStore, bound, encodings, laid_out, wall_clock};

/// Minimum distance between the bound of a backup and the first timestamp of a restored database;
/// the maximum is twice that. So timestamps that the original assigns after the backup, and those
/// of other restores, do not occur in the restored database. See `docs/design/0008-restore.md`.
const GAP: u64 = 1 << 44;

impl LocalStore {
    /// Starts a backup of the flushed commits, up to [`LocalStore::flushed`]; call
    /// [`LocalStore::flush`] first to include all acknowledged commits. Transactions continue.
    /// Tables shared with an earlier backup are read again if they were not read for `reread_after`.
    ///
    /// # Errors
    ///
    /// Like [`Engine::begin_backup`](carnet_storage::Engine::begin_backup).
    pub fn begin_backup(
        &self,
        vault: &dyn Vault,
        program: &str,
        reread_after: Duration,
    ) -> Result<BackupJob> {
        let about = About {
            wall: self.clock.wall(),
            program: program.to_owned(),
            notes: vec![encodings::describe(&self.encodings.map())],
            reread_after,
        };
        self.engine.begin_backup(vault, about)
    }

    /// Starts flushing the commits so far, without waiting; returns the last commit.
    pub fn seal(&self) -> Timestamp {
        self.engine.seal()
    }

    /// Returns the last flushed commit; all earlier ones are flushed too.
    #[must_use]
    pub fn flushed(&self) -> Timestamp {
        self.engine.flushed()
    }

    /// Restores a store from a backup to an empty directory, without commits after `as_of`. `copies`
    /// copies tables instead of linking them. `rng` determines the first timestamp.
    ///
    /// # Errors
    ///
    /// Like [`backup::restore`].
    pub fn restore(
        from: &Arc<dyn Disk>,
        to: &Arc<dyn Disk>,
        as_of: Option<Timestamp>,
        copies: bool,
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
        let table_options = laid_out(table_options);
        let order = backup::Restore { as_of, copies, table_options, begin: &begin };
        backup::restore(from, to, &order, tell)
    }

    /// Returns the newest commit of a backup that was published by a wall time.
    ///
    /// # Errors
    ///
    /// `Invalid` for a time after the backup, `TooOld` if the backup does not have this time;
    /// otherwise like [`backup::for_each_key`].
    pub fn commit_at(from: &Arc<dyn Disk>, label: &Label, wall: WallTime) -> Result<Timestamp> {
        let mut points = Vec::new();
        backup::for_each_key(from, &KeyRange::table(wall_clock::TABLE), |key| {
            points.push(wall_clock::decode(key)?);
            Ok(())
        })?;
        points.sort_unstable();
        let mut known = WallTimes::default();
        for point in points {
            known.note(point);
        }
        // If the clock was set back, the last known time applies until the clock has caught up.
        let taken = known.last().map_or(label.wall, |last| last.wall.max(label.wall));
        // As at an opening: a commit later than the spacing after the last point would have written
        // another point.
        if let Some(last) = known.last() {
            let wall = wall_clock::after(last.wall, wall_clock::SPACING_MAX).min(taken);
            known.note(WallPoint { timestamp: label.commit, wall });
        }
        Ok(known.find(wall, taken, label.commit)?.min(label.commit))
    }

    /// Changes the encoding of the commit table. Returns the first start in the new encoding, or
    /// `None` if it is the current one. Transactions continue, and no entries are copied.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped, or was migrated thousands of times.
    pub fn migrate(&self, to: Encoding) -> Result<Option<Timestamp>> {
        let Some((first, bound)) = self.encodings.migrate(&self.engine, to)? else {
            return Ok(None);
        };
        self.order.extend(bound);
        self.order.skip_to(first);
        Ok(Some(first))
    }

    /// Returns the encodings of the commit table with the start from which each applies, ascending.
    #[must_use]
    pub fn encodings(&self) -> Vec<(Timestamp, Encoding)> {
        self.encodings.map().spans().collect()
    }
}
