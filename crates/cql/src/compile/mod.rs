//! Compiles a syntax tree and the tables' schemas into a plan that only needs values.
//!
//! Compiling resolves names, determines the type of every term and bind marker, and decides how the
//! rows of a statement are found. It reads no data and changes none, so a prepared statement's plan
//! is made once and used until one of its tables changes.

mod arithmetic;
mod assignable;
mod cast;
mod cell_time;
mod chunked_list;
mod compiler;
mod composite;
mod constant;
mod counter;
mod decimal;
mod element_edit;
mod elements;
mod environment;
mod evaluated;
mod function;
mod index_choice;
mod items;
mod json_row;
mod keys;
mod like;
mod list;
mod literal;
mod names;
mod near;
mod number;
mod open;
mod operand;
mod order;
mod output;
mod plain_columns;
mod plan;
mod relation;
mod row_filter;
mod select;
mod similar_vectors;
mod slice;
mod spans;
mod temporal;
mod time_to_live;
mod times;
mod timestamp;
mod transaction;
mod where_clause;
mod write;

pub(crate) use cell_time::{CellTime, Part, TimeOf};
pub(crate) use compiler::Compiler;
pub(crate) use constant::constant;
pub(crate) use decimal::{Decimal, NUMBER_BITS_MAX};
pub(crate) use element_edit::ElementEdit;
pub(crate) use elements::{Assigned, value_change};
pub(crate) use environment::Environment;
pub(crate) use evaluated::Evaluated;
pub(crate) use function::Similarity;
pub(crate) use keys::written_key;
pub(crate) use near::{NearPlan, SIMILARITY};
pub(crate) use number::{calculate, steps as number_steps};
pub(crate) use open::NamedTransaction;
pub(crate) use operand::{Operand, required};
pub(crate) use order::RowOrder;
pub(crate) use output::{Aggregate, Kind as AggregateKind, Output, is_aggregate};
pub(crate) use plain_columns::{PlainColumn, PlainColumns};
pub(crate) use plan::Plan;
pub(crate) use relation::Filter;
pub(crate) use row_filter::RowFilter;
pub(crate) use select::{SelectPlan, limit_value, star_order};
pub(crate) use transaction::{ResultPlan, Tables, TransactionPlan, table_key};
pub(crate) use where_clause::Where;
pub(crate) use write::{Change, GuardPlan, WritePlan, WriteTarget, check_batch, set_batch_time};
