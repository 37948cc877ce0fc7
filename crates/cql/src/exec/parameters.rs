//! Parameters that a client sends beside the text of a statement.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use carnet::roles::Rights;
use carnet::{Bytes, Label, Uuid, WallTime};
use carnet_admission::Tenant;
use carnet_base::{Moment, lock};

use super::grant::Grant;
use super::open::Binding;
use super::prepared::Prepared;
use crate::bound::Values;
use crate::forward::Caller;

/// State of a connection between statements.
#[derive(Default)]
pub struct Session {
    keyspace: Mutex<Option<String>>,
    who: Option<Arc<str>>,
    user: Option<Arc<str>>,
    /// Whether the user is a role of the database, whose permissions are checked.
    is_role: bool,
    /// What the role may do, as of a version of the roles.
    rights: Mutex<Option<(u64, Arc<Rights>)>>,
    address: Option<IpAddr>,
    tenant: Tenant,
    throws_on_overload: bool,
    /// Whether statistics of statements leave the session out.
    is_uncounted: bool,
    /// Open transaction that the statements of the connection are part of; rolled back with it.
    transaction: Mutex<Option<Binding>>,
    has_transaction: AtomicBool,
    /// Deadline of the statement, if another server has forwarded it: the session is that of one
    /// statement.
    forwarded: Option<Option<Moment>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session without a current keyspace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`Session::new`], with the client's name, which labels its transactions.
    #[must_use]
    pub fn with_name(who: impl Into<Arc<str>>) -> Self {
        Self { who: Some(who.into()), ..Self::default() }
    }

    /// Sets the user, whose service level applies to statements. It may do everything.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.user = Some(user.into());
        self.with_tenant()
    }

    /// Sets the tenant: all connections of a user, or of an address without users, get slots in turns with others.
    fn with_tenant(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        match (&self.user, self.address) {
            (Some(user), _) => user.hash(&mut hasher),
            (None, address) => address.hash(&mut hasher),
        }
        self.tenant = Tenant(hasher.finish());
        self
    }

    pub(super) const fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Like [`Session::with_user`], with a role of the database, whose permissions are checked.
    #[must_use]
    pub fn with_role(self, role: impl Into<Arc<str>>) -> Self {
        Self { is_role: true, ..self.with_user(role) }
    }

    /// Sets the address of the client, which traces name. Its open transactions are limited together
    /// unless it logs in.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self.with_tenant()
    }

    /// Sets whether the client prefers a refusal to a wait while the server is overloaded (the option
    /// `THROW_ON_OVERLOAD` of STARTUP).
    #[must_use]
    pub const fn with_throw_on_overload(mut self, throws: bool) -> Self {
        self.throws_on_overload = throws;
        self
    }

    /// Leaves the session's statements out of the statistics of statements: it watches the server.
    #[must_use]
    pub const fn uncounted(mut self) -> Self {
        self.is_uncounted = true;
        self
    }

    /// Returns `true` if statistics of statements leave the session out.
    pub(super) const fn is_uncounted(&self) -> bool {
        self.is_uncounted
    }

    /// Returns `true` if the client prefers a refusal to a wait.
    pub(super) const fn throws_on_overload(&self) -> bool {
        self.throws_on_overload
    }

    /// Creates the session of a statement that another server has forwarded.
    pub(super) fn of_caller(caller: Caller, deadline: Option<Moment>) -> Self {
        let Caller { name, user, is_role, address } = caller;
        let (who, user) = (Some(name.into()), user.map(Arc::from));
        Self { who, user, is_role, address, forwarded: Some(deadline), ..Self::default() }
            .with_tenant()
    }

    /// Returns `true` if another server has forwarded the statement.
    pub(super) const fn is_forwarded(&self) -> bool {
        self.forwarded.is_some()
    }

    /// Returns the deadline of a forwarded statement.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.forwarded.flatten()
    }

    /// Returns the address of the client.
    pub(super) const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns `true` if the statements of the connection are part of a transaction that has not
    /// ended.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        lock(&self.transaction).as_ref().is_some_and(Binding::is_open)
    }

    /// Returns the transaction that the statements of the connection are part of, even if it has
    /// ended by itself.
    pub(super) fn transaction(&self) -> Option<Uuid> {
        if !self.has_transaction.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.transaction).as_ref().map(Binding::id)
    }

    /// Makes the statements of the connection part of a transaction; returns the binding if they are
    /// part of one already.
    pub(super) fn bind(&self, binding: Binding) -> Result<(), Binding> {
        let mut bound = lock(&self.transaction);
        if bound.is_some() {
            return Err(binding);
        }
        *bound = Some(binding);
        self.has_transaction.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the binding to a transaction; returns `false` if there is none.
    pub(super) fn unbind(&self, id: Uuid) -> bool {
        let mut bound = lock(&self.transaction);
        let ended = bound.take_if(|binding| binding.id() == id);
        if bound.is_none() {
            self.has_transaction.store(false, Ordering::Release);
        }
        drop(bound);
        ended.is_some()
    }

    /// Returns the name of the client for people.
    pub(super) fn name(&self) -> Arc<str> {
        self.who.clone().unwrap_or_else(|| "local".into())
    }

    /// Returns the address and port of the client: the end of its name.
    pub(super) fn client_address(&self) -> String {
        let name = self.name();
        name.rsplit('@').next().unwrap_or_default().to_owned()
    }

    /// Returns the key of limits for one client: its user, or else its address.
    pub(super) fn client(&self) -> Arc<str> {
        match (&self.user, self.address) {
            (Some(user), _) => format!("user {user}").into(),
            (None, Some(address)) => address.to_string().into(),
            (None, None) => self.name(),
        }
    }

    /// Returns the user; `None` before a login.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the user, to share its name.
    pub(super) const fn user_name(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }

    /// Returns the role whose permissions are checked.
    pub(super) fn role(&self) -> Option<&str> {
        self.user().filter(|_| self.is_role)
    }

    /// Returns what the role may do as of a version of the roles; `make` makes it, once for each
    /// version.
    pub(super) fn rights(
        &self,
        version: u64,
        make: impl FnOnce() -> Option<Rights>,
    ) -> Option<Arc<Rights>> {
        let mut known = lock(&self.rights);
        if let Some((of, rights)) = &*known
            && *of == version
        {
            return Some(Arc::clone(rights));
        }
        *known = None;
        let rights = Arc::new(make()?);
        *known = Some((version, Arc::clone(&rights)));
        Some(rights)
    }

    /// Returns the label of a transaction of this session; `None` if the client has no name.
    pub(super) fn label(&self, what: &'static str) -> Option<Label> {
        self.who.as_ref().map(|who| Label::new(Arc::clone(who), what))
    }

    /// Returns the current keyspace.
    #[must_use]
    pub fn keyspace(&self) -> Option<String> {
        lock(&self.keyspace).clone()
    }

    /// Sets the current keyspace. The caller checks that it exists.
    pub fn set_keyspace(&self, keyspace: impl Into<String>) {
        *lock(&self.keyspace) = Some(keyspace.into());
    }
}

