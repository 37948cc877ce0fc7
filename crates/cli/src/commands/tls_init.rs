//! `carnet config tls-init`: an authority and certificates to try TLS.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use carnet_base::{Clock, SystemClock};
use chrono::{DateTime, Datelike, Days, Utc};
use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::private::{write_private, write_public};

/// Names of every server certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Days for which the certificates are in force.
const DAYS: u64 = 730;

/// Makes a small authority, and certificates of it for a server and for a driver, to try TLS.
///
/// DIR gets ca.crt, server.crt, server.key, client.crt and client.key. The authority's own key is not
/// kept, so that nothing else can be signed by it. The certificates are in force for two years. An
/// existing file is never overwritten.
#[derive(Args)]
pub(super) struct TlsInit {
    /// Directory for the files; created if missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Further name or IP address of the server, beside localhost, 127.0.0.1 and ::1; may be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
}

/// A new file of the directory.
struct NewFile {
    name: &'static str,
    text: String,
    is_secret: bool,
}

impl TlsInit {
    pub(super) fn run(self) -> Result<()> {
        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.extend(self.name.iter().filter(|name| !NAMES.contains(&&***name)).cloned());
        let files = certificates(&names)?;
        let directory = &self.directory;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        if let Some(file) = files.iter().find(|file| directory.join(file.name).exists()) {
            let path = directory.join(file.name);
            bail!("{} exists already; give another directory", path.display());
        }
        for file in &files {
            let path = directory.join(file.name);
            let write = if file.is_secret { write_private } else { write_public };
            write(&path, file.text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        print!("{}", next_steps(directory, &names));
        Ok(())
    }
}

fn certificates(names: &[String]) -> Result<Vec<NewFile>> {
    let mut authority = params(Vec::new(), "Carnet authority to try TLS")?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = authority.self_signed(&key).context("cannot sign a certificate")?.pem();
    let issuer = Issuer::new(authority, key);
    let mut files = vec![NewFile { name: "ca.crt", text: certificate, is_secret: false }];
    let server = (names.to_vec(), "Carnet server", ExtendedKeyUsagePurpose::ServerAuth);
    let client = (Vec::new(), "Carnet driver", ExtendedKeyUsagePurpose::ClientAuth);
    for (paths, (names, title, purpose)) in
        [(["server.crt", "server.key"], server), (["client.crt", "client.key"], client)]
    {
        let mut params = params(names, title)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("cannot make a key")?;
        let signed = params.signed_by(&key, &issuer).context("cannot sign a certificate")?;
        let [certificate, secret] = paths;
        files.push(NewFile { name: certificate, text: signed.pem(), is_secret: false });
        files.push(NewFile { name: secret, text: key.serialize_pem(), is_secret: true });
    }
    Ok(files)
}

fn params(names: Vec<String>, title: &str) -> Result<CertificateParams> {
    let shown = names.join(", ");
    let mut params = CertificateParams::new(names)
        .with_context(|| format!("{shown}: a certificate cannot have one of these names"))?;
    params.distinguished_name.push(DnType::CommonName, title);
    let today = today()?;
    // The clock of a client may be behind.
    let begin = today.checked_sub_days(Days::new(1)).unwrap_or(today);
    let end = today.checked_add_days(Days::new(DAYS)).unwrap_or(today);
    let date = |date: DateTime<Utc>| -> Result<_> {
        Ok(date_time_ymd(date.year(), u8::try_from(date.month())?, u8::try_from(date.day())?))
    };
    (params.not_before, params.not_after) = (date(begin)?, date(end)?);
    Ok(params)
}

fn today() -> Result<DateTime<Utc>> {
    let millis = SystemClock.wall().millis();
    DateTime::from_timestamp_millis(millis).context("the clock of this machine is wrong")
}

fn next_steps(directory: &Path, names: &[String]) -> String {
    let directory = directory.display();
    format!(
        "{directory}: ca.crt, server.crt, server.key, client.crt, client.key; for {}\n\
         \n\
         carnet serve --tls-cert {directory}/server.crt --tls-key {directory}/server.key\n\
         \n\
         Drivers trust ca.crt. With --tls-client-ca {directory}/ca.crt they also have to show \
         client.crt and its key. docs/security.md has their settings.\n",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn init(directory: &Path, names: &[&str]) -> Result<()> {
        let name = names.iter().map(|name| (*name).to_owned()).collect();
        TlsInit { directory: directory.to_owned(), name }.run()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files that are no database's")]
    fn keys_are_private_and_files_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tls");
        init(&path, &["db1.example.com", "10.0.0.1", "localhost"]).unwrap();
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["server.key", "client.key"].map(mode), [0o600; 2]);
        assert_eq!(["ca.crt", "server.crt", "client.crt"].map(mode), [0o644; 3]);
        let before = fs::read(path.join("server.key")).unwrap();
        fs::remove_file(path.join("ca.crt")).unwrap();
        let error = init(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");
        assert!(!path.join("ca.crt").exists(), "nothing was written");
        assert_eq!(fs::read(path.join("server.key")).unwrap(), before);
    }

    #[test]
    fn wrong_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = init(&directory.path().join("tls"), &["ä b"]).unwrap_err().to_string();
        assert!(error.contains("ä b"), "{error}");
        assert!(!directory.path().join("tls").exists());
    }
}
