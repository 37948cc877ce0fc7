//! Sessions of the dashboard: who has logged in, by the secret of a cookie.
//!
//! A secret has 128 random bits; only its hash is kept. A session ends when it is not used for half
//! an hour, twelve hours after its log-in, at its log-out, with its user or the password of its log-in, and with the
//! server. Their number is bounded: a
//! user with as many as one may have loses the one that was not used for the longest time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use carnet_base::{Clock, Moment, lock};
use rustls::crypto::aws_lc_rs;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::accounts::{Account, Owner};
use crate::auth::{Authenticator, Proven};
use crate::clients::Registration;

const SESSIONS_MAX: usize = 256;
const SESSIONS_PER_OWNER_MAX: usize = 16;
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Length of a secret in bytes.
const SECRET_LEN: usize = 16;

/// Session of a client that may run statements.
pub(super) struct Opened<S> {
    /// Name of the user; `None` on a server without users.
    pub(super) user: Option<String>,
    pub(super) owner: Owner,
    /// Session of the console's statements, which has a keyspace and may have a transaction.
    pub(super) console: Arc<S>,
    /// Session of the pages' own queries.
    pub(super) pages: Arc<S>,
    /// What the sessions and connections of the user share.
    pub(super) account: Account,
    /// Entry in the list of clients.
    pub(super) registration: Registration,
    /// Places of the statements that it runs at a time.
    pub(super) statements: Semaphore,
    /// Log-in that began it; `None` on a server without users.
    pub(super) login: Option<Login>,
}

/// Log-in of a user, which ends with the user or its password.
pub(super) struct Login {
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) proven: Proven,
}

impl Login {
    fn holds(&self) -> bool {
        self.authenticator.still_holds(&self.proven)
    }
}

/// Maximum number of statements that a session runs at a time, for its page and its console.
pub(super) const STATEMENTS_MAX: usize = 8;

/// The sessions of a server, by the hashes of their secrets.
pub(super) struct Sessions<S> {
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<Key, Entry<S>>>,
}

/// Hash of a secret.
type Key = [u8; 32];

struct Entry<S> {
    opened: Arc<Opened<S>>,
    begun: Moment,
    used: Moment,
}

impl<S> Sessions<S> {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, open: Mutex::default() }
    }

    /// Adds a session, and returns its secret in hexadecimal digits; `None` if there are too many sessions of
    /// others, or no random numbers.
    pub(super) fn add(&self, opened: Opened<S>) -> Option<String> {
        let mut secret = [0; SECRET_LEN];
        aws_lc_rs::default_provider().secure_random.fill(&mut secret).ok()?;
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut open = self.live();
        let of_owner = open.iter().filter(|(_, entry)| entry.opened.owner == opened.owner);
        if of_owner.clone().count() >= SESSIONS_PER_OWNER_MAX {
            let oldest = of_owner.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        if open.len() >= SESSIONS_MAX {
            return None;
        }
        let now = self.clock.now();
        let entry = Entry { opened: Arc::new(opened), begun: now, used: now };
        open.insert(key(&secret), entry);
        Some(secret)
    }

    /// Finds the session of a secret, which counts as used.
    pub(super) fn find(&self, secret: &str) -> Option<Arc<Opened<S>>> {
        let now = self.clock.now();
        let mut open = self.live();
        let entry = open.get_mut(&key(secret))?;
        entry.used = now;
        Some(Arc::clone(&entry.opened))
    }

    /// Ends the session of a secret.
    pub(super) fn end(&self, secret: &str) {
        lock(&self.open).remove(&key(secret));
    }

    /// Ends sessions that are not used any more: their transactions and their places in lists of clients.
    pub(super) fn end_unused(&self) {
        drop(self.live());
    }

    /// Returns the sessions that have not ended.
    fn live(&self) -> MutexGuard<'_, HashMap<Key, Entry<S>>> {
        let now = self.clock.now();
        let mut open = lock(&self.open);
        open.retain(|_, entry| {
            now.since(entry.used) < IDLE_MAX
                && now.since(entry.begun) < AGE_MAX
                && entry.opened.login.as_ref().is_none_or(Login::holds)
        });
        open
    }
}

