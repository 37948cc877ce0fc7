//! Ring: an io_uring that reads into buffers that it owns. The only unsafe code of the engine's
//! file access.
//!
//! The kernel writes to a buffer from the submission of its read until its completion, even if the
//! future or the file is dropped. So [`Ring`] owns the whole [`Request`] (descriptor, buffer,
//! promise), keeps it in a slab, and returns it with the completion. No other code accesses it
//! meanwhile, and the ring is not dropped before every request has been returned.
//!
//! Rings use `SINGLE_ISSUER | DEFER_TASKRUN` if the kernel supports it (6.1): the waiting thread
//! runs the completions, instead of an interrupt of another thread. So one thread creates the ring,
//! submits and waits; see [`super::reactor`].
//!
//! Not implemented on purpose: registered buffers and descriptors, fixed files, polling.
#![expect(unsafe_code, reason = "the kernel writes to memory that this module owns")]

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

/// Maximum number of reads in flight; more wait in the reactor's queue.
pub(super) const IN_FLIGHT_MAX: usize = 256;

/// User data of the alarm's poll; indexes of slots are smaller.
const ALARM: u64 = u64::MAX;
const NOP: u64 = u64::MAX - 1;

/// Maximum length of one read; the rest follows.
const READ_BYTES_MAX: usize = 1 << 30;

/// Wakes a thread in [`Ring::wait`] from any other thread.
#[derive(Clone)]
pub(super) struct Alarm(Arc<OwnedFd>);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(super) fn ring(&self) {
        // Fails only if the counter is full; then the alarm is ringing already.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

pub(super) struct Ring {
    /// Not dropped if requests were not returned.
    ring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Vec<Option<Request>>>,
    free: Vec<usize>,
    alarm: Alarm,
    armed: bool,
}

impl Ring {
    /// Makes a ring for the calling thread, which must be its only user.
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

    /// Checks that the kernel permits this process to use a ring: runs a NOP, a small read and the
    /// alarm, which are all operations used later.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        // SAFETY: a NOP refers to no memory.
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
            return Err(io::Error::other("io_uring read wrong bytes"));
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

    /// Adds a request; [`Ring::wait`] submits it.
    ///
    /// # Panics
    ///
    /// If the ring is full.
    pub(super) fn push(&mut self, request: Request) {
        let slot = self.free.pop().expect("the caller checked that the ring is not full");
        let request = self.slots[slot].insert(request);
        let file = types::Fd(request.file.as_raw_fd());
        let (offset, rest) = request.rest();
        let len = u32::try_from(rest.len().min(READ_BYTES_MAX)).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(file, rest.as_mut_ptr(), len)
            .offset(offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: the descriptor is open, and the `len` bytes from the pointer on are the request's
        // own heap memory, initialized and not borrowed. The request stays in its slot unchanged
        // until the completion of that slot: only `completed` removes it, and `drop` waits for all
        // requests or leaks them.
        unsafe { self.enqueue(&entry) };
    }

    /// Submits all requests and waits for at least one completion or the alarm.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.arm();
        match self.ring.submit_and_wait(1) {
            // The completion queue overflowed, or memory is short: processing completions helps.
            Err(error) if matches!(error.raw_os_error(), Some(EBUSY | EAGAIN | EINTR)) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Returns a request with a finished attempt, and its result.
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

    /// Gives up a ring that failed: its requests fail with the error, and memory that the kernel
    /// may still write to is leaked. Returns the ids of the requests' levels.
    pub(super) fn abandon(self, error: &io::Error) -> Vec<u64> {
        let fail = |request: &Request| {
            request.fail(io::Error::new(error.kind(), format!("io_uring failed: {error}")));
            request.level().id
        };
        let levels = self.slots.iter().flatten().map(fail).collect();
        std::mem::forget(self);
        levels
    }

    fn arm(&mut self) {
        if !self.armed {
            self.armed = true;
            let alarm = types::Fd(self.alarm.0.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(alarm, POLLIN).build().user_data(ALARM);
            // SAFETY: a poll refers to no memory; the descriptor is open as long as the ring
            // exists.
            unsafe { self.enqueue(&entry) };
        }
    }

    /// Adds an entry to the submission queue.
    ///
    /// # Safety
    ///
    /// Everything that the entry refers to must stay valid, and unchanged for a read, until its
    /// completion.
    unsafe fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: guaranteed by the caller. There is room: at most `IN_FLIGHT_MAX` requests, one
        // poll and one NOP are pending at any time.
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
            // SAFETY: neither is used again. No request is in flight, so the kernel refers to no
            // memory of this ring; a pending poll ends with the ring.
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
    fn abandoned_ring_fails_all_reads() {
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
        // The kernel still reads into memory, which is leaked and valid.
        io::Write::write_all(&mut writer, b"late").unwrap();
    }
}
