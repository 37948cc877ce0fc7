//! Schemas of materialized views.

use std::collections::BTreeMap;

use carnet_base::{Bytes, ColumnId, TableId, Uuid};
use carnet_data::key::Order;
use serde::{Deserialize, Serialize};

use super::build_failure::BuildFailure;

/// Schema of a materialized view, as a part of the schema of its base table. See [`crate::view`].
///
/// Columns of a view have the ids that they have in the base table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSchema {
    /// Name of the view, unique among the tables and views of its keyspace.
    pub name: String,
    /// Table id of the view's rows, never reused.
    pub id: TableId,
    /// Table id in the CQL protocol.
    pub uuid: Uuid,
    /// Columns of the partition key, in key order.
    pub partition: Vec<ColumnId>,
    /// Columns of the clustering key, in key order.
    pub clustering: Vec<(ColumnId, Order)>,
    /// Selected columns that are not part of the key; `None` is all of them.
    pub columns: Option<Vec<ColumnId>>,
    /// Relations that a base row must satisfy, in the order of the statement.
    pub filter: Vec<ViewRelation>,
    /// Options of the view, as text.
    pub options: BTreeMap<String, String>,
    /// Whether the rows that existed before the view are in it.
    pub is_built: bool,
    /// Why it cannot be built, if a build has failed.
    pub failure: Option<BuildFailure>,
}

/// Relation of the `WHERE` of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRelation {
    /// Column of the base table.
    pub column: ColumnId,
    /// Test of the column's value.
    pub test: ViewTest,
}

/// Test of a value by the `WHERE` of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewTest {
    /// `IS NOT NULL`.
    NotNull,
    /// Comparison with constants.
    Compare {
        /// Operator of the comparison.
        operator: ViewOperator,
        /// Serialized constants: several for `IN`, otherwise one.
        values: Vec<Bytes>,
        /// Text of the constants in CQL.
        text: String,
    },
}

/// Operator of a relation with constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewOperator {
    /// The operator `=`.
    Equal,
    /// The operator `<`.
    Less,
    /// The operator `<=`.
    LessOrEqual,
    /// The operator `>`.
    Greater,
    /// The operator `>=`.
    GreaterOrEqual,
    /// The operator `IN`.
    In,
}

impl ViewOperator {
    /// Returns the operator in CQL.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "IN",
        }
    }
}

/// Base table of a view, as a part of the schema of the view's own table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewBase {
    /// Name of the base table.
    pub table: String,
    /// Whether the rows that existed before the view are in it.
    pub is_built: bool,
    /// Why it cannot be built, if a build has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<BuildFailure>,
}

impl ViewSchema {
    /// Returns `true` if a builder has to go on: it is neither built, nor has failed.
    #[must_use]
    pub const fn is_building(&self) -> bool {
        !self.is_built && self.failure.is_none()
    }

    /// Returns `true` if a column is part of the view's key.
    #[must_use]
    pub fn is_key(&self, column: ColumnId) -> bool {
        self.partition.contains(&column) || self.clustering.iter().any(|(id, _)| *id == column)
    }
}

/// Stored form of a [`ViewSchema`].
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredView {
    name: String,
    id: u32,
    uuid: String,
    partition: Vec<u16>,
    clustering: Vec<(u16, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<u16>>,
    filter: Vec<StoredRelation>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, String>,
    is_built: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<BuildFailure>,
}

/// Stored form of a [`ViewRelation`]; without an operator it is `IS NOT NULL`.
#[derive(Serialize, Deserialize)]
struct StoredRelation {
    column: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<ViewOperator>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<Vec<u8>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

impl From<&ViewRelation> for StoredRelation {
    fn from(relation: &ViewRelation) -> Self {
        let column = relation.column.0;
        match &relation.test {
            ViewTest::NotNull => {
                Self { column, operator: None, values: Vec::new(), text: String::new() }
            }
            ViewTest::Compare { operator, values, text } => Self {
                column,
                operator: Some(*operator),
                values: values.iter().map(|value| value.to_vec()).collect(),
                text: text.clone(),
            },
        }
    }
}

impl From<StoredRelation> for ViewRelation {
    fn from(stored: StoredRelation) -> Self {
        let test = match stored.operator {
            None => ViewTest::NotNull,
            Some(operator) => ViewTest::Compare {
                operator,
                values: stored.values.into_iter().map(Bytes::from).collect(),
                text: stored.text,
            },
        };
        Self { column: ColumnId(stored.column), test }
    }
}

impl From<&ViewSchema> for StoredView {
    fn from(view: &ViewSchema) -> Self {
        let numbers = |ids: &[ColumnId]| ids.iter().map(|id| id.0).collect();
        let clustering = view.clustering.iter().map(|(id, order)| (id.0, *order == Order::Desc));
        Self {
            name: view.name.clone(),
            id: view.id.0,
            uuid: view.uuid.to_string(),
            partition: numbers(&view.partition),
            clustering: clustering.collect(),
            columns: view.columns.as_deref().map(numbers),
            filter: view.filter.iter().map(StoredRelation::from).collect(),
            options: view.options.clone(),
            is_built: view.is_built,
            failure: view.failure.clone(),
        }
    }
}

impl StoredView {
    pub(crate) fn parse(self) -> Option<ViewSchema> {
        let ids = |numbers: Vec<u16>| numbers.into_iter().map(ColumnId).collect();
        let clustering = self.clustering.into_iter().map(|(id, is_descending)| {
            (ColumnId(id), if is_descending { Order::Desc } else { Order::Asc })
        });
        Some(ViewSchema {
            name: self.name,
            id: TableId(self.id),
            uuid: self.uuid.parse().ok()?,
            partition: ids(self.partition),
            clustering: clustering.collect(),
            columns: self.columns.map(ids),
            filter: self.filter.into_iter().map(ViewRelation::from).collect(),
            options: self.options,
            is_built: self.is_built,
            failure: self.failure,
        })
    }
}
