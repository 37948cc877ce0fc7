//! The tables that Carnet creates, as text. Pure.
//!
//! | table | contents | written |
//! | --- | --- | --- |
//! | `cells_N` | versions of table N's cells | blindly, with explicit write times |
//! | `commits2`, `commits3` | commit entries, behind the row's epoch | by conditional batches |
//! | `registers` | lease, coordination map, sweep mark | by compare-and-set |
//!
//! Each table is created with an id derived from its name. Two processes may create a table at the
//! same time through two nodes. With ids chosen by the nodes, the cluster would have two tables of
//! one name, and lose one of them with its data.

use carnet_base::{TableId, Uuid, murmur3};
use carnet_store::cluster::CommitTable;

use crate::options::Replication;
use crate::statement::{REGISTERS_TABLE, cells_table, commits_table};

/// A table to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewTable {
    pub(crate) name: String,
    columns: &'static str,
    options: &'static str,
}

/// Options of a commit table. Most reads are by key, for an entry that does not exist, and values
/// are small: a nearly exact bloom filter, an index of every key, and large chunks.
const COMMITS_OPTIONS: &str = "bloom_filter_fp_chance = 0.0001 \
    AND min_index_interval = 1 AND max_index_interval = 1 \
    AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 64} \
    AND compaction = {'class': 'LeveledCompactionStrategy'}";

const LEVELED: &str = "compaction = {'class': 'LeveledCompactionStrategy'}";

impl NewTable {
    /// Returns the tables that every database has.
    pub(crate) fn of_every_database() -> Vec<Self> {
        let commits = |table| Self {
            name: commits_table(table).into(),
            columns: "row blob, col blob, epoch bigint static, s blob, c blob, \
                      PRIMARY KEY (row, col)",
            options: COMMITS_OPTIONS,
        };
        let registers = Self {
            name: REGISTERS_TABLE.into(),
            columns: "name text PRIMARY KEY, value blob",
            options: LEVELED,
        };
        vec![commits(CommitTable::V2), commits(CommitTable::V3), registers]
    }

    /// Returns the cluster's table for a table's cells.
    pub(crate) fn of_cells(table: TableId) -> Self {
        Self {
            name: cells_table(table),
            // A row without `tombstone` is a stamp without its version.
            columns: "pk blob, ck blob, ver bigint, tombstone boolean, payload blob, stamp bigint, \
                      PRIMARY KEY ((pk), ck, ver)",
            options: "CLUSTERING ORDER BY (ck ASC, ver DESC) \
                      AND compaction = {'class': 'LeveledCompactionStrategy'}",
        }
    }

    /// Returns the statement that creates the table if it is absent.
    pub(crate) fn text(&self, keyspace: &str) -> String {
        let Self { name, columns, options } = self;
        let id = table_id(keyspace, name);
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{name} ({columns}) WITH id = {id} AND {options}"
        )
    }
}

/// Returns the statement that creates the keyspace if it is absent.
pub(crate) fn keyspace_text(keyspace: &str, replication: &Replication) -> String {
    let mut factors = String::new();
    match replication {
        Replication::EveryDatacenter(factor) => {
            factors.push_str(&format!(", 'replication_factor': {factor}"));
        }
        Replication::Datacenters(each) => {
            for (name, factor) in each {
                factors.push_str(&format!(", '{name}': {factor}"));
            }
        }
    }
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy'{factors}}}"
    )
}

/// Returns a UUID of version 8 (RFC 9562), made of two hashes of the names.
fn table_id(keyspace: &str, name: &str) -> Uuid {
    let half = |text: String| murmur3::token(text.as_bytes()).0.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half(format!("{keyspace}.{name}")));
    bytes[8..].copy_from_slice(&half(format!("{name} of {keyspace} of carnet")));
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn commit_table_has_the_documented_tuning() {
        let [_, commits3, _] = &NewTable::of_every_database()[..] else { panic!("three tables") };
        let id = table_id("ks", "commits3");
        assert_eq!(
            commits3.text("ks"),
            format!(
                "CREATE TABLE IF NOT EXISTS ks.commits3 (row blob, col blob, epoch bigint static, \
                 s blob, c blob, PRIMARY KEY (row, col)) WITH id = {id} \
                 AND bloom_filter_fp_chance = 0.0001 \
                 AND min_index_interval = 1 AND max_index_interval = 1 \
                 AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}} \
                 AND compaction = {{'class': 'LeveledCompactionStrategy'}}"
            )
        );
    }

    #[test]
    fn the_id_of_a_table_follows_from_its_name() {
        // A different id for the same name would split a table in two while a cluster is upgraded.
        assert_eq!(table_id("ks", "cells_1").get_version_num(), 8);
        let mut ids = BTreeSet::new();
        for keyspace in ["ks", "ks2"] {
            for table in 0..100 {
                assert!(ids.insert(table_id(keyspace, &cells_table(TableId(table)))));
            }
        }
        assert!(ids.contains(&table_id("ks", "cells_1")));
    }

    #[test]
    fn a_keyspace_has_its_replicas_in_the_datacenters() {
        assert_eq!(
            keyspace_text("ks", &Replication::EveryDatacenter(3)),
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = \
             {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"
        );
        let each = Replication::Datacenters(vec![("dc1".into(), 3), ("dc2".into(), 1)]);
        assert_eq!(
            keyspace_text("ks", &each),
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = \
             {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 1}"
        );
    }
}
