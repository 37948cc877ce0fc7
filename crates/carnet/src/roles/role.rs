//! A role and its options.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use carnet_base::{Error, Result};

use super::limits::{HASH_BYTES_MAX, OPTIONS_BYTES_MAX, OPTIONS_MAX};

/// Hash of a password. Its debug output does not have it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword(Arc<str>);

impl StoredPassword {
    /// Takes a hash that [`crate::passwords::check_hash`] accepts.
    #[must_use]
    pub fn new(hash: impl Into<Arc<str>>) -> Self {
        Self(hash.into())
    }

    /// Returns the hash.
    #[must_use]
    pub const fn hash(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Debug for StoredPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredPassword(…)")
    }
}

/// A role without its permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Whether the role may do everything, with `SUPERUSER`.
    pub is_superuser: bool,
    /// Whether clients can log in as the role, with `LOGIN`.
    pub can_login: bool,
    /// Hash of the password; `None` for a role that has none.
    pub password: Option<StoredPassword>,
    /// Entries of `OPTIONS`, which applications interpret.
    pub options: BTreeMap<String, String>,
    /// Roles that are granted to this one.
    pub member_of: BTreeSet<Arc<str>>,
}

/// Options of `CREATE ROLE` and `ALTER ROLE`; the others keep their values.
#[derive(Clone, Debug, Default)]
pub struct RoleChanges {
    /// Value of `SUPERUSER`, if given.
    pub is_superuser: Option<bool>,
    /// Value of `LOGIN`, if given.
    pub can_login: Option<bool>,
    /// Hash of `PASSWORD`, or `HASHED PASSWORD`.
    pub password: Option<StoredPassword>,
    /// Entries of `OPTIONS`, if given.
    pub options: Option<BTreeMap<String, String>>,
}

impl Role {
    /// Returns the role with changed options.
    ///
    /// # Errors
    ///
    /// `Invalid` beyond a limit.
    pub(super) fn changed(mut self, changes: &RoleChanges) -> Result<Self> {
        self.is_superuser = changes.is_superuser.unwrap_or(self.is_superuser);
        self.can_login = changes.can_login.unwrap_or(self.can_login);
        if let Some(password) = &changes.password {
            self.password = Some(password.clone());
        }
        if let Some(options) = &changes.options {
            self.options.clone_from(options);
        }
        self.check()?;
        Ok(self)
    }

    pub(super) fn check(&self) -> Result<()> {
        let hash = self.password.as_ref().map_or(0, |password| password.hash().len());
        if hash > HASH_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the hash of the password has {hash} bytes, at most {HASH_BYTES_MAX} are allowed"
            )));
        }
        if self.options.len() > OPTIONS_MAX {
            return Err(Error::invalid(format!(
                "OPTIONS has {} entries, at most {OPTIONS_MAX} are allowed",
                self.options.len()
            )));
        }
        let bytes: usize = self.options.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > OPTIONS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "OPTIONS has {bytes} bytes, at most {OPTIONS_BYTES_MAX} are allowed"
            )));
        }
        Ok(())
    }
}
