//! Settings of TLS.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use carnet_server::{ClientCertificates, TlsFiles};

/// Settings of TLS that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) client_crl: Option<PathBuf>,
    pub(crate) clients: Option<ClientCertificates>,
    pub(crate) insecure_plaintext: Option<bool>,
}

impl Tls {
    pub(super) fn take(&mut self, name: &str, text: &str, folder: &Path) -> Result<(), String> {
        let path = || Some(folder.join(text));
        match name {
            "cert" => self.cert = path(),
            "key" => self.key = path(),
            "client_ca" => self.client_ca = path(),
            "client_crl" => self.client_crl = path(),
            "clients" => self.clients = Some(clients(text)?),
            "insecure_plaintext" => self.insecure_plaintext = Some(truth(text)?),
            name => unreachable!("tls.{name} is known and not taken"),
        }
        Ok(())
    }

    /// Returns `true` if ports beyond loopback may be without TLS.
    pub(crate) fn insecure_plaintext(&self) -> bool {
        self.insecure_plaintext.unwrap_or(false)
    }

    /// Returns the files; `None` if connections are plain.
    ///
    /// # Errors
    ///
    /// A certificate without a key, or settings that need a certificate.
    pub(crate) fn files(&self) -> Result<Option<TlsFiles>> {
        let Self { cert, key, client_ca, client_crl, clients, .. } = self.clone();
        let (certificate, key) = match (cert, key) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) if client_ca.is_none() && client_crl.is_none() => {
                if clients.is_none_or(|clients| clients == ClientCertificates::None) {
                    return Ok(None);
                }
                bail!("tls.clients (--tls-clients) needs a certificate of the server: tls.cert");
            }
            (None, None) => bail!("tls.client_ca needs a certificate of the server: tls.cert"),
            (Some(cert), None) => bail!(
                "the certificate {} needs its private key: tls.key (--tls-key)",
                cert.display()
            ),
            (None, Some(key)) => bail!(
                "the private key {} needs its certificate: tls.cert (--tls-cert)",
                key.display()
            ),
        };
        let default = match client_ca {
            Some(_) => ClientCertificates::Required,
            None => ClientCertificates::None,
        };
        let clients = clients.unwrap_or(default);
        let (client_authority, client_revocations) = (client_ca, client_crl);
        Ok(Some(TlsFiles { certificate, key, client_authority, client_revocations, clients }))
    }
}

/// Parses whether drivers show certificates.
pub(crate) fn clients(text: &str) -> Result<ClientCertificates, String> {
    match text {
        "none" => Ok(ClientCertificates::None),
        "optional" => Ok(ClientCertificates::Optional),
        "required" => Ok(ClientCertificates::Required),
        _ => Err("expected none, optional or required".into()),
    }
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "expected true or false".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Tls {
        Tls { cert: Some("c".into()), key: Some("k".into()), ..Tls::default() }
    }

    #[test]
    fn authority_makes_certificates_of_drivers_required() {
        let clients = |tls: Tls| tls.files().unwrap().unwrap().clients;
        assert_eq!(clients(given()), ClientCertificates::None);
        let with_authority = Tls { client_ca: Some("a".into()), ..given() };
        assert_eq!(clients(with_authority.clone()), ClientCertificates::Required);
        let optional = Some(ClientCertificates::Optional);
        let optional = Tls { clients: optional, ..with_authority };
        assert_eq!(clients(optional), ClientCertificates::Optional);
    }

    #[test]
    fn incomplete_files_are_refused() {
        assert_eq!(Tls::default().files().unwrap(), None);
        let refused = |tls: Tls| tls.files().unwrap_err().to_string();
        assert!(refused(Tls { key: None, ..given() }).contains("certificate c needs its private"));
        assert!(refused(Tls { cert: None, ..given() }).contains("key k needs its certificate"));
        let alone = Tls { client_ca: Some("a".into()), ..Tls::default() };
        assert!(refused(alone).contains("tls.client_ca needs a certificate"));
        let clients = Some(ClientCertificates::Required);
        assert!(refused(Tls { clients, ..Tls::default() }).contains("tls.clients"));
    }
}
