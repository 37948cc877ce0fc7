//! Authentication: users of a password file and roles of the database, hashes of their passwords, and
//! SASL PLAIN.
//!
//! A user of the file may do everything, because its writer owns the server anyway, and it works while
//! the database has no roles. A role needs permissions ([`carnet::roles`]).
//!
//! **Abuse by unauthenticated clients.** Argon2 is slow and takes memory on purpose, so a flood of
//! log-ins is an attack of its own. A fixed number of verifications runs at a time and a fixed
//! number waits, at most half of them from one address; further log-ins are told to retry later. A
//! running verification cannot be cancelled, so it owns its permits: a client that disconnects or
//! misses its deadline does not free them. An unknown user costs as much as a wrong password, and
//! gets the same answer. A failed log-in ends the connection.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carnet::Db;
use carnet::passwords::{self, Memories, Memory, matches};
use carnet_base::{AddressLimit, Places, Result};
use tokio::sync::Semaphore;
use tokio::task;

use crate::backend::User;
use crate::protocol::ProtocolError;
use crate::users::Users;

/// Authenticator class that clients are told; every driver answers it with SASL PLAIN.
pub(crate) const CLASS: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// Maximum number of running verifications.
const RUNNING_MAX: usize = 2;
/// Maximum number of running and waiting verifications.
const WAITING_MAX: usize = 256;
/// Users and the verification of their passwords.
pub struct Authenticator {
    users: Arc<Users>,
    /// Database whose roles log in, too.
    roles: Option<Db>,
    /// Hash of an unknown password, verified for users that do not exist if there is no other one.
    decoy: Arc<str>,
    /// Chooses the hash that is verified for a user that does not exist.
    choice: RandomState,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    by_address: Arc<AddressLimit<()>>,
    memories: Arc<Memories>,
    /// The function [`matches`], except in tests.
    hasher: Hasher,
}

/// Function that hashes a password and compares it with a hash.
type Hasher = fn(hash: &str, password: &[u8], memory: &mut Memory) -> bool;

/// Without the hashes.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("users", &self.users).finish_non_exhaustive()
    }
}

/// A user or role that has a password.
struct Known {
    hash: Arc<str>,
    can_login: bool,
    is_role: bool,
}

/// A user whose password was verified, with its hash. Not `Debug`: hashes must not be logged.
#[derive(Clone)]
pub(crate) struct Proven {
    pub(crate) user: User,
    hash: Arc<str>,
}

/// Reason for a refused log-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The user is unknown, or the password is wrong.
    Wrong,
    /// The password of the role is right, but it has no `LOGIN`.
    NoLogin,
    /// The role of the client's certificate has the name of a user of the password file, who may do
    /// everything.
    Shadowed,
    /// Too many other log-ins run or wait.
    Busy,
    /// The user has as many connections as it may.
    TooManyConnections,
}

impl Refusal {
    /// Returns the message for the client and the log.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Wrong => "the user or the password is wrong",
            Self::NoLogin => "the role is not permitted to log in: it has no LOGIN",
            Self::Shadowed => {
                "the role of the certificate's identity has the name of a user of the users file: \
                 rename one of them"
            }
            Self::TooManyConnections => {
                "the user has too many connections (server.connections_per_user)"
            }
            Self::Busy => "too many log-ins at a time: try again",
        }
    }
}

impl Authenticator {
    /// Creates the authenticator of the users of a password file.
    #[must_use]
    pub fn of_users(users: Arc<Users>) -> Self {
        let decoy = users.hashes().into_iter().next().unwrap_or_default();
        Self::new(users, decoy)
    }

    /// Creates the authenticator of a server without a password file: the roles of a database log in.
    ///
    /// # Errors
    ///
    /// Unavailable, if the system provides no random numbers.
    pub fn of_roles(db: Db) -> Result<Self> {
        let decoy = passwords::hash(&passwords::random()?)?;
        Ok(Self::new(Arc::default(), decoy.into()).with_roles(db))
    }

    /// Lets the roles of a database log in, too. A user of the file comes before a role of that name.
    #[must_use]
    pub fn with_roles(self, db: Db) -> Self {
        Self { roles: Some(db), ..self }
    }

