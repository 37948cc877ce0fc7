//! Requests to a database, which this process or another one may have open.

use std::path::Path;

use anyhow::{Result, bail};
use carnet::Builder;
use carnet::control::{ControlRequest, Done};

use crate::bar::{Bar, Extent};

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
    let bar = Bar::new(Extent::Told);
    Ok(builder.carry_out(directory, request, |progress| bar.tell(progress))?)
}
