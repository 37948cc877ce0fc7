//! Consistency models, and the anomalies that each forbids.

use std::fmt;

/// A guarantee of a database about its transactions.
///
/// Names and meanings are those of Adya, "Weak Consistency: A Generalized Theory and Optimistic
/// Implementations for Distributed Transactions", 1999, without predicates. Snapshot isolation is
/// that of Cerone and Gotsman, "Analysing Snapshot Isolation", 2016: snapshots may be old. *Strong
/// session* adds that a client's transactions take effect in its order; *strong* and *strict* add
/// that all take effect in real-time order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// PL-2: writes are not interleaved, and reads see only committed, final versions.
    ReadCommitted,
    /// Transactions read from a snapshot; two that overlap do not write the same object.
    SnapshotIsolation,
    /// Snapshot isolation with snapshots that include the client's earlier transactions.
    StrongSessionSnapshotIsolation,
    /// Snapshot isolation with snapshots that include all earlier acknowledged transactions.
    StrongSnapshotIsolation,
    /// PL-3: as if one after the other.
    Serializable,
    /// As if one after the other, each client's in its order.
    StrongSessionSerializable,
    /// As if one after the other, in real-time order.
    StrictSerializable,
}

impl Model {
    /// All models, in an order in which none precedes a model that it implies.
    pub const ALL: [Self; 7] = [
        Self::ReadCommitted,
        Self::SnapshotIsolation,
        Self::StrongSessionSnapshotIsolation,
        Self::StrongSnapshotIsolation,
        Self::Serializable,
        Self::StrongSessionSerializable,
        Self::StrictSerializable,
    ];

    /// Returns the name used by Elle and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read-committed",
            Self::SnapshotIsolation => "snapshot-isolation",
            Self::StrongSessionSnapshotIsolation => "strong-session-snapshot-isolation",
            Self::StrongSnapshotIsolation => "strong-snapshot-isolation",
            Self::Serializable => "serializable",
            Self::StrongSessionSerializable => "strong-session-serializable",
            Self::StrictSerializable => "strict-serializable",
        }
    }

    /// Returns the model with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// Returns `true` if it allows adjacent anti-dependencies in a cycle, as in write skew.
    pub(crate) const fn is_snapshot_isolation(self) -> bool {
        matches!(
            self,
            Self::SnapshotIsolation
                | Self::StrongSessionSnapshotIsolation
                | Self::StrongSnapshotIsolation
        )
    }

    /// Returns the order of clients that the model respects.
    pub(crate) const fn order(self) -> Order {
        match self {
            Self::ReadCommitted | Self::SnapshotIsolation | Self::Serializable => Order::Any,
            Self::StrongSessionSnapshotIsolation | Self::StrongSessionSerializable => {
                Order::Session
            }
            Self::StrongSnapshotIsolation | Self::StrictSerializable => Order::RealTime,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Additional order that a cycle of dependencies uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// No additional order.
    Any,
    /// The order of one client's transactions.
    Session,
    /// Transactions answered before others were invoked.
    RealTime,
}

/// A phenomenon that some models forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// A read returned an element or value that was never written.
    GarbageRead,
    /// An element is in a list twice, but was appended once.
    DuplicateElements,
    /// Two reads of a list that no order of appends explains.
    IncompatibleOrder,
    /// A register returned to an earlier version, although its versions were assumed to be in the
    /// order of real time.
    CyclicVersions,
    /// A transaction read its own write before making it.
    FutureRead,
    /// Aborted read: a read returned a write of a transaction that did not commit.
    G1a,
    /// Intermediate read: a read returned a write that its writer overwrote before committing.
    G1b,
    /// A transaction did not read its own write, or read two values with no write between.
    Internal,
    /// Two transactions read the same version of an object, and both wrote the object.
    LostUpdate,
    /// Interference: two transactions wrote the same object, and neither can have seen the other.
    GSIa(Order),
    /// Write cycle: transactions overwrote each other in a circle.
    G0(Order),
    /// Circular information flow: a cycle of writes seen and overwritten.
    G1c(Order),
    /// A cycle with one anti-dependency: a read saw a state that never existed.
    GSingle(Order),
    /// A cycle with several anti-dependencies, no two of which are adjacent.
    GNonadjacent(Order),
    /// A cycle with adjacent anti-dependencies, such as write skew.
    G2Item(Order),
}

