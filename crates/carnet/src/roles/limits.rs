//! Limits of roles, which every process keeps in memory.

use carnet_base::{Error, Result};

/// Maximum number of roles.
pub const ROLES_MAX: usize = 10_000;
/// Maximum number of roles that are granted to roles.
pub const MEMBERSHIPS_MAX: usize = 20_000;
/// Maximum number of pairs of a role and a resource on which it has permissions.
pub const GRANTS_MAX: usize = 50_000;
/// Maximum number of identities.
pub const IDENTITIES_MAX: usize = 10_000;
/// Maximum length of a role's name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum length of an identity in bytes.
pub const IDENTITY_BYTES_MAX: usize = 1_024;
/// Maximum number of entries of a role's `OPTIONS`.
pub const OPTIONS_MAX: usize = 64;
/// Maximum length of all keys and values of a role's `OPTIONS` in bytes.
pub const OPTIONS_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a password's hash in bytes.
pub const HASH_BYTES_MAX: usize = 512;

/// Checks the name of a role or an identity. A NUL separates names in stored keys.
pub(super) fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("{what} cannot be empty")));
    }
    if name.len() > bytes_max {
        return Err(Error::invalid(format!(
            "{what} has {} bytes, at most {bytes_max} are allowed",
            name.len()
        )));
    }
    if name.contains('\0') {
        return Err(Error::invalid(format!("{what} cannot have a NUL character")));
    }
    Ok(())
}

/// Refuses one more of something that there are `count` of.
pub(super) fn check_count(what: &str, count: usize, max: usize) -> Result<()> {
    if count < max {
        return Ok(());
    }
    Err(Error::invalid(format!("there are {count} {what}, and no more than {max} can exist")))
}
