//! Components of a graph, and shortest cycles within them.

use std::collections::{HashMap, VecDeque};

use crate::graph::{EdgeKind, EdgeKinds, Graph, id};

/// Maximum number of edges that a search for short cycles visits within one view.
const SEARCH_EDGES_MAX: usize = 30_000_000;

/// Maximum number of cycles reported in one view, each from a different component.
const CYCLES_MAX: usize = 8;

/// The dependencies that a model forbids to form a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) kinds: EdgeKinds,
    /// Whether a cycle may have adjacent anti-dependencies.
    pub(crate) allows_adjacent: bool,
}

/// An edge of a cycle between two transactions, without the joints between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: EdgeKind,
    pub(crate) key: u32,
}

/// The part of a graph within a view, as states.
pub(super) struct States<'g> {
    pub(super) graph: &'g Graph,
    pub(super) view: View,
    /// If given, only edges within one of these components count: others are on no cycle.
    pub(super) within: Option<&'g [u32]>,
}

/// Component of nodes that are on no cycle.
pub(super) const ALONE: u32 = u32::MAX;

impl States<'_> {
    pub(super) fn count(&self) -> u32 {
        let nodes = self.graph.nodes();
        if self.view.allows_adjacent { nodes } else { nodes.checked_mul(2).expect("bounded") }
    }

    pub(super) const fn node(&self, state: u32) -> u32 {
        if self.view.allows_adjacent { state } else { state / 2 }
    }

    /// Returns the target of a state's edge, if the edge is in the view.
    pub(super) fn follow(&self, state: u32, edge: usize) -> Option<u32> {
        let node = self.node(state);
        let edge = self.graph.edges_of(node)[edge];
        if !self.view.kinds.contains(edge.kind) {
            return None;
        }
        if let Some(component) = self.within {
            let mine = component[node as usize];
            if mine == ALONE || mine != component[edge.to as usize] {
                return None;
            }
        }
        if self.view.allows_adjacent {
            return Some(edge.to);
        }
        let was_anti = state % 2;
        match edge.kind {
            EdgeKind::Via => Some(edge.to * 2 + was_anti),
            kind if kind.is_anti_dependency() => (was_anti == 0).then_some(edge.to * 2 + 1),
            _ => Some(edge.to * 2),
        }
    }
}

/// Returns each state's component, or [`ALONE`] if it is on no cycle, and the components' sizes.
///
/// Source: Tarjan, "Depth-First Search and Linear Graph Algorithms", 1972, without recursion.
fn components(states: &States<'_>) -> (Vec<u32>, Vec<u32>) {
    const UNSEEN: u32 = u32::MAX;
    let count = states.count() as usize;
    let mut index = vec![UNSEEN; count];
    let mut low = vec![0u32; count];
    let mut component = vec![ALONE; count];
    let mut is_open = vec![false; count];
    let mut open: Vec<u32> = Vec::new();
    let mut path: Vec<(u32, usize)> = Vec::new();
    let mut sizes = Vec::new();
    let mut next_index = 0;
    for root in 0..states.count() {
        if index[root as usize] != UNSEEN {
            continue;
        }
        path.push((root, 0));
        while let Some(&mut (state, ref mut edge)) = path.last_mut() {
            let at = state as usize;
            if index[at] == UNSEEN {
                (index[at], low[at]) = (next_index, next_index);
                next_index += 1;
                open.push(state);
                is_open[at] = true;
            }
            if *edge < states.graph.edges_of(states.node(state)).len() {
                let followed = states.follow(state, *edge);
                *edge += 1;
                match followed {
                    Some(to) if index[to as usize] == UNSEEN => path.push((to, 0)),
                    Some(to) if is_open[to as usize] => low[at] = low[at].min(index[to as usize]),
                    _ => {}
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent as usize] = low[parent as usize].min(low[at]);
            }
            if low[at] == index[at] {
                let first = open.iter().rposition(|&member| member == state);
                let members = open.split_off(first.expect("a component's root is still open"));
                for &member in &members {
                    is_open[member as usize] = false;
                    if members.len() > 1 {
                        component[member as usize] = id(sizes.len());
                    }
                }
                if members.len() > 1 {
                    sizes.push(id(members.len()));
                }
            }
        }
    }
    (component, sizes)
}

/// Searches one graph for the cycles of several views.
pub(crate) struct Search<'g> {
    pub(super) graph: &'g Graph,
    /// Components of the view with all edges: all cycles lie within them.
    pub(super) component: Vec<u32>,
    has_any: bool,
}

impl<'g> Search<'g> {
    /// Prepares for views with at most the edges of `everything`.
    pub(crate) fn new(graph: &'g Graph, everything: EdgeKinds) -> Self {
        let view = View { kinds: everything, allows_adjacent: true };
        let (component, sizes) = components(&States { graph, view, within: None });
        Self { graph, component, has_any: !sizes.is_empty() }
    }

    /// Returns `true` if any view has a cycle.
    pub(crate) const fn has_any(&self) -> bool {
        self.has_any
    }

