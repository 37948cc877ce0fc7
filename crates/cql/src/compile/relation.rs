//! One resolved relation of a `WHERE` or `IF`, and its evaluation for a row.

use std::cmp::Ordering;

use carnet::catalog::{ColumnKind, ColumnSchema, IndexedPart, TableSchema};
use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::Composite;

use super::compiler::Compiler;
use super::environment::Environment;
use super::list::{List, Tuples};
use super::operand::Operand;
use crate::ast::{Arguments, BindMarker, CompareOp, InValues, Name, Relation, Term};
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// A relation whose names are resolved to positions among the table's columns.
#[derive(Clone, Debug)]
pub(super) enum Resolved {
    Compare(usize, CompareOp, Operand),
    In(usize, List),
    CompareTuple(Vec<usize>, CompareOp, Vec<Operand>),
    InTuple(Vec<usize>, Tuples),
    Token(CompareOp, TokenOperand),
    /// Position of a collection, which of its parts are searched, and the part.
    Contains(usize, Searched, Operand),
    /// Position of a list or map, and the index or key of the element that is compared.
    Element(usize, Operand, CompareOp, Operand),
    /// Position of a column, and the part of it that is tested by an `IF`.
    Part(usize, PartOf, Test),
    /// Position of a text, and the pattern.
    Like(usize, Operand),
}

/// Part of a column in an `IF`.
#[derive(Clone, Debug)]
pub(super) enum PartOf {
    /// An element, by its index or key.
    Element(Operand),
    Field(String),
}

/// Test of a part.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Compare(CompareOp, Operand),
    In(List),
}

/// Parts of a collection that `CONTAINS` searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Searched {
    /// Elements of a list or set, or values of a map.
    Values,
    /// Keys of a map.
    Keys,
}

impl Searched {
    /// Returns `true` if a collection has the part.
    pub(super) fn finds(self, collection: &Composite, wanted: &Value) -> bool {
        self.parts(collection).any(|part| part.compare(wanted).is_eq())
    }

    /// Returns the parts of a collection that are searched.
    pub(super) fn parts(self, collection: &Composite) -> impl Iterator<Item = &Value> {
        let items = collection.parts().chunks(collection.parts_per_item());
        let parts = items.filter_map(move |item| match self {
            Self::Keys => item.first(),
            Self::Values => item.last(),
        });
        parts.filter_map(Option::as_ref)
    }

    /// Returns the part of the column that an index of the searched parts has.
    pub(super) const fn part(self) -> IndexedPart {
        match self {
            Self::Keys => IndexedPart::Keys,
            Self::Values => IndexedPart::Values,
        }
    }
}

/// Value that a token is compared with.
#[derive(Clone, Debug)]
pub(super) enum TokenOperand {
    Number(Operand),
    /// `token(value, …)`: the token of a partition key.
    Of(Vec<Operand>),
}

