//! What the system lets a process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have as many files open as it may allow itself.
///
/// An open table is a file, and a compaction opens those that it reads once more: a database of 64 GiB
/// comes by the 1,024 that most systems begin with, which are so few for the sake of `select` alone.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, what needs more says so when it comes to it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let before = getrlimit(Resource::Nofile);
        let low = before.maximum.map_or(256, |maximum| maximum.min(256));
        setrlimit(Resource::Nofile, Rlimit { current: Some(low), ..before }).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
