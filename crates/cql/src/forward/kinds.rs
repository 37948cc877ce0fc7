//! Version of the messages, and numbers of their kinds.

/// Version of the messages.
pub(super) const VERSION: u8 = 2;

// Tasks of a request.
pub(super) const STATEMENT: u8 = 0;
pub(super) const BATCH: u8 = 1;
pub(super) const CANCEL: u8 = 2;
pub(super) const TRANSACTIONS: u8 = 3;

// Kinds of an answer.
pub(super) const NOT_HELD: u8 = 0;
pub(super) const REFUSED: u8 = 1;
pub(super) const VOID: u8 = 2;
pub(super) const ROWS: u8 = 3;
pub(super) const ERROR: u8 = 4;
