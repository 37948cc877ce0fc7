//! `ORDER BY column ANN OF vector`: the rows whose vectors are the most similar ones.
//!
//! The answer is exact: every row that the statement permits is compared. Cassandra's is an
//! approximation by an index, hence the name ("approximate nearest neighbour").

use carnet::catalog::{ColumnSchema, IndexedPart, TableSchema};
use carnet_data::vector::floats;

use super::compiler::Compiler;
use super::environment::Environment;
use super::function::{Similarity, is_float_vector, is_zero};
use super::operand::Operand;
use super::relation::find;
use crate::ast::Select;
use crate::cql_error::CqlError;

/// Maximum number of rows, which is Cassandra's. They are kept in memory while the others are read.
const ROWS_MAX: u32 = 1_000;

/// Option of an index on vectors with its similarity.
pub(crate) const SIMILARITY: &str = "similarity_function";

/// A compiled `ANN OF`.
#[derive(Clone, Debug)]
pub(crate) struct NearPlan {
    /// Position of the column among the table's columns.
    pub(crate) position: usize,
    pub(crate) similarity: Similarity,
    vector: Operand,
}

impl NearPlan {
    /// Evaluates the vector.
    pub(crate) fn vector(&self, environment: &Environment<'_>) -> Result<Vec<f32>, CqlError> {
        let vector = floats(&self.vector.required(environment)?.serialize());
        if self.similarity == Similarity::Cosine && is_zero(&vector) {
            return Err(CqlError::invalid(
                "Zero and near-zero vectors cannot be indexed or queried with cosine similarity",
            ));
        }
        Ok(vector)
    }

    /// Checks the number of rows that a statement asks for.
    pub(crate) fn check_limit(limit: Option<u32>) -> Result<usize, CqlError> {
        let shown = match limit {
            Some(limit) if limit <= ROWS_MAX => return Ok(limit as usize),
            Some(limit) => limit.to_string(),
            None => "NO LIMIT".to_owned(),
        };
        Err(CqlError::invalid(format!(
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than \
             {ROWS_MAX}. LIMIT was {shown}"
        )))
    }
}

impl Compiler<'_> {
    /// Compiles the `ANN OF` of a `SELECT`.
    pub(super) fn near(
        &mut self,
        select: &Select,
        table: &TableSchema,
    ) -> Result<Option<NearPlan>, CqlError> {
        let Some(near) = &select.near else { return Ok(None) };
        let (position, column) = find(table, &near.column)?;
        if !is_float_vector(&column.data_type) {
            return Err(CqlError::invalid(
                "ANN ordering is only supported on float vector indexes",
            ));
        }
        if select.distinct || !select.group_by.is_empty() || select.per_partition_limit.is_some() {
            return Err(CqlError::unsupported(
                "ANN OF with DISTINCT, GROUP BY or PER PARTITION LIMIT",
            ));
        }
        let vector = self.operand(&near.vector, &column.data_type, &column.name)?;
        let similarity = similarity(select, table, column)?;
        Ok(Some(NearPlan { position, similarity, vector }))
    }
}

/// Returns the similarity by which a statement orders rows. In Cassandra it is an option of the
/// column's index, `cosine` by default.
fn similarity(
    select: &Select,
    table: &TableSchema,
    column: &ColumnSchema,
) -> Result<Similarity, CqlError> {
    if let Some(index) = table.index_of(column.id, IndexedPart::Value) {
        let named = index.options.get(SIMILARITY).and_then(|name| Similarity::from_option(name));
        return Ok(named.unwrap_or(Similarity::Cosine));
    }
    if select.allow_filtering {
        return Ok(Similarity::Cosine);
    }
    Err(CqlError::invalid(
        "ANN ordering by vector requires the column to be indexed, or ALLOW FILTERING, which \
         compares every row",
    ))
}