impl Compiler<'_> {
    pub(super) fn relation(
        &mut self,
        table: &TableSchema,
        relation: &Relation,
    ) -> Result<Resolved, CqlError> {
        match relation {
            Relation::Compare { column, op, value } => {
                let (position, found) = find(table, column)?;
                check_order(found, *op)?;
                let operand = self.operand(value, &found.data_type, &found.name)?;
                Ok(Resolved::Compare(position, *op, operand))
            }
            Relation::In { column, values } => {
                let (position, found) = find(table, column)?;
                Ok(Resolved::In(position, self.list(values, &found.data_type, &found.name)?))
            }
            Relation::CompareTuple { columns, op, value } => {
                let positions = clustering_run(table, columns)?;
                let operands = self.tuple(table, &positions, value)?;
                Ok(Resolved::CompareTuple(positions, *op, operands))
            }
            Relation::InTuple { columns, values } => {
                let positions = clustering_run(table, columns)?;
                let tuples = self.tuples(table, &positions, values)?;
                Ok(Resolved::InTuple(positions, tuples))
            }
            Relation::Token { columns, op, value } => self.token(table, columns, *op, value),
            Relation::IsNotNull(_) => Err(CqlError::unsupported("IS NOT NULL in WHERE")),
            Relation::Contains { column, key, value } => self.contains(table, column, *key, value),
            Relation::Like { column, pattern } => {
                let (position, found) = find(table, column)?;
                if !matches!(found.data_type, DataType::Text | DataType::Ascii) {
                    return Err(CqlError::invalid(format!(
                        "LIKE is only supported on text columns; {} is of type {}",
                        found.name, found.data_type
                    )));
                }
                let operand = self.operand(pattern, &found.data_type, &found.name)?;
                Ok(Resolved::Like(position, operand))
            }
            Relation::Element { column, element, op, value } => {
                let (position, found) = find(table, column)?;
                let (key, of) = self.element_at(found, element)?;
                let value = self.operand(value, of, &format!("value({})", found.name))?;
                Ok(Resolved::Element(position, key, *op, value))
            }
            Relation::ElementIn { column, element, values } => {
                let (position, found) = find(table, column)?;
                let (key, of) = self.element_at(found, element)?;
                let list = self.list(values, of, &format!("value({})", found.name))?;
                Ok(Resolved::Part(position, PartOf::Element(key), Test::In(list)))
            }
            Relation::Field { column, field, op, value } => {
                let (position, found) = find(table, column)?;
                let (name, of) = field_of(found, field)?;
                let value = self.operand(value, of, &format!("{}.{name}", found.name))?;
                let test = Test::Compare(*op, value);
                Ok(Resolved::Part(position, PartOf::Field(name.clone()), test))
            }
            Relation::FieldIn { column, field, values } => {
                let (position, found) = find(table, column)?;
                let (name, of) = field_of(found, field)?;
                let list = self.list(values, of, &format!("{}.{name}", found.name))?;
                Ok(Resolved::Part(position, PartOf::Field(name.clone()), Test::In(list)))
            }
        }
    }

    /// Compiles the index or key of an element of a column. Returns the type of the element, too.
    fn element_at<'t>(
        &mut self,
        column: &'t ColumnSchema,
        element: &Term,
    ) -> Result<(Operand, &'t DataType), CqlError> {
        let (at, of) = match &column.data_type {
            DataType::List(value) => (&DataType::Int, &**value),
            DataType::Map(pair) => (&pair.0, &pair.1),
            DataType::Set(_) => {
                return Err(CqlError::invalid(format!(
                    "Invalid element access syntax for set column {}",
                    column.name
                )));
            }
            _ => {
                return Err(CqlError::invalid(format!(
                    "Invalid element access syntax for non-collection column {}",
                    column.name
                )));
            }
        };
        let name = if matches!(column.data_type, DataType::List(_)) { "idx" } else { "key" };
        Ok((self.operand(element, at, &format!("{name}({})", column.name))?, of))
    }

    fn contains(
        &mut self,
        table: &TableSchema,
        column: &Name,
        is_key: bool,
        value: &Term,
    ) -> Result<Resolved, CqlError> {
        let (position, found) = find(table, column)?;
        let (searched, part) = match (&found.data_type, is_key) {
            (DataType::List(element) | DataType::Set(element), false) => {
                (Searched::Values, &**element)
            }
            (DataType::Map(pair), false) => (Searched::Values, &pair.1),
            (DataType::Map(pair), true) => (Searched::Keys, &pair.0),
            (DataType::List(_) | DataType::Set(_), true) => {
                return Err(CqlError::invalid(format!(
                    "Cannot use CONTAINS KEY on non-map column {}",
                    found.name
                )));
            }
            _ => {
                return Err(CqlError::invalid(format!(
                    "Cannot use CONTAINS on non-collection column {}",
                    found.name
                )));
            }
        };
        let what = if is_key { "key" } else { "value" };
        let operand = self.operand(value, part, &format!("{what}({})", found.name))?;
        Ok(Resolved::Contains(position, searched, operand))
    }

    fn tuple(
        &mut self,
        table: &TableSchema,
        positions: &[usize],
        value: &Term,
    ) -> Result<Vec<Operand>, CqlError> {
        let terms = match value {
            Term::Tuple(terms) => terms,
            Term::Marker(marker) => return Ok(self.tuple_marker(table, positions, marker)),
            _ => return Err(CqlError::invalid("a tuple of columns is compared with a tuple")),
        };
        if terms.len() > positions.len() || terms.is_empty() {
            return Err(CqlError::invalid(format!(
                "{} values are compared with {} columns",
                terms.len(),
                positions.len()
            )));
        }
        let operand = |(position, term): (&usize, &Term)| {
            let column = &table.columns[*position];
            self.operand(term, &column.data_type, &column.name)
        };
        positions.iter().zip(terms).map(operand).collect()
    }

    fn tuples(
        &mut self,
        table: &TableSchema,
        positions: &[usize],
        values: &InValues,
    ) -> Result<Tuples, CqlError> {
        match values {
            InValues::List(tuples) => {
                let tuples = tuples.iter().map(|tuple| self.tuple(table, positions, tuple));
                tuples.collect::<Result<_, _>>().map(Tuples::Each)
            }
            InValues::Marker(marker) => {
                let (types, what) = tuple_of(table, positions);
                let tuple = DataType::tuple(types.iter().cloned());
                self.type_marker(marker, &format!("in{what}"), DataType::list(tuple));
                Ok(Tuples::Marker { index: marker.index, types, what })
            }
        }
    }

    /// Compiles a tuple that is bound to one marker.
    fn tuple_marker(
        &mut self,
        table: &TableSchema,
        positions: &[usize],
        marker: &BindMarker,
    ) -> Vec<Operand> {
        let (types, what) = tuple_of(table, positions);
        let tuple = DataType::tuple(types.iter().cloned());
        self.type_marker(marker, &what, tuple);
        Operand::tuple_parts(marker.index, &types, &what)
    }

    fn token(
        &mut self,
        table: &TableSchema,
        columns: &[Name],
        op: CompareOp,
        value: &Term,
    ) -> Result<Resolved, CqlError> {
        let is_key = table
            .partition_key()
            .map(|column| &column.name)
            .eq(columns.iter().map(|name| &name.text));
        if !is_key {
            return Err(CqlError::invalid(
                "token() takes the columns of the partition key, in their order",
            ));
        }
        if op == CompareOp::NotEqual {
            return Err(CqlError::unsupported("!= of a token"));
        }
        let operand = match value {
            Term::Call(call) if call.function.name.as_str() == "token" => {
                let Arguments::Terms(terms) = &call.arguments else {
                    return Err(CqlError::invalid("token(*) is no token"));
                };
                if terms.len() != columns.len() {
                    return Err(CqlError::invalid(format!(
                        "token() of {} values, of a partition key of {} columns",
                        terms.len(),
                        columns.len()
                    )));
                }
                let key = table.partition_key().zip(terms);
                let parts = key.enumerate().map(|(place, (column, term))| {
                    self.operand(term, &column.data_type, &format!("arg{place}(system.token)"))
                });
                TokenOperand::Of(parts.collect::<Result<_, _>>()?)
            }
            value => TokenOperand::Number(self.operand(
                value,
                &DataType::Bigint,
                "partition key token",
            )?),
        };
        Ok(Resolved::Token(op, operand))
    }
}

