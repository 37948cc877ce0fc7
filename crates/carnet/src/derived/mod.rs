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
//! * A new derived table is built while transactions run (file `build`). From its creation on,
//!   every writer maintains it; the steps of a build add the cells of older rows. The database has a
//!   background worker for them.
//! * `check` compares a derived table with its base.

mod build;
mod check;
mod row_name;
mod table;
mod write;

pub use build::{BuildProgress, build_step};
pub(crate) use build::{Built, build_rows};
pub use check::{Differences, check_index, check_view};
pub use row_name::row_name;
pub use table::Derived;
pub use write::RowStore;
