//! The node: drives the candidate of a process, and the leader while it leads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use carnet_base::sync::lock;
use carnet_base::{Epoch, Error, LogRate, Moment, Result, Timestamp};
use carnet_store::LogStart;
use carnet_store::cluster::{Cluster, Fault, ReadMode, Register, SetAnswer};

use crate::candidate::{Action, Candidate, Input, Standing};
use crate::commit_table::{CommitTable, FenceError};
use crate::environment::{Environment, MakeOrder};
use crate::futures::{First, Notify, first};
use crate::leader::Leader;
use crate::lease::{Address, Lease, Owner};
use crate::message::{LeaderRequest, Response};
use crate::options::Options;
use crate::sweeper;
use crate::transport::{Answering, FORWARD_BYTES_MAX, ForwardHandler, Handler};

/// Minimum interval between reads of the lease, however many callers look for a leader: a SERIAL
/// read contends with a candidate that is about to take the lease.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum wait of a new leader for the mark of the sweep.
const MARK_WAIT: Duration = Duration::from_millis(200);

/// Maximum burst of log lines about the lease, and the interval after which one more may be written: a
/// candidate tries again at once, for as long as the cluster does not answer.
const LEASE_LOGGED: (u32, Duration) = (3, Duration::from_secs(10));

/// State of one process in the protocol.
pub(crate) struct Node<C> {
    owner: Owner,
    table: Arc<CommitTable<C>>,
    environment: Environment,
    options: Options,
    make_order: MakeOrder,
    role: Mutex<Role<C>>,
    /// Notified when the role changes.
    changed: Notify,
    /// Wakes the candidate.
    notify: Arc<Notify>,
    /// Time of the last request to read the lease.
    looked: Mutex<Option<Moment>>,
    /// Rate of the log lines about the lease.
    lease_log: Mutex<LogRate>,
    is_closed: AtomicBool,
    /// `true` once the driving task has ended.
    has_ended: AtomicBool,
    /// Handler of the bytes that other processes forward.
    forwarded: Mutex<Option<Weak<dyn ForwardHandler>>>,
}

/// The leader, as far as this process knows.
pub(crate) enum Role<C> {
    Unknown,
    Leading(Arc<Leader<C>>),
    Following(Address, Epoch),
    /// An invariant is broken, and this process answers no more.
    Stopped(String),
}

impl<C> Clone for Role<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Leading(leader) => Self::Leading(Arc::clone(leader)),
            Self::Following(address, epoch) => Self::Following(address.clone(), *epoch),
            Self::Stopped(why) => Self::Stopped(why.clone()),
        }
    }
}

impl<C: Cluster> Node<C> {
    /// Creates a node, and starts the task that drives it.
    pub(crate) fn start(
        owner: Owner,
        table: Arc<CommitTable<C>>,
        environment: Environment,
        options: Options,
        make_order: MakeOrder,
    ) -> Arc<Self> {
        let tasks = Arc::clone(&environment.tasks);
        let node = Arc::new(Self {
            owner,
            table,
            environment,
            options,
            make_order,
            role: Mutex::new(Role::Unknown),
            changed: Notify::default(),
            notify: Arc::default(),
            looked: Mutex::default(),
            lease_log: Mutex::new(LogRate::new(LEASE_LOGGED.0, LEASE_LOGGED.1)),
            is_closed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            forwarded: Mutex::default(),
        });
        let driven = Arc::clone(&node);
        tasks.spawn(Box::pin(async move {
            driven.drive().await;
            driven.has_ended.store(true, Ordering::Release);
            driven.changed.notify_all();
        }));
        node
    }

    pub(crate) const fn table(&self) -> &Arc<CommitTable<C>> {
        &self.table
    }

    /// Returns the address by which other processes reach this one.
    pub(crate) const fn address(&self) -> &Address {
        &self.owner.address
    }

