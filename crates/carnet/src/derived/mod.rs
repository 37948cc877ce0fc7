//! Derived tables: the entries of indexes and the rows of views, written with their base rows.
//!
//! ```text
//!   base row ──▶ Derived::rows ──▶ cells of one derived table
//!   before   ──▶      …        ──┐
//!                                ├─▶ changes: cells to delete, cells to write
//!   after    ──▶      …        ──┘
//! ```
//!
//! * What a base row has in a derived table depends on this row and on the schema only: [`Derived`]
//!   decides without reads. A writer reads the base row, decides for the earlier and the next image,
//!   and writes the difference (file `write`).
//! * A new derived table is built while transactions run (file `builder`). From its creation on,
//!   every writer maintains it; the builder adds the cells of older rows, in a background worker (file
//!   `worker`).
//! * `check` compares a derived table with its base.

pub(crate) mod builder;
mod cells;
mod check;
mod row_name;
mod table;
mod worker;
mod write;

pub use builder::{BuildProgress, build_step};
pub(crate) use cells::Cells;
pub use check::{Differences, check_index, check_view};
pub use row_name::row_name;
pub use table::Derived;
pub use write::RowStore;
