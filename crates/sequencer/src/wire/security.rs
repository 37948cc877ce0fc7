//! Admission of processes to a database's network.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use carnet_base::{Error, Result};

use super::tls::Tls;

/// Minimum length of a secret: an eavesdropper on a handshake can try guesses on it.
const SECRET_BYTES_MIN: usize = 16;

/// Which processes may connect, and whether the traffic is encrypted.
#[derive(Clone, Debug)]
pub enum Security {
    /// Any process that reaches the port. For tests, and for networks that no other machine can
    /// reach.
    Insecure,
    /// Any process that proves that it knows the secret. An attacker in between can read and alter
    /// the traffic after the handshake.
    Secret(Secret),
    /// Any process that has a certificate of the authority, if [`Tls`] has one, and proves that it
    /// knows the secret, if there is one. The traffic is encrypted.
    Tls {
        /// Certificate of this process, and the authority it trusts.
        tls: Tls,
        /// Shared secret; required without an authority.
        secret: Option<Secret>,
    },
}

impl Security {
    /// Rejects a configuration that admits any process without being [`Security::Insecure`].
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Tls { tls, secret: None } if !tls.has_authority() => Err(Error::invalid(
                "TLS without an authority (ca) admits any process: name the authority that signs \
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

/// A secret that only the processes of a database know. It is proved, and never sent.
#[derive(Clone)]
pub struct Secret(Arc<hmac::Key>);

impl Secret {
    /// Creates a secret, best from 32 or more random bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has fewer than 16 bytes.
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
