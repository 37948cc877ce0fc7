//! Values of `USING TIMEOUT`.

use std::time::Duration;

use carnet_data::CqlDuration;

use crate::ast::{Attribute, Literal, Statement, Term};
use crate::bound::Bound;
use crate::cql_error::CqlError;
use crate::duration::timeout;

/// Returns the `USING TIMEOUT` of a statement.
///
/// # Errors
///
/// `Invalid` if the value is not a timeout.
pub(super) fn using_timeout(
    statement: &Statement,
    bound: &[Bound],
) -> Result<Option<Duration>, CqlError> {
    let term = statement.using().and_then(|using| using.get(Attribute::Timeout));
    let wrong = || CqlError::invalid("the value of USING TIMEOUT is not a duration");
    match term {
        None => Ok(None),
        Some(Term::Literal(Literal::Duration(text))) => {
            let duration = CqlDuration::parse(text).ok_or_else(wrong)?;
            timeout(duration, "Timeout").map(Some)
        }
        Some(Term::Marker(marker)) => match bound.get(usize::from(marker.index)) {
            Some(Bound::Bytes(bytes)) => {
                let duration = CqlDuration::deserialize(bytes).map_err(|_| wrong())?;
                timeout(duration, "Timeout").map(Some)
            }
            Some(Bound::Unset) => Ok(None),
            _ => Err(CqlError::invalid("Timeout value cannot be null")),
        },
        Some(_) => Err(wrong()),
    }
}

/// Returns the value of a timeout that is a valid constant.
pub(super) fn literal_timeout(term: &Term) -> Option<Duration> {
    let Term::Literal(Literal::Duration(text)) = term else { return None };
    timeout(CqlDuration::parse(text)?, "Timeout").ok()
}
