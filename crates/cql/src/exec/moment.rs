//! Moments in the past that statements name.

use carnet::{AsOf, Timestamp, Value, WallTime};

use crate::ast::Term;
use crate::compile::{Compiler, Environment};
use crate::cql_error::CqlError;
use crate::shown::shown;
use crate::timestamps::Timestamps;

/// Evaluates the term of an `AS OF`.
pub(super) fn as_of(term: &Term, environment: &Environment<'_>) -> Result<AsOf, CqlError> {
    let wrong =
        || CqlError::invalid(format!("AS OF {}: expected a timestamp in the past", shown(term)));
    let mut compiler = Compiler::new(Timestamps::default(), environment.steps);
    Ok(match compiler.as_of(term)?.required(environment)? {
        Value::Bigint(number) => {
            let number = u64::try_from(number).map_err(|_| wrong())?;
            AsOf::Timestamp(Timestamp::new(number).ok_or_else(wrong)?)
        }
        Value::Timestamp(millis) => {
            AsOf::Wall(WallTime(millis.checked_mul(1000).ok_or_else(wrong)?))
        }
        _ => return Err(wrong()),
    })
}
