//! The only unsafe code of the engine's disk: a ring that reads into buffers that it owns.
//!
//! The kernel writes to a buffer from the moment its read is submitted until its completion is
//! seen, whatever happens to the future or the file meanwhile. So [`Ring`] takes a whole
//! [`Request`] (descriptor, buffer, promise), keeps it in a slab, and gives it back with the
//! completion. Nobody else can reach it in between, and the ring does not go away before every
//! request has come back.
//!
//! Rings are `SINGLE_ISSUER | DEFER_TASKRUN` where the kernel has that (6.1): completions are
//! run by the thread that waits for them instead of interrupting another. So one thread makes
//! the ring, submits and waits; see [`super::reactor`].
//!
//! Deliberately absent: registered buffers and descriptors, fixed files, polling.
#![expect(unsafe_code, reason = "the kernel writes to memory that only this file lends it")]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{read, write};

use carnet_base::block_on;

use super::request::Request;
use crate::disk::promise::promise;

/// Reads in flight at once; more wait in the reactor's queue.
pub(super) const IN_FLIGHT_MAX: usize = 256;

/// The user data of the poll of the alarm; slots of the slab are smaller.
const ALARM: u64 = u64::MAX;
const NOP: u64 = u64::MAX - 1;

/// No longer piece is read at once; the rest follows.
const READ_BYTES_MAX: usize = 1 << 30;

