//! The columns of an `INSERT JSON`.

use std::sync::Arc;

use carnet::DataType;
use carnet::catalog::TableSchema;

use super::compiler::Compiler;
use super::operand::Operand;
use crate::ast::JsonRow;
use crate::cql_error::CqlError;

impl Compiler<'_> {
    /// Compiles the values of all columns of a table, in their order.
    pub(super) fn json_row(
        &mut self,
        json: &JsonRow,
        table: &Arc<TableSchema>,
    ) -> Result<Vec<Option<Operand>>, CqlError> {
        let text = self.operand(&json.value, &DataType::Text, "[json]")?;
        let columns = 0..table.columns.len();
        let operand = |position| {
            Operand::json_column(text.clone(), Arc::clone(table), position, json.default_unset)
        };
        columns.map(|position| operand(position).map(Some)).collect()
    }
}
