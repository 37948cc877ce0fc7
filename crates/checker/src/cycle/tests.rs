use super::*;
use crate::graph::{EdgeKind, EdgeKinds, Graph, GraphBuilder, NO_KEY};

const ALL: [EdgeKind; 4] = [EdgeKind::Ww, EdgeKind::Wr, EdgeKind::Rw, EdgeKind::Via];

fn graph(transactions: usize, edges: &[(u32, u32, EdgeKind)]) -> Graph {
    let mut builder = GraphBuilder::new(transactions);
    for &(from, to, kind) in edges {
        builder.edge(from, to, kind, NO_KEY);
    }
    builder.build()
}

fn lengths(graph: &Graph, kinds: &[EdgeKind], allows_adjacent: bool) -> Vec<usize> {
    let search = Search::new(graph, EdgeKinds::new(&ALL));
    let view = View { kinds: EdgeKinds::new(kinds), allows_adjacent };
    search.cycles(view).iter().map(Vec::len).collect()
}

#[test]
fn the_shortest_cycle_of_each_component_is_found() {
    use EdgeKind::{Wr, Ww};
    // A cycle of 5 with a chord, and a separate one of 2.
    let edges =
        [(0, 1, Ww), (1, 2, Ww), (2, 3, Ww), (3, 4, Ww), (4, 0, Ww), (2, 0, Wr), (5, 6, Ww)];
    let mut edges = edges.to_vec();
    edges.push((6, 5, Wr));
    let graph = graph(7, &edges);
    assert_eq!(lengths(&graph, &ALL, true), [2, 3]);
    assert_eq!(lengths(&graph, &[Ww], true), [5]);
    assert_eq!(lengths(&graph, &[Wr], true), [0; 0]);
}

#[test]
fn neighbouring_anti_dependencies_are_no_cycle_for_snapshots() {
    use EdgeKind::{Rw, Ww};
    let skew = graph(2, &[(0, 1, Rw), (1, 0, Rw)]);
    assert_eq!(lengths(&skew, &ALL, true), [2]);
    assert_eq!(lengths(&skew, &ALL, false), [0; 0]);
    // Adjacency counts around the end of the cycle, too.
    let corner = graph(3, &[(0, 1, Rw), (1, 2, Ww), (2, 0, Rw)]);
    assert_eq!(lengths(&corner, &ALL, false), [0; 0]);
    let apart = graph(4, &[(0, 1, Rw), (1, 2, Ww), (2, 3, Rw), (3, 0, Ww)]);
    assert_eq!(lengths(&apart, &ALL, false), [4]);
}

#[test]
fn a_long_path_does_not_exhaust_the_stack() {
    let count = 300_000;
    let mut edges: Vec<_> = (1..count).map(|to| (to - 1, to, EdgeKind::Ww)).collect();
    edges.push((count - 1, 0, EdgeKind::Wr));
    let circle = graph(count as usize, &edges);
    assert_eq!(lengths(&circle, &ALL, true), [count as usize]);
}

#[test]
fn joints_relate_all_but_oneself() {
    let mut builder = GraphBuilder::new(40);
    let readers: Vec<u32> = (0..20).collect();
    // 19 is both a reader and a writer.
    let writers: Vec<u32> = (19..40).collect();
    builder.relate(&readers, &writers, EdgeKind::Rw, 0);
    for writer in 20..40 {
        builder.edge(writer, 19, EdgeKind::Ww, 0);
    }
    let graph = builder.build();
    let search = Search::new(&graph, EdgeKinds::new(&ALL));
    let cycles = search.cycles(View { kinds: EdgeKinds::new(&ALL), allows_adjacent: true });
    assert_eq!(cycles.len(), 1, "19 ▶ each other writer ▶ 19");
    assert!(cycles[0].iter().any(|step| step.from == 19 && step.kind == EdgeKind::Rw));
    assert!(cycles[0].iter().all(|step| step.from != step.to));
}
