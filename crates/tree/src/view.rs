//! The view of a transaction's code.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Bytes, Error, Result};

use crate::id::NodeId;
use crate::root::Root;
use crate::shape::{Found, Nodes, find};

/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Maximum length of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;

pub(crate) type Writes = BTreeMap<Bytes, Option<Bytes>>;

/// The state of all keys in a transaction, including its own writes.
///
/// Keys that were not named in advance are read on demand: [`View::get`] returns an error, which
/// the code must pass on, and the code runs again once the key was read. If the code ignores this
/// error, its result does not count.
pub struct View<'a> {
    root: &'a Root,
    nodes: &'a Nodes,
    /// Writes of the previous transactions in the batch.
    batch: &'a Writes,
    own: Writes,
    needs: BTreeSet<NodeId>,
    trouble: Option<Error>,
}

/// Result of a transaction's run.
pub(crate) enum Left {
    /// These nodes have to be read before the transaction runs again.
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
    /// Pass on any error: the code runs again if this can help.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(written) = self.own.get(key).or_else(|| self.batch.get(key)) {
            return Ok(written.clone());
        }
        match find(self.root, self.nodes, key) {
            Ok(Found::Value(value)) => Ok(value),
            Ok(Found::Needs(id)) => {
                self.needs.insert(id);
                Err(Error::unavailable("the key is being read: pass on this error"))
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
    /// [`VALUE_BYTES_MAX`] bytes.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        if value.len() > VALUE_BYTES_MAX {
            let len = value.len();
            return Err(Error::invalid(format!(
                "the value of {len} bytes is above the limit of {VALUE_BYTES_MAX} bytes"
            )));
        }
        self.write(key.into(), Some(value))
    }

    /// Deletes a key; a missing key is no error.
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
                "the key of {len} bytes is above the limit of {KEY_BYTES_MAX} bytes"
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
