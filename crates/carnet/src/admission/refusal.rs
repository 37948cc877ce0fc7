//! Errors of refused statements.

use carnet_base::{Error, ErrorKind};

use super::class::Class;
use super::request::{Reason, Shed};

/// Makes the error of a refused statement.
pub(super) fn refusal(class: Class, shed: Shed) -> Error {
    let why = match shed.reason {
        Reason::Overloaded => "more statements arrive than can run",
        Reason::Deadline => "it would not be done before its deadline",
    };
    Error::new(
        ErrorKind::Overloaded { retry_after: shed.retry_after },
        format!(
            "the {} statement was refused, since {why}; nothing was done, try again after {} ms",
            class.name(),
            shed.retry_after.as_millis().max(1)
        ),
    )
}
