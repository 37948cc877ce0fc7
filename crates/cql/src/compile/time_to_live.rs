//! Time to live of written values: `USING TTL`, and `default_time_to_live` of the table.

use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::Term;
use crate::cql_error::CqlError;
use crate::system::TTL_MAX;

/// Time to live of the values that a statement writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeToLive {
    /// Operand of `USING TTL`.
    given: Option<Operand>,
    /// The table's default in seconds, zero for none.
    default_seconds: i32,
}

impl TimeToLive {
    /// Returns the seconds; `None` if the values do not expire. Zero and null disable the default of
    /// the table, and a value left unset does not.
    pub(crate) fn seconds(&self, environment: &Environment<'_>) -> Result<Option<i64>, CqlError> {
        let seconds = match &self.given {
            None => self.default_seconds,
            Some(operand) if operand.evaluate(environment)? == Evaluated::Unset => {
                self.default_seconds
            }
            Some(operand) => match operand.value(environment)? {
                Some(Value::Int(seconds)) => checked(seconds)?,
                _ => 0,
            },
        };
        Ok((seconds > 0).then_some(i64::from(seconds)))
    }
}

impl Compiler<'_> {
    /// Compiles the `USING TTL` of a statement.
    pub(super) fn time_to_live(
        &mut self,
        given: Option<&Term>,
        default_seconds: i32,
    ) -> Result<TimeToLive, CqlError> {
        let given = given.map(|term| self.operand(term, &DataType::Int, "[ttl]")).transpose()?;
        Ok(TimeToLive { given, default_seconds })
    }
}

fn checked(seconds: i32) -> Result<i32, CqlError> {
    if seconds < 0 {
        return Err(CqlError::invalid(format!(
            "A TTL must be greater or equal to 0, but was {seconds}"
        )));
    }
    if seconds > TTL_MAX {
        return Err(CqlError::invalid(format!(
            "ttl is too large. requested ({seconds}) maximum ({TTL_MAX})"
        )));
    }
    Ok(seconds)
}
