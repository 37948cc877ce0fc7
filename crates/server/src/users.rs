//! Users of a password file, and the hashes of their passwords.
//!
//! The file has a line `name:hash` for each user. The hash is a PHC string as
//! [`hash_password`](crate::hash_password) returns it (`$argon2id$v=19$m=…,t=…,p=…$salt$hash`), or one
//! of bcrypt. Empty lines and lines that begin with `#` are skipped.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use carnet::passwords::check_hash;
use carnet_base::{Error, Result};

type Hashes = HashMap<String, Arc<str>>;

/// Users who log in by the passwords of a file. They can be replaced while the server runs.
#[derive(Default)]
pub struct Users(ArcSwap<Hashes>);

/// Without the hashes.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("count", &self.0.load().len()).finish_non_exhaustive()
    }
}

impl Users {
    /// Parses the text of a password file.
    ///
    /// # Errors
    ///
    /// Invalid, naming the line, if it is not a user and hash, repeats a user, or has a hash that
    /// takes too much time or memory; or if the file has no user.
    pub fn parse(text: &str) -> Result<Self> {
        let mut users = Hashes::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong =
                |why: String| Error::invalid(format!("passwords, line {}: {why}", number + 1));
            let (user, hash) =
                line.split_once(':').ok_or_else(|| wrong("expected name:hash".into()))?;
            check_hash(hash).map_err(wrong)?;
            if users.insert(user.to_owned(), Arc::from(hash)).is_some() {
                return Err(wrong(format!("user {user:?} is listed twice")));
            }
        }
        if users.is_empty() {
            return Err(Error::invalid(
                "the password file names no user: add a line name:hash, or listen on loopback \
                 without one",
            ));
        }
        Ok(Self(ArcSwap::from_pointee(users)))
    }

    /// Replaces the users by others. Later log-ins use the new passwords.
    pub fn replace(&self, with: &Self) {
        self.0.store(with.0.load_full());
    }

    /// Returns the names of the users.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.load().keys().cloned().collect()
    }

    /// Returns the hash of a user's password.
    pub(crate) fn hash(&self, user: &str) -> Option<Arc<str>> {
        self.0.load().get(user).cloned()
    }

    /// Returns the hashes of all users.
    pub(crate) fn hashes(&self) -> Vec<Arc<str>> {
        self.0.load().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_hash_is_accepted_by_the_parser() {
        let line = format!("ann:{}", carnet::passwords::hash("one").unwrap());
        assert!(Users::parse(&line).is_ok());
    }

    fn memory_of(hash: &str) -> String {
        let options = hash.split('$').find(|part| part.starts_with("m=")).unwrap();
        options.split(',').next().unwrap().to_owned()
    }

    #[test]
    fn errors_of_password_files_name_the_line() {
        let error = |text: &str| Users::parse(text).unwrap_err().to_string();
        assert!(error("# nobody\n").contains("names no user"));
        assert!(error("\nann").contains("line 2: expected name:hash"));
        assert!(error("ann:secret").contains("line 1: the hash cannot be read"));
        let one = carnet::passwords::hash("one").unwrap();
        assert!(error(&format!("ann:{one}\nann:{one}")).contains("twice"));
        let greedy = one.replace(&memory_of(&one), "m=1048576");
        assert!(error(&format!("ann:{greedy}")).contains("1048576 KiB"), "{greedy}");
    }
}
