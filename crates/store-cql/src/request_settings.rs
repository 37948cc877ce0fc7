//! The settings of a request.

use std::time::Duration;

use scylla::statement::Consistency;

use crate::fault::Access;

/// Settings of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSettings {
    pub(crate) access: Access,
    pub(crate) consistency: Consistency,
    pub(crate) timeout: Duration,
}
