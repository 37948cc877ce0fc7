//! Executor of statements: its state and settings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use carnet::Db;
use carnet_admission::Permit;
use carnet_base::{Moment, SeededRng, TimeSlice, lock};

use super::forward::ForwardState;
use super::grant::{Grant, Timeouts};
use super::hashing::Hashing;
use super::large_answers::LargeAnswers;
use super::level_state::LevelState;
use super::open::OpenTransactions;
use super::prepared::{Cache, Prepared};
use super::running::Running;
use super::slow_log::SlowLog;
use super::statistics::{Conflicts, KindDurations, Statistics};
use super::thresholds::WarnThresholds;
use crate::audit::AuditLog;
use crate::bound::Bound;
use crate::compile::Environment;
use crate::steps::Steps;
use crate::system::{NodeInfo, Peer};
use crate::timestamps::Timestamps;
use crate::trace::Traces;
use crate::uuids::Uuids;

/// Executor of CQL statements on a database. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) db: Db,
    pub(super) node: NodeInfo,
    pub(super) timestamps: Timestamps,
    /// Other servers at the last check.
    pub(super) peers: Mutex<Arc<[Peer]>>,
    pub(super) uuids: Uuids,
    pub(super) prepared: Cache,
    pub(super) timeouts: OnceLock<Timeouts>,
    pub(super) levels: LevelState,
    pub(super) hashing: OnceLock<Hashing>,
    pub(super) audit: OnceLock<Arc<dyn AuditLog>>,
    pub(super) warn_thresholds: OnceLock<WarnThresholds>,
    pub(super) large: LargeAnswers,
    pub(super) slow: SlowLog,
    pub(super) settings: Mutex<Arc<[(String, String)]>>,
    pub(super) open: Arc<OpenTransactions>,
    pub(super) traces: Traces,
    pub(super) running: Arc<Running>,
    pub(super) statistics: Statistics,
    pub(super) conflicts: Conflicts,
    pub(super) kinds: KindDurations,
    pub(super) forward: ForwardState,
    /// Steps of all statements.
    pub(super) steps: AtomicU64,
}

impl Executor {
    /// Creates an executor for a database, at a node that describes itself by `node`.
    #[must_use]
    pub fn new(db: Db, node: NodeInfo) -> Self {
        Self::with_timestamps(db, node, Timestamps::default())
    }

