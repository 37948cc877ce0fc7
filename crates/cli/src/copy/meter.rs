//! Counts the bytes read, and bounds the length of a record.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Maximum bytes of a record; beyond it a quote is assumed to be unclosed.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Number of bytes that a reader has read.
#[derive(Clone, Default)]
pub(super) struct Meter {
    read_bytes: Rc<Cell<u64>>,
    record_start: Rc<Cell<u64>>,
}

impl Meter {
    /// Returns the number of bytes read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Begins a record: the limit counts from here.
    pub(super) fn begin_record(&self) {
        self.record_start.set(self.read_bytes.get());
    }

    pub(super) fn measure<R: Read>(&self, inner: R) -> Metered<R> {
        Metered { inner, meter: self.clone() }
    }
}

/// Reader whose bytes a [`Meter`] counts.
pub(super) struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Meter { read_bytes, record_start } = &self.meter;
        if read_bytes.get() - record_start.get() > RECORD_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a record is longer than {} MiB: is a quote not closed?",
                    RECORD_BYTES_MAX >> 20
                ),
            ));
        }
        let read = self.inner.read(buffer)?;
        read_bytes.set(read_bytes.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclosed_quote_does_not_read_the_whole_file() {
        let meter = Meter::default();
        let endless = io::repeat(b'x');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(meter.measure(io::Cursor::new(b"a\n\"").chain(endless)));
        let mut record = csv::StringRecord::new();
        assert!(reader.read_record(&mut record).unwrap());
        meter.begin_record();
        let error = reader.read_record(&mut record).unwrap_err().to_string();
        assert!(error.contains("is a quote not closed"), "{error}");
        assert!(meter.read_bytes() < RECORD_BYTES_MAX + (1 << 20));
    }
}