    /// Sets the handler of forwarded bytes, as long as the handler lives.
    pub(crate) fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        *lock(&self.forwarded) = Some(Arc::downgrade(handler));
    }

    pub(crate) const fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn role(&self) -> Role<C> {
        lock(&self.role).clone()
    }

    /// Returns the notification of role changes.
    pub(crate) const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Reads the lease again now, unless that was requested just before: callers repeat the
    /// request.
    pub(crate) fn look(&self) {
        let now = self.environment.timer.now();
        let before = *lock(&self.looked);
        if before.is_none_or(|before| now.since(before) >= LOOK_EVERY) {
            *lock(&self.looked) = Some(now);
            self.notify.notify_all();
        }
    }

    /// Closes the node; a leader releases its lease.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.notify.notify_all();
    }

    /// Completes when a closed node has released its lease, or has tried to.
    pub(crate) async fn ended(&self) {
        loop {
            let notified = self.changed.count();
            if self.has_ended.load(Ordering::Acquire) {
                return;
            }
            self.changed.notified_after(notified).await;
        }
    }

    async fn drive(&self) {
        let mut candidate = Candidate::new(self.owner.clone(), self.options.lease);
        let mut input = Input::Next(None);
        // Time until which a process that leaves tries to release its lease; after that, others
        // wait for the lease to expire.
        let mut leaves_by = None;
        loop {
            let action = candidate.step(input, self.environment.timer.now());
            if let Some(lease) = candidate.others().filter(|lease| !lease.released) {
                self.follow(lease);
            }
            if action == Action::Stop {
                return self.become_role(Role::Unknown);
            }
            if let Some(why) = self.broken() {
                return self.become_role(Role::Stopped(why));
            }
            if leaves_by.is_some_and(|by| self.environment.timer.now() >= by) {
                return self.become_role(Role::Unknown);
            }
            input = if leaves_by.is_some() {
                self.act(action).await
            } else {
                // A deposed leader does not wait for calls in flight.
                match first(self.act(action), self.over()).await {
                    First::Left(input) => input,
                    First::Right(()) => Input::Superseded,
                }
            };
            if leaves_by.is_none() && self.is_closed.load(Ordering::Acquire) {
                leaves_by = Some(self.environment.timer.now().after(self.options.call_timeout));
                if let Role::Leading(leader) = self.role() {
                    leader.depose();
                }
                // Process the answer first: a renewal in flight may have changed the lease.
                if !matches!(input, Input::Next(_)) {
                    candidate.step(input, self.environment.timer.now());
                }
                input = Input::Release;
            }
        }
    }

    async fn act(&self, action: Action) -> Input {
        match action {
            Action::Read => self.read().await,
            Action::Set { expected, new } => self.set(expected.as_ref(), &new).await,
            Action::Fence { epoch, from, to } => match self.table.fence(epoch, from, to).await {
                Ok(()) => Input::Fenced,
                Err(FenceError::Superseded) => Input::Superseded,
                Err(FenceError::Failed(error)) => {
                    tracing::warn!(%error, "the rows of the commit table are not fenced yet");
                    Input::Failed
                }
            },
            Action::Serve(term) => {
                tracing::info!(epoch = term.epoch.0, first = %term.first, "this process leads");
                let swept = self.swept_below(term.first).await;
                let order = (self.make_order)(LogStart { first: term.first, swept });
                let leader = Leader::new(
                    term,
                    Arc::clone(&self.table),
                    order,
                    self.environment.clone(),
                    self.options,
                    Arc::clone(&self.notify),
                );
                let sweep = sweeper::drive(
                    Arc::downgrade(&leader),
                    Arc::clone(&self.environment.timer),
                    self.options.sweep.every,
                );
                self.environment.tasks.spawn(Box::pin(sweep));
                self.become_role(Role::Leading(leader));
                Input::Next(self.standing())
            }
            Action::Extend(bound) => {
                if let Role::Leading(leader) = self.role() {
                    leader.extend(bound);
                }
                Input::Next(self.standing())
            }
            Action::StepDown => {
                tracing::warn!("this process no longer leads");
                if let Role::Leading(leader) = self.role() {
                    leader.depose();
                }
                self.become_role(Role::Unknown);
                Input::Next(None)
            }
            Action::Wait(wait) => self.wait(wait).await,
            Action::Stop => Input::Next(None),
        }
    }

    /// Returns the timestamp from which on snapshots of earlier terms can be read: the mark of the
    /// sweep, or zero if the mark cannot be read at once. A mark that is too low does no harm: a
    /// reader checks the mark again after it has read.
    async fn swept_below(&self, begin: Timestamp) -> Timestamp {
        let marks = Box::pin(self.table.sweep_marks());
        match first(marks, self.environment.timer.wait(MARK_WAIT)).await {
            First::Left(Ok(marks)) => marks.versions.min(begin),
            First::Left(Err(error)) => {
                tracing::debug!(%error, "readers alone find snapshots that are too old");
                Timestamp::ZERO
            }
            First::Right(()) => Timestamp::ZERO,
        }
    }

    async fn wait(&self, wait: Duration) -> Input {
        let notified = self.notify.count();
        let notify = self.notify.notified_after(notified);
        if self.is_closed.load(Ordering::Acquire) {
            self.environment.timer.wait(wait.min(self.options.lease.retry_after)).await;
        } else {
            first(self.environment.timer.wait(wait), notify).await;
        }
        Input::Next(self.standing())
    }

    /// Completes when the leader of this process finds out that its term is over.
    async fn over(&self) {
        loop {
            let notified = self.notify.count();
            if self.is_over() {
                return;
            }
            self.notify.notified_after(notified).await;
        }
    }

    fn broken(&self) -> Option<String> {
        match &*lock(&self.role) {
            Role::Leading(leader) => leader.broken(),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(&*lock(&self.role), Role::Leading(leader) if leader.is_over())
    }

    fn standing(&self) -> Option<Standing> {
        match self.role() {
            Role::Leading(leader) => Some(leader.standing(self.environment.timer.now())),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => None,
        }
    }

    async fn read(&self) -> Input {
        let read = self.table.cluster().read_register(Register::Lease, ReadMode::Serial).await;
        match read.map_err(Error::from).and_then(|bytes| decode(bytes.as_deref())) {
            Ok(lease) => Input::Lease(lease),
            Err(error) => self.lease_failed("read", &error),
        }
    }

    async fn set(&self, expected: Option<&Lease>, new: &Lease) -> Input {
        let expected = expected.map(Lease::encode);
        let cluster = self.table.cluster();
        let set = cluster.compare_and_set(Register::Lease, expected.as_ref(), &new.encode()).await;
        match set {
            Ok(SetAnswer::Applied) => Input::Set,
            Ok(SetAnswer::Refused(stored)) => match decode(stored.as_deref()) {
                Ok(lease) => Input::NotSet(lease),
                Err(error) => self.lease_failed("read", &error),
            },
            Err(Fault::Unknown(_)) => Input::Unsure,
            Err(Fault::Failed(error)) => self.lease_failed("set", &error),
        }
    }

    fn lease_failed(&self, verb: &str, error: &dyn fmt::Display) -> Input {
        let now = self.environment.timer.now();
        if let Some(suppressed) = lock(&self.lease_log).admit(now) {
            tracing::warn!(%error, suppressed, "the lease cannot be {verb}");
        }
        Input::Failed
    }

    fn follow(&self, lease: &Lease) {
        let role = lock(&self.role);
        if matches!(&*role, Role::Following(_, epoch) if *epoch == lease.epoch) {
            return;
        }
        drop(role);
        self.become_role(Role::Following(lease.owner.address.clone(), lease.epoch));
    }

    fn become_role(&self, role: Role<C>) {
        let before = std::mem::replace(&mut *lock(&self.role), role);
        drop(before);
        self.changed.notify_all();
    }
}

