//! What the connections of one user share: their number, and the rate of their requests.
//!
//! Clients that do not log in share by address. Both limits are off by default: the gate serves users
//! in turns, so that no user has to be slowed down while there is room. They cap each user where an
//! operator sells a fixed rate.
//!
//! The rate follows the generic cell rate algorithm. It keeps the time until when a user's requests are
//! paid for, at most a second ahead of now. Beyond that its connections are not read from, and requests wait
//! in the kernel and finally with the client. Source: ITU-T I.371, annex A.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Clock, Moment, lock, network};

/// Maximum burst, as a time at the user's rate.
const BURST: Duration = Duration::from_secs(1);
/// Number of accounts below which none is looked for to be forgotten.
const KEPT_MIN: usize = 1_024;

/// Limits of each account; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountLimits {
    /// Maximum number of connections of a user.
    pub(crate) connections_max: Option<usize>,
    /// Maximum number of requests per second of a user, or of an address without log-ins.
    pub(crate) requests_per_second_max: Option<u32>,
}

/// The owner of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    User(Arc<str>),
    Address(IpAddr),
}

impl Owner {
    /// Returns the owner of a connection.
    pub(crate) fn of(user: Option<&str>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::Address(network(address)), |user| Self::User(user.into()))
    }
}

/// Accounts of all users that have connections.
pub(crate) struct Accounts {
    limits: AccountLimits,
    clock: Arc<dyn Clock>,
    open: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_owner: HashMap<Owner, Open>,
    /// Number of accounts at which the unused ones are forgotten.
    forget_at: usize,
}

#[derive(Debug)]
struct Open {
    connections: usize,
    rate: Option<Arc<Rate>>,
}

impl Accounts {
    pub(crate) fn new(limits: AccountLimits, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { limits, clock, open: Mutex::default() })
    }

    /// Adds a connection to an account until the returned value is dropped; `None` if the account has
    /// its maximum. Addresses have none: connections are counted by address before a log-in.
    pub(crate) fn enter(self: &Arc<Self>, owner: Owner) -> Option<Account> {
        let AccountLimits { connections_max, requests_per_second_max } = self.limits;
        let is_user = matches!(owner, Owner::User(_));
        let max = connections_max.filter(|_| is_user).unwrap_or(usize::MAX);
        let mut open = lock(&self.open);
        if open.by_owner.get(&owner).is_some_and(|open| open.connections >= max) {
            return None;
        }
        open.forget(self.clock.now());
        let account = open.by_owner.entry(owner.clone()).or_insert_with(|| Open {
            connections: 0,
            rate: requests_per_second_max.map(|per_second| Arc::new(Rate::new(per_second))),
        });
        account.connections += 1;
        let rate = account.rate.clone();
        Some(Account { accounts: Arc::clone(self), owner, rate })
    }
}

impl Known {
    /// Forgets the accounts that are not in use, once there are many. An account without connections is kept
    /// until its requests are paid for: a client does not get a new one by connecting again.
    fn forget(&mut self, now: Moment) {
        if self.by_owner.len() >= self.forget_at {
            self.by_owner.retain(|_, open| open.is_used(now));
            self.forget_at = (2 * self.by_owner.len()).max(KEPT_MIN);
        }
    }
}

impl Open {
    fn is_used(&self, now: Moment) -> bool {
        self.connections > 0 || self.rate.as_ref().is_some_and(|rate| rate.is_ahead(now))
    }
}

/// A connection's part of an account.
pub(crate) struct Account {
    accounts: Arc<Accounts>,
    owner: Owner,
    rate: Option<Arc<Rate>>,
}

impl Account {
    /// Returns the time for which no request may be taken.
    pub(crate) fn wait(&self, now: impl FnOnce() -> Moment) -> Duration {
        self.rate.as_ref().map_or(Duration::ZERO, |rate| rate.wait(now()))
    }

