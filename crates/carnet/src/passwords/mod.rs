//! Hashes of passwords: Argon2id for new ones, and those of bcrypt that Cassandra's tools make.
//!
//! A hash costs tens of milliseconds and megabytes on purpose. Callers bound how many they compute at
//! a time, and compute none on a thread that serves connections. [`check_hash`] bounds the cost of
//! hashes that others made, before they are stored.

mod argon;

use std::str::FromStr;

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params};
use bcrypt::HashParts;
use carnet_base::{Error, Result};

pub use argon::{Memories, Memory};

/// Maximum memory of one hash, in KiB.
pub const MEMORY_KIB_MAX: u32 = 64 << 10;
/// Maximum number of passes over that memory.
pub const PASSES_MAX: u32 = 16;
/// Maximum cost of a hash of bcrypt, which takes a second or so.
pub const BCRYPT_COST_MAX: u32 = 14;
/// Maximum length of a password in bytes.
pub const PASSWORD_BYTES_MAX: usize = 4_096;

/// Begin of the hashes of bcrypt, in all of its variants.
const BCRYPT: &str = "$2";
/// Length of a hash of bcrypt: variant, cost, 22 digits of salt and 31 of output.
const BCRYPT_BYTES: usize = 60;

/// Returns a hash of a password, by Argon2id with a fresh salt, as a PHC string.
///
/// # Errors
///
/// `Invalid` for a password that is empty or too long; `Unavailable` if the system provides no random
/// numbers.
pub fn hash(password: &str) -> Result<String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the password has {} bytes: it should have 1 to {PASSWORD_BYTES_MAX}",
            password.len()
        )));
    }
    match Argon2::default().hash_password(password.as_bytes()) {
        Ok(hash) => Ok(hash.to_string()),
        Err(e) => Err(Error::unavailable(format!("cannot hash the password: {e}"))),
    }
}

/// Returns a new password of 128 bits.
///
/// # Errors
///
/// `Unavailable` if the system provides no random numbers.
pub fn random() -> Result<String> {
    // The salt of a hash comes from the system's random numbers.
    let hash = hash("-")?;
    let salt = PasswordHash::new(&hash).ok().and_then(|hash| hash.salt);
    let salt = salt.ok_or_else(|| Error::unavailable("cannot make a password"))?;
    Ok(salt.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns `true` if a password matches a hash. The comparison takes the same time wherever the two
/// differ.
#[must_use]
pub fn matches(hash: &str, password: &[u8], memory: &mut Memory) -> bool {
    if hash.starts_with(BCRYPT) {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    argon::matches(hash, password, memory)
}

/// Checks that a hash can be verified, at a bounded cost.
///
/// # Errors
///
/// Why it cannot; the message does not have the hash.
pub fn check_hash(hash: &str) -> std::result::Result<(), String> {
    if hash.starts_with(BCRYPT) { check_bcrypt(hash) } else { check_argon(hash) }
}

fn check_bcrypt(hash: &str) -> std::result::Result<(), String> {
    let parts = HashParts::from_str(hash).map_err(|_| "the hash of bcrypt cannot be read")?;
    if parts.get_cost() > BCRYPT_COST_MAX {
        return Err(format!(
            "the hash of bcrypt has a cost of {}; {BCRYPT_COST_MAX} is allowed",
            parts.get_cost()
        ));
    }
    let digits = hash.as_bytes().get(7..).unwrap_or_default();
    let is_digit =
        |byte: &u8| matches!(byte, b'.' | b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z');
    if hash.len() != BCRYPT_BYTES || !digits.iter().all(is_digit) {
        return Err("the hash of bcrypt cannot be read".into());
    }
    Ok(())
}

fn check_argon(hash: &str) -> std::result::Result<(), String> {
    let parsed = PasswordHash::new(hash).map_err(|e| format!("the hash cannot be read: {e}"))?;
    if !parsed.algorithm.as_str().starts_with("argon2") {
        return Err(format!("{} is not supported: use argon2id or bcrypt", parsed.algorithm));
    }
    if parsed.hash.is_none() || parsed.salt.is_none() {
        return Err("the hash has no salt or no output".into());
    }
    let params = Params::try_from(&parsed).map_err(|e| format!("the hash cannot be read: {e}"))?;
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
        return Err(format!(
            "the hash takes {} KiB and {} passes; {MEMORY_KIB_MAX} and {PASSES_MAX} are allowed",
            params.m_cost(),
            params.t_cost()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_hash_is_accepted_and_matches() {
        let hash = hash("one").unwrap();
        check_hash(&hash).unwrap();
        let memories = Memories::default();
        assert!(memories.lend(|memory| matches(&hash, b"one", memory)));
        assert!(!memories.lend(|memory| matches(&hash, b"two", memory)));
        assert!(super::hash("").is_err() && super::hash(&"x".repeat(4_097)).is_err());
    }

    #[test]
    fn random_passwords_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(one != other && one.len() == 32, "{one} {other}");
    }

    #[test]
    fn hashes_of_cassandra_match() {
        // By crypt(3). jBCrypt, which Cassandra uses, writes $2a$.
        let hash = "$2b$04$abcdefghijklmnopqrstuuuiMd1XkP3MYkehzxpPHB6m5Tr0FZSYG";
        for version in ["$2a$", "$2b$", "$2y$"] {
            let hash = format!("{version}{}", &hash[4..]);
            check_hash(&hash).unwrap();
            let memories = Memories::default();
            assert!(memories.lend(|memory| matches(&hash, b"one", memory)), "{hash}");
            assert!(!memories.lend(|memory| matches(&hash, b"two", memory)));
        }
    }

    #[test]
    fn costly_and_broken_hashes_are_refused() {
        let cheap = bcrypt::hash("one", 4).unwrap();
        let costly = cheap.replacen("$04$", "$31$", 1);
        assert!(check_hash(&costly).unwrap_err().contains("cost of 31"));
        // docs/roles.md has the number.
        check_hash(&cheap.replacen("$04$", "$14$", 1)).unwrap();
        assert!(check_hash(&cheap.replacen("$04$", "$15$", 1)).is_err());
        for broken in ["", "secret", "$2a$04$secret", "$2a$xx$secret", "$argon2id$secret"] {
            let error = check_hash(broken).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