    fn new(users: Arc<Users>, decoy: Arc<str>) -> Self {
        let running = Arc::new(Semaphore::new(RUNNING_MAX));
        let waiting = Arc::new(Semaphore::new(WAITING_MAX));
        let by_address = AddressLimit::of(Places::shared(WAITING_MAX));
        Self {
            users,
            roles: None,
            decoy,
            choice: RandomState::new(),
            running,
            waiting,
            by_address,
            memories: Arc::default(),
            hasher: matches,
        }
    }

    /// Verifies a password, on a thread of its own because it takes tens of milliseconds.
    ///
    /// Dropping the future cancels a wait for a permit, but not a hash that has begun.
    pub(crate) async fn verify(
        &self,
        credentials: Credentials,
        address: IpAddr,
    ) -> Result<User, Refusal> {
        self.prove(credentials, address).await.map(|proven| proven.user)
    }

    /// Like [`Authenticator::verify`], with the proof of the log-in.
    pub(crate) async fn prove(
        &self,
        credentials: Credentials,
        address: IpAddr,
    ) -> Result<Proven, Refusal> {
        let place = self.by_address.enter(address, || ()).ok_or(Refusal::Busy)?;
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await;
        let permits = (place, waiting, running.map_err(|_| Refusal::Busy)?);
        let known = self.find(&credentials.user);
        let found = known.as_ref().map(|known| (known.can_login, known.is_role));
        let hash = known.map_or_else(|| self.decoy(&credentials.user), |known| known.hash);
        let (password, hasher) = (credentials.password, self.hasher);
        let (memories, verified) = (Arc::clone(&self.memories), Arc::clone(&hash));
        let work = task::spawn_blocking(move || {
            let _permits = permits;
            memories.lend(|memory| hasher(&hash, &password, memory))
        });
        let right = work.await.unwrap_or(false);
        match found {
            // The verified hash decides whether it is a role: the file may have changed meanwhile.
            Some((true, is_role)) if right => {
                Ok(Proven { user: User { name: credentials.user, is_role }, hash: verified })
            }
            Some((false, _)) if right => Err(Refusal::NoLogin),
            _ => Err(Refusal::Wrong),
        }
    }

    /// Returns `true` if the log-in of a user would succeed again: the user or role exists, may log in, and has the
    /// password that was verified.
    pub(crate) fn still_holds(&self, proven: &Proven) -> bool {
        self.find(&proven.user.name).is_some_and(|known| {
            known.can_login && known.is_role == proven.user.is_role && known.hash == proven.hash
        })
    }

    /// Returns `true` if clients may log in by their certificates.
    pub(crate) const fn knows_identities(&self) -> bool {
        self.roles.is_some()
    }

    /// Finds the role of the first of some identities that has one; `None` if none has.
    pub(crate) fn identify(&self, identities: &[String]) -> Option<(String, Result<(), Refusal>)> {
        let roles = self.roles.as_ref()?.roles();
        let name = identities.iter().find_map(|identity| roles.role_of(identity))?;
        let refusal = if self.users.hash(name).is_some() {
            Err(Refusal::Shadowed)
        } else if roles.get(name).is_some_and(|role| role.can_login) {
            Ok(())
        } else {
            Err(Refusal::NoLogin)
        };
        Some((name.to_string(), refusal))
    }

    /// Finds a user or a role that has a password.
    fn find(&self, user: &str) -> Option<Known> {
        if let Some(hash) = self.users.hash(user) {
            return Some(Known { hash, can_login: true, is_role: false });
        }
        let roles = self.roles.as_ref()?.roles();
        let role = roles.get(user)?;
        let hash = Arc::clone(role.password.as_ref()?.hash());
        Some(Known { hash, can_login: role.can_login, is_role: true })
    }

    /// Returns the hash that is verified for a user that does not exist: always the same one for a name,
    /// of one of those who exist, whose hashes differ in their cost.
    fn decoy(&self, user: &str) -> Arc<str> {
        let roles = self.roles.as_ref().map(Db::roles);
        let of_roles = roles.iter().flat_map(|roles| roles.iter());
        let of_roles = of_roles.filter_map(|(_, role)| Some(role.password.as_ref()?.hash()));
        let mut hashes = self.users.hashes();
        hashes.extend(of_roles.map(Arc::clone));
        let count = u64::try_from(hashes.len()).unwrap_or(u64::MAX).max(1);
        let chosen = usize::try_from(self.choice.hash_one(user) % count).unwrap_or_default();
        hashes.get(chosen).map_or_else(|| Arc::clone(&self.decoy), Arc::clone)
    }
}