    /// Counts a request.
    pub(crate) fn take(&self, now: Moment) {
        if let Some(rate) = &self.rate {
            rate.take(now);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let now = self.accounts.clock.now();
        let mut open = lock(&self.accounts.open);
        if let Some(account) = open.by_owner.get_mut(&self.owner) {
            account.connections -= 1;
            if !account.is_used(now) {
                open.by_owner.remove(&self.owner);
            }
        }
    }
}

/// A rate of requests.
#[derive(Debug)]
struct Rate {
    /// Time that each request takes, in nanoseconds.
    interval: u64,
    /// Time up to which requests are paid for, in nanoseconds of the clock.
    paid: AtomicU64,
}

impl Rate {
    fn new(per_second: u32) -> Self {
        Self { interval: 1_000_000_000 / u64::from(per_second.max(1)), paid: AtomicU64::new(0) }
    }

    fn wait(&self, now: Moment) -> Duration {
        // Relaxed, here and below: the counter guards no other memory.
        let paid = Duration::from_nanos(self.paid.load(Ordering::Relaxed));
        paid.saturating_sub(now.0 + BURST)
    }

    /// Returns `true` if requests of later than now are paid for.
    fn is_ahead(&self, now: Moment) -> bool {
        Duration::from_nanos(self.paid.load(Ordering::Relaxed)) > now.0
    }

    fn take(&self, now: Moment) {
        let now = u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| {
            Some(paid.max(now).saturating_add(self.interval))
        });
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::SystemClock;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn user(name: &str) -> Owner {
        Owner::of(Some(name), IpAddr::from([127, 0, 0, 1]))
    }

    /// Counts the requests that an account may send in each millisecond of a time.
    fn sent(account: &Account, from: u64, until: u64) -> u64 {
        let mut sent = 0;
        for millis in from..until {
            while account.wait(|| at(millis)).is_zero() {
                account.take(at(millis));
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn requests_keep_to_their_rate() {
        let limits =
            AccountLimits { requests_per_second_max: Some(100), ..AccountLimits::default() };
        let accounts = Accounts::new(limits, Arc::new(SystemClock));
        let account = accounts.enter(user("ann")).unwrap();
        let at_once = sent(&account, 1_000, 1_001);
        assert!((100..=102).contains(&at_once), "a second's requests may come at once: {at_once}");
        let then = sent(&account, 1_001, 4_001);
        assert!((299..=301).contains(&then), "{then}");
        assert!(account.wait(|| at(4_000)) <= Duration::from_millis(10));
        let second = accounts.enter(user("ann")).unwrap();
        assert!(sent(&second, 4_001, 5_001) <= 101, "the connections of a user share its rate");
        let other = accounts.enter(user("bob")).unwrap();
        assert!(sent(&other, 5_000, 5_001) >= 100);
    }

    #[test]
    fn connections_of_a_user_are_limited() {
        let limits = AccountLimits { connections_max: Some(2), ..AccountLimits::default() };
        let accounts = Accounts::new(limits, Arc::new(SystemClock));
        let first = accounts.enter(user("ann")).unwrap();
        let _second = accounts.enter(user("ann")).unwrap();
        assert!(accounts.enter(user("ann")).is_none());
        let _other = accounts.enter(user("bob")).unwrap();
        let address = || Owner::of(None, IpAddr::from([127, 0, 0, 1]));
        let _addresses: Vec<_> = (0..3).map(|_| accounts.enter(address()).unwrap()).collect();
        drop(first);
        let _third = accounts.enter(user("ann")).unwrap();
        drop((_second, _third, _other, _addresses));
        assert!(
            lock(&accounts.open).by_owner.is_empty(),
            "an account without connections is forgotten"
        );
    }

    #[test]
    fn connecting_again_does_not_start_a_new_account() {
        let limits = AccountLimits { requests_per_second_max: Some(1), ..AccountLimits::default() };
        let accounts = Accounts::new(limits, Arc::new(SystemClock));
        let now = SystemClock.now();
        for _ in 0..100 {
            accounts.enter(user("ann")).unwrap().take(now);
        }
        let again = accounts.enter(user("ann")).unwrap();
        assert!(again.wait(|| now) > Duration::from_secs(90), "{:?}", again.wait(|| now));
    }

    #[test]
    fn nothing_is_limited_by_default() {
        let account = Accounts::new(AccountLimits::default(), Arc::new(SystemClock))
            .enter(user("ann"))
            .unwrap();
        for _ in 0..100_000 {
            account.take(at(1));
        }
        assert!(account.wait(|| at(1)).is_zero());
    }
}
