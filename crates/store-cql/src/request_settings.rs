//! The settings of a request.

use std::time::Duration;

use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::fault::Access;

/// Settings of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSettings {
    pub(crate) access: Access,
    pub(crate) consistency: Consistency,
    pub(crate) timeout: Duration,
}

impl RequestSettings {
    /// Sets the statement's consistency, timeout, and whether it may be sent twice.
    pub(crate) fn apply(self, prepared: &mut PreparedStatement) {
        prepared.set_consistency(self.consistency);
        prepared.set_request_timeout(Some(self.timeout));
        prepared.set_is_idempotent(self.access == Access::Read);
    }
}