/// Credentials of a client. Not `Debug`: passwords must not be logged.
pub(crate) struct Credentials {
    pub(crate) user: String,
    password: Vec<u8>,
}

impl Credentials {
    /// Creates the credentials of a log-in that is not SASL.
    pub(crate) const fn new(user: String, password: Vec<u8>) -> Self {
        Self { user, password }
    }

    /// Parses a SASL PLAIN token (RFC 4616): `authorize-as NUL user NUL password`.
    ///
    /// # Errors
    ///
    /// Malformed, if it has other parts, or requests to act as another user.
    pub(crate) fn parse(token: Option<&Bytes>) -> Result<Self, ProtocolError> {
        let malformed =
            || ProtocolError::malformed("the SASL PLAIN token should be NUL, user, NUL, password");
        let mut parts = token.ok_or_else(malformed)?.split(|byte| *byte == 0);
        let (Some(act_as), Some(user), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed());
        };
        if !act_as.is_empty() && act_as != user {
            return Err(ProtocolError::malformed("acting as another user is not supported"));
        }
        let user = std::str::from_utf8(user).map_err(|_| malformed())?.to_owned();
        Ok(Self { user, password: password.to_vec() })
    }
}

#[expect(clippy::disallowed_methods, reason = "tests on a runtime")]
#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use argon2::password_hash::PasswordHasher;
    use argon2::{Algorithm, Argon2, Params, Version};
    use carnet::roles::{RoleChanges, Roles, StoredPassword};
    use carnet_base::{Rng, SeededRng, lock};

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Returns a cheap hash: these tests are not about its strength.
    fn hash(password: &str) -> String {
        let params = Params::new(8, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password(password.as_bytes()).unwrap().to_string()
    }

    fn of(text: &str) -> Authenticator {
        Authenticator::of_users(Arc::new(Users::parse(text).unwrap()))
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), is_role: false }
    }

    fn role_of(name: &str) -> User {
        User { name: name.to_owned(), is_role: true }
    }

    fn credentials(token: &'static [u8]) -> Credentials {
        Credentials::parse(Some(&Bytes::from_static(token))).unwrap()
    }

    #[tokio::test]
    async fn log_in_holds_until_its_user_or_password_is_gone() {
        let (ann, bob) = (hash("one"), hash("two"));
        let authenticator = of(&format!("ann:{ann}\nbob:{bob}"));
        let proven = authenticator.prove(credentials(b"\0ann\0one"), LOOPBACK).await;
        let Ok(proven) = proven else { panic!("the password is right") };
        let holds_with = |text: String| {
            authenticator.users.replace(&Users::parse(&text).unwrap());
            authenticator.still_holds(&proven)
        };
        assert!(holds_with(format!("ann:{ann}")), "another user is gone");
        assert!(!holds_with(format!("bob:{bob}")), "the user is gone");
        assert!(!holds_with(format!("ann:{}", hash("one"))), "the password was set again");
        assert!(!holds_with(format!("ann:{bob}")), "the password is another one");
    }

    #[tokio::test]
    async fn right_password_of_a_known_user_logs_in() {
        let text = format!("# users\n\nann:{}\nbob:{}\n", hash("one"), hash("two"));
        let authenticator = of(&text);
        let verify = |token| authenticator.verify(credentials(token), LOOPBACK);
        assert_eq!(verify(b"\0ann\0one").await, Ok(user("ann")));
        assert_eq!(verify(b"ann\0ann\0one").await, Ok(user("ann")));
        assert_eq!(verify(b"\0ann\0two").await, Err(Refusal::Wrong));
        assert_eq!(verify(b"\0ann\0").await, Err(Refusal::Wrong));
    }

    #[test]
    fn identities_log_in_as_roles() {
        let db = Db::builder().in_memory();
        let create = |roles: &mut Roles| {
            roles.create("ann", &role(true, "one"))?;
            roles.create("bob", &role(false, "two"))?;
            roles.create("carl", &role(true, "three"))?;
            ["ann", "bob", "carl"]
                .iter()
                .try_for_each(|name| roles.add_identity(&format!("CN={name}"), name))
        };
        carnet_base::block_on(db.change_roles(create)).unwrap();
        let authenticator = of(&format!("carl:{}\n", hash("x"))).with_roles(db);
        let identify = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            authenticator.identify(&names)
        };
        assert_eq!(identify(&["spiffe://x", "CN=ann", "CN=bob"]), Some(("ann".into(), Ok(()))));
        assert_eq!(identify(&["CN=eve"]), None);
        assert_eq!(identify(&["CN=bob"]), Some(("bob".into(), Err(Refusal::NoLogin))));
        assert_eq!(identify(&["CN=carl"]), Some(("carl".into(), Err(Refusal::Shadowed))));
        assert_eq!(of(&format!("carl:{}\n", hash("x"))).identify(&["CN=ann".into()]), None);
    }

    fn role(can_login: bool, password: &str) -> RoleChanges {
        let password = Some(StoredPassword::new(hash(password)));
        RoleChanges { can_login: Some(can_login), password, ..RoleChanges::default() }
    }

    #[tokio::test]
    async fn roles_log_in_and_users_of_the_file_come_first() {
        let db = Db::builder().in_memory();
        let create = |roles: &mut Roles| {
            roles.create("ann", &role(true, "of the role"))?;
            roles.create("bob", &role(true, "two"))?;
            roles.create("carl", &role(false, "three"))?;
            roles.create("none", &RoleChanges::default())
        };
        db.change_roles(create).await.unwrap();
        let text = format!("ann:{}", hash("of the file"));
        let authenticator = of(&text).with_roles(db.clone());
        let verify = |token| authenticator.verify(credentials(token), LOOPBACK);
        assert_eq!(verify(b"\0ann\0of the file").await, Ok(user("ann")));
        assert_eq!(verify(b"\0ann\0of the role").await, Err(Refusal::Wrong));
        assert_eq!(verify(b"\0bob\0two").await, Ok(role_of("bob")));
        assert_eq!(verify(b"\0bob\0three").await, Err(Refusal::Wrong));
        assert_eq!(verify(b"\0carl\0three").await, Err(Refusal::NoLogin));
        assert_eq!(verify(b"\0carl\0two").await, Err(Refusal::Wrong));
        for password in
            [&b"\0none\0two"[..], b"\0none\0three", b"\0none\0of the file", b"\0eve\0two"]
        {
            assert_eq!(verify(password).await, Err(Refusal::Wrong), "{password:?}");
        }
        db.change_roles(|roles| roles.drop("bob")).await.unwrap();
        assert_eq!(verify(b"\0bob\0two").await, Err(Refusal::Wrong));
    }

    /// The time of a refusal does not tell which names exist.
    #[tokio::test]
    async fn unknown_name_costs_the_hash_of_another_one() {
        let db = Db::builder().in_memory();
        let authenticator = Authenticator::of_roles(db.clone()).unwrap();
        assert_eq!(authenticator.decoy("eve"), authenticator.decoy);
        let create = |roles: &mut Roles| {
            roles.create("bob", &role(true, "two"))?;
            roles.create("carl", &role(true, "three"))
        };
        db.change_roles(create).await.unwrap();
        let known = ["bob", "carl"].map(|name| authenticator.find(name).unwrap().hash);
        let decoys: Vec<_> = (0..100).map(|n| authenticator.decoy(&n.to_string())).collect();
        assert!(known.iter().all(|hash| decoys.contains(hash)), "each hash is one of the decoys");
        assert!(decoys.iter().all(|decoy| known.contains(decoy)));
        assert_eq!(authenticator.decoy("7"), decoys[7], "it is the same at each try");
    }

    #[tokio::test]
    async fn password_of_the_decoy_is_refused() {
        let authenticator = of(&format!("ann:{}", hash("one")));
        let answer = authenticator.verify(credentials(b"\0eve\0one"), LOOPBACK).await;
        assert_eq!(answer, Err(Refusal::Wrong));
    }

    #[tokio::test]
    async fn flood_of_logins_is_bounded() {
        let authenticator = of(&format!("ann:{}", hash("one")));
        let held = authenticator.running.acquire_many(2).await.unwrap();
        let waiting = authenticator.waiting.acquire_many(256).await.unwrap();
        let answer = authenticator.verify(credentials(b"\0ann\0one"), LOOPBACK).await;
        assert_eq!(answer, Err(Refusal::Busy));
        drop(waiting);
        let verify = authenticator.verify(credentials(b"\0ann\0one"), LOOPBACK);
        let mut verify = std::pin::pin!(verify);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut verify).await;
        assert!(early.is_err(), "more verifications run than are allowed");
        drop(held);
        assert_eq!(verify.await, Ok(user("ann")));
    }

    #[tokio::test]
    async fn one_address_may_queue_half_of_the_logins() {
        let authenticator = of(&format!("ann:{}", hash("one")));
        let held = authenticator.running.acquire_many(2).await.unwrap();
        let mut logins = Vec::new();
        for _ in 0..WAITING_MAX / 2 {
            let mut login = Box::pin(authenticator.verify(credentials(b"\0ann\0one"), LOOPBACK));
            assert!(tokio::time::timeout(Duration::ZERO, &mut login).await.is_err());
            logins.push(login);
        }
        let more = authenticator.verify(credentials(b"\0ann\0one"), LOOPBACK);
        let answer = tokio::time::timeout(Duration::ZERO, more).await;
        assert_eq!(answer, Ok(Err(Refusal::Busy)));
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        let mut other = Box::pin(authenticator.verify(credentials(b"\0ann\0one"), elsewhere));
        let early = tokio::time::timeout(Duration::ZERO, &mut other).await;
        assert!(early.is_err(), "it is not refused, it waits: {early:?}");
        drop((held, logins));
        assert_eq!(other.await, Ok(user("ann")));
    }

    /// For example, greeting deadlines pass while passwords are hashed.
    #[tokio::test]
    async fn unknown_user_costs_a_hash() {
        static HASHES: AtomicUsize = AtomicUsize::new(0);
        fn count(hash: &str, _: &[u8], _: &mut Memory) -> bool {
            assert!(hash.starts_with("$argon2id$"));
            HASHES.fetch_add(1, Ordering::Relaxed);
            // A client that guesses the password of the decoy is no user either.
            true
        }
        let authenticator = Authenticator { hasher: count, ..of(&format!("ann:{}", hash("one"))) };
        let answer = authenticator.verify(credentials(b"\0eve\0one"), LOOPBACK).await;
        assert_eq!((answer, HASHES.load(Ordering::Relaxed)), (Err(Refusal::Wrong), 1));
    }

    #[tokio::test]
    async fn dropped_logins_keep_their_permits() {
        static HASHES: Mutex<()> = Mutex::new(());
        fn wait(_: &str, _: &[u8], _: &mut Memory) -> bool {
            drop(lock(&HASHES));
            true
        }
        let text = format!("ann:{}", hash("one"));
        let authenticator = Authenticator { hasher: wait, ..of(&text) };
        let login = || Box::pin(authenticator.verify(credentials(b"\0ann\0one"), LOOPBACK));
        {
            let _hashes_wait = lock(&HASHES);
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..20 {
                // Polled once and dropped.
                assert!(login().as_mut().poll(&mut context).is_pending());
            }
            assert_eq!(authenticator.running.available_permits(), 0);
        }
        assert_eq!(login().await, Ok(user("ann")));
    }

    #[test]
    fn tokens_of_other_shapes_are_refused() {
        let parse = |token: &'static [u8]| Credentials::parse(Some(&Bytes::from_static(token)));
        for token in
            [&b""[..], b"ann", b"\0ann", b"\0ann\0one\0more", b"eve\0ann\0one", b"\0\xff\0x"]
        {
            assert!(parse(token).is_err(), "{token:?}");
        }
        assert!(Credentials::parse(None).is_err());
    }

    #[test]
    fn arbitrary_tokens_are_refused() {
        for seed in 0..20_000 {
            let mut rng = SeededRng::new(seed);
            let mut token = b"\0ann\0one".to_vec();
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(token.len() as u64)).unwrap();
                token[at] = if rng.chance(300) { 0 } else { rng.next_u64().to_be_bytes()[0] };
            }
            if let Ok(credentials) = Credentials::parse(Some(&Bytes::from(token))) {
                let parts = credentials.user.len() + credentials.password.len();
                assert!(parts <= 6, "seed {seed}: more came out than went in");
            }
        }
    }
}
