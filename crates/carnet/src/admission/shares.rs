//! Division of a resource among levels by their shares.
//!
//! Each level has an account of the time that it has used, divided by its shares: its *virtual time*
//! (Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm"). The level
//! with the least virtual time comes next, so that levels that always want more use time in
//! proportion to their shares.
//!
//! A level of which nothing waited for a while does not save up the time meanwhile: its account is moved
//! up to a little below the one that was served last. So a level that used what the others left is not
//! made to wait for it once they want more. One that used much at a time falls behind by a bounded amount, so
//! that it is served again within a bounded time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::level::LevelId;
use crate::diagnosis::nanos;

/// What a level that was idle is ahead of the others, at 1,000 shares.
const AHEAD_MAX: Duration = Duration::from_millis(5);
/// What a level that used much is behind the others at most, at 1,000 shares.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// Virtual time is counted in nanoseconds for so many shares.
const UNIT_SHARES: u64 = 1_000;

/// The accounts of the levels.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_level: BTreeMap<LevelId, Account>,
    /// The virtual time of the level that was served last. It never falls.
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    shares: u32,
    used: u64,
}

impl Accounts {
    /// Sets the shares of a level of which nothing waited before.
    pub(super) fn begin(&mut self, level: LevelId, shares: u32) {
        let least = self.now.saturating_sub(nanos(AHEAD_MAX));
        let account = self.by_level.entry(level).or_insert(Account { shares, used: least });
        account.shares = shares.max(1);
        account.used = account.used.max(least);
    }

    /// Takes that a level is served, without being chosen by [`Self::next`] perhaps.
    pub(super) fn serve(&mut self, level: LevelId) {
        let used = self.by_level.get(&level).map_or(0, |account| account.used);
        self.now = self.now.max(used);
    }

    /// Charges a level for time that it used, or uses presumably.
    pub(super) fn charge(&mut self, level: LevelId, time: Duration) {
        let most = self.now.saturating_add(nanos(BEHIND_MAX));
        if let Some(account) = self.by_level.get_mut(&level) {
            let part = nanos(time).saturating_mul(UNIT_SHARES) / u64::from(account.shares);
            account.used = account.used.saturating_add(part).min(most);
        }
    }

    /// Gives a level back a part of what it was charged.
    pub(super) fn give_back(&mut self, level: LevelId, time: Duration) {
        if let Some(account) = self.by_level.get_mut(&level) {
            let part = nanos(time).saturating_mul(UNIT_SHARES) / u64::from(account.shares);
            account.used = account.used.saturating_sub(part);
        }
    }

    /// Chooses the level that comes next of those that want something.
    pub(super) fn next(&mut self, levels: impl Iterator<Item = LevelId>) -> Option<LevelId> {
        let used = |level: &LevelId| self.by_level.get(level).map_or(0, |account| account.used);
        let (least, level) = levels.map(|level| (used(&level), level)).min()?;
        self.now = self.now.max(least);
        Some(level)
    }

    /// Forgets a level.
    pub(super) fn remove(&mut self, level: LevelId) {
        self.by_level.remove(&level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn serve(accounts: &mut Accounts, levels: &[u64], rounds: usize, cost: Duration) -> Vec<usize> {
        let mut served = vec![0; 10];
        for _ in 0..rounds {
            let level = accounts.next(levels.iter().copied().map(LevelId)).unwrap();
            accounts.charge(level, cost);
            served[usize::try_from(level.0).unwrap()] += 1;
        }
        served
    }

    #[test]
    fn levels_use_time_by_their_shares() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 1_000);
        accounts.begin(LevelId(2), 100);
        let served = serve(&mut accounts, &[1, 2], 1_100, MILLI);
        assert!((990..=1_010).contains(&served[1]), "{served:?}");
    }

    #[test]
    fn idle_level_does_not_save_up_time() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 1_000);
        accounts.begin(LevelId(2), 1_000);
        serve(&mut accounts, &[1], 10_000, MILLI);
        accounts.begin(LevelId(2), 1_000);
        let served = serve(&mut accounts, &[1, 2], 100, MILLI);
        assert!(served[2] <= 60, "{served:?}");
    }

    /// The first level uses what is left of an idle machine, while the second wants little.
    #[test]
    fn level_does_not_pay_for_time_that_was_left() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 100);
        for _ in 0..1_000 {
            for level in [1, 2] {
                accounts.begin(LevelId(level), if level == 1 { 100 } else { 1_000 });
                accounts.serve(LevelId(level));
                accounts.charge(LevelId(level), MILLI);
            }
        }
        let served = serve(&mut accounts, &[1, 2], 110, MILLI);
        assert!((8..=12).contains(&served[1]), "{served:?}");
    }

    #[test]
    fn level_that_used_much_is_served_again() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 1_000);
        accounts.begin(LevelId(2), 1);
        serve(&mut accounts, &[2], 1, Duration::from_secs(3_600));
        let served = serve(&mut accounts, &[1, 2], 1_010, MILLI);
        assert!(served[2] >= 1, "{served:?}");
    }
}