fn key(secret: &str) -> Key {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use carnet_base::WallTime;

    use super::*;
    use crate::accounts::{AccountLimits, Accounts};
    use crate::clients::Clients;

    /// Clock in seconds.
    #[derive(Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn now(&self) -> Moment {
            Moment::default().after(Duration::from_secs(self.0.load(Ordering::Relaxed)))
        }

        fn wall(&self) -> WallTime {
            WallTime::default()
        }
    }

    fn sessions() -> (Arc<Seconds>, Sessions<()>) {
        let clock = Arc::new(Seconds::default());
        let sessions = Sessions::new(Arc::clone(&clock) as Arc<dyn Clock>);
        (clock, sessions)
    }

    fn opened(name: &str) -> Opened<()> {
        let address = "127.0.0.1:1".parse().unwrap();
        let owner = Owner::User(name.into());
        let accounts = Accounts::new(AccountLimits::default(), Arc::new(Seconds::default()));
        Opened {
            user: Some(name.to_owned()),
            account: accounts.enter(owner.clone()).unwrap(),
            owner,
            console: Arc::new(()),
            pages: Arc::new(()),
            registration: Clients::default().register(address, None),
            statements: Semaphore::new(STATEMENTS_MAX),
            login: None,
        }
    }

    #[test]
    fn only_its_secret_finds_a_session() {
        let (_, sessions) = sessions();
        let secret = sessions.add(opened("ann")).unwrap();
        assert_eq!(secret.len(), 32, "128 bits");
        assert_eq!(sessions.find(&secret).unwrap().user.as_deref(), Some("ann"));
        for wrong in ["", "0", &secret[1..], &secret.to_uppercase().replace(char::is_numeric, "A")]
        {
            assert!(sessions.find(wrong).is_none(), "{wrong}");
        }
        sessions.end(&secret);
        assert!(sessions.find(&secret).is_none(), "logged out");
    }

    #[test]
    fn secrets_differ() {
        let (_, sessions) = sessions();
        let secrets: HashSet<_> = (0..100).map(|_| sessions.add(opened("ann")).unwrap()).collect();
        assert_eq!(secrets.len(), 100);
    }

    #[test]
    fn unused_session_ends() {
        let (clock, sessions) = sessions();
        let secret = sessions.add(opened("ann")).unwrap();
        for minutes in [29, 58] {
            clock.0.store(minutes * 60, Ordering::Relaxed);
            assert!(sessions.find(&secret).is_some(), "it is used");
        }
        clock.0.store(88 * 60, Ordering::Relaxed);
        sessions.end_unused();
        assert!(lock(&sessions.open).is_empty());
        assert!(sessions.find(&secret).is_none());
    }

    #[test]
    fn used_session_ends_after_half_a_day() {
        let (clock, sessions) = sessions();
        let secret = sessions.add(opened("ann")).unwrap();
        let found: Vec<bool> = (1..=13 * 4)
            .map(|quarters| {
                clock.0.store(quarters * 15 * 60, Ordering::Relaxed);
                sessions.find(&secret).is_some()
            })
            .collect();
        assert_eq!(found.iter().filter(|found| **found).count(), 12 * 4 - 1);
    }

    #[test]
    fn number_of_sessions_is_bounded() {
        let (clock, sessions) = sessions();
        let first = sessions.add(opened("ann")).unwrap();
        for second in 1..=SESSIONS_PER_OWNER_MAX as u64 {
            clock.0.store(second, Ordering::Relaxed);
            sessions.add(opened("ann")).unwrap();
        }
        assert!(sessions.find(&first).is_none(), "the one that was unused for the longest time");
        assert_eq!(lock(&sessions.open).len(), SESSIONS_PER_OWNER_MAX);
        for other in SESSIONS_PER_OWNER_MAX..SESSIONS_MAX {
            sessions.add(opened(&format!("user{other}"))).unwrap();
        }
        assert!(sessions.add(opened("bob")).is_none(), "the server has as many as it keeps");
        assert!(sessions.add(opened("ann")).is_some(), "in place of one of her own");
    }
}
