//! Finds two transactions that wrote the same object without seeing each other (Adya's G-SIa).
//!
//! Under snapshot isolation, one of two writers of an object has the other in its snapshot. If no
//! read shows both writes, it is not known which one:
//!
//! ```text
//! T1: append(x, 1), append(z, 1), r(y) = []       T2: append(x, 2), append(y, 2), r(z) = []
//!
//!       T1 ─rw▶ T2: T1 did not see y = [2]         whichever append to x came first closes a
//!       T2 ─rw▶ T1: T2 did not see z = [1]         cycle with one anti-dependency
//! ```
//!
//! Two writers of one object interfere if each is reachable from the other on a walk without
//! adjacent anti-dependencies that begins after a write. Where the two walks meet there may be
//! adjacent anti-dependencies, so the search for cycles misses such pairs.

use std::collections::{HashSet, VecDeque};

use super::search::{ALONE, Search, States, Step, View, Walker};
use crate::graph::id;

/// Maximum number of edges visited in the search from one transaction. Rivals are usually close:
/// each has read the other's writes.
const NEAR_EDGES_MAX: usize = 10_000;

/// Two transactions that wrote an object without seeing each other.
#[derive(Clone, Debug)]
pub(crate) struct Interference {
    pub(crate) key: u32,
    pub(crate) rivals: (u32, u32),
    /// Steps from the first to the second, and back.
    pub(crate) steps: Vec<Step>,
}

impl Search<'_> {
    /// Returns two transactions of a group of rivals that interfere. Groups are writers of one
    /// object; the view is that of a snapshot isolation.
    pub(crate) fn interference(
        &self,
        view: View,
        groups: &[(u32, Vec<u32>)],
    ) -> Option<Interference> {
        let states = States { graph: self.graph, view, within: Some(&self.component) };
        let mut walker = Walker::new(&states, None);
        let is_entangled = |number: &u32| self.component[*number as usize] != ALONE;
        for (key, group) in groups {
            let group: HashSet<u32> = group.iter().copied().filter(is_entangled).collect();
            if group.len() < 2 {
                continue;
            }
            if let Some((rivals, steps)) = walker.rivals(&group) {
                return Some(Interference { key: *key, rivals, steps });
            }
            if walker.edges_left == 0 {
                break;
            }
        }
        None
    }
}

impl Walker<'_> {
    /// Returns two transactions of a group that reach each other, with the steps there and back.
    fn rivals(&mut self, group: &HashSet<u32>) -> Option<((u32, u32), Vec<Step>)> {
        let mut members: Vec<u32> = group.iter().copied().collect();
        members.sort_unstable();
        let mut reached: HashSet<(u32, u32)> = HashSet::new();
        for &from in &members {
            for end in self.reach(from, group) {
                let to = self.states.node(end);
                reached.insert((from, to));
                if reached.contains(&(to, from)) {
                    let there = self.walk_back(start_of(from), end);
                    let ends = self.reach(to, group);
                    let end = ends.into_iter().find(|end| self.states.node(*end) == from)?;
                    let mut steps = self.walk_back(start_of(to), end);
                    steps.extend(there);
                    return Some(((to, from), steps));
                }
            }
        }
        None
    }

    /// Searches breadth first from a transaction, and returns the states of other members of its
    /// group.
    fn reach(&mut self, from: u32, group: &HashSet<u32>) -> Vec<u32> {
        self.search += 1;
        let mut ends = Vec::new();
        let mut queue = VecDeque::from([start_of(from)]);
        let limit = NEAR_EDGES_MAX.min(self.edges_left);
        let mut looked_at = 0;
        while let Some(state) = queue.pop_front() {
            let edges = self.states.graph.edges_of(self.states.node(state)).len();
            for edge in 0..edges.min(limit - looked_at) {
                let Some(to) = self.states.follow(state, edge) else { continue };
                if self.is_seen(to) {
                    continue;
                }
                self.seen[to as usize] = self.search;
                self.parent[to as usize] = (state, id(edge));
                let node = self.states.node(to);
                if node != from && group.contains(&node) {
                    ends.push(to);
                }
                queue.push_back(to);
            }
            looked_at = (looked_at + edges).min(limit);
        }
        self.edges_left -= looked_at;
        ends
    }
}

/// Returns the state of a transaction after a write: any dependency may follow.
const fn start_of(transaction: u32) -> u32 {
    transaction * 2
}
