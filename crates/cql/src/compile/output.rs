//! Outputs of a `SELECT`: columns, terms, and aggregates of a column or of a term of each row.

use carnet::DataType;

use super::cell_time::TimeOf;
use super::number::is_number;
use super::operand::Operand;
use crate::cql_error::CqlError;

/// One column of the result.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// A column of the table, by position.
    Column(usize),
    /// A value calculated from the row.
    Operand(Operand),
    /// Token of the partition.
    Token,
    /// Time to live or write time of a column, or of its elements.
    Time(TimeOf),
    /// A value calculated from the row and from times and tokens, which follow the columns.
    Derived(Operand, Vec<Self>),
    Aggregate(Aggregate),
    /// A value calculated from aggregates, whose results follow the columns of the first row.
    Composed(Operand, Vec<Aggregate>),
}

impl Output {
    /// Returns the aggregates that it depends on.
    pub(crate) fn aggregates(&self) -> &[Aggregate] {
        match self {
            Self::Aggregate(aggregate) => std::slice::from_ref(aggregate),
            Self::Composed(_, aggregates) => aggregates,
            Self::Column(_)
            | Self::Operand(_)
            | Self::Token
            | Self::Time(_)
            | Self::Derived(..) => &[],
        }
    }

    /// Returns `true` if it depends on the token of the partition.
    pub(super) fn has_token(&self) -> bool {
        match self {
            Self::Token => true,
            Self::Derived(_, appended) => appended.iter().any(Self::has_token),
            _ => false,
        }
    }

    /// Returns the positions of the columns that it depends on; the token counts as none.
    pub(super) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Column(position) => vec![*position],
            Self::Operand(operand) => operand.columns(),
            Self::Time(time) => vec![time.position],
            Self::Token => Vec::new(),
            Self::Derived(operand, appended) => {
                let of_appended = appended.iter().flat_map(Self::columns);
                operand.columns().into_iter().chain(of_appended).collect()
            }
            Self::Aggregate(aggregate) => aggregate.columns(),
            Self::Composed(operand, aggregates) => {
                let of_aggregates = aggregates.iter().flat_map(Aggregate::columns);
                operand.columns().into_iter().chain(of_aggregates).collect()
            }
        }
    }
}

/// Aggregate over all rows, or over those of a group.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    /// The aggregated output with its type; `None` if rows are counted.
    pub(crate) of: Option<(Box<Output>, DataType)>,
}

/// Function of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Number of rows, or of values that are not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

/// Returns the aggregate function of a name.
fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "count" => Kind::Count,
        "min" => Kind::Min,
        "max" => Kind::Max,
        "sum" => Kind::Sum,
        "avg" => Kind::Avg,
        _ => return None,
    })
}

/// Returns `true` for the name of an aggregate function.
pub(crate) fn is_aggregate(name: &str) -> bool {
    kind(name).is_some()
}

impl Aggregate {
    /// Returns the number of rows.
    pub(super) const fn rows() -> Self {
        Self { kind: Kind::Count, of: None }
    }

    /// Creates the aggregate of a function and its argument.
    pub(super) fn new(function: &str, of: Output, data_type: DataType) -> Result<Self, CqlError> {
        let kind = kind(function)
            .ok_or_else(|| CqlError::invalid(format!("{function} is no aggregate function")))?;
        if matches!(kind, Kind::Sum | Kind::Avg) && !is_number(&data_type) {
            return Err(CqlError::invalid(format!("{function}() of a value of type {data_type}")));
        }
        Ok(Self { kind, of: Some((Box::new(of), data_type)) })
    }

    /// Returns the type of the result.
    pub(super) fn returns(&self) -> DataType {
        match (self.kind, &self.of) {
            (Kind::Count, _) | (_, None) => DataType::Bigint,
            (_, Some((_, data_type))) => data_type.clone(),
        }
    }

    /// Returns the positions of the columns that it depends on.
    pub(super) fn columns(&self) -> Vec<usize> {
        self.of.as_ref().map_or_else(Vec::new, |(output, _)| output.columns())
    }
}
