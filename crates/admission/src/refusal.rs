//! Errors of refused statements.

use carnet_base::{Error, ErrorKind};

use super::class::Class;
use super::request::{Reason, Shed};

/// Makes the error of a refused statement.
pub(super) fn refusal(class: Class, shed: Shed) -> Error {
    let class = class.name();
    match shed.reason {
        Reason::Deadline => Error::new(
            ErrorKind::Timeout,
            format!(
                "the {class} statement timed out while it waited for other statements; nothing was done"
            ),
        ),
        Reason::Overloaded => Error::new(
            ErrorKind::Overloaded { retry_after: shed.retry_after },
            format!(
                "the {class} statement was refused, since more statements arrive than can run; nothing was \
                 done, try again after {} ms",
                shed.retry_after.as_millis().max(1)
            ),
        ),
    }
}
