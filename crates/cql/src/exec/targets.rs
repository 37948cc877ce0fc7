//! Target rows of statements that change rows.

use std::cell::OnceCell;

use carnet::{PartitionKey, Tx};
use carnet_base::WallTime;

use crate::access::{Clustering, Partitions};
use crate::compile::{Environment, WritePlan, WriteTarget, required, written_key};
use crate::cql_error::CqlError;

/// Maximum number of keys that the statements of a batch select together.
const BATCH_KEYS_MAX: usize = 100_000;

/// A statement with its target rows, evaluated once: a key may contain a fresh UUID.
pub(super) struct Targeted<'a> {
    pub(super) plan: &'a WritePlan,
    pub(super) environment: Environment<'a>,
    pub(super) targets: Targets,
    /// Expiry of the values that the statement writes, in seconds since 1970-01-01 UTC.
    pub(super) expiry: Option<i64>,
    /// Write time of the values.
    pub(super) written: WallTime,
    /// Whether stored values that were written later remain.
    pub(super) competes: bool,
    /// Whether values decide between changes of one time, not the order of the changes.
    pub(super) decides: bool,
}

/// Evaluates the target rows of each statement.
pub(super) async fn targeted<'a>(
    tx: &Tx,
    writes: &[(&'a WritePlan, Environment<'a>)],
) -> Result<Vec<Targeted<'a>>, CqlError> {
    let mut found = Vec::with_capacity(writes.len());
    let mut keys = 0;
    let mut slice = tx.time_slice();
    // The values of a batch expire together.
    let now = OnceCell::new();
    for (plan, environment) in writes {
        environment.steps.pace(&mut slice).await?;
        let now = || *now.get_or_init(|| tx.write_seconds());
        let expiry = plan.time_to_live(environment)?.map(|seconds| now().saturating_add(seconds));
        let targets = targets(plan, environment)?;
        keys += targets.count();
        if keys > BATCH_KEYS_MAX {
            return Err(CqlError::invalid(format!(
                "the first {} statements of the batch or transaction name {keys} keys together, more \
                 than the {BATCH_KEYS_MAX} that are allowed; send them in several ones",
                found.len() + 1
            )));
        }
        let competing = plan.competing(environment)?;
        let written = competing.map_or_else(|| plan.written(environment), Ok)?;
        found.push(Targeted {
            plan,
            environment: *environment,
            targets,
            expiry,
            written,
            competes: competing.is_some(),
            decides: false,
        });
    }
    Ok(found)
}

/// Target rows of a statement.
pub(super) struct Targets {
    pub(super) partitions: Vec<PartitionKey>,
    pub(super) clustering: Clustering,
}

impl Targets {
    /// Returns the number of rows or ranges.
    fn count(&self) -> usize {
        let within = match &self.clustering {
            Clustering::All => 1,
            Clustering::Cells(cells) => cells.len(),
            Clustering::Spans(spans) => spans.len(),
        };
        self.partitions.len() * within.max(1)
    }
}

/// Evaluates the target rows of a statement.
fn targets(plan: &WritePlan, environment: &Environment<'_>) -> Result<Targets, CqlError> {
    match &plan.target {
        WriteTarget::Key { partition, clustering } => {
            let values = required(partition, environment)?;
            let clustering = match clustering {
                None => Vec::new(),
                Some(operands) => {
                    let values = required(operands, environment)?;
                    vec![written_key(&values, &plan.table.clustering_orders())?]
                }
            };
            Ok(Targets {
                partitions: vec![carnet_data::partition::encode(&values)?],
                clustering: Clustering::Cells(clustering),
            })
        }
        WriteTarget::Where(filter) => {
            let (partitions, clustering) = filter.targets(environment)?;
            let Partitions::Keys(partitions) = partitions else {
                return Err(CqlError::invalid("the statement names no partition"));
            };
            Ok(Targets { partitions, clustering })
        }
    }
}
