//! Warnings that come with the answer of a schema change.

use crate::ast::{OptionValue, Options, Statement, TableChange};
use crate::system;

/// Returns the warnings of a schema change that was made, in a cluster of some nodes.
pub(super) fn warnings(statement: &Statement, nodes: usize, data_center: &str) -> Vec<String> {
    let (keyspace, options) = match statement {
        Statement::CreateKeyspace(create) => (Some(create.name.as_str()), &create.options),
        Statement::AlterKeyspace(alter) => (Some(alter.name.as_str()), &alter.options),
        Statement::CreateTable(create) => (None, &create.options),
        Statement::CopyTable(copy) => (None, &copy.options),
        Statement::CreateView(create) => (None, &create.options),
        Statement::AlterView(alter) => (None, &alter.options),
        Statement::AlterTable(alter) => match &alter.change {
            TableChange::Options(options) => (None, options),
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    match keyspace {
        Some(name) if system::is_replicated_keyspace(name) => found.push(format!(
            "the replication of {name} is without effect: the database stores it as it stores all data"
        )),
        Some(name) => found.extend(too_many_replicas(name, options, nodes, data_center)),
        None => {}
    }
    found.extend(system::foreign_warnings(options));
    found
}

/// Returns Cassandra's warning about a replication factor that is larger than the number of nodes.
fn too_many_replicas(
    keyspace: &str,
    options: &Options,
    nodes: usize,
    data_center: &str,
) -> Option<String> {
    let (_, replication) = options.iter().find(|(name, _)| name.as_str() == "replication")?;
    let OptionValue::Map(pairs) = replication else { return None };
    let factor = |wanted: &str| {
        let (_, value) = pairs.iter().find(|(key, _)| key.plain() == wanted)?;
        value.plain().parse::<usize>().ok().filter(|factor| *factor > nodes)
    };
    let begin =
        |factor| format!("Your replication factor {factor} for keyspace {keyspace} is higher than");
    match (factor(data_center), factor("replication_factor")) {
        (Some(factor), _) => Some(format!(
            "{} the number of nodes {nodes} for datacenter {data_center}",
            begin(factor)
        )),
        (None, Some(factor)) => Some(format!("{} the number of nodes {nodes}", begin(factor))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, parse};

    fn of(text: &str) -> Vec<String> {
        let statement = parse(text, &Limits::default()).unwrap().statement;
        warnings(&statement, 2, "datacenter1")
    }

    #[test]
    fn more_replicas_than_nodes_are_warned_of() {
        let create = |replication: &str| {
            of(&format!("CREATE KEYSPACE k WITH replication = {{{replication}}}"))
        };
        assert_eq!(create("'class': 'SimpleStrategy', 'replication_factor': 2"), [""; 0]);
        assert_eq!(
            create("'class': 'SimpleStrategy', 'replication_factor': 3"),
            ["Your replication factor 3 for keyspace k is higher than the number of nodes 2"]
        );
        assert_eq!(
            create("'class': 'NetworkTopologyStrategy', 'datacenter1': '5'"),
            ["Your replication factor 5 for keyspace k is higher than the number of nodes 2 for \
              datacenter datacenter1"]
        );
    }

    #[test]
    fn options_without_effect_are_named() {
        assert_eq!(
            of("ALTER TABLE t WITH tombstone_gc = {'mode': 'repair'} AND comment = 'x'"),
            ["option tombstone_gc of ScyllaDB is without effect"]
        );
        assert_eq!(
            of(
                "CREATE TABLE t (p int PRIMARY KEY) WITH read_repair_chance = 0.1 AND compression = \
                {'sstable_compression': 'LZ4WithDictsCompressor'}"
            ),
            [
                "option read_repair_chance of ScyllaDB is without effect",
                "option compression of ScyllaDB is stored in Cassandra's form: {'class': 'LZ4Compressor'}"
            ]
        );
        assert_eq!(
            of("ALTER KEYSPACE k WITH tablets = {'enabled': false}"),
            ["option tablets of ScyllaDB is without effect"]
        );
        assert_eq!(of("ALTER KEYSPACE system_auth WITH durable_writes = true").len(), 1);
        assert_eq!(of("DROP TABLE t"), [""; 0]);
    }
}
