//! `BEGIN TRANSACTION`: named reads, a condition on them, and writes.

use std::collections::HashMap;
use std::sync::Arc;

use carnet::DataType;
use carnet::catalog::TableSchema;

use super::compiler::Compiler;
use super::environment::Environment;
use super::list::List;
use super::operand::Operand;
use super::relation::holds_for;
use super::select::SelectPlan;
use super::write::{GuardPlan, WritePlan};
use crate::ast::{
    Body, Branch, CompareOp, Condition, Select, SelectItem, TableName, Term, Transaction,
    TransactionResult, Write,
};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Columns};
use crate::shown::shown;

/// A compiled transaction.
#[derive(Clone, Debug)]
pub(crate) struct TransactionPlan {
    pub(crate) lets: Vec<SelectPlan>,
    /// Whether the result begins with `[applied]`.
    pub(crate) shows_applied: bool,
    pub(crate) result: ResultPlan,
    pub(crate) body: BodyPlan,
}

/// Result for the client.
#[derive(Clone, Debug)]
pub(crate) enum ResultPlan {
    /// Whether the writes were applied.
    Applied,
    Select(Box<SelectPlan>),
    /// One row of values that `LET`s have read.
    Items(Columns, Vec<Operand>),
}

/// Writes of the transaction.
#[derive(Clone, Debug)]
pub(crate) struct BodyPlan {
    pub(crate) condition: Option<ConditionPlan>,
    pub(crate) then: BranchPlan,
    pub(crate) otherwise: BranchPlan,
}

/// Branch of the transaction's `IF`.
#[derive(Clone, Debug, Default)]
pub(crate) struct BranchPlan {
    pub(crate) writes: Vec<WritePlan>,
    /// Text of the error with which the branch ends the transaction.
    pub(crate) raise: Option<Operand>,
}

/// A compiled condition.
#[derive(Clone, Debug)]
pub(crate) enum ConditionPlan {
    And(Vec<Self>),
    Or(Vec<Self>),
    Compare(Operand, CompareOp, Operand),
    In(Operand, List),
    /// Whether a `LET` found no row.
    NoRow {
        read: usize,
        negated: bool,
    },
    Null {
        operand: Operand,
        negated: bool,
    },
}

impl TransactionPlan {
    /// Returns the markers of the partition key of the first statement that has them.
    pub(crate) fn partition_markers(&self) -> Option<Vec<u16>> {
        let select = match &self.result {
            ResultPlan::Select(select) => Some(&**select),
            ResultPlan::Applied | ResultPlan::Items(..) => None,
        };
        let reads = self.lets.iter().chain(select);
        let mut reads = reads.map(|read| read.filter.partition_markers());
        let mut writes = self.body.writes().map(WritePlan::partition_markers);
        reads.find_map(|markers| markers).or_else(|| writes.find_map(|markers| markers))
    }
}

impl BodyPlan {
    fn writes(&self) -> impl Iterator<Item = &WritePlan> {
        self.then.writes.iter().chain(&self.otherwise.writes)
    }

    fn raises(&self) -> bool {
        self.then.raise.is_some() || self.otherwise.raise.is_some()
    }
}