impl AnomalyKind {
    /// Returns `true` if the model forbids the phenomenon.
    #[must_use]
    pub fn rules_out(self, model: Model) -> bool {
        use Model::ReadCommitted;
        match self {
            Self::GarbageRead
            | Self::DuplicateElements
            | Self::IncompatibleOrder
            | Self::CyclicVersions
            | Self::FutureRead
            | Self::G1a
            | Self::G1b => true,
            Self::Internal | Self::LostUpdate => model != ReadCommitted,
            Self::G0(order) | Self::G1c(order) => order <= model.order(),
            Self::GSIa(order) | Self::GSingle(order) | Self::GNonadjacent(order) => {
                model != ReadCommitted && order <= model.order()
            }
            Self::G2Item(order) => {
                model != ReadCommitted && !model.is_snapshot_isolation() && order <= model.order()
            }
        }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, order) = match *self {
            Self::GarbageRead => ("garbage read", Order::Any),
            Self::DuplicateElements => ("duplicate elements", Order::Any),
            Self::IncompatibleOrder => ("incompatible order", Order::Any),
            Self::CyclicVersions => ("cyclic versions", Order::Any),
            Self::FutureRead => ("future read", Order::Any),
            Self::G1a => ("G1a (aborted read)", Order::Any),
            Self::G1b => ("G1b (intermediate read)", Order::Any),
            Self::Internal => ("internal inconsistency", Order::Any),
            Self::LostUpdate => ("lost update", Order::Any),
            Self::GSIa(order) => ("G-SIa", order),
            Self::G0(order) => ("G0", order),
            Self::G1c(order) => ("G1c", order),
            Self::GSingle(order) => ("G-single", order),
            Self::GNonadjacent(order) => ("G-nonadjacent", order),
            Self::G2Item(order) => ("G2-item", order),
        };
        f.write_str(name)?;
        f.write_str(match order {
            Order::Any => "",
            Order::Session => "-process",
            Order::RealTime => "-realtime",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_forbids_all_that_a_weaker_one_does() {
        use Model::{
            ReadCommitted, Serializable, SnapshotIsolation, StrictSerializable,
            StrongSessionSerializable, StrongSessionSnapshotIsolation, StrongSnapshotIsolation,
        };
        let implies = [
            (SnapshotIsolation, ReadCommitted),
            (StrongSessionSnapshotIsolation, SnapshotIsolation),
            (StrongSnapshotIsolation, StrongSessionSnapshotIsolation),
            (Serializable, SnapshotIsolation),
            (StrongSessionSerializable, Serializable),
            (StrongSessionSerializable, StrongSessionSnapshotIsolation),
            (StrictSerializable, StrongSessionSerializable),
            (StrictSerializable, StrongSnapshotIsolation),
        ];
        let orders = [Order::Any, Order::Session, Order::RealTime];
        let mut kinds = vec![AnomalyKind::G1a, AnomalyKind::Internal, AnomalyKind::LostUpdate];
        kinds.push(AnomalyKind::CyclicVersions);
        kinds.extend(orders.map(AnomalyKind::G0));
        kinds.extend(orders.map(AnomalyKind::GSIa));
        kinds.extend(orders.map(AnomalyKind::GSingle));
        kinds.extend(orders.map(AnomalyKind::G2Item));
        for (strong, weak) in implies {
            for kind in &kinds {
                assert!(!kind.rules_out(weak) || kind.rules_out(strong), "{kind} {weak} {strong}");
            }
        }
        assert!(!AnomalyKind::G2Item(Order::Any).rules_out(SnapshotIsolation));
        assert!(!AnomalyKind::G1c(Order::RealTime).rules_out(StrongSessionSerializable));
    }

    #[test]
    fn names_are_read_back() {
        for model in Model::ALL {
            assert_eq!(Model::from_name(model.name()), Some(model));
        }
    }
}
