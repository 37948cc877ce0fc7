//! Write time of written values: `USING TIMESTAMP` where the server records timestamps.
//!
//! A statement with a recorded timestamp reads its row, and leaves later values. Its
//! transaction depends on the row, so the outcome is that of a serial order of all transactions.

use carnet::{DataType, Value};
use carnet_base::WallTime;

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::{Attribute, Term, Using};
use crate::cql_error::CqlError;
use crate::timestamps::Timestamps;

/// Write time of the values that a statement writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteTime {
    /// Operand of a recorded `USING TIMESTAMP`.
    given: Option<Operand>,
    /// Whether timestamps decide between writes.
    decides: bool,
}

impl WriteTime {
    /// Returns `true` if the statement or its batch has a recorded timestamp.
    pub(crate) const fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns `true` if timestamps decide between writes.
    pub(crate) const fn decides(&self) -> bool {
        self.decides
    }

    /// Returns the write time with which the statement competes with stored values; `None` if it
    /// replaces them.
    pub(crate) fn competing(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Option<WallTime>, CqlError> {
        let is_set = match &self.given {
            Some(operand) => self.decides && operand.evaluate(environment)? != Evaluated::Unset,
            None => false,
        };
        is_set.then(|| self.wall_time(environment)).transpose()
    }

    /// Returns the write time, by default the time of the statement. A marker left unset gives the
    /// default.
    pub(crate) fn wall_time(&self, environment: &Environment<'_>) -> Result<WallTime, CqlError> {
        let Some(operand) = &self.given else { return Ok(environment.now) };
        if operand.evaluate(environment)? == Evaluated::Unset {
            return Ok(environment.now);
        }
        match operand.value(environment)? {
            // The smallest number marks a write time that is not known.
            Some(Value::Bigint(i64::MIN)) => Err(CqlError::invalid(format!(
                "a timestamp is greater than {}, but was {0}",
                i64::MIN
            ))),
            Some(Value::Bigint(micros)) => Ok(WallTime(micros)),
            _ => Err(CqlError::invalid("Invalid null value of timestamp")),
        }
    }
}

impl Compiler<'_> {
    /// Compiles the `USING` of a statement or batch.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp where the server refuses timestamps.
    pub(crate) fn using(&mut self, using: &Using) -> Result<WriteTime, CqlError> {
        let given = match (using.get(Attribute::Timestamp), self.timestamps) {
            (None, _) => None,
            (Some(term), Timestamps::Record | Timestamps::Overwrite) => {
                Some(self.operand(term, &DataType::Bigint, "[timestamp]")?)
            }
            (Some(term), Timestamps::Ignore) => {
                if let Term::Marker(marker) = term {
                    self.type_marker(marker, "[timestamp]", DataType::Bigint);
                }
                None
            }
            (Some(_), Timestamps::Refuse) => {
                return Err(CqlError::invalid(
                    "USING TIMESTAMP is refused: the order of writes is that of their \
                     transactions; leave it out, or have the server record it as the write time or \
                     ignore it, with the setting timestamps = \"record\" or timestamps = \"ignore\" \
                     in the section [server]",
                ));
            }
        };
        self.using_markers(using);
        Ok(WriteTime { given, decides: self.timestamps == Timestamps::Record })
    }
}
