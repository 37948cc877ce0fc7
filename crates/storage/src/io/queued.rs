//! Queued requests.

use super::class::Class;
use super::request::{Id, Request};

/// A queued request.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) id: Id,
    pub(super) class: Class,
    pub(super) request: Request,
    /// Number of dispatched bytes.
    pub(super) begun: usize,
}
