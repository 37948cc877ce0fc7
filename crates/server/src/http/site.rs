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
    /// Not at all: there are no users, and other machines reach the port.
    Closed,
}

impl Access {
    const fn new(has_users: bool, on_loopback: bool) -> Self {
        match (has_users, on_loopback) {
            (true, _) => Self::Login,
            (false, true) => Self::Open,
            (false, false) => Self::Closed,
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
        Access::new(self.shared.authenticator.is_some(), self.on_loopback)
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_open_without_users() {
        assert_eq!(Access::new(false, true), Access::Open);
        assert_eq!(Access::new(false, false), Access::Closed);
        assert_eq!(Access::new(true, true), Access::Login);
        assert_eq!(Access::new(true, false), Access::Login);
    }
}
