//! The snapshots in use: a slab of slots, so that beginning and ending take no lock.
//!
//! ```text
//!  slot:   0        1        2        3     …          mark: versions hidden below it are gone
//!  read    17 w     –        12       17 w             floor: no ordinary snapshot is taken below
//!  start   19       –        0        18
//! ```
//!
//! A reader writes R into a free slot, and only then checks whether it came too late. The sweep
//! stores the mark, and only then scans the slots. Both writes are ordered before both checks, so
//! one of the two sees the other (Dekker). Either the slot holds the mark back, or the reader takes
//! a higher snapshot.
//!
//! The slots suffice for the threads of a machine. If they do not (thousands of open cursors), a
//! map behind a mutex takes the rest.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::PoisonError;

use carnet_base::{Error, ErrorKind, Result, Timestamp, stripe};
use carnet_store::Slot;

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, spin_loop};

/// Number of slots. A model has so few that its threads also use the overflow map.
const SLOTS: usize = if cfg!(shuttle) { 2 } else { 128 };
const FREE: u64 = 0;
const WRITER: u64 = 1 << 63;
/// A start is being drawn.
const DRAWING: u64 = u64::MAX;
const DECIDED: u64 = 1 << 63;

/// The snapshots in use. See the module documentation.
#[derive(Debug)]
pub(crate) struct Snapshots {
    slots: Box<[Entry]>,
    more: Mutex<More>,
    /// Number of entries in `more`.
    more_len: AtomicU32,
    floor: AtomicU64,
    mark: AtomicU64,
}

/// A slot. It has its own cache line, because threads write to their slots at every transaction.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// `FREE`, or the snapshot plus one, with `WRITER` if it may write.
    read: AtomicU64,
    /// Zero, `DRAWING`, or the start, with `DECIDED` once its commit is decided.
    start: AtomicU64,
}

#[derive(Debug, Default)]
struct More {
    entries: BTreeMap<u32, Box<Entry>>,
    next: u32,
}

/// The oldest snapshots in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub(crate) any: Timestamp,
    pub(crate) writer: Timestamp,
}

