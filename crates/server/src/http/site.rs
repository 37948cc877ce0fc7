//! State that all requests of the HTTP port share.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::guard::Hosts;
use super::sessions::Sessions;
use crate::backend::Backend;
use crate::connection::Shared;
use crate::exposure::is_loopback;
use crate::in_progress::Working;

/// The HTTP port's part of a server.
pub(super) struct Site<B: Backend> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) draining: watch::Receiver<bool>,
    pub(super) sessions: Sessions<B::Session>,
    pub(super) hosts: Hosts,
    /// Runtime on which statements run.
    pub(super) runtime: Handle,
    /// Statements in progress.
    pub(super) working: Working,
    /// Whether only this machine reaches the port.
    pub(super) on_loopback: bool,
}

/// How a client of the dashboard gets a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// By the password of a user.
    Login,
    /// Without a log-in: there are no users, and only this machine reaches the port.
    Open,
    /// Not at all, for a reason.
    Closed(&'static str),
}

const NO_USERS: &str = "this server has no users, and other machines may reach its HTTP port, or monitors show it a token: \
                        start it with --users or --roles, so that the dashboard can log in";
const CERTIFICATES: &str = "this server asks its clients for certificates (tls.clients = \"required\"), and the \
                            dashboard has none: use carnet shell --server";

/// Facts of a server on which the access to its dashboard depends.
#[derive(Clone, Copy, Debug)]
struct Exposure {
    has_users: bool,
    on_loopback: bool,
    /// Whether monitors show a token: a proxy may make the port known to other machines.
    has_token: bool,
    wants_certificates: bool,
}

impl Access {
    const fn new(exposure: Exposure) -> Self {
        match exposure {
            Exposure { wants_certificates: true, .. } => Self::Closed(CERTIFICATES),
            Exposure { has_users: true, .. } => Self::Login,
            Exposure { on_loopback: true, has_token: false, .. } => Self::Open,
            Exposure { .. } => Self::Closed(NO_USERS),
        }
    }
}

impl<B: Backend> Site<B> {
    pub(super) fn new(
        shared: Arc<Shared<B>>,
        address: SocketAddr,
        draining: watch::Receiver<bool>,
        runtime: Handle,
        working: Working,
    ) -> Self {
        Self {
            draining,
            sessions: Sessions::new(Arc::clone(&shared.clock)),
            hosts: Hosts::new(&shared.monitoring.hosts),
            runtime,
            working,
            on_loopback: is_loopback(address),
            shared,
        }
    }

    pub(super) fn access(&self) -> Access {
        Access::new(Exposure {
            has_users: self.shared.authenticator.is_some(),
            on_loopback: self.on_loopback,
            has_token: self.shared.monitoring.has_token(),
            wants_certificates: self
                .shared
                .tls
                .as_ref()
                .is_some_and(|tls| tls.wants_certificates()),
        })
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_without_a_token_is_open_without_users() {
        let plain = Exposure {
            has_users: false,
            on_loopback: true,
            has_token: false,
            wants_certificates: false,
        };
        assert_eq!(Access::new(plain), Access::Open);
        let token = Exposure { has_token: true, ..plain };
        assert_eq!(Access::new(token), Access::Closed(NO_USERS), "a proxy may stand before it");
        let beyond = Exposure { on_loopback: false, ..plain };
        assert_eq!(Access::new(beyond), Access::Closed(NO_USERS));
        for exposure in [plain, token, beyond] {
            let users = Exposure { has_users: true, ..exposure };
            assert_eq!(Access::new(users), Access::Login);
            let certificates = Exposure { wants_certificates: true, ..users };
            assert_eq!(Access::new(certificates), Access::Closed(CERTIFICATES));
        }
    }
}
