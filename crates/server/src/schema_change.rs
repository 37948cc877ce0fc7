//! Schema changes in the form of the native protocol.

use carnet_cql::result::ChangeKind;

use crate::protocol::types::{ChangeTarget, ChangeType, SchemaChange};

/// Converts a schema change.
pub(crate) fn schema_change(change: carnet_cql::result::SchemaChange) -> SchemaChange {
    SchemaChange {
        change: match change.kind {
            ChangeKind::Created => ChangeType::Created,
            ChangeKind::Updated => ChangeType::Updated,
            ChangeKind::Dropped => ChangeType::Dropped,
        },
        keyspace: change.keyspace,
        target: match change.target {
            carnet_cql::result::ChangeTarget::Keyspace => ChangeTarget::Keyspace,
            carnet_cql::result::ChangeTarget::Table(name) => ChangeTarget::Table(name),
            carnet_cql::result::ChangeTarget::Type(name) => ChangeTarget::Type(name),
        },
    }
}
