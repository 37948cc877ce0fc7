//! One process's part: a candidate that is driven, and the leader while it leads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Epoch, Error, Moment, Result};
use carnet_store::cluster::{Cluster, Fault, ReadMode, Register, SetAnswer};

use crate::candidate::{Action, Candidate, Input, Standing};
use crate::commit_table::{CommitTable, FenceError};
use crate::doors::{Doors, MakeOrder, Options};
use crate::futures::{Bell, First, first};
use crate::leader::Leader;
use crate::lease::{Address, Lease, Owner};
use crate::message::{Request, Response};
use crate::oneshot::lock;
use crate::sweep;
use crate::transport::{Answering, Handler};

/// However many callers look for a leader, the lease is looked at so often at most: a SERIAL read is
/// in the way of whoever is about to take it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process's part.
pub(crate) struct Node<C> {
    owner: Owner,
    table: Arc<CommitTable<C>>,
    doors: Doors,
    options: Options,
    make_order: MakeOrder,
    role: Mutex<Role<C>>,
    /// Rings when the role changes.
    changed: Bell,
    /// Wakes the candidate.
    bell: Arc<Bell>,
    /// When somebody asked for a look at the lease last.
    looked: Mutex<Option<Moment>>,
    is_closed: AtomicBool,
    /// Nothing drives it any more.
    has_ended: AtomicBool,
}

