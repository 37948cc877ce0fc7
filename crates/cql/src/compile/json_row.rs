//! The columns of an `INSERT JSON`, whose text is parsed once for each row.

use std::sync::Arc;

use carnet::DataType;
use carnet::catalog::TableSchema;

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::JsonRow;
use crate::cql_error::CqlError;
use crate::json;

/// Row of an `INSERT JSON`.
#[derive(Clone, Debug)]
pub(crate) struct JsonPlan {
    text: Operand,
    /// Whether a column that the object does not have is unset, and not null.
    default_unset: bool,
}

impl JsonPlan {
    /// Returns the values of all columns of the table, in their order.
    pub(crate) fn columns(
        &self,
        table: &TableSchema,
        environment: &Environment<'_>,
    ) -> Result<Vec<Evaluated>, CqlError> {
        let Evaluated::Bytes(text) = self.text.evaluate(environment)? else {
            return Err(CqlError::invalid("Got null for INSERT JSON values"));
        };
        self.parse(&text, table)
    }

    fn parse(&self, text: &[u8], table: &TableSchema) -> Result<Vec<Evaluated>, CqlError> {
        let text = str::from_utf8(text).map_err(|_| CqlError::invalid("JSON is text in UTF-8"))?;
        let columns = json::read::columns(text, table)?.into_iter().map(|column| match column {
            Some(Some(value)) => Evaluated::Bytes(value.serialize()),
            None if self.default_unset => Evaluated::Unset,
            Some(None) | None => Evaluated::Null,
        });
        Ok(columns.collect())
    }
}

impl Compiler<'_> {
    /// Compiles the row, and the values of all columns of the table, in their order.
    ///
    /// # Errors
    ///
    /// `Invalid` for a constant that is not such an object.
    pub(super) fn json_row(
        &mut self,
        json: &JsonRow,
        table: &Arc<TableSchema>,
    ) -> Result<(JsonPlan, Vec<Option<Operand>>), CqlError> {
        let text = self.operand(&json.value, &DataType::Text, "[json]")?;
        let plan = JsonPlan { text, default_unset: json.default_unset };
        if let Some(text) = plan.text.constant() {
            plan.parse(text, table)?;
        }
        let columns = table.columns.iter().enumerate();
        let columns = columns.map(|(position, column)| {
            Some(Operand::json_column(position, column.data_type.clone(), &column.name))
        });
        Ok((plan, columns.collect()))
    }
}
