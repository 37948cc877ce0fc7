//! Hashing of the passwords in statements about roles.
//!
//! Such a statement comes from a client that has logged in and may make roles, so that its bound is its
//! own: log-ins do not wait for it, nor it for them.

use std::sync::Arc;
use std::time::Duration;

use carnet::passwords;
use carnet_base::{Error, ErrorKind};
use carnet_cql::{CqlError, Hashing};
use tokio::sync::Semaphore;
use tokio::task;

/// Maximum number of hashes at a time.
const RUNNING_MAX: usize = 1;
/// Maximum number of running and waiting ones.
const WAITING_MAX: usize = 64;
/// Time after which a refused client may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns a function that hashes passwords on threads of their own, a bounded number at a time. A
/// hash that has begun keeps its place when its client is gone.
pub(crate) fn hashing() -> Hashing {
    let running = Arc::new(Semaphore::new(RUNNING_MAX));
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    Hashing::new(move |secret| {
        let (running, waiting) = (Arc::clone(&running), Arc::clone(&waiting));
        async move {
            let waiting = waiting.try_acquire_owned().map_err(|_| busy())?;
            let running = running.acquire_owned().await.map_err(|_| busy())?;
            let work = task::spawn_blocking(move || {
                let _places = (waiting, running);
                passwords::hash(secret.expose())
            });
            let ended = work.await;
            ended
                .unwrap_or_else(|_| Err(Error::unavailable("the hash was not made")))
                .map_err(CqlError::from)
        }
    })
}

fn busy() -> CqlError {
    let kind = ErrorKind::Overloaded { retry_after: RETRY_AFTER };
    Error::new(kind, "too many passwords are hashed at a time: try again").into()
}
