//! The rows of `system.size_estimates` and `table_estimates`: about how many partitions each table has in
//! each token range of this server, and their average size. Spark, Trino and others divide their work by
//! them.
//!
//! The estimates are made when they are read, from samples: tokens are uniform, so a few rows at a
//! number of places tell how dense the partitions are. A table that is smaller than the samples is
//! counted exactly.
//!
//! ```text
//! range       |––––––––|––––––––|––––––––|––––––––|     divided into places
//! read        |∙∙∙–––––|∙∙∙∙––––|∙∙––––––|∙∙∙∙––––|     up to SAMPLE_CELLS rows of each
//! ```
//!
//! Of a partition that is longer than a sample only the sampled part is counted, so that the average size
//! of long partitions is underestimated.

use std::ops::Bound;

use carnet::catalog::{self, TableKind};
use carnet::{PageLimit, Result, Tx, Value};
use carnet_base::{CellKey, KeyRange, TableId, Token};

use super::encode::{self, Cell};
use super::node::NodeInfo;
use super::peers::Peer;
use super::table::SystemTable;
use super::tables::is_system_keyspace;

/// Number of places in the whole token ring at which a table is sampled.
const PLACES: i128 = 16;
/// Maximum number of cells that are read at a place.
const SAMPLE_CELLS: usize = 64;
/// Maximum number of pages that are read at a place.
const SAMPLE_PAGES: usize = 8;
/// Number of tokens.
const RING: i128 = 1 << 64;

/// A range of tokens with its bounds in Cassandra's form: the first is excluded, and the least token
/// stands for both ends of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenRange {
    start: i64,
    end: i64,
}

impl TokenRange {
    /// Returns the first and the last token.
    fn bounds(self) -> (i128, i128) {
        let end = if self.end == i64::MIN { i64::MAX } else { self.end };
        (i128::from(self.start) + i128::from(self.start != i64::MIN), end.into())
    }
}

/// Estimated contents of a range.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    partitions: f64,
    bytes: f64,
}

/// Returns the estimates of the tables for which `wants` returns `true`, by keyspace and name.
pub(super) async fn rows(
    table: &SystemTable,
    tx: &Tx,
    node: &NodeInfo,
    peers: &[Peer],
    wants: &(dyn Fn(&str, &str) -> bool + Sync),
) -> Result<Vec<Vec<Cell>>> {
    let ranges = own_ranges(&node.tokens, peers);
    let mut rows = Vec::new();
    let mut keyspaces = catalog::keyspaces(tx).await?;
    keyspaces.sort_by(|a, b| a.name.cmp(&b.name));
    for keyspace in keyspaces {
        if is_system_keyspace(&keyspace.name) {
            continue;
        }
        let mut tables = catalog::tables(tx, &keyspace.name).await?;
        tables.retain(|found| found.kind == TableKind::Rows && wants(&keyspace.name, &found.name));
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        for found in tables {
            let mut estimates = Vec::with_capacity(ranges.len());
            for range in &ranges {
                estimates.push((*range, estimate(tx, found.id, *range).await?));
            }
            // In the order of the key, whose bounds are texts.
            estimates.sort_by_key(|(range, _)| (range.start.to_string(), range.end.to_string()));
            let row = |(range, estimate)| row(table, &keyspace.name, &found.name, range, estimate);
            rows.extend(estimates.into_iter().map(row));
        }
    }
    Ok(rows)
}

#[expect(clippy::cast_possible_truncation, reason = "estimates are rounded")]
fn row(
    table: &SystemTable,
    keyspace: &str,
    name: &str,
    range: TokenRange,
    Estimate { partitions, bytes }: Estimate,
) -> Vec<Cell> {
    let mean = if partitions > 0.0 { bytes / partitions } else { 0.0 };
    let bigint = |number: f64| Some(Value::Bigint(number.round() as i64).serialize());
    let cells = [
        ("keyspace_name", encode::text(keyspace)),
        ("table_name", encode::text(name)),
        ("range_start", encode::text(&range.start.to_string())),
        ("range_end", encode::text(&range.end.to_string())),
        ("mean_partition_size", bigint(mean)),
        ("partitions_count", bigint(partitions)),
    ];
    let mut row = table.row(cells);
    if let Some((place, _)) = table.column("range_type") {
        row[place] = encode::text("primary");
    }
    row
}

