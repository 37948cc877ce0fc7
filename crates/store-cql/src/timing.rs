//! Waits on the driver's runtime. A timer of Tokio panics if it is made outside of a runtime, and
//! callers of a [`Session`](crate::session::Session) may have none: these make it on the first poll,
//! which the session does inside of its own.

use std::future::Future;
use std::time::Duration;

/// Waits for a time.
#[expect(clippy::disallowed_methods, reason = "made on the first poll, inside the runtime")]
pub(crate) async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// Returns the output of a call, or `None` if it takes longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "made on the first poll, inside the runtime")]
pub(crate) async fn in_time<F: Future>(limit: Duration, call: F) -> Option<F::Output> {
    tokio::time::timeout(limit, call).await.ok()
}