fn decode(bytes: Option<&[u8]>) -> Result<Option<Lease>> {
    bytes.map(Lease::decode).transpose()
}

impl<C: Cluster> Handler for Node<C> {
    fn handle(self: Arc<Self>, request: LeaderRequest) -> Answering {
        let request = match request {
            LeaderRequest::Forward { what } => {
                let handler = lock(&self.forwarded).as_ref().and_then(Weak::upgrade);
                return forwarded(handler, what);
            }
            request => request,
        };
        Box::pin(async move {
            match self.role() {
                Role::Leading(leader) => leader.answer(request).await,
                Role::Unknown | Role::Following(..) | Role::Stopped(_) => Response::NotLeading,
            }
        })
    }
}

/// Answers forwarded bytes, which need no leader.
fn forwarded(handler: Option<Arc<dyn ForwardHandler>>, what: Bytes) -> Answering {
    let Some(handler) = handler else {
        let refused = Error::unavailable("this process serves no statements of other processes");
        return Box::pin(std::future::ready(Response::Refused(refused)));
    };
    let answering = handler.answer(what);
    Box::pin(async move {
        let answer = answering.await;
        // The handler may have acted: this is no refusal.
        if answer.len() > FORWARD_BYTES_MAX {
            Response::NotLeading
        } else {
            Response::Forwarded(answer)
        }
    })
}
