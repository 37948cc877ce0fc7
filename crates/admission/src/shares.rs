//! Fair queueing: divides a resource among levels by their shares.
//!
//! Each level has an account of its used time divided by its shares: its *virtual time* (Demers,
//! Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm"). The level with the
//! least virtual time is served next. So levels that always have waiting work use time in
//! proportion to their shares.
//!
//! An idle level does not save up time: when it returns, its account is raised to slightly below
//! that of the level served last. So a level that used spare time is not made to wait when the
//! other levels return. A level whose requests still run is not idle because none of them waits at
//! this moment: it keeps more of its unused time. The account of a level that used much at once is
//! capped, so that the level is served again within a bounded time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::level::LevelId;
use crate::diagnosis::nanos;

/// Maximum virtual time, at 1,000 shares, by which an idle level is ahead of the others when it returns.
const IDLE_AHEAD_MAX: Duration = Duration::from_millis(5);
/// Like [`IDLE_AHEAD_MAX`], but for a level whose requests still run.
const BUSY_AHEAD_MAX: Duration = Duration::from_millis(200);
/// Maximum virtual time by which a level is behind the others, at 1,000 shares.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// Shares at which virtual time equals used time in nanoseconds.
const UNIT_SHARES: u64 = 1_000;

/// The accounts of all levels.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_level: BTreeMap<LevelId, Account>,
    /// Virtual time of the level that was served last. It never decreases.
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    shares: u32,
    used: u64,
}

impl Accounts {
    /// Begins or resumes the account of a level for which work arrives, and sets its shares. `is_idle` means that
    /// none of its requests runs either.
    pub(super) fn begin(&mut self, level: LevelId, shares: u32, is_idle: bool) {
        let ahead_max = if is_idle { IDLE_AHEAD_MAX } else { BUSY_AHEAD_MAX };
        let least = self.now.saturating_sub(nanos(ahead_max));
        let account = self.by_level.entry(level).or_insert(Account { shares, used: least });
        account.shares = shares.max(1);
        account.used = account.used.max(least);
    }

    /// Records that a level is served, possibly without [`Self::next`].
    pub(super) fn serve(&mut self, level: LevelId) {
        let used = self.by_level.get(&level).map_or(0, |account| account.used);
        self.now = self.now.max(used);
    }

    /// Charges a level for used or estimated time.
    pub(super) fn charge(&mut self, level: LevelId, time: Duration) {
        let most = self.now.saturating_add(nanos(BEHIND_MAX));
        if let Some(account) = self.by_level.get_mut(&level) {
            let part = nanos(time).saturating_mul(UNIT_SHARES) / u64::from(account.shares);
            account.used = account.used.saturating_add(part).min(most);
        }
    }

    /// Refunds a part of a level's charge.
    pub(super) fn give_back(&mut self, level: LevelId, time: Duration) {
        if let Some(account) = self.by_level.get_mut(&level) {
            let part = nanos(time).saturating_mul(UNIT_SHARES) / u64::from(account.shares);
            account.used = account.used.saturating_sub(part);
        }
    }

    /// Chooses the level to serve next among those with waiting work.
    pub(super) fn next(&mut self, levels: impl Iterator<Item = LevelId>) -> Option<LevelId> {
        let used = |level: &LevelId| self.by_level.get(level).map_or(0, |account| account.used);
        let (least, level) = levels.map(|level| (used(&level), level)).min()?;
        self.now = self.now.max(least);
        Some(level)
    }

    /// Returns the time that a level has used, in units of its shares.
    #[cfg(test)]
    pub(super) fn used(&self, level: LevelId) -> u64 {
        self.by_level[&level].used
    }

    /// Removes the account of a level.
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
        accounts.begin(LevelId(1), 1_000, true);
        accounts.begin(LevelId(2), 100, true);
        let served = serve(&mut accounts, &[1, 2], 1_100, MILLI);
        assert!((990..=1_010).contains(&served[1]), "{served:?}");
    }

    #[test]
    fn idle_level_does_not_save_up_time() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 1_000, true);
        accounts.begin(LevelId(2), 1_000, true);
        serve(&mut accounts, &[1], 10_000, MILLI);
        accounts.begin(LevelId(2), 1_000, true);
        let served = serve(&mut accounts, &[1, 2], 100, MILLI);
        assert!(served[2] <= 60, "{served:?}");
    }

    /// The first level uses the spare time of an idle machine, while the second level needs little.
    #[test]
    fn level_does_not_pay_for_spare_time() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 100, true);
        for _ in 0..1_000 {
            for level in [1, 2] {
                accounts.begin(LevelId(level), if level == 1 { 100 } else { 1_000 }, true);
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
        accounts.begin(LevelId(1), 1_000, true);
        accounts.begin(LevelId(2), 1, true);
        serve(&mut accounts, &[2], 1, Duration::from_secs(3_600));
        let served = serve(&mut accounts, &[1, 2], 1_010, MILLI);
        assert!(served[2] >= 1, "{served:?}");
    }

    /// The queue of the larger level is empty now and then, while its requests run. The larger level keeps the time
    /// that the smaller one uses meanwhile.
    #[test]
    fn busy_level_keeps_time_that_it_did_not_use() {
        let served = |is_idle| {
            let mut accounts = Accounts::default();
            accounts.begin(LevelId(1), 1_000, true);
            accounts.begin(LevelId(2), 100, true);
            let mut all = [0; 2];
            for _ in 0..100 {
                // Two requests of the smaller level find no other.
                all[1] += serve(&mut accounts, &[2], 2, MILLI)[2];
                accounts.begin(LevelId(1), 1_000, is_idle);
                let served = serve(&mut accounts, &[1, 2], 20, MILLI);
                all[0] += served[1];
                all[1] += served[2];
            }
            all
        };
        let [large, small] = served(false);
        assert!((9 * small..=11 * small).contains(&large), "{large} {small}");
        let [large, small] = served(true);
        assert!(large < 7 * small, "{large} {small}");
    }

    #[test]
    fn charges_are_given_back() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 250, true);
        accounts.charge(LevelId(1), 7 * MILLI);
        let before = accounts.used(LevelId(1));
        accounts.charge(LevelId(1), 3 * MILLI);
        assert!(accounts.used(LevelId(1)) > before);
        accounts.give_back(LevelId(1), 3 * MILLI);
        assert_eq!(accounts.used(LevelId(1)), before);
    }

    #[test]
    fn removed_levels_have_no_account() {
        let mut accounts = Accounts::default();
        accounts.begin(LevelId(1), 100, true);
        accounts.remove(LevelId(1));
        assert!(accounts.by_level.is_empty());
    }

    #[test]
    fn levels_begin_little_behind_the_one_that_was_served() {
        for (is_idle, ahead) in [(true, IDLE_AHEAD_MAX), (false, BUSY_AHEAD_MAX)] {
            let mut accounts = Accounts::default();
            accounts.begin(LevelId(1), 1_000, true);
            for _ in 0..10_000 {
                accounts.charge(LevelId(1), MILLI);
                accounts.serve(LevelId(1));
            }
            accounts.begin(LevelId(2), 1_000, is_idle);
            assert_eq!(accounts.used(LevelId(2)), accounts.used(LevelId(1)) - nanos(ahead));
        }
    }
}