/// Returns a field of a column and its type.
fn field_of<'t>(
    column: &'t ColumnSchema,
    field: &Name,
) -> Result<&'t (String, DataType), CqlError> {
    let DataType::Udt(user_type) = &column.data_type else {
        return Err(CqlError::invalid(format!(
            "Invalid field access: column {} of type {} is not a user type",
            column.name, column.data_type
        )));
    };
    let found = user_type.fields.iter().find(|(name, _)| *name == field.text);
    found.ok_or_else(|| {
        CqlError::invalid(format!("Unknown field {} for column {}", field.text, column.name))
    })
}

/// Refuses to compare durations by order: a month may be shorter or longer than 30 days.
fn check_order(column: &ColumnSchema, op: CompareOp) -> Result<(), CqlError> {
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    if is_equality || !column.data_type.contains(&DataType::Duration) {
        return Ok(());
    }
    let what = match column.data_type {
        DataType::Duration => "duration columns",
        DataType::Tuple(_) => "tuples containing durations",
        _ => "collections containing durations",
    };
    Err(CqlError::invalid(format!("Slice restrictions are not supported on {what}")))
}

pub(super) fn find<'t>(
    table: &'t TableSchema,
    name: &Name,
) -> Result<(usize, &'t ColumnSchema), CqlError> {
    let position = table.columns.iter().position(|column| column.name == name.text);
    position.map(|position| (position, &table.columns[position])).ok_or_else(|| {
        CqlError::invalid(format!(
            "table {}.{} has no column {}",
            table.keyspace, table.name, name.text
        ))
    })
}