    /// Like [`Executor::new`], with the treatment of `USING TIMESTAMP`.
    #[must_use]
    pub fn with_timestamps(db: Db, node: NodeInfo, timestamps: Timestamps) -> Self {
        let uuids = Uuids::new(SeededRng::from_entropy());
        let (peers, prepared) = (Mutex::new([].into()), Cache::default());
        let (timeouts, levels) = (OnceLock::new(), LevelState::default());
        let (large, traces) = (LargeAnswers::default(), Traces::default());
        let open = Arc::new(OpenTransactions::new(db.clone(), node.host_id));
        let running = Arc::new(Running::new(open.tag_among_others()));
        let shared = Shared {
            db,
            node,
            timestamps,
            peers,
            uuids,
            prepared,
            timeouts,
            levels,
            hashing: OnceLock::new(),
            audit: OnceLock::new(),
            warn_thresholds: OnceLock::new(),
            large,
            slow: SlowLog::default(),
            settings: Mutex::new([].into()),
            open,
            traces,
            running,
            statistics: Statistics::default(),
            conflicts: Conflicts::default(),
            kinds: KindDurations::default(),
            forward: ForwardState::default(),
            steps: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// Returns the node's description of itself.
    #[must_use]
    pub fn node(&self) -> &NodeInfo {
        &self.shared.node
    }

    /// Announces this server to the other servers of the database, until it
    /// [withdraws](Db::withdraw) or leaves.
    ///
    /// # Errors
    ///
    /// `Invalid` if the node's names are too long.
    pub fn announce(&self) -> carnet::Result<()> {
        let (db, node) = (&self.shared.db, &self.shared.node);
        db.announce(node.announcement(db.forward_address().as_ref(), db.consistency()))
    }

    /// Checks which other servers of the database announce themselves. Returns the servers of the
    /// previous check and of this one, each in the order of their addresses. `system.peers` shows
    /// the result of this check, so that clients that are notified of a difference can see it.
    #[must_use]
    pub fn look_at_peers(&self) -> (Arc<[Peer]>, Arc<[Peer]>) {
        let now: Arc<[Peer]> = self.shared.node.peers(&self.shared.db.announced()).into();
        let mut peers = lock(&self.shared.peers);
        (std::mem::replace(&mut *peers, Arc::clone(&now)), now)
    }

    pub(super) fn peers(&self) -> Arc<[Peer]> {
        Arc::clone(&lock(&self.shared.peers))
    }

    /// Sets the names and values that `system_views.settings` shows beside those of statements. They must
    /// have no secrets.
    ///
    /// Default: none.
    pub fn set_settings(&self, settings: Vec<(String, String)>) {
        *lock(&self.shared.settings) = settings.into();
    }

    /// Replaces the value of a setting that `system_views.settings` shows.
    pub fn set_setting(&self, name: &str, value: &str) {
        let mut settings = lock(&self.shared.settings);
        let changed = settings.iter().map(|(known, old)| {
            let value = if known == name { value } else { old };
            (known.clone(), value.to_owned())
        });
        *settings = changed.collect();
    }

    /// Logs statements that take this long or longer, without their values; `None` logs none.
    ///
    /// Default: none.
    pub fn log_slow(&self, threshold: Option<Duration>) {
        self.shared.slow.set(threshold);
    }

    /// Sets the timeouts of statements that have an arrival time. Only the first call counts.
    ///
    /// Default: no timeout.
    pub fn set_timeouts(&self, timeouts: Timeouts) {
        self.shared.timeouts.get_or_init(|| timeouts);
    }

    /// Sets the function that hashes passwords. Only the first call counts.
    ///
    /// Default: the thread that runs the statement hashes.
    pub fn set_hashing(&self, hashing: Hashing) {
        self.shared.hashing.get_or_init(|| hashing);
    }

    pub(super) fn timeouts(&self) -> Option<&Timeouts> {
        self.shared.timeouts.get()
    }

    /// Limits the memory of prepared statements, in bytes. Above the limit the least recently used
    /// ones are evicted. Default: 64 MiB.
    ///
    /// The bytes of a statement are estimated from its text and columns.
    pub fn set_prepared_bytes_max(&self, bytes_max: usize) {
        self.shared.prepared.set_bytes_max(bytes_max);
    }

    /// Returns the number of cached prepared statements, and their estimated bytes.
    #[must_use]
    pub fn prepared_size(&self) -> (usize, usize) {
        self.shared.prepared.size()
    }

    /// Returns a prepared statement; if it is missing, the client prepares it again.
    #[must_use]
    pub fn prepared(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        self.shared.prepared.find(id)
    }

    /// Returns the number of steps of all statements: tokens, terms, elements of collections, and
    /// values in units of 64 bytes. Statements in progress add theirs after some thousand steps.
    #[must_use]
    pub fn steps_total(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    /// Begins to count the steps of a statement.
    pub(super) fn count_steps(&self, deadline: Option<Moment>) -> Steps<'_> {
        Steps::until(&self.shared.db, deadline, &self.shared.steps)
    }

    /// Like [`Executor::count_steps`], for a statement that may be killed.
    pub(super) fn count_steps_of<'a>(
        &'a self,
        deadline: Option<Moment>,
        grant: &'a Grant,
    ) -> Steps<'a> {
        let progress = grant.permit.as_deref().map(Permit::progress);
        self.count_steps(deadline).while_not_killed(progress)
    }

    /// Begins a time slice for work outside of a transaction; `None` if the statement does not yield.
    pub(super) fn time_slice(&self, grant: &Grant) -> Option<TimeSlice<'_>> {
        grant.yield_now.map(|yield_now| self.shared.db.time_slice(yield_now))
    }

    /// Returns the inputs of the evaluation of terms.
    pub(super) fn environment<'a>(
        &'a self,
        bound: &'a [Bound],
        steps: &'a Steps<'a>,
    ) -> Environment<'a> {
        Environment {
            bound,
            now: self.shared.db.wall_time(),
            uuids: &self.shared.uuids,
            row: None,
            json: None,
            lets: &[],
            steps,
        }
    }
}
