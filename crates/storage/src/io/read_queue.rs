//! Queue of reads that wait for the device, by service level.

use std::collections::{BTreeMap, VecDeque};

use carnet_base::ReadLevel;

/// Cost of a read in addition to its bytes.
const READ_COST_BYTES: u64 = 4 << 10;

/// Maximum numbers of reads in the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    /// Maximum while all reads are of one level.
    pub(crate) alone: usize,
    /// Maximum while reads of several levels wait or are in the device. It is smaller, because
    /// reads in the device are in no order.
    pub(crate) shared: usize,
}

/// Decides which read reaches the device next: levels take turns by their shares, and reads of a
/// level are in order of arrival.
#[derive(Debug)]
pub(crate) struct ReadQueue<T> {
    limits: ReadLimits,
    /// Levels with reads that wait or are in the device.
    levels: BTreeMap<u64, Level<T>>,
    waiting: usize,
    in_device: usize,
}

#[derive(Debug)]
struct Level<T> {
    shares: u64,
    waiting: VecDeque<(u64, T)>,
    in_device: usize,
    /// Cost of the reads that reached the device, divided by the shares.
    taken: u64,
}

impl<T> ReadQueue<T> {
    pub(crate) const fn new(limits: ReadLimits) -> Self {
        Self { limits, levels: BTreeMap::new(), waiting: 0, in_device: 0 }
    }

    /// Adds a read of `bytes`.
    pub(crate) fn push(&mut self, level: ReadLevel, bytes: usize, read: T) {
        // A level that was idle must not catch up on the time of its absence.
        let least = self.levels.values().map(|level| level.taken).min().unwrap_or(0);
        let shares = u64::from(level.shares.max(1));
        let queue = self.levels.entry(level.id).or_insert_with(|| Level {
            shares,
            waiting: VecDeque::new(),
            in_device: 0,
            taken: least,
        });
        queue.shares = shares;
        queue.waiting.push_back((READ_COST_BYTES + bytes as u64, read));
        self.waiting += 1;
    }

    /// Removes the next read for the device, and its level's id for [`ReadQueue::end`].
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        if self.in_device >= self.in_device_max() {
            return None;
        }
        let levels = self.levels.iter_mut().filter(|(_, level)| !level.waiting.is_empty());
        let (id, level) = levels.min_by_key(|(_, level)| (level.taken, level.in_device))?;
        let (cost, read) = level.waiting.pop_front()?;
        level.taken = level.taken.saturating_add(cost * 1000 / level.shares);
        level.in_device += 1;
        self.in_device += 1;
        self.waiting -= 1;
        Some((*id, read))
    }

    /// Notes that a read of a level has left the device.
    pub(crate) fn end(&mut self, id: u64) {
        let Some(level) = self.levels.get_mut(&id) else { return };
        level.in_device -= 1;
        self.in_device -= 1;
        if level.in_device == 0 && level.waiting.is_empty() {
            self.levels.remove(&id);
        }
    }

    /// Returns `true` if a further read has to wait for others.
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting + self.in_device >= self.in_device_max()
    }

    fn in_device_max(&self) -> usize {
        if self.levels.len() > 1 { self.limits.shared } else { self.limits.alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReadLimits = ReadLimits { alone: 8, shared: 4 };

    fn level(id: u64, shares: u32) -> ReadLevel {
        ReadLevel { id, shares }
    }

    /// Pops and ends reads one after the other; returns the number of each of two levels.
    fn served(queue: &mut ReadQueue<u64>, reads: usize) -> [usize; 2] {
        let mut counts = [0; 2];
        for _ in 0..reads {
            let (id, read) = queue.pop().expect("there are reads");
            assert_eq!(id, read);
            counts[usize::from(id == 2)] += 1;
            queue.end(id);
        }
        counts
    }

    #[test]
    fn levels_share_the_device_by_their_shares() {
        let mut queue = ReadQueue::new(LIMITS);
        for _ in 0..1000 {
            queue.push(level(1, 100), 4096, 1);
            queue.push(level(2, 1000), 4096, 2);
        }
        let [low, high] = served(&mut queue, 1100);
        assert!((99..=101).contains(&low) && (999..=1001).contains(&high), "{low} {high}");
        assert_eq!(queue.waiting, 900);
    }

    #[test]
    fn larger_reads_cost_more() {
        let mut queue = ReadQueue::new(LIMITS);
        for _ in 0..400 {
            queue.push(level(1, 100), 60 << 10, 1);
            queue.push(level(2, 100), 4 << 10, 2);
        }
        let [large, small] = served(&mut queue, 450);
        assert!((49..=51).contains(&large), "{large} {small}");
    }

    #[test]
    fn returning_level_does_not_catch_up() {
        let mut queue = ReadQueue::new(LIMITS);
        for _ in 0..1000 {
            queue.push(level(1, 100), 4096, 1);
        }
        served(&mut queue, 500);
        for _ in 0..100 {
            queue.push(level(2, 100), 4096, 2);
        }
        let [old, returning] = served(&mut queue, 100);
        assert!((49..=51).contains(&old), "{old} {returning}");
    }

    #[test]
    fn device_has_fewer_reads_while_levels_compete() {
        let mut queue = ReadQueue::new(LIMITS);
        for _ in 0..10 {
            queue.push(level(1, 100), 4096, 1);
        }
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 8);
        queue.push(level(2, 100), 4096, 2);
        (0..4).for_each(|_| queue.end(1));
        assert!(queue.is_busy() && queue.pop().is_none());
        queue.end(1);
        assert_eq!(queue.pop(), Some((2, 2)), "the level that has taken less");
        (0..3).for_each(|_| queue.end(1));
        queue.end(2);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 2);
        assert!(!queue.is_busy());
        (0..2).for_each(|_| queue.end(1));
        assert!(queue.levels.is_empty());
    }
}
