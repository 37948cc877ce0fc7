//! Progress of long work on standard error, if that is a terminal: its bar, and the time left.

use std::time::Duration;

use carnet::backup::Progress;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Steps of a bar without bytes.
const STEPS: u64 = 1_000;
/// Interval between two frames while the work reports nothing.
const FRAME_INTERVAL: Duration = Duration::from_millis(200);

/// Bar of bytes.
const OF_BYTES: &str = "{bar:30} {bytes} of {total_bytes}{msg}, {elapsed}, {eta} left";

/// Size of the work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// Number of bytes.
    Bytes(u64),
    /// Number of bytes, which the work tells with its progress. The bar is shown from then on.
    Told,
    /// The work reports which part of it is done.
    Part,
    /// Neither is known: there is no bar, and no time left.
    Unknown,
}

/// Bar of some work, which is removed when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(extent: Extent) -> Self {
        let (bar, template) = match extent {
            Extent::Bytes(bytes) => (ProgressBar::new(bytes), OF_BYTES),
            Extent::Told => (ProgressBar::new(0), OF_BYTES),
            Extent::Part => {
                (ProgressBar::new(STEPS), "{bar:30} {percent} %{msg}, {elapsed}, {eta} left")
            }
            Extent::Unknown => (ProgressBar::new_spinner(), "{spinner} {bytes}{msg}, {elapsed}"),
        };
        // An invalid template leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !matches!(extent, Extent::Told) {
            bar.enable_steady_tick(FRAME_INTERVAL);
        }
        Self(bar)
    }

    /// Creates a bar that is not shown.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Returns `true` if standard error is a terminal.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Reports the bytes that are done, with more about them.
    pub(crate) fn set_bytes(&self, bytes: u64, more: &str) {
        self.0.set_position(bytes);
        self.0.set_message(format!(", {more}"));
    }

    /// Reports the part of the work that is done, from 0 to 1, with more about it.
    pub(crate) fn set_part(&self, part: f64, more: &str) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "0 to 1,000"
        )]
        self.0.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.0.set_message(format!(", {more}"));
    }

    /// Reports the bytes of work whose size is told with its progress.
    pub(crate) fn tell(&self, &Progress { bytes, bytes_total }: &Progress) {
        if bytes_total > 0 && self.0.length() == Some(0) {
            self.0.enable_steady_tick(FRAME_INTERVAL);
        }
        self.0.set_length(bytes_total);
        self.0.set_position(bytes);
    }

    /// Returns a number of bytes in the unit that fits.
    pub(crate) fn bytes(bytes: u64) -> String {
        HumanBytes(bytes).to_string()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
