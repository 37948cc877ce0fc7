//! `GROUP BY`: groups of random rows beside a model, whole and in pages.

use std::collections::BTreeMap;

use carnet::{Db, Uuid, block_on};
use carnet_base::{Rng, SeededRng};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        let db = Db::builder().in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        Self { executor, session: Session::new() }
    }

    fn run(&self, statement: &str, parameters: &Parameters) -> Response {
        block_on(self.executor.query(&self.session, statement, parameters))
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn say(&self, statement: &str) {
        self.run(statement, &Parameters::default());
    }

    fn rows(&self, statement: &str, parameters: &Parameters) -> Rows {
        let Response::Rows(rows) = self.run(statement, parameters) else { panic!("rows") };
        rows
    }

    /// Returns the rows of all pages as numbers. No page has more than `page_rows` rows.
    fn pages(&self, statement: &str, page_rows: Option<usize>) -> Vec<Vec<i64>> {
        let mut parameters = Parameters { page_rows, ..Parameters::default() };
        let mut all = Vec::new();
        loop {
            let page = self.rows(statement, &parameters);
            assert!(page_rows.is_none_or(|rows| page.rows.len() <= rows), "{statement}");
            all.extend(page.values().iter().map(|row| numbers(row)));
            parameters.paging_state = page.paging_state;
            if parameters.paging_state.is_none() {
                return all;
            }
        }
    }
}

fn numbers(row: &[Option<carnet::Bytes>]) -> Vec<i64> {
    let number = |bytes: &Option<carnet::Bytes>| match bytes.as_deref() {
        None => -1,
        Some([a, b, c, d]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
        Some(long) => i64::from_be_bytes(long.try_into().unwrap()),
    };
    row.iter().map(number).collect()
}

#[test]
fn groups_agree_with_a_model_in_pages_of_any_size() {
    for seed in 0..8 {
        let (client, mut rng) = (Client::new(), SeededRng::new(seed));
        client.say("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.say("CREATE TABLE ks.t (k int, c int, d int, v int, PRIMARY KEY (k, c, d))");
        let mut model: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..120 {
            let mut draw = |below| i64::try_from(rng.below(below)).unwrap();
            let (k, c, d, v) = (draw(5), draw(4), draw(8), draw(50));
            if seen.insert((k, c, d)) {
                client.say(&format!("INSERT INTO ks.t (k, c, d, v) VALUES ({k}, {c}, {d}, {v})"));
                model.entry((k, c)).or_default().push(v);
            }
        }
        let statement = "SELECT k, c, count(*), max(v) FROM ks.t GROUP BY k, c";
        let whole = client.pages(statement, None);
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        let group = |(key, values): (&(i64, i64), &Vec<i64>)| {
            let count = i64::try_from(values.len()).unwrap();
            vec![key.0, key.1, count, *values.iter().max().unwrap()]
        };
        let expected: Vec<Vec<i64>> = model.iter().map(group).collect();
        assert_eq!(sorted, expected, "seed {seed}");
        for limits in ["", " LIMIT 7", " PER PARTITION LIMIT 2", " PER PARTITION LIMIT 1 LIMIT 3"] {
            let statement = format!("{statement}{limits}");
            let whole = client.pages(&statement, None);
            for page_rows in 1..6 {
                let paged = client.pages(&statement, Some(page_rows));
                assert_eq!(paged, whole, "seed {seed}, pages of {page_rows}{limits}");
            }
        }
        let limited = client.pages(&format!("{statement} PER PARTITION LIMIT 2"), None);
        let mut per_partition: BTreeMap<i64, usize> = BTreeMap::new();
        limited.iter().for_each(|row| *per_partition.entry(row[0]).or_default() += 1);
        let partitions: BTreeMap<i64, usize> =
            model.keys().fold(BTreeMap::new(), |mut counts, (k, _)| {
                *counts.entry(*k).or_default() += 1;
                counts
            });
        let expected = partitions.into_iter().map(|(k, count)| (k, count.min(2))).collect();
        assert_eq!(per_partition, expected, "seed {seed}");
    }
}