/// Who leads, as far as this process knows.
pub(crate) enum Role<C> {
    Unknown,
    Leading(Arc<Leader<C>>),
    Following(Address, Epoch),
    /// An invariant is broken, and this process says nothing more.
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
    /// Starts a part, and what drives it.
    pub(crate) fn start(
        owner: Owner,
        table: Arc<CommitTable<C>>,
        doors: Doors,
        options: Options,
        make_order: MakeOrder,
    ) -> Arc<Self> {
        let tasks = Arc::clone(&doors.tasks);
        let node = Arc::new(Self {
            owner,
            table,
            doors,
            options,
            make_order,
            role: Mutex::new(Role::Unknown),
            changed: Bell::default(),
            bell: Arc::default(),
            looked: Mutex::default(),
            is_closed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let driven = Arc::clone(&node);
        tasks.spawn(Box::pin(async move {
            driven.drive().await;
            driven.has_ended.store(true, Ordering::Release);
            driven.changed.ring();
        }));
        node
    }

    pub(crate) const fn table(&self) -> &Arc<CommitTable<C>> {
        &self.table
    }

    pub(crate) const fn doors(&self) -> &Doors {
        &self.doors
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn role(&self) -> Role<C> {
        lock(&self.role).clone()
    }

    /// Rings when the role changes.
    pub(crate) const fn changed(&self) -> &Bell {
        &self.changed
    }

    /// Looks at the lease again, now, unless that was asked for just before: whoever asked comes
    /// back.
    pub(crate) fn look(&self) {
        let now = self.doors.timer.now();
        let before = *lock(&self.looked);
        if before.is_none_or(|before| now.since(before) >= LOOK_EVERY) {
            *lock(&self.looked) = Some(now);
            self.bell.ring();
        }
    }

    /// Ends the part; a leader gives its lease up.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Completes when a part that was closed has given up what it had, or has tried to.
    pub(crate) async fn ended(&self) {
        loop {
            let rung = self.changed.count();
            if self.has_ended.load(Ordering::Acquire) {
                return;
            }
            self.changed.rung_after(rung).await;
        }
    }

    async fn drive(&self) {
        let mut candidate = Candidate::new(self.owner.clone(), self.options.lease);
        let mut input = Input::Next(None);
        // Until when a process that leaves tries to give its lease up: after that others wait for
        // the lease to run out.
        let mut leaves_by = None;
        loop {
            let action = candidate.step(input, self.doors.timer.now());
            if let Some(lease) = candidate.others().filter(|lease| !lease.released) {
                self.follow(lease);
            }
            if action == Action::Stop {
                return self.become_role(Role::Unknown);
            }
            if let Some(why) = self.broken() {
                return self.become_role(Role::Stopped(why));
            }
            if leaves_by.is_some_and(|by| self.doors.timer.now() >= by) {
                return self.become_role(Role::Unknown);
            }
            input = if leaves_by.is_some() {
                self.act(action).await
            } else {
                // A leader that is told it leads no more does not wait for what it had begun.
                match first(self.act(action), self.over()).await {
                    First::Left(input) => input,
                    First::Right(()) => Input::Outrun,
                }
            };
            if leaves_by.is_none() && self.is_closed.load(Ordering::Acquire) {
                leaves_by = Some(self.doors.timer.now().after(self.options.call_timeout));
                if let Role::Leading(leader) = self.role() {
                    leader.depose();
                }
                // What was answered counts: a renewal under way may have changed the lease.
                if !matches!(input, Input::Next(_)) {
                    candidate.step(input, self.doors.timer.now());
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
                Err(FenceError::Outrun) => Input::Outrun,
                Err(FenceError::Failed(error)) => {
                    tracing::warn!(%error, "the rows of the commit table are not fenced yet");
                    Input::Failed
                }
            },
            Action::Serve(term) => {
                tracing::info!(epoch = term.epoch.0, first = %term.first, "this process leads");
                let order = (self.make_order)(term.first);
                let leader = Leader::new(
                    term,
                    Arc::clone(&self.table),
                    order,
                    self.doors.clone(),
                    self.options,
                    Arc::clone(&self.bell),
                );
                let sweep = sweep::drive(
                    Arc::downgrade(&leader),
                    Arc::clone(&self.doors.timer),
                    self.options.sweep.every,
                );
                self.doors.tasks.spawn(Box::pin(sweep));
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
                tracing::warn!("this process does not lead any more");
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

    async fn wait(&self, wait: Duration) -> Input {
        let rung = self.bell.count();
        let bell = self.bell.rung_after(rung);
        if self.is_closed.load(Ordering::Acquire) {
            self.doors.timer.wait(wait.min(self.options.lease.retry_after)).await;
        } else {
            first(self.doors.timer.wait(wait), bell).await;
        }
        Input::Next(self.standing())
    }

    /// Completes when the leader that this process is finds out that it is none.
    async fn over(&self) {
        loop {
            let rung = self.bell.count();
            if self.is_over() {
                return;
            }
            self.bell.rung_after(rung).await;
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
            Role::Leading(leader) => Some(leader.standing(self.doors.timer.now())),
            Role::Unknown | Role::Following(..) | Role::Stopped(_) => None,
        }
    }

    async fn read(&self) -> Input {
        let read = self.table.cluster().read_register(Register::Lease, ReadMode::Serial).await;
        match read.map_err(Error::from).and_then(|bytes| decode(bytes.as_deref())) {
            Ok(lease) => Input::Lease(lease),
            Err(error) => {
                tracing::warn!(%error, "the lease cannot be read");
                Input::Failed
            }
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
                Err(error) => {
                    tracing::warn!(%error, "the lease cannot be read");
                    Input::Failed
                }
            },
            Err(Fault::Unknown(_)) => Input::Unsure,
            Err(Fault::Failed(error)) => {
                tracing::warn!(%error, "the lease cannot be set");
                Input::Failed
            }
        }
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
        self.changed.ring();
    }
}

fn decode(bytes: Option<&[u8]>) -> Result<Option<Lease>> {
    bytes.map(Lease::decode).transpose()
}

impl<C: Cluster> Handler for Node<C> {
    fn handle(self: Arc<Self>, request: Request) -> Answering {
        Box::pin(async move {
            match self.role() {
                Role::Leading(leader) => leader.answer(request).await,
                Role::Unknown | Role::Following(..) | Role::Stopped(_) => Response::NotLeading,
            }
        })
    }
}
