//! The right to copy into a table, which one import has at a time.
//!
//! ```text
//!   INSERT … IF NOT EXISTS USING TTL 5 ───▶ applied: renewed every third of the time, and released at
//!                                           the end
//!                                       ──▶ not applied: the holder's time is read until it grows (the
//!                                           holder lives: refused) or has run out (it died: taken)
//! ```
//!
//! The table `carnet_import.holders` has a row for each table that is copied into. Its time to live
//! runs by the clock of the database, so that clocks of the processes do not matter.

use std::time::Duration;

use anyhow::{Result, bail};
use carnet::Uuid;
use carnet_base::Signal;

use super::copier::Copier;
use super::row::{Row, literal};
use super::source::Source;
use super::table_name::TableName;
use super::target::Target;

/// Statement that creates the table if missing.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS carnet_import.holders \
                                 (target text PRIMARY KEY, holder uuid)";

/// Time after which a holder that does not renew its right has lost it, in seconds.
const TTL_SECS: u64 = if cfg!(test) { 2 } else { 5 };
/// Interval between looks at the row of another holder.
const LOOK: Duration = Duration::from_millis(200);

/// The right of one import to copy into a table.
pub(super) struct Hold {
    target: String,
    holder: Uuid,
}

impl Hold {
    /// Takes the right, from a holder that has died after a while, or at once if `takes_over`.
    ///
    /// # Errors
    ///
    /// If another import holds it; errors of the database.
    pub(super) fn take(
        target: &impl Target,
        table: &TableName,
        holder: Uuid,
        takes_over: bool,
    ) -> Result<Self> {
        let hold = Self { target: literal(&table.stored()), holder };
        if takes_over {
            target.query(&hold.insert(""))?;
            return Ok(hold);
        }
        let mut least_secs = i64::MAX;
        while !hold.insert_if_free(target)? {
            let ttl = format!(
                "SELECT ttl(holder) FROM carnet_import.holders WHERE target = {}",
                hold.target
            );
            let left_secs = first_int(&target.query(&ttl)?);
            if left_secs.is_some_and(|secs| secs > least_secs) {
                bail!(
                    "another import copies into {table}; wait until it ends, or take its place with \
                     --restart"
                );
            }
            if least_secs == i64::MAX {
                eprintln!(
                    "Waiting up to {TTL_SECS} s: another import into {table} runs or was killed."
                );
            }
            least_secs = least_secs.min(left_secs.unwrap_or(0));
            Signal::new().wait(Some(LOOK));
        }
        Ok(hold)
    }

    fn insert(&self, condition: &str) -> String {
        format!(
            "INSERT INTO carnet_import.holders (target, holder) VALUES ({}, {}) {condition} \
             USING TTL {TTL_SECS}",
            self.target, self.holder
        )
    }

    fn insert_if_free(&self, target: &impl Target) -> Result<bool> {
        Ok(is_applied(&target.query(&self.insert("IF NOT EXISTS"))?))
    }

    /// Renews the right until the copy ends, and ends the copy if another import has taken it.
    pub(super) fn keep<S: Source, T: Target>(&self, target: &T, copier: &Copier<'_, S, T>) {
        while copier.goes_on(Duration::from_secs(TTL_SECS) / 3) {
            // A database that cannot be reached refuses the rows too: the copier decides.
            if let Ok(false) = self.renew(target) {
                copier.fail(anyhow::anyhow!(
                    "another import has taken the place of this one with --restart; this import ends"
                ));
            }
        }
    }

    /// Returns `false` if another import has the right.
    fn renew(&self, target: &impl Target) -> Result<bool> {
        let update = format!(
            "UPDATE carnet_import.holders USING TTL {TTL_SECS} SET holder = {0} WHERE target = {1} \
             IF holder = {0}",
            self.holder, self.target
        );
        // It ran out if the database was away for that long.
        Ok(is_applied(&target.query(&update)?) || self.insert_if_free(target)?)
    }

    /// Gives the right back. If that fails it runs out.
    pub(super) fn release(self, target: &impl Target) {
        let delete = format!(
            "DELETE FROM carnet_import.holders WHERE target = {} IF holder = {}",
            self.target, self.holder
        );
        let _ = target.query(&delete);
    }
}

/// Returns the first column of the answer to a conditional statement.
fn is_applied(rows: &[Row]) -> bool {
    matches!(rows.first().and_then(|row| row.first()), Some(Some(applied)) if **applied == [1])
}

fn first_int(rows: &[Row]) -> Option<i64> {
    let value = rows.first()?.first()?.as_deref()?;
    Some(i32::from_be_bytes(value.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use carnet::Db;

    use super::super::progress;
    use super::super::target::Embedded;
    use super::*;

    fn database() -> (Embedded, TableName) {
        let target = Embedded::new(Db::builder().in_memory());
        target.query(progress::CREATE_KEYSPACE).unwrap();
        target.query(CREATE).unwrap();
        (target, TableName::parse("shop.orders").unwrap())
    }

    fn take(target: &Embedded, table: &TableName, id: u128, takes_over: bool) -> Result<Hold> {
        Hold::take(target, table, Uuid::from_u128(id), takes_over)
    }

    #[test]
    fn living_import_keeps_others_out() {
        let (target, table) = database();
        let first = take(&target, &table, 1, false).unwrap();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    assert!(first.renew(&target).unwrap());
                    Signal::new().wait(Some(LOOK));
                }
            });
            let error = take(&target, &table, 2, false).err().map(|error| error.to_string());
            has_ended.store(true, Ordering::Relaxed);
            assert!(error.as_deref().unwrap_or_default().contains("--restart"), "{error:?}");
        });
        let other = TableName::parse("shop.others").unwrap();
        take(&target, &other, 3, false).unwrap();
        first.release(&target);
        take(&target, &table, 2, false).unwrap();
    }

    #[test]
    fn right_of_a_killed_import_runs_out() {
        let (target, table) = database();
        drop(take(&target, &table, 1, false).unwrap());
        let second = take(&target, &table, 2, false).unwrap();
        assert!(second.renew(&target).unwrap());
    }

    #[test]
    fn restart_takes_the_place_of_another() {
        let (target, table) = database();
        let first = take(&target, &table, 1, false).unwrap();
        let second = take(&target, &table, 2, true).unwrap();
        assert!(!first.renew(&target).unwrap() && second.renew(&target).unwrap());
        // The first one gives back only its own right.
        first.release(&target);
        assert!(second.renew(&target).unwrap());
    }
}
