//! Names of the directories of backups.

use carnet_base::Timestamp;

/// Returns the directory name of a backup.
#[must_use]
pub fn name_of(commit: Timestamp) -> String {
    format!("{:020}", commit.get())
}

/// Returns the last commit of the backup in a directory of this name.
#[must_use]
pub fn commit_in(name: &str) -> Option<Timestamp> {
    let is_name = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    Timestamp::new(name.parse().ok().filter(|_| is_name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_directory_is_named_by_commit() {
        let commit = Timestamp::new(12_345).unwrap();
        assert_eq!(name_of(commit), "00000000000000012345");
        assert_eq!(commit_in("00000000000000012345"), Some(commit));
        for other in ["12345", "0000000000000001234x", "99999999999999999999", "lost+found", ""] {
            assert_eq!(commit_in(other), None, "{other}");
        }
    }
}
