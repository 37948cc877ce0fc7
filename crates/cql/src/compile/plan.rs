//! The plan of a statement.

use super::select::SelectPlan;
use super::transaction::TransactionPlan;
use super::write::WritePlan;

/// A plan for the schemas that it was compiled with.
pub(crate) enum Plan {
    Select(SelectPlan),
    Writes(Vec<WritePlan>),
    Transaction(TransactionPlan),
}
