//! Plans the requests for a set of cells.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use carnet_base::{Bytes, CellKey, PartitionKey};

use super::selective::{Cut, Limits, Piece, batches};

/// Common property of the cells of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// The partition. No row is requested twice unless it alone is too large for a batch.
    Rows,
    /// The clustering key: one predicate for many rows, like in Thrift's `multiget_slice`.
    Columns,
}

/// Request for the cells of some partitions at some clustering keys, for every pair of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The partitions, each once.
    pub rows: Vec<PartitionKey>,
    /// The clustering keys, each once.
    pub columns: Vec<Bytes>,
}

impl Request {
    /// Returns the number of requested cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// Requests that one lane of a read sends together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Requests of the plan.
    pub requests: Vec<Request>,
}

impl Batch {
    /// Returns the number of requested cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.requests.iter().map(Request::cells).sum()
    }
}

/// Planner of reads of many cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planner {
    /// Common property of the cells of a group.
    pub grouping: Grouping,
    /// Maximum number of cells in a batch.
    pub limits: Limits,
    /// Maximum number of partitions, or clustering keys, in a request. Zero counts as one.
    pub names_max: usize,
    /// Maximum number of requests in a batch. Zero counts as one.
    pub requests_max: usize,
}

impl Planner {
    /// Puts cells of one table into batches: each cell is requested once, and no other cell is.
    ///
    /// Batches have the groups in the order of cells, but groups with the same columns (or rows)
    /// are adjacent, so that one request can cover several of them.
    #[must_use]
    pub fn plan(&self, keys: &[CellKey]) -> Vec<Batch> {
        match self.grouping {
            Grouping::Rows => {
                let cells = keys.iter().map(|key| (key.partition(), key.clustering_bytes()));
                let request = |rows: Vec<_>, columns: Vec<_>| Request { rows, columns };
                self.batches(cells.collect(), Cut::BetweenGroups, request)
            }
            Grouping::Columns => {
                let cells = keys.iter().map(|key| (key.clustering_bytes(), key.partition()));
                let request = |columns: Vec<_>, rows: Vec<_>| Request { rows, columns };
                self.batches(cells.collect(), Cut::Anywhere, request)
            }
        }
    }

    fn batches<G: Ord + Clone, A: Ord + Clone + Hash>(
        &self,
        cells: Vec<(G, A)>,
        cut: Cut,
        request: impl Fn(Vec<G>, Vec<A>) -> Request,
    ) -> Vec<Batch> {
        let groups = groups_of(cells);
        let sizes: Vec<usize> = groups.iter().map(|group| group.across.len()).collect();
        let batches = batches(&sizes, self.limits, cut);
        let batches = batches.iter().flat_map(|pieces| {
            let mut requests = Vec::new();
            for alike in pieces.chunk_by(|a, b| across(&groups, a) == across(&groups, b)) {
                let names: Vec<G> =
                    alike.iter().map(|piece| groups[piece.group].name.clone()).collect();
                for names in names.chunks(self.names_max.max(1)) {
                    for across in across(&groups, &alike[0]).chunks(self.names_max.max(1)) {
                        requests.push(request(names.to_vec(), across.to_vec()));
                    }
                }
            }
            let parts = requests.chunks(self.requests_max.max(1));
            parts.map(|part| Batch { requests: part.to_vec() }).collect::<Vec<_>>()
        });
        batches.collect()
    }
}

/// Cells with a common name, and their names on the other axis.
struct Group<G, A> {
    name: G,
    across: Vec<A>,
}

fn across<'a, G, A>(groups: &'a [Group<G, A>], piece: &Piece) -> &'a [A] {
    &groups[piece.group].across[piece.cells.clone()]
}

