//! Proof of leadership by a SERIAL read of the lease.

use std::sync::Arc;

use carnet_base::Tasks;
use carnet_store::cluster::{Cluster, ReadMode, Register};

use crate::candidate::Term;
use crate::lease::Lease;
use crate::shared_read::SharedRead;

/// Result of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The leader led at some moment of the read.
    Leads,
    /// Another process has taken the lease.
    Deposed,
    /// The lease could not be read.
    Unknown(String),
}

/// Creates the shared read by which a leader proves that its epoch is current.
pub(crate) fn new_shared_read<C: Cluster>(
    cluster: &Arc<C>,
    tasks: Arc<dyn Tasks>,
    term: &Term,
) -> Arc<SharedRead<Proof>> {
    let (cluster, term) = (Arc::clone(cluster), term.clone());
    SharedRead::new(tasks, move || {
        let (cluster, term) = (Arc::clone(&cluster), term.clone());
        Box::pin(async move {
            let lease = match cluster.read_register(Register::Lease, ReadMode::Serial).await {
                Ok(Some(bytes)) => Lease::decode(&bytes),
                Ok(None) => return Proof::Deposed,
                Err(fault) => return Proof::Unknown(fault.to_string()),
            };
            match lease {
                Ok(lease) => Proof::by(&lease, &term),
                Err(error) => Proof::Unknown(error.to_string()),
            }
        })
    })
}

impl Proof {
    /// Compares the lease with a term. A process may lead again in a later term, and a restarted
    /// one may find the epoch that it led in: both names have to agree.
    fn by(lease: &Lease, term: &Term) -> Self {
        let is_same = lease.epoch == term.epoch && lease.owner.nonce == term.nonce;
        if is_same { Self::Leads } else { Self::Deposed }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Epoch, Timestamp, WallTime};

    use super::*;
    use crate::lease::{Address, Owner};

    #[test]
    fn both_the_epoch_and_the_incarnation_have_to_agree() {
        let term = Term {
            epoch: Epoch(3),
            nonce: 7,
            first: Timestamp::new(2).unwrap(),
            bound: Timestamp::new(100).unwrap(),
        };
        let lease = |epoch, nonce| Lease {
            epoch: Epoch(epoch),
            renewal: 5,
            bound: term.bound,
            fence_from: term.first,
            wall: (Timestamp::ZERO, WallTime(0)),
            released: false,
            is_restoring: false,
            owner: Owner { nonce, address: Address::new("a").unwrap() },
        };
        assert_eq!(Proof::by(&lease(3, 7), &term), Proof::Leads);
        assert_eq!(Proof::by(&lease(4, 7), &term), Proof::Deposed, "a later term of the process");
        assert_eq!(Proof::by(&lease(3, 8), &term), Proof::Deposed, "another incarnation");
    }
}
