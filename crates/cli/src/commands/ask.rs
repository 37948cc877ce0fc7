//! Requests to a database, which this process or another one may have open.

use std::path::Path;

use anyhow::{Result, bail};
use carnet::Builder;
use carnet::backup::Progress;
use carnet::control::{self, ControlRequest, Done};
use indicatif::{ProgressBar, ProgressStyle};

/// Carries out a request on the database of a directory, or passes it to the process that has it
/// open.
pub(super) fn carry_out(
    builder: Builder,
    directory: &Path,
    request: &ControlRequest,
) -> Result<Done> {
    if !directory.join("MANIFEST").is_file() {
        bail!("{} is not the directory of a database", directory.display());
    }
    let bar = Bar::new()?;
    let done = control::carry_out(builder, directory, request, |progress| bar.tell(progress));
    bar.finish();
    Ok(done?)
}

/// Progress bar for bytes.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Result<Self> {
        // Indicatif draws on a terminal only.
        let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left")?;
        Ok(Self(ProgressBar::new(0).with_style(style)))
    }

    pub(super) fn tell(&self, &Progress { bytes, bytes_total }: &Progress) {
        self.0.set_length(bytes_total);
        self.0.set_position(bytes);
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