/// Groups cells. Groups with the same cells on the other axis follow the first of them.
fn groups_of<G: Ord, A: Ord + Hash>(mut cells: Vec<(G, A)>) -> Vec<Group<G, A>> {
    cells.sort_unstable();
    cells.dedup();
    let mut groups: Vec<Group<G, A>> = Vec::new();
    for (name, across) in cells {
        match groups.last_mut() {
            Some(group) if group.name == name => group.across.push(across),
            _ => groups.push(Group { name, across: vec![across] }),
        }
    }
    // By a hash of the other axis. Two different groups with the same hash are merely adjacent.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut first: HashMap<u64, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Group<G, A>)> = Vec::with_capacity(groups.len());
    for (place, group) in groups.into_iter().enumerate() {
        let rank = *first.entry(hasher.hash_one(&group.across)).or_insert(place);
        ranked.push((rank, group));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use carnet_base::TableId;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(row: &str, column: &str) -> CellKey {
        CellKey::new(TableId(1), &PartitionKey::new(row.as_bytes().to_vec()), column)
    }

    fn rows(limits: Limits) -> Planner {
        Planner {
            grouping: Grouping::Rows,
            limits,
            names_max: usize::MAX,
            requests_max: usize::MAX,
        }
    }

    fn columns(limits: Limits) -> Planner {
        Planner { grouping: Grouping::Columns, ..rows(limits) }
    }

    /// Formats a plan as `rows:columns` for each request, batches in their order.
    fn shown(batches: &[Batch]) -> Vec<String> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let request = |request: &Request| {
            let mut rows: Vec<String> = request.rows.iter().map(|row| text(row.bytes())).collect();
            rows.sort();
            let columns: Vec<String> = request.columns.iter().map(text).collect();
            format!("{}:{}", rows.concat(), columns.concat())
        };
        let batch =
            |batch: &Batch| batch.requests.iter().map(request).collect::<Vec<_>>().join(" ");
        batches.iter().map(batch).collect()
    }

    fn grid(rows: &str, columns: &str) -> Vec<CellKey> {
        let cell = |row: char| columns.chars().map(move |column| (row, column));
        let cells = rows.chars().flat_map(cell);
        cells.map(|(row, column)| key(&row.to_string(), &column.to_string())).collect()
    }

    #[test]
    fn a_row_is_one_request() {
        let cells = [grid("p", "12"), grid("q", "3"), grid("r", "14")].concat();
        let mut plan = shown(&rows(Limits { merged_cells: 1, single_cells: 9 }).plan(&cells));
        plan.sort();
        assert_eq!(plan, ["p:12", "q:3", "r:14"]);
        // Requests by column, like the decision record's first loader.
        let cells = [grid("AB", "1"), grid("AC", "2"), grid("CD", "3")].concat();
        let mut plan = shown(&columns(Limits { merged_cells: 1, single_cells: 9 }).plan(&cells));
        plan.sort();
        assert_eq!(plan, ["AB:1", "AC:2", "CD:3"]);
    }

    #[test]
    fn equal_rows_share_a_request() {
        let cells = [grid("pqrs", "12"), grid("xy", "123")].concat();
        let plan = rows(Limits::both(4)).plan(&cells);
        let sizes: Vec<usize> = plan.iter().map(Batch::cells).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 14);
        assert!(plan.iter().all(|batch| batch.requests.len() == 1), "{:?}", shown(&plan));
        assert_eq!(plan.iter().filter(|batch| batch.requests[0].rows.len() == 2).count(), 2);
        // One batch for all: still one request for each kind of row.
        let plan = rows(Limits::both(100)).plan(&cells);
        let mut requests = shown(&plan)[0].split(' ').map(str::to_owned).collect::<Vec<_>>();
        requests.sort();
        assert_eq!((plan.len(), requests), (1, vec!["pqrs:12".to_owned(), "xy:123".to_owned()]));
    }

    #[test]
    fn names_in_a_request_are_limited() {
        let planner = Planner { names_max: 2, ..rows(Limits::both(100)) };
        let plan = planner.plan(&grid("pqr", "123"));
        let sizes: Vec<(usize, usize)> =
            plan[0].requests.iter().map(|asked| (asked.rows.len(), asked.columns.len())).collect();
        assert_eq!((plan.len(), sizes), (1, vec![(2, 2), (2, 1), (1, 2), (1, 1)]));
    }

    /// Returns `true` if a batch has one group only.
    fn is_single(grouping: Grouping, batch: &Batch) -> bool {
        let requests = &batch.requests;
        let names: BTreeSet<&[u8]> = match grouping {
            Grouping::Rows => {
                requests.iter().flat_map(|asked| &asked.rows).map(|row| &**row.bytes()).collect()
            }
            Grouping::Columns => {
                requests.iter().flat_map(|asked| &asked.columns).map(|column| &**column).collect()
            }
        };
        names.len() == 1
    }

    /// Returns the cells of a request.
    fn cells(request: &Request) -> Vec<CellKey> {
        let cell =
            |row| request.columns.iter().map(move |column| CellKey::new(TableId(1), row, column));
        request.rows.iter().flat_map(cell).collect()
    }

    proptest! {
        #[test]
        fn every_cell_is_requested_once_within_limits(
            asked in vec((0_u8..30, 0_u8..30), 0..200),
            (merged_cells, more) in (0_usize..40, 0_usize..40),
            (names_max, requests_max) in (0_usize..20, 0_usize..9),
            by_rows in any::<bool>(),
        ) {
            let asked = asked.iter().map(|(row, column)| key(&row.to_string(), &column.to_string()));
            let keys: Vec<CellKey> = asked.collect();
            let limits = Limits { merged_cells, single_cells: merged_cells + more };
            let grouping = if by_rows { Grouping::Rows } else { Grouping::Columns };
            let planner = Planner { grouping, limits, names_max, requests_max };
            let mut planned = Vec::new();
            for batch in planner.plan(&keys) {
                let is_single = is_single(grouping, &batch);
                let most = if is_single { limits.single_cells } else { limits.merged_cells };
                prop_assert!(batch.cells() <= most.max(1), "{} cells", batch.cells());
                prop_assert!(batch.requests.len() <= requests_max.max(1));
                for request in &batch.requests {
                    let names = request.rows.len().max(request.columns.len());
                    prop_assert!(names <= names_max.max(1));
                    planned.extend(cells(request));
                }
            }
            planned.sort();
            let wanted: BTreeSet<CellKey> = keys.into_iter().collect();
            prop_assert_eq!(planned, wanted.into_iter().collect::<Vec<_>>());
        }
    }
}