/// Parameters that a client sends beside the text of a statement.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Values of the bind markers.
    pub values: Values,
    /// Maximum number of rows per page; `None` for all rows at once.
    pub page_rows: Option<usize>,
    /// Paging state of the previous page.
    pub paging_state: Option<Bytes>,
    /// Keyspace of unqualified names, instead of the session's.
    pub keyspace: Option<String>,
    /// Wall time by which values expire, instead of the database's.
    pub now: Option<WallTime>,
    /// Admission of the statement.
    pub grant: Grant,
}

/// One statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchItem {
    /// A statement as text.
    Text {
        /// Text of the statement.
        text: String,
        /// Values of its markers.
        values: Values,
    },
    /// A prepared statement.
    Prepared {
        /// The prepared statement.
        prepared: Arc<Prepared>,
        /// Values of its markers.
        values: Values,
    },
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn tenant_is_the_user_or_else_the_address() {
        let session = |user: Option<&str>, address: u8| {
            let session = Session::new().with_address(Ipv4Addr::new(127, 0, 0, address).into());
            match user {
                Some(user) => session.with_user(user).tenant(),
                None => session.tenant(),
            }
        };
        assert_eq!(session(Some("ann"), 1), session(Some("ann"), 2));
        assert_ne!(session(Some("ann"), 1), session(Some("bob"), 1));
        assert_eq!(session(None, 1), session(None, 1));
        assert_ne!(session(None, 1), session(None, 2));
        assert_ne!(session(None, 1), session(Some("ann"), 1));
    }
}