/// Returns the types of a tuple of columns, and its name: `(a,b)`.
fn tuple_of(table: &TableSchema, positions: &[usize]) -> (Vec<DataType>, String) {
    let columns = positions.iter().map(|position| &table.columns[*position]);
    let names: Vec<&str> = columns.clone().map(|column| column.name.as_str()).collect();
    (columns.map(|column| column.data_type.clone()).collect(), format!("({})", names.join(",")))
}

fn clustering_run(table: &TableSchema, columns: &[Name]) -> Result<Vec<usize>, CqlError> {
    let positions: Vec<usize> = columns
        .iter()
        .map(|name| find(table, name).map(|(position, _)| position))
        .collect::<Result<_, _>>()?;
    let clustering: Vec<usize> = (0..table.columns.len())
        .filter(|position| matches!(table.columns[*position].kind, ColumnKind::Clustering(_)))
        .collect();
    if clustering.windows(positions.len()).any(|run| run == positions) {
        return Ok(positions);
    }
    Err(CqlError::invalid(
        "a tuple is compared with clustering columns that follow each other, in their order",
    ))
}

/// A relation that is evaluated row by row.
#[derive(Clone, Debug)]
pub(crate) struct Filter(pub(super) Resolved);

impl Filter {
    /// Returns `true` if a row satisfies it as an `IF`: null equals null, and differs from every
    /// value.
    pub(crate) fn condition_holds(
        &self,
        table: &TableSchema,
        row: &[Option<Bytes>],
        environment: &Environment<'_>,
    ) -> Result<bool, CqlError> {
        match &self.0 {
            Resolved::Compare(position, op, operand) => {
                let found = stored(table, row, *position)?;
                let column = &table.columns[*position];
                let wanted = operand.value(environment)?;
                if is_empty_collection(column, wanted.as_ref())
                    && !matches!(op, CompareOp::Equal | CompareOp::NotEqual)
                {
                    return Err(CqlError::invalid(format!(
                        "Invalid comparison with an empty {} for operator \"{}\"",
                        collection_name(&column.data_type),
                        op.symbol()
                    )));
                }
                let wanted = wanted.filter(|wanted| !is_empty_collection(column, Some(wanted)));
                condition_holds_for(found.as_ref(), *op, wanted.as_ref())
            }
            Resolved::In(position, list) => {
                let found = stored(table, row, *position)?;
                let column = &table.columns[*position];
                let wanted = list.nullable_values(environment)?;
                let equals = |wanted: &Option<Value>| match (&found, wanted) {
                    (None, wanted) if is_empty_collection(column, wanted.as_ref()) => true,
                    (Some(found), Some(wanted)) => Value::compare(found, wanted).is_eq(),
                    (found, wanted) => found.is_none() && wanted.is_none(),
                };
                Ok(wanted.iter().any(equals))
            }
            Resolved::Contains(position, searched, operand) => {
                let wanted = operand.required(environment)?;
                Ok(match stored(table, row, *position)? {
                    Some(Value::Composite(found)) => searched.finds(&found, &wanted),
                    _ => false,
                })
            }
            Resolved::Element(position, at, op, operand) => {
                let stored = stored(table, row, *position)?;
                let found = element(&table.columns[*position], stored.as_ref(), at, environment)?;
                condition_holds_for(found, *op, operand.value(environment)?.as_ref())
            }
            Resolved::Part(position, part, test) => {
                let stored = stored(table, row, *position)?;
                let found = match (part, &stored) {
                    (PartOf::Element(at), stored) => {
                        element(&table.columns[*position], stored.as_ref(), at, environment)?
                    }
                    (PartOf::Field(name), Some(Value::Composite(found))) => found.field(name),
                    (PartOf::Field(_), _) => None,
                };
                test.holds(found, environment)
            }
            _ => Err(CqlError::unsupported("LIKE in IF")),
        }
    }

    /// Counts the steps of evaluating it for a row.
    pub(crate) fn count(&self, row: &[Option<Bytes>], steps: &Steps<'_>) -> Result<(), CqlError> {
        let bytes = |position: &usize| row[*position].as_ref().map_or(0, Bytes::len);
        steps.take(1)?;
        steps.take_bytes(self.positions().iter().map(bytes).sum())
    }