/// Gets a thread out of [`Ring::wait`], from any other thread.
#[derive(Clone)]
pub(super) struct Alarm(Arc<OwnedFd>);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(super) fn ring(&self) {
        // It fails only when the counter is full; then the alarm rings already.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

pub(super) struct Ring {
    /// Dropped by hand: not at all, should requests not come back.
    ring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Vec<Option<Request>>>,
    free: Vec<usize>,
    alarm: Alarm,
    armed: bool,
}

impl Ring {
    /// Makes a ring for the calling thread, which alone uses it.
    pub(super) fn new(alarm: Alarm) -> io::Result<Self> {
        let ring = Self::build(|builder| builder.setup_single_issuer().setup_defer_taskrun())
            .or_else(|_| Self::build(|builder| builder))?;
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            slots: ManuallyDrop::new((0..IN_FLIGHT_MAX).map(|_| None).collect()),
            free: (0..IN_FLIGHT_MAX).rev().collect(),
            alarm,
            armed: false,
        })
    }

    fn build(
        flags: impl Fn(&mut io_uring::Builder) -> &mut io_uring::Builder,
    ) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        flags(&mut builder);
        // Two more for the alarm and a NOP.
        builder.build(u32::try_from(IN_FLIGHT_MAX + 2).unwrap_or(u32::MAX))
    }

    /// Tells whether the kernel lets this process use a ring: it does nothing once, reads a few
    /// bytes and hears the alarm, and that is all that is asked of it later.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        // SAFETY: a NOP names no memory.
        unsafe { self.enqueue(&opcode::Nop::new().build().user_data(NOP)) };
        self.ring.submit_and_wait(1)?;
        let done = self.ring.completion().next().ok_or_else(silent)?;
        outcome(&done)?;

        let file = memfd_create("carnet-probe", MemfdFlags::CLOEXEC)?;
        write(&file, b"probe")?;
        let (promise, awaited) = promise();
        self.push(Request::new(Arc::new(file.into()), 1, vec![0; 4], 0, promise));
        self.ring.submit_and_wait(1)?;
        let (request, attempt) = self.completed().ok_or_else(silent)?;
        let rest = request.advance(attempt);
        if rest.is_some() || block_on(awaited)? != "robe" {
            return Err(io::Error::other("io_uring reads other bytes than are there"));
        }

        self.arm();
        self.alarm.ring();
        self.ring.submit_and_wait(1)?;
        let heard = self.completed().is_none() && !self.armed;
        if heard { Ok(()) } else { Err(silent()) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == IN_FLIGHT_MAX
    }

    /// Takes a request; [`Ring::wait`] submits it.
    ///
    /// # Panics
    ///
    /// When the ring is full.
    pub(super) fn push(&mut self, request: Request) {
        let slot = self.free.pop().expect("the caller asked whether the ring is full");
        let request = self.slots[slot].insert(request);
        let file = types::Fd(request.file.as_raw_fd());
        let (offset, rest) = request.rest();
        let len = u32::try_from(rest.len().min(READ_BYTES_MAX)).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(file, rest.as_mut_ptr(), len)
            .offset(offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: the descriptor is open and the `len` bytes from the pointer on are the
        // request's own heap memory, initialised and referred to by nobody else. The request
        // stays in its slot, untouched, until the completion that names the slot was seen:
        // only `completed` takes it out, and `drop` waits for all of them or leaks them.
        unsafe { self.enqueue(&entry) };
    }

    /// Submits what was pushed and waits for at least one completion, or for the alarm.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.arm();
        match self.ring.submit_and_wait(1) {
            // The completion queue overflowed into the kernel, or memory is short: reaping helps.
            Err(error) if matches!(error.raw_os_error(), Some(EBUSY | EAGAIN | EINTR)) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Gives back a request whose attempt came to its end, and how it ended.
    pub(super) fn completed(&mut self) -> Option<(Request, io::Result<usize>)> {
        loop {
            let done = self.ring.completion().next()?;
            if done.user_data() == ALARM {
                self.armed = false;
                self.alarm.silence();
                continue;
            }
            let slot = usize::try_from(done.user_data()).ok()?;
            let request = self.slots.get_mut(slot)?.take()?;
            self.free.push(slot);
            return Some((request, outcome(&done)));
        }
    }

    /// Gives up on a ring that no longer answers: whoever waits gets the error, and the memory
    /// that the kernel may still write to is never freed.
    pub(super) fn abandon(self, error: &io::Error) {
        for request in self.slots.iter().flatten() {
            request.fail(io::Error::new(error.kind(), format!("io_uring failed: {error}")));
        }
        std::mem::forget(self);
    }

    fn arm(&mut self) {
        if !self.armed {
            self.armed = true;
            let alarm = types::Fd(self.alarm.0.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(alarm, POLLIN).build().user_data(ALARM);
            // SAFETY: a poll names no memory; the descriptor is open as long as the ring is.
            unsafe { self.enqueue(&entry) };
        }
    }

    /// Puts an entry into the submission queue.
    ///
    /// # Safety
    ///
    /// What the entry names must stay valid, and for a read untouched, until its completion.
    unsafe fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: as the caller vouches. There is room: at most `IN_FLIGHT_MAX` requests, one
        // poll and one NOP are between here and their completion at any time.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the submission queue has room for everything in flight");
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut failures = 0;
        while !self.is_idle() && failures < 100 {
            failures = if self.wait().is_err() { failures + 1 } else { 0 };
            while self.completed().is_some() {}
        }
        if self.is_idle() {
            // SAFETY: neither is used again. No request is in flight, so the kernel knows no
            // memory of ours; a pending poll ends with the ring.
            unsafe {
                ManuallyDrop::drop(&mut self.ring);
                ManuallyDrop::drop(&mut self.slots);
            }
        }
    }
}

const POLLIN: u32 = 1;
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;

fn outcome(done: &cqueue::Entry) -> io::Result<usize> {
    let result = done.result();
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn silent() -> io::Error {
    io::Error::other("io_uring accepted an operation and completed none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_is_abandoned_answers_everybody_with_the_error() {
        let Ok(mut ring) = Alarm::new().and_then(Ring::new) else { return };
        let (reader, mut writer) = io::pipe().unwrap();
        let (promise, awaited) = promise();
        let file = Arc::new(OwnedFd::from(reader).into());
        ring.push(Request::new(file, 0, vec![0; 4], 0, promise));
        ring.alarm.ring();
        ring.wait().unwrap();
        ring.abandon(&io::Error::from_raw_os_error(12));
        let error = block_on(awaited).unwrap_err().to_string();
        assert!(error.contains("io_uring failed"), "{error}");
        // The kernel still reads, into memory that is still there.
        io::Write::write_all(&mut writer, b"late").unwrap();
    }
}
