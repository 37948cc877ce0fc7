//! Hashes of the passwords of roles.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use carnet::passwords;
use carnet::roles::StoredPassword;

use super::executor::Executor;
use crate::ast::{Password, Secret};
use crate::cql_error::CqlError;

type HashFuture = Pin<Box<dyn Future<Output = Result<String, CqlError>> + Send>>;

/// Function that hashes a password. It takes tens of milliseconds, so that a server runs it elsewhere
/// than on the threads of its connections, and only a few at a time.
#[derive(Clone)]
pub struct Hashing(Arc<dyn Fn(Secret) -> HashFuture + Send + Sync>);

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}

impl Hashing {
    /// Takes a function that hashes a password.
    pub fn new<F>(hash: impl Fn(Secret) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, CqlError>> + Send + 'static,
    {
        Self(Arc::new(move |secret| Box::pin(hash(secret))))
    }
}

impl Executor {
    /// Sets the function that hashes passwords. Only the first call counts.
    ///
    /// Default: the thread that runs the statement hashes.
    pub fn set_hashing(&self, hashing: Hashing) {
        self.shared.hashing.get_or_init(|| hashing);
    }

    /// Returns what is stored of a password.
    pub(super) async fn stored(&self, password: &Password) -> Result<StoredPassword, CqlError> {
        let hash = match password {
            Password::Hashed(hash) => {
                passwords::check_hash(hash.expose())
                    .map_err(|why| CqlError::invalid(format!("HASHED PASSWORD: {why}")))?;
                hash.expose().to_owned()
            }
            Password::Plain(secret) => match self.shared.hashing.get() {
                Some(Hashing(hash)) => hash(secret.clone()).await?,
                None => passwords::hash(secret.expose())?,
            },
        };
        Ok(StoredPassword::new(hash))
    }
}