    /// Returns the columns that it evaluates.
    pub(crate) fn positions(&self) -> &[usize] {
        match &self.0 {
            Resolved::Compare(position, ..)
            | Resolved::In(position, _)
            | Resolved::Contains(position, ..)
            | Resolved::Like(position, _)
            | Resolved::Part(position, ..)
            | Resolved::Element(position, ..) => std::slice::from_ref(position),
            Resolved::CompareTuple(positions, ..) | Resolved::InTuple(positions, _) => positions,
            Resolved::Token(..) => &[],
        }
    }
}

impl Test {
    /// Returns `true` if a part of a column satisfies it.
    fn holds(
        &self,
        found: Option<&Value>,
        environment: &Environment<'_>,
    ) -> Result<bool, CqlError> {
        match self {
            Self::Compare(op, operand) => {
                condition_holds_for(found, *op, operand.value(environment)?.as_ref())
            }
            Self::In(list) => {
                let wanted = list.nullable_values(environment)?;
                Ok(wanted
                    .iter()
                    .any(|wanted| Value::compare_nullable(found, wanted.as_ref()).is_eq()))
            }
        }
    }
}

/// Returns an element of a column, by its index or key.
fn element<'v>(
    column: &ColumnSchema,
    stored: Option<&'v Value>,
    at: &Operand,
    environment: &Environment<'_>,
) -> Result<Option<&'v Value>, CqlError> {
    let kind = collection_name(&column.data_type);
    let at = at.value(environment)?.ok_or_else(|| {
        CqlError::invalid(format!("Invalid null value for {kind} element access"))
    })?;
    if let (DataType::List(_), Value::Int(index @ ..0)) = (&column.data_type, &at) {
        return Err(CqlError::invalid(format!("Invalid negative list index {index}")));
    }
    Ok(match stored {
        Some(Value::Composite(found)) => found.get(&at),
        _ => None,
    })
}

/// Returns `true` for an empty collection that is not frozen: as a value of the column it is null.
fn is_empty_collection(column: &ColumnSchema, value: Option<&Value>) -> bool {
    let is_collection = column.is_multi_cell && !column.data_type.is_record();
    is_collection && matches!(value, Some(Value::Composite(value)) if value.parts().is_empty())
}

const fn collection_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::List(_) => "list",
        DataType::Set(_) => "set",
        _ => "map",
    }
}

/// Returns a row's value of a column, by position.
pub(super) fn stored(
    table: &TableSchema,
    row: &[Option<Bytes>],
    position: usize,
) -> Result<Option<Value>, CqlError> {
    let data_type = &table.columns[position].data_type;
    Ok(row[position].as_ref().map(|bytes| data_type.deserialize(bytes)).transpose()?)
}

/// Returns `true` if `found op wanted` holds in an `IF`. Null can only be compared by `=` and `!=`.
fn condition_holds_for(
    found: Option<&Value>,
    op: CompareOp,
    wanted: Option<&Value>,
) -> Result<bool, CqlError> {
    Ok(match (found, wanted, op) {
        (Some(_), Some(_), _) => holds_for(found, op, wanted),
        (found, None, CompareOp::Equal) => found.is_none(),
        (found, None, CompareOp::NotEqual) => found.is_some(),
        (_, None, op) => {
            return Err(CqlError::invalid(format!(
                "Invalid comparison with null for operator \"{}\"",
                op.symbol()
            )));
        }
        (None, Some(_), op) => op == CompareOp::NotEqual,
    })
}

/// Returns `true` if `found op wanted` holds; with null it never does.
pub(crate) fn holds_for(found: Option<&Value>, op: CompareOp, wanted: Option<&Value>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) => satisfies(Value::compare(found, wanted), op),
        _ => false,
    }
}

pub(super) const fn satisfies(ordering: Ordering, op: CompareOp) -> bool {
    match op {
        CompareOp::Equal => ordering.is_eq(),
        CompareOp::NotEqual => ordering.is_ne(),
        CompareOp::Less => ordering.is_lt(),
        CompareOp::LessOrEqual => ordering.is_le(),
        CompareOp::Greater => ordering.is_gt(),
        CompareOp::GreaterOrEqual => ordering.is_ge(),
    }
}
