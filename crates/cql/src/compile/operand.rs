//! Typed terms and their evaluation.
//!
//! Compiling a term determines its type, so that a bind marker gets one and a constant is
//! serialized once. Evaluation needs the values of the markers, the row, and the values that `LET`s
//! have read.

use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::Composite;

use super::assignable::is_assignable;
use super::cast;
use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::function::{self, Function, MaskFunction};
use super::items::parts;
use super::literal;
use super::names::shown_name;
use super::number;
use crate::ast::{
    Arguments, ArithmeticOp, FunctionCall, Literal, Name, Reference, Slice, Term, TermPart,
    TypeName,
};
use crate::bound::Bound;
use crate::cql_error::CqlError;
use crate::json;
use crate::shown::shown;

/// A term with its type.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) data_type: DataType,
    /// Use of the term, for messages: a column's name.
    what: String,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Serialized value; `None` is null.
    Constant(Option<Bytes>),
    Marker(u16),
    /// A value of the tuple that is bound to a marker, by position.
    TuplePart {
        index: u16,
        place: usize,
        /// Number of values in the tuple.
        count: usize,
    },
    /// A column of the row, by its position among the table's columns.
    Column(usize),
    /// A column that a `LET` read.
    Let {
        read: usize,
        column: usize,
    },
    Call(Function, Vec<Operand>),
    /// A field of a value of a user-defined type.
    Field(Box<Operand>, String),
    /// A list or map, and the index or key of its element.
    Element(Box<Operand>, Box<Operand>),
    /// Elements of a set or map.
    Slice(Box<Operand>, Box<SliceOf>),
    /// A list, set, map or tuple of its parts.
    Composite(Vec<Operand>),
    /// A column of the row of an `INSERT JSON`, by its position among the table's columns.
    JsonColumn(usize),
    /// Value of the type of the whole from JSON, by a function of this name.
    FromJson(String, Box<Operand>),
    /// Cast to a type, whose bytes are those of the type of the whole.
    Cast(Box<Operand>, DataType),
    /// Arithmetic from the left.
    Arithmetic(Box<Operand>, Vec<ArithmeticStep>),
}

/// An operator with its right operand.
#[derive(Clone, Debug)]
pub(crate) struct ArithmeticStep {
    pub(super) op: ArithmeticOp,
    pub(super) operand: Operand,
    /// Type of the result. Numbers are converted to it before.
    pub(super) data_type: DataType,
}

/// Slice of a set or map.
#[derive(Clone, Debug)]
pub(crate) struct SliceOf {
    /// Name of the collection, for messages.
    pub(super) column: String,
    pub(super) from: Option<Operand>,
    pub(super) to: Option<Operand>,
    /// Whether a slice without elements is null, as a collection is that is not frozen.
    pub(super) is_multi_cell: bool,
}

impl Operand {
    /// Creates an operand that is calculated from others.
    pub(super) fn arithmetic(
        first: Self,
        rest: Vec<ArithmeticStep>,
        data_type: DataType,
        what: &str,
    ) -> Self {
        Self { data_type, what: what.to_owned(), source: Source::Arithmetic(Box::new(first), rest) }
    }

    /// Creates an operand for a column of the row.
    pub(crate) fn column(position: usize, data_type: DataType, what: &str) -> Self {
        Self { data_type, what: what.to_owned(), source: Source::Column(position) }
    }

    /// Creates an operand for a column of the row of an `INSERT JSON`.
    pub(super) fn json_column(position: usize, data_type: DataType, what: &str) -> Self {
        Self { data_type, what: what.to_owned(), source: Source::JsonColumn(position) }
    }

