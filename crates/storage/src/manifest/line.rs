//! Line of a database: which process wrote which commits.
//!
//! A directory can be put back to an earlier state, by a copy or a snapshot of a volume. Then
//! timestamps are assigned again, and a commit timestamp alone does not identify a state. So each
//! opening has a random *incarnation*. A label of a backup names the incarnation in which it was
//! taken, and belongs to this line if the line has that incarnation up to the label's commit.
//!
//! Only incarnations with a backup are kept, and the current one.

use carnet_base::Timestamp;

use super::identity::Identity;

/// Maximum number of earlier incarnations that are kept.
pub(super) const PAST_MAX: usize = 256;

/// An earlier incarnation in which a backup was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its random id.
    pub id: Identity,
    /// Last commit that the following opening found.
    pub last: Timestamp,
}

/// The incarnations of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Incarnation of the last opening.
    pub current: Identity,
    /// Whether a backup was begun in it.
    pub is_backed_up: bool,
    /// Earlier incarnations, oldest first.
    pub past: Vec<Past>,
}

impl Line {
    /// Begins a new incarnation, after `last`. Returns `true` if the line must be stored before any
    /// commit: otherwise a later opening would attribute commits to the earlier incarnation.
    pub fn open(&mut self, last: Timestamp) -> bool {
        let was_backed_up = std::mem::take(&mut self.is_backed_up);
        if was_backed_up {
            self.past.push(Past { id: self.current, last });
            let surplus = self.past.len().saturating_sub(PAST_MAX);
            self.past.drain(..surplus);
        }
        self.current = Identity::random();
        was_backed_up
    }

    /// Returns `true` if a commit of an incarnation is a part of this line.
    #[must_use]
    pub fn holds(&self, incarnation: Identity, commit: Timestamp) -> bool {
        if incarnation == self.current {
            return true;
        }
        let known = self.past.iter().find(|past| past.id == incarnation);
        let forgotten = || {
            let oldest = self.past.first().filter(|_| self.past.len() == PAST_MAX);
            oldest.is_some_and(|oldest| commit <= oldest.last)
        };
        known.map_or_else(forgotten, |past| commit <= past.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    #[test]
    fn line_holds_its_own_commits_only() {
        let mut line = Line::default();
        assert!(!line.open(at(0)), "nothing refers to the incarnation before");
        let first = line.current;
        line.is_backed_up = true;
        assert!(line.holds(first, at(100)));
        let mut other = line.clone();
        assert!(line.open(at(120)) && other.open(at(90)));
        assert!(line.holds(first, at(120)) && !line.holds(first, at(121)));
        assert!(other.holds(first, at(90)) && !other.holds(first, at(100)));
        assert!(!line.holds(other.current, at(95)));
        // An incarnation without a backup is forgotten.
        let second = line.current;
        assert!(!line.open(at(130)));
        assert!(!line.holds(second, at(125)) && line.past.len() == 1);
    }

    #[test]
    fn oldest_incarnations_are_forgotten() {
        let mut line = Line::default();
        let mut ids = Vec::new();
        for number in 0..=PAST_MAX as u64 + 1 {
            line.open(at(10 * number));
            line.is_backed_up = true;
            ids.push(line.current);
        }
        assert_eq!(line.past.len(), PAST_MAX);
        assert!(line.holds(ids[0], at(10)), "commits before the oldest one are trusted");
        assert!(!line.holds(ids[0], at(21)));
    }
}
