//! `SELECT` on the system tables, whose rows are generated on each read.

use carnet::DataType;

use super::compiler::Compiler;
use super::function::Function;
use super::list::List;
use super::operand::Operand;
use super::where_clause::LIMIT_TYPE;
use crate::ast::{Arguments, CompareOp, FunctionCall, Relation, Select, Selection, Term};
use crate::cql_error::CqlError;
use crate::result::ColumnSpec;
use crate::system::SystemTable;

/// A compiled `SELECT` on a system table.
pub(crate) struct SystemPlan {
    pub(crate) columns: Vec<ColumnSpec>,
    /// Columns of the result; `None` if rows are counted.
    pub(crate) outputs: Option<Vec<SystemOutput>>,
    /// Conditions: the column, by position, is one of the values.
    pub(crate) filters: Vec<(usize, List)>,
    pub(crate) limit: Option<Operand>,
}

/// One column of the result, by its position in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemOutput {
    Column(usize),
    /// JSON of the column.
    Json(usize),
}

impl Compiler<'_> {
    /// Compiles a `SELECT` on a system table.
    pub(crate) fn system_select(
        &mut self,
        select: &Select,
        table: &'static SystemTable,
    ) -> Result<SystemPlan, CqlError> {
        let is_ordered = !select.order_by.is_empty() || select.near.is_some();
        if is_ordered || !select.group_by.is_empty() || select.distinct {
            return Err(CqlError::unsupported("ORDER BY, GROUP BY or DISTINCT on system tables"));
        }
        if select.json {
            return Err(CqlError::unsupported("SELECT JSON of a system table"));
        }
        if select.as_of.is_some() {
            return Err(CqlError::invalid("AS OF on a system table: it has no past"));
        }
        self.using_markers(&select.using);
        let (columns, outputs) = match &select.selection {
            Selection::All => {
                (table.specs(), Some((0..table.columns.len()).map(SystemOutput::Column).collect()))
            }
            Selection::Items(items) => {
                let mut columns = Vec::new();
                let mut outputs = Vec::new();
                for item in items {
                    let mut column = match &item.term {
                        Term::Reference(reference) if reference.field.is_none() => {
                            let (position, column) = find(table, reference.name.as_str())?;
                            outputs.push(SystemOutput::Column(position));
                            table.spec(column)
                        }
                        Term::Call(call)
                            if call.function.name.as_str() == "count"
                                && matches!(call.arguments, Arguments::Star)
                                && items.len() == 1 =>
                        {
                            count_column(table)
                        }
                        Term::Call(call) if Function::find(call).ok() == Some(Function::ToJson) => {
                            let (position, column) = json_column(call, table)?;
                            outputs.push(SystemOutput::Json(position));
                            column
                        }
                        other => {
                            return Err(CqlError::unsupported(format!(
                                "{other} of a system table"
                            )));
                        }
                    };
                    if let Some(alias) = &item.alias {
                        column.name.clone_from(&alias.text);
                    }
                    columns.push(column);
                }
                let outputs = (!outputs.is_empty()).then_some(outputs);
                (columns, outputs)
            }
        };
        let filters = select.filter.iter().map(|relation| self.system_filter(relation, table));
        let filters = filters.collect::<Result<_, _>>()?;
        let limit = select.limit.as_ref();
        let limit = limit.map(|term| self.operand(term, &LIMIT_TYPE, "[limit]")).transpose()?;
        Ok(SystemPlan { columns, outputs, filters, limit })
    }

    fn system_filter(
        &mut self,
        relation: &Relation,
        table: &SystemTable,
    ) -> Result<(usize, List), CqlError> {
        let (column, list) = match relation {
            Relation::Compare { column, op: CompareOp::Equal, value } => (column, Ok(value)),
            Relation::In { column, values } => (column, Err(values)),
            _ => {
                return Err(CqlError::unsupported("anything but = and IN on system tables"));
            }
        };
        let (position, found) = find(table, column.as_str())?;
        let data_type = &found.data_type;
        if data_type.is_composite() {
            return Err(CqlError::unsupported(format!("a condition on {}", found.name)));
        }
        let list = match list {
            Ok(value) => List::Each(vec![self.operand(value, data_type, found.name)?]),
            Err(values) => self.list(values, data_type, found.name)?,
        };
        // Markers belong to this table, which has no schema in the catalog.
        for marker in self.markers.iter_mut().flatten() {
            marker.keyspace = table.keyspace.to_owned();
            marker.table = table.name.to_owned();
        }
        Ok((position, list))
    }
}

fn find<'t>(
    table: &'t SystemTable,
    name: &str,
) -> Result<(usize, &'t crate::system::SystemColumn), CqlError> {
    table.column(name).ok_or_else(|| {
        CqlError::invalid(format!("table {}.{} has no column {name}", table.keyspace, table.name))
    })
}

/// Returns the argument of `toJson`, and the result column.
fn json_column(call: &FunctionCall, table: &SystemTable) -> Result<(usize, ColumnSpec), CqlError> {
    let Arguments::Terms(terms) = &call.arguments else {
        return Err(CqlError::invalid("* is an argument of count only"));
    };
    let [Term::Reference(reference)] = terms.as_slice() else {
        return Err(CqlError::unsupported("toJson of anything but a column of a system table"));
    };
    let (position, column) = find(table, reference.name.as_str())?;
    let name = format!("system.{}({})", call.function.name.as_str(), column.name);
    Ok((position, ColumnSpec { name, data_type: DataType::Text, ..table.spec(column) }))
}

fn count_column(table: &SystemTable) -> ColumnSpec {
    ColumnSpec {
        keyspace: table.keyspace.to_owned(),
        table: table.name.to_owned(),
        name: "count".to_owned(),
        data_type: DataType::Bigint,
    }
}