impl ConditionPlan {
    /// Returns `true` if the condition holds. A comparison with null is false.
    pub(crate) fn holds(&self, environment: &Environment<'_>) -> Result<bool, CqlError> {
        Ok(match self {
            Self::And(parts) => {
                for part in parts {
                    if !part.holds(environment)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Or(parts) => {
                for part in parts {
                    if part.holds(environment)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Compare(left, op, right) => {
                let (left, right) = (left.value(environment)?, right.value(environment)?);
                holds_for(left.as_ref(), *op, right.as_ref())
            }
            Self::In(operand, list) => {
                let found = operand.value(environment)?;
                let wanted = list.values(environment)?;
                wanted
                    .iter()
                    .any(|wanted| holds_for(found.as_ref(), CompareOp::Equal, Some(wanted)))
            }
            Self::NoRow { read, negated } => environment.lets[*read].is_none() != *negated,
            Self::Null { operand, negated } => operand.value(environment)?.is_none() != *negated,
        })
    }
}

/// Schemas of the statement's tables, for the compiler.
pub(crate) type Tables = HashMap<(Option<String>, String), Arc<TableSchema>>;

/// Returns the key of a table in [`Tables`].
pub(crate) fn table_key(name: &TableName) -> (Option<String>, String) {
    (name.keyspace.as_ref().map(|keyspace| keyspace.text.clone()), name.table.text.clone())
}

fn table<'t>(tables: &'t Tables, name: &TableName) -> Result<&'t Arc<TableSchema>, CqlError> {
    tables
        .get(&table_key(name))
        .ok_or_else(|| CqlError::invalid(format!("table {name} does not exist")))
}

impl<'a> Compiler<'a> {
    /// Compiles a transaction.
    pub(crate) fn transaction(
        &mut self,
        transaction: &Transaction,
        tables: &'a Tables,
    ) -> Result<TransactionPlan, CqlError> {
        let mut lets = Vec::with_capacity(transaction.lets.len());
        for read in &transaction.lets {
            let name = &read.name.text;
            if self.find_let(name).is_some() {
                return Err(CqlError::invalid(format!("LET {name} is defined twice")));
            }
            let plan = self.let_select(name, &read.select, tables)?;
            let columns =
                plan.columns.iter().map(|column| (column.name.clone(), column.data_type.clone()));
            self.lets.push((name.clone(), columns.collect()));
            lets.push(plan);
        }
        let result = match &transaction.result {
            None => ResultPlan::Applied,
            Some(TransactionResult::Select(select)) => {
                refuse_own_ways(select)?;
                let plan = self.select(select, table(tables, &select.from)?)?;
                ResultPlan::Select(Box::new(plan))
            }
            Some(TransactionResult::Items(items)) => self.result_items(items)?,
        };
        let body = self.body(&transaction.body, tables)?;
        if lets.is_empty()
            && matches!(result, ResultPlan::Applied)
            && body.writes().next().is_none()
            && !body.raises()
        {
            return Err(CqlError::invalid("the transaction neither reads nor writes"));
        }
        let shows_applied = transaction.shows_applied;
        Ok(TransactionPlan { lets, shows_applied, result, body })
    }

    fn let_select(
        &mut self,
        name: &str,
        select: &Select,
        tables: &'a Tables,
    ) -> Result<SelectPlan, CqlError> {
        let refuse = |why: &str| Err(CqlError::invalid(format!("LET {name}: {why}")));
        refuse_own_ways(select)?;
        if select.json {
            return refuse("JSON has no place in it");
        }
        if !select.order_by.is_empty() || select.near.is_some() {
            return refuse("ORDER BY has no place in it");
        }
        let plan = self.select(select, table(tables, &select.from)?)?;
        if plan.aggregates || plan.group.is_some() {
            return refuse("aggregates have no place in it");
        }
        let limits_to_one = matches!(
            &select.limit,
            Some(Term::Literal(crate::ast::Literal::Integer(digits))) if digits == "1"
        );
        let one_row =
            plan.filter.names_one_row() || (plan.filter.names_one_partition() && limits_to_one);
        if !one_row {
            return refuse("name one row by its whole primary key, or a partition with LIMIT 1");
        }
        Ok(plan)
    }

    fn result_items(&mut self, items: &[SelectItem]) -> Result<ResultPlan, CqlError> {
        let mut columns = Vec::new();
        let mut operands = Vec::new();
        self.table = None;
        for item in items {
            let shown = item.alias.as_ref().map(|alias| alias.text.clone());
            if let Some((read, fields)) = self.whole_row(&item.term) {
                for (column, (field, data_type)) in fields.into_iter().enumerate() {
                    let name = format!("{}.{field}", self.lets[read].0);
                    columns.push(unnamed(name, data_type));
                    let reference = crate::ast::Reference {
                        name: crate::ast::Name::new(self.lets[read].0.clone()),
                        field: Some(crate::ast::Name::new(self.lets[read].1[column].0.clone())),
                    };
                    let term = Term::Reference(reference);
                    operands.push(self.untyped_operand(&term, &field)?);
                }
                continue;
            }
            let operand = self.untyped_operand(&item.term, "a selected term")?;
            let name = shown.unwrap_or_else(|| item.term.to_string());
            columns.push(unnamed(name, operand.data_type.clone()));
            operands.push(operand);
        }
        Ok(ResultPlan::Items(columns.into(), operands))
    }

    /// Returns the columns of a `LET` that is selected as a whole.
    fn whole_row(&self, term: &Term) -> Option<(usize, Vec<(String, DataType)>)> {
        match term {
            Term::Reference(reference) if reference.field.is_none() => self
                .find_let(reference.name.as_str())
                .map(|(read, columns)| (read, columns.to_vec())),
            _ => None,
        }
    }

    fn body(&mut self, body: &Body, tables: &'a Tables) -> Result<BodyPlan, CqlError> {
        Ok(match body {
            Body::Plain(writes) => BodyPlan {
                condition: None,
                then: BranchPlan { writes: self.writes(writes, tables)?, raise: None },
                otherwise: BranchPlan::default(),
            },
            Body::If { condition, then, otherwise } => {
                self.table = None;
                BodyPlan {
                    condition: Some(self.transaction_condition(condition)?),
                    then: self.branch(then, tables)?,
                    otherwise: match otherwise {
                        Some(branch) => self.branch(branch, tables)?,
                        None => BranchPlan::default(),
                    },
                }
            }
        })
    }

    fn branch(&mut self, branch: &Branch, tables: &'a Tables) -> Result<BranchPlan, CqlError> {
        let writes = self.writes(&branch.writes, tables)?;
        self.table = None;
        let raise = branch.raise.as_deref();
        let raise = raise.map(|text| self.operand(text, &DataType::Text, "[raise]")).transpose()?;
        Ok(BranchPlan { writes, raise })
    }

    fn writes(&mut self, writes: &[Write], tables: &'a Tables) -> Result<Vec<WritePlan>, CqlError> {
        let mut plans = Vec::with_capacity(writes.len());
        for write in writes {
            let plan = self.write(write, table(tables, write.table())?)?;
            if !matches!(plan.guard, GuardPlan::Always) {
                return Err(CqlError::invalid(
                    "a statement of a transaction has no IF of its own; use the transaction's",
                ));
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    fn transaction_condition(&mut self, condition: &Condition) -> Result<ConditionPlan, CqlError> {
        Ok(match condition {
            Condition::And(parts) => ConditionPlan::And(self.conditions(parts)?),
            Condition::Or(parts) => ConditionPlan::Or(self.conditions(parts)?),
            Condition::Compare(left, op, right) => {
                let is_typed = |term: &Term| !matches!(term, Term::Literal(_) | Term::Marker(_));
                // A calculation is made in the type that its result is compared with.
                let is_calculated =
                    |term: &Term| matches!(term, Term::Arithmetic { .. } | Term::Negate(_));
                let is_given = |term: &Term| is_typed(term) && !is_calculated(term);
                let of_right =
                    is_given(right) && !is_given(left) || is_typed(right) && !is_typed(left);
                let data_type = self.type_of(if of_right { right } else { left })?;
                let Some(data_type) = data_type else {
                    return Err(CqlError::invalid(format!(
                        "cannot infer the type of {} {} {}; write a type hint: (type) value",
                        shown(left),
                        op.symbol(),
                        shown(right)
                    )));
                };
                // A marker is named after the term that it is compared with.
                let compiled = self.operand(left, &data_type, &shown(right))?;
                let right = self.operand(right, &data_type, &shown(left))?;
                ConditionPlan::Compare(compiled, *op, right)
            }
            Condition::In(term, values) => {
                let operand = self.untyped_operand(term, &shown(term))?;
                let list = self.list(values, &operand.data_type, &shown(term))?;
                ConditionPlan::In(operand, list)
            }
            Condition::IsNull { term, negated } => match self.whole_row(term) {
                Some((read, _)) => ConditionPlan::NoRow { read, negated: *negated },
                None => ConditionPlan::Null {
                    operand: self.untyped_operand(term, &shown(term))?,
                    negated: *negated,
                },
            },
        })
    }

    fn conditions(&mut self, parts: &[Condition]) -> Result<Vec<ConditionPlan>, CqlError> {
        parts.iter().map(|part| self.transaction_condition(part)).collect()
    }
}

fn unnamed(name: String, data_type: DataType) -> ColumnSpec {
    ColumnSpec { keyspace: String::new(), table: String::new(), name, data_type }
}

/// Refuses clauses that belong to the whole transaction: its reads share one snapshot and one way
/// of reading.
fn refuse_own_ways(select: &Select) -> Result<(), CqlError> {
    if select.bypass_cache {
        return Err(CqlError::unsupported("BYPASS CACHE inside a transaction"));
    }
    if select.as_of.is_some() {
        return Err(CqlError::invalid(
            "AS OF inside a transaction: all of it happens at one moment, which is now",
        ));
    }
    Ok(())
}