    /// Returns the serialized value of a constant other than null.
    pub(super) const fn constant(&self) -> Option<&Bytes> {
        match &self.source {
            Source::Constant(Some(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Creates operands for the values of the tuple that is bound to a marker.
    pub(crate) fn tuple_parts(index: u16, types: &[DataType], what: &str) -> Vec<Self> {
        let count = types.len();
        let part = |(place, data_type): (usize, &DataType)| {
            let source = Source::TuplePart { index, place, count };
            Self { data_type: data_type.clone(), what: what.to_owned(), source }
        };
        types.iter().enumerate().map(part).collect()
    }

    /// Returns the use of the term, for messages.
    pub(super) fn what(&self) -> &str {
        &self.what
    }

    /// Returns a field of it.
    fn field(self, field: &Name) -> Result<Self, CqlError> {
        let DataType::Udt(user_type) = &self.data_type else {
            return Err(CqlError::invalid(format!(
                "Invalid field selection: {} of type {} is not a user type",
                self.what, self.data_type
            )));
        };
        let found = user_type.fields.iter().find(|(known, _)| *known == field.text);
        let Some((name, data_type)) = found.cloned() else {
            return Err(CqlError::invalid(format!(
                "{} of type {} has no field {}",
                self.what, user_type.name, field.text
            )));
        };
        let what = format!("{}.{name}", self.what);
        Ok(Self { data_type, what, source: Source::Field(Box::new(self), name) })
    }

    /// Returns the marker, if the operand is one.
    pub(crate) const fn marker(&self) -> Option<u16> {
        match self.source {
            Source::Marker(index) => Some(index),
            _ => None,
        }
    }

    /// Returns `true` if it depends on a column of the row.
    pub(crate) fn reads_row(&self) -> bool {
        match &self.source {
            Source::Column(_) => true,
            Source::Constant(_)
            | Source::Marker(_)
            | Source::TuplePart { .. }
            | Source::JsonColumn(_)
            | Source::Let { .. } => false,
            Source::Call(_, parts) | Source::Composite(parts) => parts.iter().any(Self::reads_row),
            Source::Cast(operand, _) | Source::Field(operand, _) => operand.reads_row(),
            Source::Element(collection, at) => collection.reads_row() || at.reads_row(),
            Source::Slice(collection, slice) => collection.reads_row() || slice.reads_row(),
            Source::FromJson(_, text) => text.reads_row(),
            Source::Arithmetic(first, rest) => {
                first.reads_row() || rest.iter().any(|step| step.operand.reads_row())
            }
        }
    }

    /// Returns the positions of the columns that it depends on.
    pub(super) fn columns(&self) -> Vec<usize> {
        let of_each = |parts: &[Self]| parts.iter().flat_map(Self::columns).collect();
        match &self.source {
            Source::Column(position) => vec![*position],
            Source::Constant(_)
            | Source::Marker(_)
            | Source::TuplePart { .. }
            | Source::JsonColumn(_)
            | Source::Let { .. } => Vec::new(),
            Source::Call(_, parts) | Source::Composite(parts) => of_each(parts),
            Source::Cast(operand, _)
            | Source::Field(operand, _)
            | Source::FromJson(_, operand)
            | Source::Slice(operand, _) => operand.columns(),
            Source::Element(collection, at) => [collection.columns(), at.columns()].concat(),
            Source::Arithmetic(first, rest) => {
                let rest = rest.iter().flat_map(|step| step.operand.columns());
                first.columns().into_iter().chain(rest).collect()
            }
        }
    }

    /// Evaluates the operand to the bytes of its type.
    pub(crate) fn evaluate(&self, environment: &Environment<'_>) -> Result<Evaluated, CqlError> {
        environment.steps.take(1)?;
        let found = match &self.source {
            Source::Constant(bytes) => bytes.clone(),
            Source::Marker(index) => return self.evaluate_marker(*index, environment),
            Source::TuplePart { index, place, count } => {
                return self.evaluate_tuple_part(*index, *place, *count, environment);
            }
            Source::Column(position) => environment
                .row
                .and_then(|row| row.get(*position))
                .ok_or_else(|| {
                    CqlError::invalid(format!(
                        "{}: a column cannot be used here, because no row is read",
                        self.what
                    ))
                })?
                .clone(),
            Source::Let { read, column } => {
                let row = environment.lets.get(*read).and_then(Option::as_ref);
                row.and_then(|row| row[*column].clone())
            }
            Source::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let value = argument.value(environment)?;
                    values.push(value.filter(|value| function.takes(value)));
                }
                function.call(&values, environment)?.map(|value| value.serialize())
            }
            Source::Composite(parts) => {
                let parts = parts.iter().map(|part| part.value(environment));
                let parts = parts.collect::<Result<_, _>>()?;
                Some(compose(&self.data_type, parts, &self.what)?)
            }
            Source::JsonColumn(position) => {
                let column = environment.json.and_then(|columns| columns.get(*position));
                return column.cloned().ok_or_else(|| self.wrong("no JSON row is read"));
            }
            Source::FromJson(name, text) => match text.value(environment)? {
                Some(Value::Text(text)) => json::read::of_text(&text, &self.data_type)
                    .map_err(|error| function::failed(name, &[DataType::Text], error.message()))?
                    .map(|value| value.serialize()),
                _ => None,
            },
            Source::Field(record, name) => match record.value(environment)? {
                Some(Value::Composite(record)) => record.field(name).map(Value::serialize),
                _ => None,
            },
            Source::Element(collection, at) => {
                let (collection, at) = (collection.value(environment)?, at.value(environment)?);
                let (Some(Value::Composite(collection)), Some(at)) = (collection, at) else {
                    return Ok(Evaluated::Null);
                };
                collection.get(&at).map(Value::serialize)
            }
            Source::Slice(collection, slice) => {
                let bounds = slice.bounds(environment)?;
                let Some(Value::Composite(collection)) = collection.value(environment)? else {
                    return Ok(Evaluated::Null);
                };
                bounds.part(&collection).map(|part| Value::Composite(part).serialize())
            }
            Source::Cast(operand, data_type) => {
                let value = operand.number(environment)?;
                let value = value.map(|value| cast::cast(value, data_type)).transpose()?;
                value.map(|value| value.serialize())
            }
            Source::Arithmetic(first, rest) => {
                calculate(first, rest, environment)?.map(|value| value.serialize())
            }
        };
        environment.steps.take_bytes(found.as_ref().map_or(0, Bytes::len))?;
        Ok(found.map_or(Evaluated::Null, Evaluated::Bytes))
    }

    /// Evaluates the operand to a value; `None` is null. A marker must have a value.
    pub(crate) fn value(&self, environment: &Environment<'_>) -> Result<Option<Value>, CqlError> {
        match self.evaluate(environment)? {
            Evaluated::Bytes(bytes) => {
                environment.steps.take_bytes(bytes.len())?;
                let value = self.data_type.deserialize(&bytes);
                value.map(Some).map_err(|error| self.wrong(error.message()))
            }
            Evaluated::Null => Ok(None),
            Evaluated::Unset => Err(self.wrong("unset values are not allowed here")),
        }
    }

    /// Evaluates the operand to a value that a filter compares with those of rows.
    pub(super) fn compared(&self, environment: &Environment<'_>) -> Result<Value, CqlError> {
        let unsupported = || format!("Unsupported null value for column {}", self.what);
        self.value(environment)?.ok_or_else(|| CqlError::invalid(unsupported()))
    }

    /// Evaluates the operand to a value that must not be null.
    pub(crate) fn required(&self, environment: &Environment<'_>) -> Result<Value, CqlError> {
        self.value(environment)?.ok_or_else(|| self.wrong("null is not allowed here"))
    }

    fn evaluate_marker(
        &self,
        index: u16,
        environment: &Environment<'_>,
    ) -> Result<Evaluated, CqlError> {
        match environment.bound.get(usize::from(index)) {
            None => Err(self.wrong("no value was sent for its bind marker")),
            Some(Bound::Null) => Ok(Evaluated::Null),
            Some(Bound::Unset) => Ok(Evaluated::Unset),
            Some(Bound::Bytes(bytes)) => {
                environment.steps.take_bytes(bytes.len())?;
                let value = self.data_type.deserialize(bytes);
                let value = value.map_err(|error| self.wrong(error.message()))?;
                // A composite value is stored in its one form.
                let is_composite = matches!(value, Value::Composite(_));
                Ok(Evaluated::Bytes(if is_composite { value.serialize() } else { bytes.clone() }))
            }
        }
    }

    fn evaluate_tuple_part(
        &self,
        index: u16,
        place: usize,
        count: usize,
        environment: &Environment<'_>,
    ) -> Result<Evaluated, CqlError> {
        let bytes = match environment.bound.get(usize::from(index)) {
            None => return Err(self.wrong("no value was sent for its bind marker")),
            Some(Bound::Null | Bound::Unset) => return Ok(Evaluated::Null),
            Some(Bound::Bytes(bytes)) => bytes,
        };
        let parts = parts(bytes, count, &self.what)?;
        let Some(part) = parts[place] else { return Ok(Evaluated::Null) };
        self.data_type.deserialize(part).map_err(|error| self.wrong(error.message()))?;
        Ok(Evaluated::Bytes(Bytes::copy_from_slice(part)))
    }

    fn wrong(&self, why: &str) -> CqlError {
        CqlError::invalid(format!("{}: {why}", self.what))
    }
}

impl Operand {
    /// Evaluates the operand to a value that can be calculated with; `None` is null, or the empty value.
    fn number(&self, environment: &Environment<'_>) -> Result<Option<Value>, CqlError> {
        Ok(self.value(environment)?.filter(|value| !matches!(value, Value::Empty(_))))
    }
}

/// Calculates from the left; `None` if an operand is null.
fn calculate(
    first: &Operand,
    rest: &[ArithmeticStep],
    environment: &Environment<'_>,
) -> Result<Option<Value>, CqlError> {
    let Some(mut result) = first.number(environment)? else { return Ok(None) };
    let mut left_type = &first.data_type;
    for ArithmeticStep { op, operand, data_type } in rest {
        let Some(next) = operand.number(environment)? else { return Ok(None) };
        number::check_bits(*op, &result, &next)?;
        environment.steps.take(number::steps(&result, &next))?;
        let next = match next {
            Value::Duration(_) => next,
            next => number::convert(next, data_type)?,
        };
        result = number::convert(result, data_type)?;
        result = number::calculate_of([left_type, &operand.data_type], result, *op, &next)?;
        left_type = data_type;
    }
    Ok(Some(result))
}

/// Evaluates operands to values that must not be null.
pub(crate) fn required(
    operands: &[Operand],
    environment: &Environment<'_>,
) -> Result<Vec<Value>, CqlError> {
    operands.iter().map(|operand| operand.required(environment)).collect()
}

impl Compiler<'_> {
    /// Compiles a term that is used as a value of a type.
    pub(crate) fn operand(
        &mut self,
        term: &Term,
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        self.steps.take(1)?;
        let source = match term {
            Term::Literal(constant)
                if matches!(data_type, DataType::Tuple(_)) && *constant != Literal::Null =>
            {
                composite(self.composite_parts(term, data_type, what)?, data_type, what)?
            }
            Term::Literal(constant) if literal::is_now(constant, data_type) => {
                Source::Call(Function::CurrentTimestamp, Vec::new())
            }
            Term::Literal(constant) => {
                Source::Constant(literal::serialize(constant, data_type, what)?)
            }
            Term::Marker(marker) => {
                self.type_marker(marker, what, data_type.clone());
                Source::Marker(marker.index)
            }
            Term::Reference(reference) => {
                let found = self.reference(reference)?;
                return fits(found, data_type, what);
            }
            Term::Call(call) if matches!(call.function.name.as_str(), "fromjson" | "from_json") => {
                let Arguments::Terms(terms) = &call.arguments else {
                    return Err(CqlError::invalid("* is an argument of count only"));
                };
                let [term] = terms.as_slice() else {
                    return Err(CqlError::invalid("from_json takes one argument"));
                };
                let name = call.function.name.as_str();
                let text = self.operand(term, &DataType::Text, &format!("arg0(system.{name})"))?;
                Source::FromJson(name.to_owned(), Box::new(text))
            }
            Term::Call(_) | Term::Element(..) | Term::Slice(..) | Term::Part(..) => {
                let found = self.untyped_operand(term, what)?;
                return fits(found, data_type, what);
            }
            Term::Hint(type_name, inner) => {
                let Some(hinted) = type_name.data_type() else {
                    return Err(CqlError::unsupported(format!("values of type {type_name}")));
                };
                let found = self.operand(inner, &hinted, what)?;
                return fits(found, data_type, what);
            }
            Term::Negate(inner) => return self.negation(inner, data_type, what),
            Term::Arithmetic { first, rest } => {
                return self.arithmetic(first, rest, data_type, what);
            }
            Term::Cast(inner, type_name) => {
                let found = self.cast(inner, type_name)?;
                return fits(found, data_type, what);
            }
            Term::List(_) | Term::Set(_) | Term::Map(_) | Term::Tuple(_) | Term::Fields(_) => {
                composite(self.composite_parts(term, data_type, what)?, data_type, what)?
            }
        };
        Ok(Operand { data_type: data_type.clone(), what: what.to_owned(), source })
    }

    /// Compiles a term whose context implies no type.
    pub(crate) fn untyped_operand(&mut self, term: &Term, what: &str) -> Result<Operand, CqlError> {
        self.inferred(term, what)?.ok_or_else(|| {
            let term = shown(term);
            CqlError::invalid(format!(
                "cannot infer the type of {term}; write a type hint: (type) {term}"
            ))
        })
    }

    /// Compiles a term whose type follows from the term itself; `None` if it does not, as for a
    /// marker, null, and a collection.
    ///
    /// It compiles each part once: the type of a term is that of its compiled form.
    pub(super) fn inferred(
        &mut self,
        term: &Term,
        what: &str,
    ) -> Result<Option<Operand>, CqlError> {
        self.steps.take(1)?;
        Ok(Some(match term {
            Term::Reference(reference) => self.reference(reference)?,
            Term::Element(reference, element) => self.element_of(reference, element)?,
            Term::Slice(reference, slice) => self.slice(reference, slice)?,
            Term::Part(whole, part) => self.part(whole, part, what)?,
            Term::Call(call) => self.call(call)?,
            Term::Cast(inner, type_name) => self.cast(inner, type_name)?,
            Term::Arithmetic { first, rest } => self.untyped_arithmetic(first, rest, what)?,
            Term::Negate(inner) => match self.inferred(inner, what)? {
                Some(operand) => self.negative(operand, what)?,
                None => return Ok(None),
            },
            term => match self.type_of(term)? {
                Some(data_type) => self.operand(term, &data_type, what)?,
                None => return Ok(None),
            },
        }))
    }

    /// Returns a term's type; a marker, null and a collection have none.
    pub(crate) fn type_of(&mut self, term: &Term) -> Result<Option<DataType>, CqlError> {
        Ok(match term {
            Term::Literal(constant) => literal::natural_type(constant),
            Term::Hint(type_name, _) | Term::Cast(_, type_name) => type_name.data_type(),
            Term::Marker(_)
            | Term::List(_)
            | Term::Set(_)
            | Term::Map(_)
            | Term::Tuple(_)
            | Term::Fields(_) => None,
            term => self.inferred(term, &shown_name(term))?.map(|operand| operand.data_type),
        })
    }

    pub(super) fn reference(&self, reference: &Reference) -> Result<Operand, CqlError> {
        let name = reference.name.as_str();
        // In a row, a bare name is a column before it is a LET.
        let is_column = self.row_table().is_some_and(|table| table.column(name).is_some());
        let is_let = reference.field.is_some() || !is_column;
        if let Some((read, columns)) = self.find_let(name).filter(|_| is_let) {
            let Some(field) = &reference.field else {
                return Err(CqlError::invalid(format!(
                    "{name} is a whole row; name a column of it, as in {name}.column"
                )));
            };
            let column = columns.iter().position(|(name, _)| name == field.as_str());
            let Some(column) = column else {
                return Err(CqlError::invalid(format!(
                    "LET {name} does not read a column {}",
                    field.as_str()
                )));
            };
            let source = Source::Let { read, column };
            let what = format!("{name}.{}", field.as_str());
            return Ok(Operand { data_type: columns[column].1.clone(), what, source });
        }
        if let Some(field) = &reference.field {
            return match is_column {
                true => self.field(&reference.name, field),
                false => Err(CqlError::invalid(format!("no LET is named {name}"))),
            };
        }
        let Some(table) = self.row_table() else {
            return Err(CqlError::invalid(format!(
                "{name} stands where a value is expected; strings are written in single quotes"
            )));
        };
        self.steps.take((table.columns.len() / 16) as u64)?;
        let position = table.columns.iter().position(|column| column.name == name);
        let Some(position) = position else {
            return Err(CqlError::invalid(format!("table {} has no column {name}", table.name)));
        };
        Ok(Operand::column(position, table.columns[position].data_type.clone(), name))
    }

    /// Compiles a field of a column.
    fn field(&self, column: &Name, field: &Name) -> Result<Operand, CqlError> {
        let whole = self.reference(&Reference { name: column.clone(), field: None })?;
        whole.field(field)
    }

    fn element_of(&mut self, reference: &Reference, element: &Term) -> Result<Operand, CqlError> {
        let found = self.reference(reference)?;
        self.element_in(found, element)
    }

    /// Compiles an element of a value.
    fn element_in(&mut self, whole: Operand, element: &Term) -> Result<Operand, CqlError> {
        let at = self.place_in(&whole, element)?;
        let data_type = match &whole.data_type {
            DataType::Map(pair) => pair.1.clone(),
            other => other.parts()[0].clone(),
        };
        let what = format!("{}[{}]", whole.what, shown(element));
        let source = Source::Element(Box::new(whole), Box::new(at));
        Ok(Operand { data_type, what, source })
    }

    fn slice(&mut self, reference: &Reference, slice: &Slice) -> Result<Operand, CqlError> {
        let found = self.reference(reference)?;
        let slice_of = self.slice_of(reference, slice)?;
        let (data_type, what) = (found.data_type.clone(), found.what.clone());
        let source = Source::Slice(Box::new(found), Box::new(slice_of));
        Ok(Operand { data_type, what, source })
    }

    /// Compiles a part of a part of a value.
    fn part(&mut self, whole: &Term, part: &TermPart, what: &str) -> Result<Operand, CqlError> {
        let whole = self.untyped_operand(whole, what)?;
        match part {
            TermPart::Field(field) => whole.field(field),
            TermPart::Element(element) => self.element_in(whole, element),
            TermPart::Slice(slice) => {
                let slice_of = self.slice_in(&whole, slice, false)?;
                let (data_type, what) = (whole.data_type.clone(), whole.what.clone());
                let source = Source::Slice(Box::new(whole), Box::new(slice_of));
                Ok(Operand { data_type, what, source })
            }
        }
    }

    /// Compiles the index, key or value of an element.
    pub(super) fn place_of(
        &mut self,
        reference: &Reference,
        element: &Term,
    ) -> Result<Operand, CqlError> {
        let found = self.reference(reference)?;
        self.place_in(&found, element)
    }

    /// Compiles the index, key or value of an element of a value.
    pub(super) fn place_in(
        &mut self,
        whole: &Operand,
        element: &Term,
    ) -> Result<Operand, CqlError> {
        let data_type = match &whole.data_type {
            DataType::List(_) => DataType::Int,
            DataType::Map(pair) => pair.0.clone(),
            DataType::Set(element) => (**element).clone(),
            other => {
                return Err(CqlError::invalid(format!(
                    "{} is of type {other}, which has no elements",
                    whole.what
                )));
            }
        };
        self.operand(element, &data_type, &format!("key({})", whole.what))
    }

    fn cast(&mut self, term: &Term, type_name: &TypeName) -> Result<Operand, CqlError> {
        let Some(data_type) = type_name.data_type() else {
            return Err(CqlError::unsupported(format!("CAST to {type_name}")));
        };
        let what = shown_name(term);
        let operand = self.untyped_operand(term, &what)?;
        cast::check(&operand.data_type, &data_type, &what)?;
        let source = Source::Cast(Box::new(operand), data_type.clone());
        Ok(Operand { data_type, what, source })
    }

    /// Compiles the arguments of a function whose first one determines the types of the others.
    fn led_arguments(
        &mut self,
        name: &str,
        terms: &[Term],
        other_types: impl Fn(&DataType, usize) -> Result<Vec<DataType>, CqlError>,
    ) -> Result<Vec<Operand>, CqlError> {
        let what = |place: usize| format!("arg{place}(system.{name})");
        let mut arguments: Vec<Operand> = Vec::with_capacity(terms.len());
        let mut types = Vec::new();
        for (place, term) in terms.iter().enumerate() {
            arguments.push(match place.checked_sub(1).and_then(|other| types.get(other)) {
                Some(data_type) => self.operand(term, data_type, &what(place))?,
                None => {
                    let first = self.untyped_operand(term, &what(place))?;
                    types = other_types(&first.data_type, terms.len())?;
                    first
                }
            });
        }
        Ok(arguments)
    }

    fn mask(
        &mut self,
        call: &FunctionCall,
        function: MaskFunction,
        terms: &[Term],
    ) -> Result<Operand, CqlError> {
        if terms.is_empty() {
            return Err(function.wrong_count());
        }
        let types = |first: &DataType, count| function.other_types(first, count);
        let arguments = self.led_arguments(call.function.name.as_str(), terms, types)?;
        let function = Function::Mask(function, arguments[0].data_type.clone());
        Ok(Operand {
            data_type: function.returns(&[]),
            what: call.function.name.text.clone(),
            source: Source::Call(function, arguments),
        })
    }

    fn call(&mut self, call: &FunctionCall) -> Result<Operand, CqlError> {
        if let (Some(mask), Arguments::Terms(terms)) = (Function::find_mask(call), &call.arguments)
        {
            return self.mask(call, mask, terms);
        }
        // The hash of an empty map's key is not calculated.
        let appended = self.appended.get(call);
        if let (Some((place, data_type)), Some(table)) = (appended, self.row_table()) {
            let (position, data_type) = (table.columns.len() + place, data_type.clone());
            return Ok(Operand::column(position, data_type, call.function.name.as_str()));
        }
        let function = Function::find(call)?;
        let Arguments::Terms(terms) = &call.arguments else {
            return Err(CqlError::invalid("* is an argument of count only"));
        };
        let name = call.function.name.as_str();
        let arguments = match function {
            Function::Floor => self.led_arguments(name, terms, function::floor_types)?,
            _ => self.arguments(&function, name, terms)?,
        };
        let types: Vec<DataType> =
            arguments.iter().map(|argument| argument.data_type.clone()).collect();
        function.check(name, &types)?;
        Ok(Operand {
            data_type: function.returns(&types),
            what: call.function.name.text.clone(),
            source: Source::Call(function, arguments),
        })
    }
}

impl Compiler<'_> {
    /// Compiles the arguments of a function. One without a type of its own has that of the
    /// function's parameter, or of the other arguments.
    fn arguments(
        &mut self,
        function: &Function,
        name: &str,
        terms: &[Term],
    ) -> Result<Vec<Operand>, CqlError> {
        let what = |place: usize| format!("arg{place}(system.{name})");
        if function.has_alike_arguments() {
            return self.similar_vectors(name, terms, what);
        }
        let mut arguments = Vec::with_capacity(terms.len());
        for (place, term) in terms.iter().enumerate() {
            // A cast or hint states the type whose bytes are returned.
            let follows = match term {
                Term::Hint(..) | Term::Cast(..) => {
                    function.takes_several_types() || matches!(function, Function::AsBlob(_))
                }
                Term::Arithmetic { .. } | Term::Negate(_) => function.takes_several_types(),
                _ => false,
            };
            let is_typed = is_typed(term) || follows;
            let of_constant = match term {
                Term::Literal(constant) => literal::natural_type(constant)
                    .and_then(|natural| function.constant_type(&natural)),
                _ => None,
            };
            arguments.push(match of_constant.or_else(|| function.argument_type()) {
                Some(data_type) if !is_typed => self.operand(term, &data_type, &what(place))?,
                _ => {
                    let found = self.untyped_operand(term, &what(place))?;
                    match function.parameter(&found.data_type) {
                        Some(wanted) if is_assignable(&found.data_type, &wanted) => {
                            Operand { data_type: wanted, ..found }
                        }
                        _ => found,
                    }
                }
            });
        }
        Ok(arguments)
    }
}

