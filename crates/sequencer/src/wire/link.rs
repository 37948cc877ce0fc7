//! The client's side of a connection: calls in flight, answers in any order.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::BytesMut;
use carnet_base::sync::lock;
use tokio::io::{ReadHalf, split};
use tokio::time::{MissedTickBehavior, interval};

use super::codec::{Malformed, Message, decode, encode};
use super::limits::Limits;
use super::stream::{Activity, Broken, Frames, Outbox, Stream};
use crate::message::{LeaderRequest, Response};
use crate::oneshot::{Receiver, Sender, channel};
use crate::transport::Unanswered;

/// A connection, open or being opened; calls made while it opens wait.
#[derive(Debug)]
pub(super) struct Link {
    calls: Mutex<Calls>,
    outbox: Outbox,
    /// Whether the connection was ever open: before that nothing was sent.
    has_run: AtomicBool,
    limits: Limits,
}

#[derive(Debug, Default)]
struct Calls {
    is_closed: bool,
    made: u64,
    /// Every call that the other side may still be processing.
    under_way: HashMap<u64, UnderWay>,
    bytes: usize,
}

#[derive(Debug)]
struct UnderWay {
    bytes: usize,
    /// `None` once the caller is gone.
    caller: Option<Sender<Response>>,
}

impl Link {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let outbox = Outbox::new(2 * limits.request_bytes_max);
        let has_run = AtomicBool::new(false);
        Arc::new(Self { calls: Mutex::default(), outbox, has_run, limits })
    }

    /// Sends a request immediately.
    ///
    /// It is not sent if the connection is closed or has no room for another request.
    pub(super) fn ask(self: &Arc<Self>, request: LeaderRequest) -> Asked {
        let (sender, receiver) = channel();
        let mut frame = BytesMut::new();
        let id = {
            let mut calls = lock(&self.calls);
            calls.made += 1;
            calls.made
        };
        if let Err(error) = encode(id, &Message::LeaderRequest(request), &mut frame) {
            // A request that cannot be encoded fails at every try, so none can be in flight.
            return Asked::Answered(Some(Ok(Response::Refused(error))));
        }
        let mut calls = lock(&self.calls);
        let has_room = calls.under_way.len() < self.limits.requests_max
            && calls.bytes + frame.len() <= self.limits.request_bytes_max;
        if calls.is_closed || !has_room || !self.outbox.push(&frame) {
            return Asked::NOT_SENT;
        }
        calls.bytes += frame.len();
        calls.under_way.insert(id, UnderWay { bytes: frame.len(), caller: Some(sender) });
        drop(calls);
        Asked::Waits { link: Arc::clone(self), id, receiver }
    }

    #[cfg(test)]
    pub(super) fn calls_under_way(&self) -> usize {
        lock(&self.calls).under_way.len()
    }

    /// Closes the link: waiting calls are unanswered.
    pub(super) fn close(&self) {
        let mut calls = lock(&self.calls);
        calls.is_closed = true;
        calls.bytes = 0;
        let left = std::mem::take(&mut calls.under_way);
        drop(calls);
        self.outbox.close(Broken::Closed);
        drop(left);
    }

    /// Carries calls and answers over a stream, until it breaks.
    pub(super) async fn run(&self, stream: Box<dyn Stream>) -> Broken {
        self.has_run.store(true, Ordering::Release);
        let (reader, writer) = split(stream);
        let activity = Activity::new();
        let stall = self.limits.ping_every * self.limits.pings_lost_max;
        let ended = tokio::select! {
            ended = self.outbox.write_to(writer, stall, &activity) => ended,
            ended = self.receive(reader, &activity) => ended,
            broken = self.watch(&activity) => Err(broken),
        };
        match ended {
            Ok(()) => Broken::Closed,
            Err(broken) => broken,
        }
    }

    async fn receive(
        &self,
        reader: ReadHalf<Box<dyn Stream>>,
        activity: &Activity,
    ) -> Result<(), Broken> {
        let mut frames = Frames::new(reader, activity);
        loop {
            let frame = decode(&frames.next().await?)?;
            match frame.message {
                Message::Response(response) => self.answered(frame.id, response)?,
                Message::Pong => {}
                Message::LeaderRequest(_) | Message::Ping => {
                    return Err(
                        Malformed("a request on a connection that carries only answers").into()
                    );
                }
            }
        }
    }

    fn answered(&self, id: u64, response: Response) -> Result<(), Malformed> {
        let mut calls = lock(&self.calls);
        let Some(call) = calls.under_way.remove(&id) else {
            return Err(Malformed("an answer to no request"));
        };
        calls.bytes -= call.bytes;
        drop(calls);
        if let Some(caller) = call.caller {
            caller.send(response);
        }
        Ok(())
    }

    /// Detects a silent peer or an unused connection.
    async fn watch(&self, activity: &Activity) -> Broken {
        let mut ping = BytesMut::new();
        encode(0, &Message::Ping, &mut ping).expect("a ping is short");
        // After a pause of this process there is one tick, not all that were missed.
        let mut ticks = interval(self.limits.ping_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut lost, mut unused, mut made) = (0, 0, 0);
        loop {
            ticks.tick().await;
            if activity.since_last() {
                lost = 0;
            } else if lost == self.limits.pings_lost_max {
                return Broken::Silent;
            } else {
                lost += 1;
                self.outbox.push(&ping);
            }
            let calls = lock(&self.calls);
            let is_unused = calls.under_way.is_empty() && calls.made == made;
            made = calls.made;
            drop(calls);
            unused = if is_unused { unused + 1 } else { 0 };
            if unused == self.limits.pings_unused_max {
                return Broken::Idle;
            }
        }
    }
}

/// A request that was sent, or could not be.
pub(super) enum Asked {
    Answered(Option<Result<Response, Unanswered>>),
    Waits { link: Arc<Link>, id: u64, receiver: Receiver<Response> },
}

impl Asked {
    pub(super) const NOT_SENT: Self = Self::Answered(Some(Err(Unanswered::NotSent)));
}

impl Future for Asked {
    type Output = Result<Response, Unanswered>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Answered(answer) => {
                Poll::Ready(answer.take().expect("a future is not polled after its end"))
            }
            Self::Waits { link, receiver, .. } => pin!(receiver).poll(context).map(|response| {
                let was_sent = link.has_run.load(Ordering::Acquire);
                response.ok_or(if was_sent { Unanswered::Lost } else { Unanswered::NotSent })
            }),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Self::Waits { link, id, .. } = self {
            // The request counts until the other side has answered, but no longer wakes its caller.
            let mut calls = lock(&link.calls);
            let caller = calls.under_way.get_mut(id).and_then(|call| call.caller.take());
            drop(calls);
            drop(caller);
        }
    }
}
