//! Materialized views: the rows of a table under another key, in a table of their own.
//!
//! ```text
//!   table accounts (id PRIMARY KEY, city, name)      view with PRIMARY KEY (city, id)
//!     7 → Paris, Ada                                   Paris | 7 → Ada
//!     8 → Lyon,  Bob                                   Lyon  | 8 → Bob
//! ```
//!
//! The transaction that changes a base row changes its view row, so that no snapshot sees one
//! without the other. To readers a view is a table: its rows are stored as those of tables are, and
//! its columns have the ids that they have in the base table.
//!
//! Invariants, at every snapshot and for every view that is built:
//!
//! 1. A base row has exactly one view row if it is live, satisfies the `WHERE` of the view, has a
//!    value for every column that this clause or the view's key requires, and its values can be the
//!    key of a row; otherwise none. No other view rows exist.
//! 2. A view row expires when its base row does, or before when a required column does.
//! 3. Only writers of base rows and the builder write view rows.
//!
//! The key of a view has all columns of the base table's key, so that no two base rows have one view
//! row, and at most one other column, so that the expiry of one value decides about the row.

mod cells;
mod definition;
mod layout;

pub(crate) use cells::{Cells, Change, changes, is_same};
pub use definition::{add_view, drop_view, replace_view, view_built};
pub use layout::ViewLayout;
