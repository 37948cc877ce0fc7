//! Recycled segments: files of the log that are not needed any more and are overwritten.

/// A bounded list of recycled segments.
#[derive(Debug)]
pub(crate) struct Spares {
    max: usize,
    bytes_max: u64,
    numbers: Vec<u64>,
}

/// A segment's file to be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    /// The file is truncated to this length: a single record may have been as long as four
    /// segments.
    pub(crate) bytes_max: u64,
}

impl Spares {
    /// Makes a list of at most `max` files.
    pub(crate) const fn new(max: usize, bytes_max: u64) -> Self {
        Self { max, bytes_max, numbers: Vec::new() }
    }

    /// Adds a segment that the durable manifest does not need. Returns `false` if the list is full;
    /// then the caller removes the file.
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
