//! One try of a batch on one root.

use std::collections::BTreeSet;

use carnet_base::concurrent::join;

use super::core::{Core, Stop, Try};
use crate::edit::Edited;
use crate::job::Job;
use crate::shape::{Found, Nodes, find};
use crate::store::{NodeStore, RootPointer};
use crate::view::{Left, View, Writes};

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    pub(super) async fn attempt(&self, batch: &mut [Box<dyn Job>], this: &Try) -> Result<(), Stop> {
        let mut nodes = Nodes::default();
        let writes = self.execute(batch, this, &mut nodes).await?;
        if !writes.is_empty() {
            return self.commit(this, &mut nodes, writes).await;
        }
        if this.is_verified || !self.options.verify_reads {
            return Ok(());
        }
        let newest = self.read_root(this.deadline).await?;
        if newest.bytes == this.base.bytes { Ok(()) } else { Err(Stop::Moved(newest)) }
    }

    /// Runs the transactions in order, and returns all their writes.
    async fn execute(
        &self,
        batch: &mut [Box<dyn Job>],
        this: &Try,
        nodes: &mut Nodes,
    ) -> Result<Writes, Stop> {
        loop {
            let mut needed = BTreeSet::new();
            for key in batch.iter().flat_map(|job| job.keys()) {
                if let Found::Needs(id) = find(&this.base.root, nodes, key)? {
                    needed.insert(id);
                }
            }
            if needed.is_empty() {
                break;
            }
            self.load(needed, this, nodes).await?;
        }
        let mut writes = Writes::new();
        for job in batch {
            loop {
                match job.run(View::new(&this.base.root, nodes, &writes))? {
                    Left::Writes(own) => {
                        writes.extend(own);
                        break;
                    }
                    Left::Needs(needed) => self.load(needed, this, nodes).await?,
                }
            }
        }
        Ok(writes)
    }

    /// Puts the nodes of the new root, and moves the root.
    async fn commit(&self, this: &Try, nodes: &mut Nodes, writes: Writes) -> Result<(), Stop> {
        let attempt = self.next_attempt();
        let mut edited =
            Edited::new(&this.base.root, self.transactor, attempt, &self.options.shape);
        edited.write(writes)?;
        loop {
            let needed = edited.needs(nodes)?;
            if needed.is_empty() {
                break;
            }
            self.load(needed, this, nodes).await?;
        }
        let (root, made) = edited.finish(nodes)?;
        let puts: Vec<_> =
            made.iter().map(|(id, node)| self.put(*id, node, this.deadline)).collect();
        join(puts, self.options.writes_in_flight).await?;
        if !made.is_empty() {
            self.nodes.sync().await?;
        }
        self.swap(this, root, attempt).await
    }
}