    /// Returns short cycles of a view, at most one for each component, the shortest first. There is
    /// at least one exactly if the view has a cycle.
    pub(crate) fn cycles(&self, view: View) -> Vec<Vec<Step>> {
        if !self.has_any {
            return Vec::new();
        }
        let states = States { graph: self.graph, view, within: Some(&self.component) };
        let (component, sizes) = components(&states);
        let mut walker = Walker::new(&states, Some(&component));
        // Small components first: their cycles are short, and cheap to find.
        let mut order: Vec<u32> = (0..id(sizes.len())).collect();
        order.sort_by_key(|&number| sizes[number as usize]);
        order.truncate(CYCLES_MAX);
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for state in 0..states.count() {
            let number = component[state as usize];
            if number != ALONE && !self.graph.is_joint(states.node(state)) {
                members.entry(number).or_default().push(state);
            }
        }
        let mut found: Vec<Vec<Step>> = Vec::new();
        for number in order {
            let starts = members.get(&number).map_or(&[][..], Vec::as_slice);
            found.extend(walker.shortest_of(starts));
        }
        found.sort_by_key(Vec::len);
        found
    }
}

/// Breadth-first search with marks that can be reset in constant time.
pub(super) struct Walker<'s> {
    pub(super) states: &'s States<'s>,
    /// Components that a search for cycles stays within, if given.
    pub(super) component: Option<&'s [u32]>,
    /// For each state: the search that last visited it, its distance, and the edge that led there.
    pub(super) seen: Vec<u32>,
    pub(super) distance: Vec<u32>,
    pub(super) parent: Vec<(u32, u32)>,
    pub(super) search: u32,
    pub(super) edges_left: usize,
}

impl<'s> Walker<'s> {
    pub(super) fn new(states: &'s States<'s>, component: Option<&'s [u32]>) -> Self {
        let count = states.count() as usize;
        Self {
            states,
            component,
            seen: vec![0; count],
            distance: vec![0; count],
            parent: vec![(0, 0); count],
            search: 0,
            edges_left: SEARCH_EDGES_MAX,
        }
    }

    /// Returns the shortest cycle through any of the states, which are in one component.
    pub(super) fn shortest_of(&mut self, starts: &[u32]) -> Option<Vec<Step>> {
        let mut best: Option<Vec<Step>> = None;
        for start in spread(starts) {
            let shorter_than = best.as_ref().map_or(u32::MAX, |cycle| id(cycle.len()));
            if let Some(cycle) = self.shortest_through(start, shorter_than) {
                best = Some(cycle);
            }
            let is_shortest = best.as_ref().is_some_and(|cycle| cycle.len() <= 2);
            if is_shortest || best.is_some() && self.edges_left == 0 {
                break;
            }
        }
        best
    }

    /// Steps out of a joint have no cost, so that a cycle's length counts transactions.
    pub(super) fn shortest_through(&mut self, start: u32, shorter_than: u32) -> Option<Vec<Step>> {
        self.search += 1;
        let mut queue = VecDeque::from([(start, 0u32)]);
        while let Some((state, distance)) = queue.pop_front() {
            if state == start && self.is_seen(start) {
                break;
            }
            let is_stale = self.is_seen(state) && self.distance[state as usize] < distance;
            let is_joint = self.states.graph.is_joint(self.states.node(state));
            let to_distance = distance + u32::from(!is_joint);
            if is_stale || to_distance >= shorter_than {
                continue;
            }
            for edge in 0..self.states.graph.edges_of(self.states.node(state)).len() {
                self.edges_left = self.edges_left.saturating_sub(1);
                let Some(to) = self.states.follow(state, edge) else { continue };
                let leaves =
                    |component: &[u32]| component[to as usize] != component[start as usize];
                if self.component.is_some_and(leaves)
                    || self.is_seen(to) && self.distance[to as usize] <= to_distance
                {
                    continue;
                }
                self.seen[to as usize] = self.search;
                self.distance[to as usize] = to_distance;
                self.parent[to as usize] = (state, id(edge));
                if is_joint {
                    queue.push_front((to, to_distance));
                } else {
                    queue.push_back((to, to_distance));
                }
            }
        }
        self.is_seen(start).then(|| self.walk_back(start, start))
    }

    pub(super) fn is_seen(&self, state: u32) -> bool {
        self.seen[state as usize] == self.search
    }

    /// Returns the steps of the last search from one state to another.
    pub(super) fn walk_back(&self, start: u32, end: u32) -> Vec<Step> {
        let graph = self.states.graph;
        let mut steps = Vec::new();
        let mut to = self.states.node(end);
        let mut state = end;
        loop {
            let (before, edge) = self.parent[state as usize];
            let from = self.states.node(before);
            if !graph.is_joint(from) {
                let edge = graph.edges_of(from)[edge as usize];
                steps.push(Step { from, to, kind: edge.kind, key: edge.key });
                to = from;
            }
            state = before;
            if state == start {
                break;
            }
        }
        steps.reverse();
        steps
    }
}

/// Returns the same items in an order that covers the whole range early, for searches that are cut
/// short.
fn spread(items: &[u32]) -> Vec<u32> {
    let stride = items.len() / 1024 + 1;
    (0..stride).flat_map(|first| items.iter().copied().skip(first).step_by(stride)).collect()
}
