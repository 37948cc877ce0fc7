//! Roles: who may log in, and what statements they may run.
//!
//! ```text
//!   CREATE ROLE, GRANT, DROP TABLE … ─▶ Db::change_roles ─ transaction ─▶ rows of the catalog
//!                                          │                                │ refresh by other processes
//!   statement ─ role ─▶ Db::roles ◀────────┴────────────────────────────────┘
//!                          └─▶ Rights: the permissions of a role and of all roles that it has
//! ```
//!
//! [`Roles`] decides and does no I/O; `rows` is the stored form. A
//! change is a transaction, like every change of the catalog. The process that made it applies it
//! to its next statement; the others apply it after their next
//! [refresh](crate::Db::refresh_roles), which servers make once a second.
//!
//! A role is a user, a group, or both: with `LOGIN` a client can log in as it, and any role can be
//! granted to others, which then have its permissions and its superuser status too. [`Resource`]s
//! form a tree, and a permission on one holds for all below it. [`Rights`] is the union over both,
//! made once for each version of the roles: a check is a few look-ups by name.
//!
//! Invariants, each with a test that fails without it:
//!
//! * Memberships have no cycle.
//! * A dropped role or resource leaves no permission behind, which a later one of that name would
//!   get.
//! * Every number is bounded, and no message or debug output has a hash.

mod limits;
mod permission;
mod resource;
mod rights;
mod role;
mod rows;
mod set;

pub use limits::{
    GRANTS_MAX, HASH_BYTES_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX, MEMBERSHIPS_MAX,
    NAME_BYTES_MAX, OPTIONS_BYTES_MAX, OPTIONS_MAX, ROLES_MAX,
};
pub use permission::{Permission, Permissions};
pub use resource::Resource;
pub use rights::Rights;
pub use role::{Role, RoleChanges, StoredPassword};
pub use rows::{Row, change};
pub use set::{Roles, no_role};

pub(crate) use rows::{change_roles, load, load_change};
