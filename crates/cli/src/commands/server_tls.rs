//! Options of commands that connect to a server over TLS.

use std::path::PathBuf;

use carnet::cluster::{DriverTlsFiles, driver_tls};
use clap::Args;
use scylla::client::session::TlsContext;

/// Files for a connection to a server over TLS.
#[derive(Args, Default)]
pub(super) struct ServerTls {
    /// Authority that has signed the server's certificate, in PEM; connects over TLS. The certificate
    /// must be for the server's IP address.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to the server, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl ServerTls {
    /// Returns `true` if an option is given.
    pub(super) fn is_given(&self) -> bool {
        self.tls_ca.is_some()
    }

    /// Reads the files; `None` if the connection is plain.
    pub(super) fn config(&self) -> carnet::Result<Option<TlsContext>> {
        let Some(ca) = self.tls_ca.clone() else { return Ok(None) };
        let identity = self.tls_cert.clone().zip(self.tls_key.clone());
        let files = DriverTlsFiles { ca, checks_names: true, identity };
        Ok(Some(driver_tls(&files)?.into()))
    }
}
