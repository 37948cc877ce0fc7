//! Transactions as lists of small operations, as history checkers generate them.

use std::future::Future;

use carnet_base::{Bytes, Error, Result, var_long};

use crate::store::{NodeStore, RootPointer};
use crate::tree::Tree;
use crate::view::View;

/// An operation. A key is used as a register or as a list, never as both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads a register.
    Read(Bytes),
    /// Writes a register.
    Write(Bytes, Bytes),
    /// Deletes a register or a list.
    Delete(Bytes),
    /// Reads a list.
    ReadList(Bytes),
    /// Adds an element to the end of a list.
    Append(Bytes, Bytes),
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The register; `None` if it was never written.
    Value(Option<Bytes>),
    /// The list; empty if it was never appended to.
    List(Vec<Bytes>),
    /// The write, append or deletion was done.
    Done,
}

impl Op {
    /// Returns the key that the operation reads; writes of registers and deletions read nothing.
    fn reads(&self) -> Option<&Bytes> {
        match self {
            Self::Read(key) | Self::ReadList(key) | Self::Append(key, _) => Some(key),
            Self::Write(..) | Self::Delete(_) => None,
        }
    }

    fn apply(&self, view: &mut View<'_>) -> Result<Answer> {
        match self {
            Self::Read(key) => Ok(Answer::Value(view.get(key)?)),
            Self::Write(key, value) => {
                view.put(key.clone(), value.clone())?;
                Ok(Answer::Done)
            }
            Self::Delete(key) => {
                view.delete(key.clone())?;
                Ok(Answer::Done)
            }
            Self::ReadList(key) => {
                Ok(Answer::List(view.get(key)?.map_or(Ok(Vec::new()), |list| elements(&list))?))
            }
            Self::Append(key, element) => {
                let list = view.get(key)?.unwrap_or_default();
                // An append to a register would make bytes that are neither.
                elements(&list)?;
                let mut list = Vec::from(list);
                let len = i64::try_from(element.len()).expect("lengths are below 2⁶³");
                var_long::put(&mut list, len);
                list.extend_from_slice(element);
                view.put(key.clone(), list)?;
                Ok(Answer::Done)
            }
        }
    }
}

/// Decodes a list: the length and the bytes of each element.
fn elements(list: &Bytes) -> Result<Vec<Bytes>> {
    let mut elements = Vec::new();
    let mut rest: &[u8] = list;
    while !rest.is_empty() {
        let len = var_long::take_unsigned(&mut rest).ok().and_then(|len| usize::try_from(len).ok());
        let Some((element, after)) = len.and_then(|len| rest.split_at_checked(len)) else {
            return Err(Error::invalid("the value is not a list: it was written as a register"));
        };
        elements.push(list.slice_ref(element));
        rest = after;
    }
    Ok(elements)
}

impl<N: NodeStore, R: RootPointer> Tree<N, R> {
    /// Runs operations in order as one transaction. Their keys are known, so they are read ahead.
    ///
    /// # Errors
    ///
    /// The errors of [`Tree::update`].
    pub fn transact(
        &self,
        ops: Vec<Op>,
    ) -> impl Future<Output = Result<Vec<Answer>>> + Send + use<N, R> {
        let keys = ops.iter().filter_map(Op::reads).cloned().collect();
        self.update(keys, move |view| ops.iter().map(|op| op.apply(view)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_is_not_a_list() {
        for bytes in [&[3, b'a'][..], &[0xff], &[1]] {
            assert!(elements(&Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
        let list = Bytes::from_static(&[1, b'a', 0, 2, b'b', b'c']);
        assert_eq!(elements(&list).unwrap(), ["a", "", "bc"]);
    }
}
