//! Certificates in use, and their reload.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use carnet_base::{Result, lock};
use rustls::ServerConfig;

use super::files::{ClientCertificates, Configs, TlsFiles};

/// The certificates in use, and the files that they come from.
pub struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    configs: Configs,
    /// Stamps of the files when they were last read, successfully or not.
    stamps: Vec<Stamp>,
}

/// Time and size of a file, which change with its contents; `None` if it cannot be examined.
type Stamp = Option<(SystemTime, u64)>;

impl Tls {
    /// Log line of a reload that failed.
    pub const KEPT: &str =
        "the TLS certificates cannot be loaded again; new connections use the old ones";

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// `Unavailable` if a file cannot be read; `Invalid` if its content is not of the expected kind,
    /// or if a file is missing or has no effect.
    pub fn read(files: TlsFiles) -> Result<Self> {
        // Before the contents: a change between the two is noticed later.
        let stamps = stamps(&files);
        let configs = files.load()?;
        Ok(Self { files, state: Mutex::new(State { configs, stamps }) })
    }

    /// Returns `true` if each client of the native protocol shows a certificate.
    pub(crate) fn wants_certificates(&self) -> bool {
        self.files.clients == ClientCertificates::Required
    }

    /// Reads the files again. Later handshakes use the new certificates.
    ///
    /// # Errors
    ///
    /// Those of [`Tls::read`]; the certificates in use stay.
    pub fn reload(&self) -> Result<()> {
        let stamps = stamps(&self.files);
        self.load(stamps)
    }

    /// Reads the files again if one has changed. Returns `true` if there are new certificates.
    ///
    /// # Errors
    ///
    /// Those of [`Tls::read`], once for each change; the certificates in use stay.
    pub fn reload_if_changed(&self) -> Result<bool> {
        let stamps = stamps(&self.files);
        if lock(&self.state).stamps == stamps {
            return Ok(false);
        }
        self.load(stamps).map(|()| true)
    }

    fn load(&self, stamps: Vec<Stamp>) -> Result<()> {
        let configs = self.files.load();
        let mut state = lock(&self.state);
        state.stamps = stamps;
        state.configs = configs?;
        Ok(())
    }

    /// Returns the configuration for handshakes of drivers.
    pub(crate) fn drivers(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.state).configs.drivers)
    }

    /// Returns the configuration for handshakes of monitors.
    pub(crate) fn monitors(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.state).configs.monitors)
    }
}

/// Without the keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    files.paths().map(stamp).collect()
}

fn stamp(path: &Path) -> Stamp {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
