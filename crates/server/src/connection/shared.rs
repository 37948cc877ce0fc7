//! State that the connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;

use carnet_base::{AddressLimit, Clock};

use super::backlog::Backlogs;
use super::lag::Lag;
use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::auth::{Authenticator, Refusal};
use crate::clients::Clients;
use crate::events::Events;
use crate::limited_log::LimitedLog;
use crate::limits::Limits;
use crate::long::LongThreads;
use crate::metrics::Metrics;
use crate::monitoring::Monitoring;
use crate::tls::{Handshakes, Tls};
use carnet_base::MemoryBudget;

/// State that all connections of a server share.
pub(crate) struct Shared<B> {
    pub(crate) backend: B,
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    /// Log of log-ins; the backend has it for statements.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Certificates; `None` if connections are plain.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Handshakes in progress.
    pub(crate) handshakes: Handshakes,
    /// Protection of the HTTP port.
    pub(crate) monitoring: Monitoring,
    pub(crate) limits: Limits,
    pub(crate) clients: Clients,
    /// Memory of requests that are not answered yet.
    pub(crate) budget: MemoryBudget,
    /// Memory of answers that are being made or wait to be sent.
    pub(crate) answers: MemoryBudget,
    /// Memory of connections' buffers and tasks.
    pub(crate) connections: MemoryBudget,
    /// Connections per address, which share a budget within that of the server.
    pub(crate) places: Arc<AddressLimit<MemoryBudget>>,
    /// What the connections of one user share.
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) log: LimitedLog,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    /// Threads for long statements.
    pub(crate) long: LongThreads,
    /// Statements that wait for their admission.
    pub(crate) backlogs: Arc<Backlogs>,
    /// Lag of the threads of the connections.
    pub(crate) lag: Arc<Lag>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl<B> Shared<B> {
    /// Tells the logs of a log-in or its refusal.
    pub(crate) fn logged_in(&self, peer: SocketAddr, user: &str, refusal: Option<Refusal>) {
        let why = refusal.map(Refusal::why);
        if let Some(why) = why {
            self.metrics.logins_refused.add(1);
            self.log.login(peer, user, why);
        }
        if let Some(audit) = &self.audit {
            audit.login(peer, user, why);
        }
    }
}
