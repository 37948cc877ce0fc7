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
        let (cluster, epoch, nonce) = (Arc::clone(&cluster), term.epoch, term.nonce);
        Box::pin(async move {
            let lease = match cluster.read_register(Register::Lease, ReadMode::Serial).await {
                Ok(Some(bytes)) => Lease::decode(&bytes),
                Ok(None) => return Proof::Deposed,
                Err(fault) => return Proof::Unknown(fault.to_string()),
            };
            match lease {
                Ok(lease) if lease.epoch == epoch && lease.owner.nonce == nonce => Proof::Leads,
                Ok(_) => Proof::Deposed,
                Err(error) => Proof::Unknown(error.to_string()),
            }
        })
    })
}
