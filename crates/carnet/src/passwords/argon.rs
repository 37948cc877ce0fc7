//! Verification of passwords with Argon2, in memory that is reused.
//!
//! Each hash takes 19 MiB by default, and runs on any free thread of a pool. Without reuse the
//! allocator would retain freed memory of that size for each of these threads.

use std::fmt;
use std::sync::Mutex;

use carnet_base::lock;

use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};

/// Memory of one verification.
#[derive(Default)]
pub struct Memory(Vec<Block>);

/// Without the contents, which are derived from passwords.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

/// Buffers of earlier verifications, at most as many as ran concurrently.
#[derive(Default)]
pub struct Memories(Mutex<Vec<Memory>>);

impl Memories {
    /// Runs a verification in the buffer of an earlier one, if one is free.
    pub fn lend<T>(&self, verification: impl FnOnce(&mut Memory) -> T) -> T {
        let free = lock(&self.0).pop();
        let mut memory = free.unwrap_or_default();
        let result = verification(&mut memory);
        lock(&self.0).push(memory);
        result
    }
}

/// Without the contents, which are derived from passwords.
impl fmt::Debug for Memories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memories").finish_non_exhaustive()
    }
}

/// Returns `true` if a password matches a hash. The comparison takes the same time wherever the two
/// differ.
pub(super) fn matches(hash: &str, password: &[u8], memory: &mut Memory) -> bool {
    verify(hash, password, &mut memory.0).unwrap_or(false)
}

/// Returns `None` if the hash is invalid, which `check_hash` excludes.
fn verify(hash: &str, password: &[u8], memory: &mut Vec<Block>) -> Option<bool> {
    let hash = PasswordHash::new(hash).ok()?;
    let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
    let version = hash.version.map(Version::try_from).transpose().ok()?.unwrap_or_default();
    let params = Params::try_from(&hash).ok()?;
    let (salt, expected) = (hash.salt.as_ref()?, hash.hash.as_ref()?);
    let blocks = params.block_count();
    if memory.len() < blocks {
        memory.resize(blocks, Block::new());
    }
    let mut buffer = [0; Output::MAX_LENGTH];
    let out = buffer.get_mut(..expected.len())?;
    let argon2 = Argon2::new(algorithm, version, params);
    argon2.hash_password_into_with_memory(password, salt, out, &mut memory[..blocks]).ok()?;
    Some(Output::new(out).ok()? == *expected)
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::{PasswordHasher, PasswordVerifier};

    use super::*;

    fn hash(password: &str, kib: u32, output_len: Option<usize>) -> String {
        let params = Params::new(kib, 1, 1, output_len).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password(password.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn verdict_is_that_of_the_library() {
        let memories = Memories::default();
        // The old contents of the memory make no difference.
        for (kib, output_len) in [(8, None), (64, Some(16)), (16, Some(64)), (8, Some(32))] {
            let text = hash("one", kib, output_len);
            for password in ["one", "two", ""] {
                let parsed = PasswordHash::new(&text).unwrap();
                let expected =
                    Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
                let found = memories.lend(|memory| matches(&text, password.as_bytes(), memory));
                assert_eq!(found, expected, "{text} {password:?}");
                assert_eq!(found, password == "one");
            }
        }
        for broken in ["", "one", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ"] {
            assert!(!memories.lend(|memory| matches(broken, b"one", memory)));
        }
    }

    #[test]
    fn memory_is_used_again() {
        let memories = Memories::default();
        let text = hash("one", 64, None);
        for _ in 0..3 {
            assert!(memories.lend(|memory| matches(&text, b"one", memory)));
        }
        let kept: Vec<usize> = lock(&memories.0).iter().map(|memory| memory.0.len()).collect();
        assert_eq!(kept, [64]);
    }
}
