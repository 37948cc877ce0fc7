//! Log lines of processes.

use std::io;
use std::sync::{Arc, Mutex};

/// Collected log lines.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects the lines of what a function does on this thread.
    pub fn collect(run: impl FnOnce()) -> Self {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(lines.finish(), run);
        log
    }

    /// Returns the lines that contain a text.
    pub fn lines(&self, part: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        log.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
