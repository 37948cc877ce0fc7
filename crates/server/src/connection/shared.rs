//! What the connections of a server share.

use std::sync::Arc;

use carnet_base::{AddressLimit, Clock};

use crate::auth::Authenticator;
use crate::clients::Clients;
use crate::events::Events;
use crate::listener::Limits;
use crate::long::LongThreads;
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use carnet_base::MemoryBudget;

/// What all connections of a server share.
pub(crate) struct Shared<B> {
    pub(crate) backend: B,
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    pub(crate) limits: Limits,
    pub(crate) clients: Clients,
    /// Requests, answers and connections together.
    pub(crate) memory: MemoryBudget,
    /// Requests that are not answered yet.
    pub(crate) budget: MemoryBudget,
    /// The answers that are being made or wait to be sent.
    pub(crate) answers: MemoryBudget,
    /// Buffers and tasks of connections.
    pub(crate) connections: MemoryBudget,
    /// The connections of each address, which share a budget within that of the server.
    pub(crate) places: Arc<AddressLimit<MemoryBudget>>,
    pub(crate) refusals: Refusals,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    /// Threads for statements that take long.
    pub(crate) long: LongThreads,
    pub(crate) clock: Arc<dyn Clock>,
}
