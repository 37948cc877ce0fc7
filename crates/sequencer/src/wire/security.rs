//! Who may speak to a database's processes.

use std::fmt;
use std::sync::Arc;

use carnet_base::{Error, Result};
use ring::hmac;

use super::tls::Tls;

/// A secret has at least so many bytes: who has listened to a greeting can try guesses on it.
const SECRET_BYTES_MIN: usize = 16;

/// Who may speak to a database's processes, and who may listen.
#[derive(Clone, Debug)]
pub enum Security {
    /// Everybody who reaches the port. For tests, and machines that nobody else can reach.
    Insecure,
    /// Whoever proves that he knows the secret. What is said after that can be read, and altered,
    /// by whoever is in between.
    Secret(Secret),
    /// Whoever has a certificate of the authority, where [`Tls`] has one, and whoever proves that
    /// he knows the secret, where there is one. Nobody in between understands a word.
    Tls {
        /// This process's certificate, and whom it believes.
        tls: Tls,
        /// Needed where there is no authority.
        secret: Option<Secret>,
    },
}

impl Security {
    /// Refuses what would let everybody in without being called [`Security::Insecure`].
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Tls { tls, secret: None } if !tls.has_authority() => Err(Error::invalid(
                "TLS without an authority (ca) lets everybody in: name the authority that signs \
                 the processes' certificates, or a shared secret",
            )),
            _ => Ok(()),
        }
    }

    pub(super) const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Insecure => None,
            Self::Secret(secret) => Some(secret),
            Self::Tls { secret, .. } => secret.as_ref(),
        }
    }

    pub(super) const fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Insecure | Self::Secret(_) => None,
            Self::Tls { tls, .. } => Some(tls),
        }
    }
}

/// What all processes of a database know and nobody else. It is proved, and never sent.
#[derive(Clone)]
pub struct Secret(Arc<hmac::Key>);

impl Secret {
    /// Takes a secret, best of 32 random bytes or more.
    ///
    /// # Errors
    ///
    /// `Invalid` where it has less than 16 bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self> {
        let secret = secret.as_ref();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(Error::invalid(format!(
                "a shared secret of {} bytes can be guessed: take at least {SECRET_BYTES_MIN}, \
                 best 32 random ones",
                secret.len()
            )));
        }
        Ok(Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    pub(super) fn key(&self) -> &hmac::Key {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
