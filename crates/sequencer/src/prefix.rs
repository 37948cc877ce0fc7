//! P: the timestamp up to which every commit is resolved.
//!
//! Commits are decided in the order of C and resolved in any order. P follows the contiguous
//! prefix: a commit is visible, and may be acknowledged, once all commits before it are resolved
//! too.
//!
//! ```text
//!   decided   4   7   9  12  15
//!   resolved  ✓   ✓   –   ✓   –      P = 7; when 9 is resolved, P = 12
//! ```

use std::collections::VecDeque;

use carnet_base::Timestamp;

/// Commits, starting at the first unresolved one.
#[derive(Debug)]
pub(crate) struct Prefix<T> {
    /// In the order of C.
    commits: VecDeque<Commit<T>>,
}

#[derive(Debug)]
struct Commit<T> {
    start: Timestamp,
    commit: Timestamp,
    /// The resolution of the commit, once it is known.
    resolved: Option<T>,
}

impl<T> Default for Prefix<T> {
    fn default() -> Self {
        Self { commits: VecDeque::new() }
    }
}

impl<T> Prefix<T> {
    /// Adds a commit that was decided. It must be above all earlier ones.
    pub(crate) fn decided(&mut self, start: Timestamp, commit: Timestamp) {
        debug_assert!(self.commits.back().is_none_or(|last| last.commit < commit));
        self.commits.push_back(Commit { start, commit, resolved: None });
    }

    /// Resolves a commit. A commit that is not found was resolved before.
    pub(crate) fn resolved(&mut self, commit: Timestamp, how: T) {
        if let Ok(at) = self.commits.binary_search_by_key(&commit, |entry| entry.commit) {
            self.commits[at].resolved = Some(how);
        }
    }

    /// Removes and returns the first commit if it is resolved: P advances to it.
    pub(crate) fn pop(&mut self) -> Option<(Timestamp, T)> {
        let first = self.commits.front_mut()?;
        let popped = (first.commit, first.resolved.take()?);
        self.commits.pop_front();
        Some(popped)
    }

    /// Returns the starts of the commits beyond P.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Timestamp> {
        self.commits.iter().map(|entry| entry.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_stops_before_the_first_unresolved_commit() {
        let at = |number| Timestamp::new(number).unwrap();
        let mut prefix = Prefix::default();
        for commit in [4, 7, 9, 12, 15] {
            prefix.decided(at(commit - 1), at(commit));
        }
        for commit in [12, 4, 7] {
            prefix.resolved(at(commit), 'x');
        }
        assert_eq!((prefix.pop(), prefix.pop()), (Some((at(4), 'x')), Some((at(7), 'x'))));
        assert_eq!(prefix.pop(), None);
        assert_eq!(prefix.starts().min(), Some(at(8)));
        prefix.resolved(at(9), 'y');
        assert_eq!((prefix.pop(), prefix.pop()), (Some((at(9), 'y')), Some((at(12), 'x'))));
        assert_eq!(prefix.pop(), None);
    }
}
