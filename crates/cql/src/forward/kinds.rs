//! Version of the messages, and numbers of their kinds.

/// Version of the messages.
pub(super) const VERSION: u8 = 2;

// Tasks of a request.
pub(super) const STATEMENT: u8 = 0;
pub(super) const BATCH: u8 = 1;
pub(super) const CANCEL: u8 = 2;
pub(super) const TRANSACTIONS: u8 = 3;

// Kinds of a user. Earlier versions refuse a role, whose permissions they do not check.
pub(super) const NO_USER: u8 = 0;
pub(super) const USER: u8 = 1;
pub(super) const ROLE: u8 = 2;

// Kinds of an answer.
pub(super) const NOT_HELD: u8 = 0;
pub(super) const REFUSED: u8 = 1;
pub(super) const VOID: u8 = 2;
pub(super) const ROWS: u8 = 3;
pub(super) const ERROR: u8 = 4;