/// Returns the ranges of tokens that end at a token of this server, in the ring of all servers.
fn own_ranges(own: &[String], peers: &[Peer]) -> Vec<TokenRange> {
    let parse = |tokens: &[String]| tokens.iter().filter_map(|token| token.parse().ok()).collect();
    let own: Vec<i64> = parse(own);
    let others = peers.iter().flat_map(|peer| parse(&peer.tokens()));
    let mut ring: Vec<i64> = own.iter().copied().chain(others).collect();
    ring.sort_unstable();
    ring.dedup();
    let mut ranges = Vec::new();
    for end in own {
        let place = ring.binary_search(&end).unwrap_or_default();
        let start = if place == 0 { ring[ring.len() - 1] } else { ring[place - 1] };
        // A range over the end of the ring is two.
        if start >= end && end != i64::MIN {
            ranges.push(TokenRange { start, end: i64::MIN });
            ranges.push(TokenRange { start: i64::MIN, end });
        } else {
            ranges.push(TokenRange { start, end });
        }
    }
    ranges
}

/// Estimates the number of partitions of a table, and their bytes.
pub(crate) async fn estimate_table(tx: &Tx, table: TableId) -> Result<(f64, f64)> {
    let ring = TokenRange { start: i64::MIN, end: i64::MIN };
    let Estimate { partitions, bytes } = estimate(tx, table, ring).await?;
    Ok((partitions, bytes))
}

async fn estimate(tx: &Tx, table: TableId, range: TokenRange) -> Result<Estimate> {
    let (first, last) = range.bounds();
    let width = last - first + 1;
    let places = (width * PLACES / RING).max(1);
    let mut sum = Estimate::default();
    for place in 0..places {
        let (from, to) = (first + width * place / places, first + width * (place + 1) / places - 1);
        let sampled = sample(tx, table, from, to).await?;
        sum.partitions += sampled.partitions;
        sum.bytes += sampled.bytes;
    }
    Ok(sum)
}

/// Estimates the contents between two tokens from the first rows there.
#[expect(clippy::cast_precision_loss, reason = "estimates are rounded")]
async fn sample(tx: &Tx, table: TableId, from: i128, to: i128) -> Result<Estimate> {
    let bound = |token: i128| {
        i64::try_from(token).map_or(Bound::Unbounded, |token| Bound::Included(Token(token)))
    };
    let mut rest = Some(KeyRange::tokens(table, bound(from), bound(to)));
    let mut read: Vec<(CellKey, usize)> = Vec::new();
    // Pages of deleted rows are empty.
    for _ in 0..SAMPLE_PAGES {
        let Some(range) = rest.take_if(|_| read.len() < SAMPLE_CELLS) else { break };
        let page = tx.range_cells(&range, false, PageLimit::cells(SAMPLE_CELLS)).await?;
        read.extend(page.cells.iter().map(|cell| {
            let key = cell.key.to_key();
            let bytes = key.partition().bytes().len() + key.clustering().len() + cell.payload.len();
            (key, bytes)
        }));
        rest = page.resume;
    }
    let mut partitions = 0_usize;
    for (place, (key, _)) in read.iter().enumerate() {
        let is_new = place == 0 || !read[place - 1].0.same_partition(key);
        partitions += usize::from(is_new);
    }
    let bytes = read.iter().map(|(_, bytes)| bytes).sum::<usize>() as f64;
    let factor = match (&rest, read.last()) {
        (Some(_), Some((key, _))) => {
            let covered = i128::from(key.token().0) - from + 1;
            (to - from + 1) as f64 / covered.max(1) as f64
        }
        _ => 1.0,
    };
    Ok(Estimate { partitions: partitions as f64 * factor, bytes: bytes * factor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(own: &[i64]) -> Vec<(i64, i64)> {
        let own: Vec<String> = own.iter().map(ToString::to_string).collect();
        own_ranges(&own, &[]).into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn ranges_cover_the_ring() {
        assert_eq!(ranges(&[i64::MIN]), [(i64::MIN, i64::MIN)]);
        assert_eq!(ranges(&[0]), [(0, i64::MIN), (i64::MIN, 0)]);
        let own = [-5, 7, 100];
        let covered: i128 = ranges(&own)
            .into_iter()
            .map(|(start, end)| {
                let (first, last) = TokenRange { start, end }.bounds();
                last - first + 1
            })
            .sum();
        assert_eq!(covered, RING);
        assert!(ranges(&own).contains(&(-5, 7)));
    }
}
