//! P: how far every commit is resolved.
//!
//! Commits are decided in the order of C and resolved in any order. P follows the contiguous
//! prefix: a commit is visible, and may be acknowledged, when all before it are resolved too.
//!
//! ```text
//!   decided   4   7   9  12  15
//!   resolved  ✓   ✓   –   ✓   –      P = 7; when 9 is resolved, P = 12
//! ```

use std::collections::VecDeque;

use carnet_base::Timestamp;

/// Commits from the first that is not resolved on.
#[derive(Debug)]
pub(crate) struct Prefix<T> {
    /// In the order of C.
    commits: VecDeque<Commit<T>>,
}

#[derive(Debug)]
struct Commit<T> {
    start: Timestamp,
    commit: Timestamp,
    /// What it was resolved as.
    resolved: Option<T>,
}

impl<T> Default for Prefix<T> {
    fn default() -> Self {
        Self { commits: VecDeque::new() }
    }
}

impl<T> Prefix<T> {
    /// Adds a commit that was decided: above all before it.
    pub(crate) fn decided(&mut self, start: Timestamp, commit: Timestamp) {
        debug_assert!(self.commits.back().is_none_or(|last| last.commit < commit));
        self.commits.push_back(Commit { start, commit, resolved: None });
    }

    /// Resolves a commit. One that is not there was resolved before.
    pub(crate) fn resolved(&mut self, commit: Timestamp, how: T) {
        if let Ok(at) = self.commits.binary_search_by_key(&commit, |entry| entry.commit) {
            self.commits[at].resolved = Some(how);
        }
    }

    /// Takes the next commit of the prefix, if it is resolved: P reaches it.
    pub(crate) fn pop(&mut self) -> Option<(Timestamp, T)> {
        let first = self.commits.front_mut()?;
        let popped = (first.commit, first.resolved.take()?);
        self.commits.pop_front();
        Some(popped)
    }

    /// Returns the starts of the commits that P has not passed.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Timestamp> {
        self.commits.iter().map(|entry| entry.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_stops_before_the_first_commit_that_is_not_resolved() {
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
