//! Waits of the wire's tasks.

use std::time::Duration;

#[expect(clippy::disallowed_methods, reason = "the wire's waiting is the runtime's")]
pub(super) async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}