/// Returns `true` for a term whose type does not follow from its use.
pub(super) const fn is_typed(term: &Term) -> bool {
    matches!(
        term,
        Term::Reference(_) | Term::Element(..) | Term::Slice(..) | Term::Part(..) | Term::Call(_)
    )
}

/// Returns the source of a composite value. If all its parts are constants, it is a constant.
fn composite(parts: Vec<Operand>, data_type: &DataType, what: &str) -> Result<Source, CqlError> {
    let constant = |part: &Operand| match &part.source {
        Source::Constant(None) => Some(Ok(None)),
        Source::Constant(Some(bytes)) => Some(part.data_type.deserialize(bytes).map(Some)),
        _ => None,
    };
    match parts.iter().map(constant).collect::<Option<Result<Vec<_>, _>>>() {
        Some(values) => Ok(Source::Constant(Some(compose(data_type, values?, what)?))),
        None => Ok(Source::Composite(parts)),
    }
}

fn compose(data_type: &DataType, parts: Vec<Option<Value>>, what: &str) -> Result<Bytes, CqlError> {
    let composite = Composite::new(data_type.clone(), parts);
    let composite =
        composite.map_err(|error| CqlError::invalid(format!("{what}: {}", error.message())))?;
    Ok(Value::Composite(composite).serialize())
}

pub(super) fn fits(found: Operand, data_type: &DataType, what: &str) -> Result<Operand, CqlError> {
    if !is_assignable(&found.data_type, data_type) {
        return Err(CqlError::invalid(format!(
            "{what} is of type {data_type}, and {} is of type {}",
            found.what, found.data_type
        )));
    }
    Ok(Operand { data_type: data_type.clone(), ..found })
}
