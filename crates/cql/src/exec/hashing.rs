//! Hashes of the passwords of roles.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::ast::Secret;
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

    pub(super) async fn hash(&self, secret: &Secret) -> Result<String, CqlError> {
        (self.0)(secret.clone()).await
    }
}
