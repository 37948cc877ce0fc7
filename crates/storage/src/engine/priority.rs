//! Priority of threads that flush and compact.
//!
//! Two settings of the thread, both without privileges. The *nice value* gives other threads a
//! larger share of the processor. The *slice* is the time after which the scheduler considers
//! others: a thread that wakes up with a shorter slice, such as one with a point read, preempts at
//! once, instead of waiting for the end of the slice. docs/design/0014-io-scheduler.md has figures.
#![expect(unsafe_code, reason = "a system call without a safe wrapper")]

use std::io;

/// Slice of background threads: the longest that Linux takes. The default is about 3 ms.
#[cfg(target_os = "linux")]
const SLICE_NANOS: u64 = 100_000_000;

/// Lowers the priority of this thread; Linux has one per thread.
#[cfg(target_os = "linux")]
pub(super) fn lower(nice: u8) -> io::Result<()> {
    rustix::process::setpriority_process(None, i32::from(nice))?;
    lengthen_slice(i32::from(nice))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn lower(_: u8) -> io::Result<()> {
    Ok(())
}

/// Sets the slice of this thread. Before 6.12, Linux ignores it.
#[cfg(target_os = "linux")]
fn lengthen_slice(nice: i32) -> io::Result<()> {
    // SAFETY: the call has no pointers.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        return Ok(()); // The administrator chose another policy, which has no slice.
    }
    let mut attributes = Attributes {
        size: ATTRIBUTES_BYTES,
        policy: libc::SCHED_OTHER.cast_unsigned(),
        flags: 0,
        nice,
        priority: 0,
        runtime_nanos: SLICE_NANOS,
        deadline_nanos: 0,
        period_nanos: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until the call returns.
    // If it does not know that size, it writes to the first field; hence the mutable pointer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw mut attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(target_os = "linux")]
const ATTRIBUTES_BYTES: u32 = 48;

/// `struct sched_attr` in its first version, see `sched_setattr(2)`.
#[cfg(target_os = "linux")]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_nanos: u64,
    deadline_nanos: u64,
    period_nanos: u64,
}

#[cfg(target_os = "linux")]
const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_BYTES as usize);
