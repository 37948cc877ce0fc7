//! Settings that are given, in the file or on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use carnet::{Durability, Isolation};
use carnet_cql::Timestamps;

use super::audit::Audit;
use super::io::Io;
use super::limits::Limits;
use super::log::Log;
use super::tls::Tls;

/// Settings that are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) advertise: Option<SocketAddr>,
    pub(crate) data_center: Option<String>,
    pub(crate) http: Option<Http>,
    pub(crate) http_token_file: Option<PathBuf>,
    pub(crate) http_hosts: BTreeSet<String>,
    /// Whether the HTTP port has the dashboard.
    pub(crate) http_dashboard: Option<bool>,
    /// Whether the dashboard has its console.
    pub(crate) http_console: Option<bool>,
    /// Maximum number of tables in the metrics.
    pub(crate) table_metrics: Option<usize>,
    pub(crate) users: Option<PathBuf>,
    /// Whether clients log in as roles of the database.
    pub(crate) roles: Option<bool>,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) connections: Option<usize>,
    pub(crate) connections_per_address: Option<usize>,
    pub(crate) connections_per_user: Option<usize>,
    pub(crate) request_bytes: Option<usize>,
    pub(crate) request_bytes_per_address: Option<usize>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) shutdown_timeout: Option<Duration>,
    /// Memory of the server as a whole.
    pub(crate) server_bytes: Option<usize>,
    pub(crate) answer_bytes: Option<usize>,
    pub(crate) prepared_bytes: Option<usize>,
    pub(crate) directory: Option<PathBuf>,
    /// The URL of a cluster.
    pub(crate) store: Option<String>,
    pub(crate) durability: Option<Durability>,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) transaction_bytes: Option<usize>,
    pub(crate) retention: Option<Duration>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) limits: Limits,
    pub(crate) tls: Tls,
    pub(crate) audit: Audit,
    pub(crate) log: Log,
    pub(crate) io: Io,
    /// Texts of the given settings, by `section.name`.
    pub(crate) texts: BTreeMap<String, String>,
}

/// Address of the HTTP endpoints, `None` if they are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Http(pub(crate) Option<SocketAddr>);
