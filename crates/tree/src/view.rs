//! What a transaction's code sees.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Bytes, Error, Result};

use crate::id::NodeId;
use crate::root::Root;
use crate::shape::{Found, Nodes, find};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;

pub(crate) type Writes = BTreeMap<Bytes, Option<Bytes>>;

/// The state of all keys as one transaction sees it, its own writes included.
///
/// A key that was not named beforehand is read on demand: [`View::get`] returns an error then,
/// which the code passes on, and is run again once the key is there. An error that it swallows
/// changes nothing, for its result does not count.
pub struct View<'a> {
    root: &'a Root,
    nodes: &'a Nodes,
    /// Of the transactions before this one in the batch.
    batch: &'a Writes,
    own: Writes,
    needs: BTreeSet<NodeId>,
    trouble: Option<Error>,
}

/// What a transaction left behind.
pub(crate) enum Left {
    /// These nodes have to be read, and it has to be run again.
    Needs(BTreeSet<NodeId>),
    Writes(Writes),
}

impl<'a> View<'a> {
    pub(crate) fn new(root: &'a Root, nodes: &'a Nodes, batch: &'a Writes) -> Self {
        let (own, needs) = (Writes::new(), BTreeSet::new());
        Self { root, nodes, batch, own, needs, trouble: None }
    }

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// Whatever it is, pass it on: the code is run again if that can help.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(written) = self.own.get(key).or_else(|| self.batch.get(key)) {
            return Ok(written.clone());
        }
        match find(self.root, self.nodes, key) {
            Ok(Found::Value(value)) => Ok(value),
            Ok(Found::Needs(id)) => {
                self.needs.insert(id);
                Err(Error::unavailable("the key is being read: pass this error on"))
            }
            Err(error) => {
                let again = Error::new(error.kind(), error.to_string());
                self.trouble.get_or_insert(error);
                Err(again)
            }
        }
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// `Invalid` for a key of more than [`KEY_BYTES_MAX`] bytes or a value of more than
    /// [`VALUE_BYTES_MAX`].
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        if value.len() > VALUE_BYTES_MAX {
            let len = value.len();
            return Err(Error::invalid(format!(
                "a value has {len} bytes, and at most {VALUE_BYTES_MAX} fit"
            )));
        }
        self.write(key.into(), Some(value))
    }

    /// Deletes a key; one that is not there stays so.
    ///
    /// # Errors
    ///
    /// `Invalid` for a key of more than [`KEY_BYTES_MAX`] bytes.
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<()> {
        self.write(key.into(), None)
    }

    fn write(&mut self, key: Bytes, value: Option<Bytes>) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let len = key.len();
            return Err(Error::invalid(format!(
                "a key has {len} bytes, and at most {KEY_BYTES_MAX} fit"
            )));
        }
        self.own.insert(key, value);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Left> {
        match self.trouble {
            Some(error) => Err(error),
            None if self.needs.is_empty() => Ok(Left::Writes(self.own)),
            None => Ok(Left::Needs(self.needs)),
        }
    }
}