thread_local! {
    /// The slot that this thread used last: it is probably free again, and in this core's cache.
    static LAST: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Snapshots {
    /// Creates the slots with a mark: snapshots below it are not taken up again.
    pub(crate) fn swept_below(mark: Timestamp) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Entry::default()).collect(),
            more: Mutex::default(),
            more_len: AtomicU32::new(0),
            floor: AtomicU64::new(0),
            mark: AtomicU64::new(mark.get()),
        }
    }

    /// Registers a snapshot at the newest published commit.
    pub(crate) fn begin(&self, published: &AtomicU64, writer: bool) -> (Timestamp, Slot) {
        let mut read = published.load(Ordering::Acquire);
        let slot = self.claim(encode(read, writer));
        self.with(slot, |entry| {
            loop {
                fence(Ordering::SeqCst);
                if self.floor.load(Ordering::Relaxed) <= read {
                    break;
                }
                read = published.load(Ordering::Acquire);
                entry.read.store(encode(read, writer), Ordering::Relaxed);
            }
        });
        (timestamp(read), slot)
    }

    /// Registers a snapshot that was handed out before.
    pub(crate) fn begin_at(&self, read: Timestamp) -> Result<Slot> {
        let slot = self.claim(encode(read.get(), false));
        fence(Ordering::SeqCst);
        let mark = self.mark.load(Ordering::Relaxed);
        if mark <= read.get() {
            return Ok(slot);
        }
        self.end(slot);
        Err(Error::new(
            ErrorKind::TooOld,
            format!(
                "snapshot {read} is too old: versions up to {mark} may have been swept; begin \
                     a new one"
            ),
        ))
    }

    /// Draws the start of a writer's slot.
    pub(crate) fn draw(
        &self,
        slot: Slot,
        draw: impl FnOnce() -> Result<Timestamp>,
    ) -> Result<Timestamp> {
        self.with(slot, |entry| {
            // A thread that looks for a start that is being drawn waits until it is stored.
            entry.start.store(DRAWING, Ordering::SeqCst);
            let start = draw();
            let drawn = start.as_ref().map_or(0, |start| start.get());
            entry.start.store(drawn, Ordering::Release);
            start
        })
    }

    /// Gives a slot back.
    pub(crate) fn end(&self, slot: Slot) {
        if (slot.0 as usize) < SLOTS {
            let entry = &self.slots[slot.0 as usize];
            entry.start.store(0, Ordering::Release);
            entry.read.store(FREE, Ordering::Release);
        } else {
            let mut more = self.more();
            more.entries.remove(&slot.0);
            self.more_len.store(len(&more), Ordering::Release);
        }
    }

    /// Returns `true` if a start belongs to this slot and is not decided yet.
    pub(crate) fn is_open(&self, slot: Slot, start: Timestamp) -> bool {
        self.with(slot, |entry| entry.start.load(Ordering::Acquire) == start.get())
    }

    /// Marks a start as decided, if the slot still belongs to it.
    pub(crate) fn decided(&self, slot: Slot, start: Timestamp) {
        self.with(slot, |entry| {
            let (open, decided) = (start.get(), start.get() | DECIDED);
            // If the slot belongs to another start by now, leave it alone.
            let _ =
                entry.start.compare_exchange(open, decided, Ordering::AcqRel, Ordering::Acquire);
        });
    }

    /// Returns `true` if a start was drawn and its slot not given back.
    pub(crate) fn is_running(&self, start: Timestamp) -> bool {
        let mut found = false;
        self.each(|entry| {
            let mut theirs = entry.start.load(Ordering::SeqCst);
            while theirs == DRAWING {
                spin_loop();
                theirs = entry.start.load(Ordering::Acquire);
            }
            found |= theirs & !DECIDED == start.get();
        });
        found
    }

    /// Returns the oldest snapshots in use, or `published` if there are none; from now on no
    /// ordinary snapshot is taken below it.
    pub(crate) fn oldest(&self, published: Timestamp) -> Oldest {
        self.floor.fetch_max(published.get(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut oldest = Oldest { any: published, writer: published };
        self.each(|entry| {
            let read = entry.read.load(Ordering::Relaxed);
            if read != FREE {
                let at = timestamp((read & !WRITER) - 1);
                oldest.any = oldest.any.min(at);
                if read & WRITER != 0 {
                    oldest.writer = oldest.writer.min(at);
                }
            }
        });
        oldest
    }

    /// Raises the mark as far as the snapshots in use allow; returns the new mark.
    pub(crate) fn raise_mark(&self, wanted: Timestamp, published: Timestamp) -> Timestamp {
        let mark = wanted.min(self.oldest(published).any);
        self.mark.fetch_max(mark.get(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        mark.min(self.oldest(published).any)
    }

    /// Returns the mark.
    pub(crate) fn mark(&self) -> Timestamp {
        timestamp(self.mark.load(Ordering::SeqCst))
    }

    fn claim(&self, read: u64) -> Slot {
        let hint = hint();
        for probe in 0..SLOTS {
            let at = (hint + probe) % SLOTS;
            let claimed = self.slots[at].read.compare_exchange(
                FREE,
                read,
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
            if claimed.is_ok() {
                LAST.with(|last| last.set(at));
                return Slot(u32::try_from(at).expect("there are few slots"));
            }
        }
        let mut more = self.more();
        loop {
            let number = more.next.max(u32::try_from(SLOTS).expect("there are few slots"));
            more.next = number.wrapping_add(1);
            if let std::collections::btree_map::Entry::Vacant(free) = more.entries.entry(number) {
                free.insert(Box::new(Entry { read: AtomicU64::new(read), ..Entry::default() }));
                self.more_len.store(len(&more), Ordering::Release);
                return Slot(number);
            }
        }
    }

    /// Calls `look` with an entry that the caller holds.
    fn with<T>(&self, slot: Slot, look: impl FnOnce(&Entry) -> T) -> T {
        if let Some(entry) = self.slots.get(slot.0 as usize) {
            return look(entry);
        }
        match self.more().entries.get(&slot.0) {
            Some(entry) => look(entry),
            // Given back already: there is nothing to read or change.
            None => look(&Entry::default()),
        }
    }

    fn each(&self, mut look: impl FnMut(&Entry)) {
        self.slots.iter().for_each(&mut look);
        if self.more_len.load(Ordering::Acquire) > 0 {
            self.more().entries.values().for_each(|entry| look(entry));
        }
    }

    fn more(&self) -> MutexGuard<'_, More> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the slot to try first.
fn hint() -> usize {
    // The threads of a model are one system thread, and its number would depend on earlier runs.
    if cfg!(shuttle) {
        return 0;
    }
    LAST.with(|last| {
        if last.get() == usize::MAX {
            last.set(stripe(SLOTS));
        }
        last.get()
    })
}

fn len(more: &More) -> u32 {
    u32::try_from(more.entries.len()).unwrap_or(u32::MAX)
}

fn encode(read: u64, writer: bool) -> u64 {
    // The largest timestamp is never published, so adding one still leaves 63 bits.
    (read + 1) | if writer { WRITER } else { 0 }
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    #[test]
    fn the_oldest_snapshot_holds_the_mark_back() {
        let snapshots = Snapshots::swept_below(Timestamp::ZERO);
        let published = AtomicU64::new(10);
        let (read, slot) = snapshots.begin(&published, false);
        published.store(20, Ordering::Release);
        let (_, writer) = snapshots.begin(&published, true);
        assert_eq!(read, at(10));
        assert_eq!(snapshots.oldest(at(20)), Oldest { any: at(10), writer: at(20) });
        assert_eq!(snapshots.raise_mark(at(15), at(20)), at(10));
        snapshots.end(slot);
        assert_eq!(snapshots.raise_mark(at(15), at(20)), at(15));
        assert_eq!(snapshots.begin_at(at(14)).unwrap_err().kind(), ErrorKind::TooOld);
        let earlier = snapshots.begin_at(at(15)).unwrap();
        assert_eq!(snapshots.raise_mark(at(20), at(20)), at(15));
        snapshots.end(earlier);
        snapshots.end(writer);
        assert_eq!(snapshots.oldest(at(20)), Oldest { any: at(20), writer: at(20) });
    }

    #[test]
    fn snapshot_below_an_earlier_mark_is_refused() {
        let snapshots = Snapshots::swept_below(at(100));
        assert_eq!(snapshots.begin_at(at(99)).unwrap_err().kind(), ErrorKind::TooOld);
        assert!(snapshots.begin_at(at(100)).is_ok());
    }

    #[test]
    fn overflow_map_takes_more_snapshots_than_slots() {
        let snapshots = Snapshots::swept_below(Timestamp::ZERO);
        let published = AtomicU64::new(0);
        let slots: Vec<_> = (1..=3 * SLOTS as u64)
            .map(|number| {
                published.store(number, Ordering::Release);
                let (read, slot) = snapshots.begin(&published, true);
                assert_eq!(read, at(number));
                snapshots.draw(slot, || Ok(at(1000 + number))).unwrap();
                slot
            })
            .collect();
        for (number, slot) in (1..).zip(&slots) {
            assert_eq!(snapshots.oldest(at(999)).any, at(number));
            assert!(snapshots.is_running(at(1000 + number)));
            assert!(snapshots.is_open(*slot, at(1000 + number)));
            snapshots.decided(*slot, at(1));
            assert!(snapshots.is_open(*slot, at(1000 + number)), "another's decision");
            snapshots.decided(*slot, at(1000 + number));
            assert!(!snapshots.is_open(*slot, at(1000 + number)));
            snapshots.end(*slot);
            assert!(!snapshots.is_running(at(1000 + number)));
        }
        assert_eq!(snapshots.oldest(at(999)).any, at(999));
    }

    /// No snapshot is ever older than a mark that was raised while it was in use.
    #[test]
    fn racing_snapshot_and_mark_see_each_other() {
        let (snapshots, published) = (Snapshots::swept_below(Timestamp::ZERO), AtomicU64::new(1));
        let raised = AtomicU64::new(0);
        let stop = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let (read, slot) = snapshots.begin(&published, false);
                        for _ in 0..3 {
                            let mark = raised.load(Ordering::SeqCst);
                            assert!(mark <= read.get(), "mark {mark} is above {read}");
                        }
                        snapshots.end(slot);
                    }
                });
            }
            for number in 2..60_000 {
                published.store(number, Ordering::Release);
                let mark = snapshots.raise_mark(at(number), at(number));
                raised.store(mark.get(), Ordering::SeqCst);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
