//! Resource limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to its maximum.
///
/// Each open table is a file, and a compaction opens its input tables once more: a database of 64
/// GiB exceeds the soft limit of 1,024 that most systems set for the sake of `select`.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // After a refusal, the operation that runs out of files reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_raised_to_the_maximum() {
        let before = getrlimit(Resource::Nofile);
        let low = before.maximum.map_or(256, |maximum| maximum.min(256));
        setrlimit(Resource::Nofile, Rlimit { current: Some(low), ..before }).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
