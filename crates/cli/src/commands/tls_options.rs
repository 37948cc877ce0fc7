//! Options of `carnet serve` for TLS.

use std::path::PathBuf;

use carnet_server::ClientCertificates;
use clap::Args;

use crate::settings;

/// Options for TLS, which override the section `[tls]` of the settings.
#[derive(Args)]
pub(super) struct TlsOptions {
    /// The server's certificate with its chain, in PEM. With it and --tls-key, CQL is over TLS, and
    /// so is HTTP beyond loopback. `carnet config tls-init DIR` makes certificates to try it. Changed
    /// files are loaded within 10 s, and at SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificates, in PEM, of the authorities that sign the certificates of drivers.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Lists, in PEM, of the drivers' certificates that are revoked.
    #[arg(long, value_name = "FILE")]
    tls_client_crl: Option<PathBuf>,
    /// Whether drivers show certificates: none, optional or required.
    ///
    /// Default: required with --tls-client-ca, else none
    #[arg(long, value_name = "WHICH", value_parser = settings::clients)]
    tls_clients: Option<ClientCertificates>,
    /// Permit addresses beyond loopback without TLS: passwords and data cross the network in clear.
    #[arg(long)]
    insecure_plaintext: bool,
}

impl TlsOptions {
    /// Merges the options over the settings file.
    pub(super) fn over(self, file: settings::Tls) -> settings::Tls {
        settings::Tls {
            cert: self.tls_cert.or(file.cert),
            key: self.tls_key.or(file.key),
            client_ca: self.tls_client_ca.or(file.client_ca),
            client_crl: self.tls_client_crl.or(file.client_crl),
            clients: self.tls_clients.or(file.clients),
            insecure_plaintext: self.insecure_plaintext.then_some(true).or(file.insecure_plaintext),
        }
    }
}
