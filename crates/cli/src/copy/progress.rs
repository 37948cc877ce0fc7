//! Progress bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of a `COPY`.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Counts rows, and bytes if the total is known.
    pub(super) fn new(total_bytes: Option<u64>) -> Self {
        let (bar, template) = match total_bytes {
            Some(total) => (
                ProgressBar::new(total),
                "{bar:30} {bytes}/{total_bytes}, {msg}, {elapsed}, {eta} to go",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}"),
        };
        // An invalid template leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub(super) fn set(&self, rows: u64, bytes: u64) {
        self.0.set_position(bytes);
        self.0.set_message(format!("{rows} rows"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
