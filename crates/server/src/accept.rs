//! Errors while a port accepts connections.

use std::io;
use std::time::Duration;

use tracing::warn;

/// Waits before the next attempt: the usual reason is too many open files, which an immediate retry
/// does not fix.
#[expect(clippy::disallowed_methods, reason = "the server owns a runtime")]
pub(crate) async fn pause_after(e: &io::Error) {
    warn!(error = %e, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}
