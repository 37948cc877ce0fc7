//! Schemas of keyspaces and tables, without transactions: their parts, their limits, their records, and the cache of
//! schemas that were read.
//!
//! ```text
//!   TableSchema ── limits ──▶ StoredTable ── JSON ──▶ a cell of the catalog
//!        ▲                                               │
//!        └── SchemaCache ◀── resolve (UserTypes) ◀───────┘
//! ```
//!
//! User-defined types are stored by reference and resolved when a table is read, so that a record has the size of its
//! own columns however deep its types are. The [catalog](crate::catalog) reads and writes these records in transactions.

mod build_failure;
mod cache;
mod cached;
mod dropped_column;
mod index_schema;
mod kept_columns;
pub(crate) mod limits;
mod record;
mod stored_type;
mod system_tables;
mod table;
mod type_size;
mod user_types;
mod view_schema;
mod view_table;

pub use build_failure::BuildFailure;
pub(crate) use cache::{Pin, SchemaAt, SchemaCache};
pub(crate) use cached::Cached;
pub use dropped_column::DroppedColumn;
pub use index_schema::{
    ASCII, CASE_SENSITIVE, INDEX_BITS_MAX, IndexSchema, IndexedPart, NORMALIZE,
};
pub use kept_columns::KeptColumns;
pub(crate) use record::StoredTable;
pub(crate) use system_tables::{KEYSPACES, LEVELS, ROLES, TABLES, TABLES_OF_THE_SYSTEM, VERSIONS};
pub use table::{ColumnKind, ColumnSchema, KeyspaceSchema, Order, TableKind, TableSchema};
pub(crate) use user_types::UserTypes;
pub use view_schema::{ViewBase, ViewOperator, ViewRelation, ViewSchema, ViewTest};
