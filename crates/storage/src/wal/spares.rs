//! Segments that nobody needs any more, and whose files are written again.

/// Keeps a few of them, by number.
#[derive(Debug)]
pub(crate) struct Spares {
    max: usize,
    bytes_max: u64,
    numbers: Vec<u64>,
}

/// A segment's file to be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    /// What it is longer is cut off: a single record may have been as long as four segments.
    pub(crate) bytes_max: u64,
}

impl Spares {
    /// Keeps at most `max` files.
    pub(crate) const fn new(max: usize, bytes_max: u64) -> Self {
        Self { max, bytes_max, numbers: Vec::new() }
    }

    /// Takes a segment that the durable manifest does not need; returns whether it is kept,
    /// otherwise it is to be removed.
    pub(crate) fn keep(&mut self, number: u64) -> bool {
        let room = self.numbers.len() < self.max;
        if room {
            self.numbers.push(number);
        }
        room
    }

    pub(crate) fn take(&mut self) -> Option<Spare> {
        let bytes_max = self.bytes_max;
        self.numbers.pop().map(|number| Spare { number, bytes_max })
    }
}
