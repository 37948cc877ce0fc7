//! Changes of a collection's elements by one transaction.

use bytes::{BufMut, Bytes, BytesMut};

use super::bytes::{put_bytes, put_len, take_bytes, take_len, take_u8};
use super::collection::Collection;
use super::element::{CollectionKind, Element, no_collection, put_elements, sort, take_elements};
use crate::error::Result;

/// Flag beside the kind: the collection is cleared first.
const CLEARED: u8 = 0x80;

/// Changes of the elements of a collection, which was cleared first or not.
///
/// ```text
/// change   kind       1 byte      of the collection, and 0x80 if it is cleared first
///          elements   count and elements: of a list behind the others, of other kinds set
///          if not cleared, of a list
///          elements   count and elements, before the others
///          if not cleared, of other kinds
///          count      VAR_LONG    how many removed keys follow
///          key × count, ascending, none of an element that is set: its length as VAR_LONG, its bytes
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionChange {
    kind: CollectionKind,
    /// All elements, if the collection was cleared; then the others are empty.
    replaced: Option<Collection>,
    /// Elements of a list behind the others; elements of other kinds that are set, by key.
    elements: Vec<Element>,
    /// Elements of a list before the others.
    front: Vec<Element>,
    /// Removed keys, in order, none of `elements`.
    removed: Vec<Bytes>,
}

impl CollectionChange {
    /// Creates a change that does nothing.
    #[must_use]
    pub const fn new(kind: CollectionKind) -> Self {
        Self { kind, replaced: None, elements: Vec::new(), front: Vec::new(), removed: Vec::new() }
    }

    /// Creates a change that replaces all elements.
    #[must_use]
    pub fn replace(collection: Collection) -> Self {
        let mut change = Self::new(collection.kind());
        change.replaced = Some(collection);
        change
    }

    /// Returns `true` if the change replaces all elements.
    pub(super) const fn is_cleared(&self) -> bool {
        self.replaced.is_some()
    }

    /// Returns the kind of the collection.
    #[must_use]
    pub const fn kind(&self) -> CollectionKind {
        self.kind
    }

    /// Returns `true` if the change does nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.replaced.is_none()
            && self.elements.is_empty()
            && self.front.is_empty()
            && self.removed.is_empty()
    }

    /// Adds elements behind the others of a list, or sets elements of other kinds.
    pub fn add(&mut self, added: Vec<Element>) {
        let elements = match &mut self.replaced {
            Some(all) => all.elements_mut(),
            None => &mut self.elements,
        };
        elements.extend(added);
        if self.kind == CollectionKind::List {
            return;
        }
        sort(elements);
        let is_set = |key: &Bytes| find(elements, key).is_ok();
        self.removed.retain(|key| !is_set(key));
    }

    /// Adds elements before the others of a list.
    pub fn prepend(&mut self, added: Vec<Element>) {
        let front = match &mut self.replaced {
            Some(all) => all.elements_mut(),
            None => &mut self.front,
        };
        front.splice(0..0, added);
    }

    /// Removes the elements with some keys.
    pub fn remove(&mut self, mut keys: Vec<Bytes>) {
        keys.sort_unstable();
        keys.dedup();
        let is_kept = |element: &Element| keys.binary_search(&element.key).is_err();
        if let Some(all) = &mut self.replaced {
            all.elements_mut().retain(is_kept);
            return;
        }
        self.elements.retain(is_kept);
        self.removed.append(&mut keys);
        self.removed.sort_unstable();
        self.removed.dedup();
    }

    /// Adds a later change of the same transaction.
    pub(super) fn extend(&mut self, later: Self) {
        if later.is_cleared() {
            *self = later;
            return;
        }
        if !later.front.is_empty() {
            self.prepend(later.front);
        }
        if !later.removed.is_empty() {
            self.remove(later.removed);
        }
        if !later.elements.is_empty() {
            self.add(later.elements);
        }
    }

    /// Returns the change of a collection that was deleted before.
    pub(super) fn on_nothing(mut self) -> Self {
        if !self.is_cleared() {
            self.front.append(&mut self.elements);
            return Self::replace(Collection::new(self.kind, self.front));
        }
        self
    }

    /// Returns the collection that results from an older one; an empty one does not exist.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the older collection is of another kind.
    pub fn apply(&self, older: Option<Collection>) -> Result<Collection> {
        if let Some(all) = &self.replaced {
            return Ok(all.clone());
        }
        let Some(mut collection) = older else {
            // Nothing is left that the removed keys could hide.
            let elements = self.front.iter().chain(&self.elements).cloned().collect();
            return Ok(Collection::new(self.kind, elements));
        };
        if collection.kind() != self.kind {
            return Err(no_collection("a change of another kind of collection"));
        }
        let elements = collection.elements_mut();
        if self.kind == CollectionKind::List {
            elements.splice(0..0, self.front.iter().cloned());
            elements.extend(self.elements.iter().cloned());
        } else {
            if !self.removed.is_empty() {
                elements.retain(|element| self.removed.binary_search(&element.key).is_err());
            }
            elements.extend(self.elements.iter().cloned());
            sort(elements);
        }
        Ok(collection)
    }

    pub(super) fn put(&self, out: &mut BytesMut) {
        out.put_u8(self.kind.to_byte() | if self.is_cleared() { CLEARED } else { 0 });
        if let Some(all) = &self.replaced {
            return all.put_elements(out);
        }
        put_elements(self.kind, &self.elements, out);
        if self.kind == CollectionKind::List {
            put_elements(self.kind, &self.front, out);
        } else {
            put_len(out, self.removed.len());
            self.removed.iter().for_each(|key| put_bytes(out, key));
        }
    }

    pub(super) fn take(rest: &mut &[u8], whole: &Bytes) -> Result<Self> {
        let first = take_u8(rest)?;
        let mut change = Self::new(CollectionKind::from_byte(first & !CLEARED)?);
        if first & CLEARED != 0 {
            change.replaced = Some(Collection::take(change.kind, rest, whole)?);
            return Ok(change);
        }
        change.elements = take_elements(change.kind, rest, whole)?;
        if change.kind == CollectionKind::List {
            change.front = take_elements(change.kind, rest, whole)?;
            return Ok(change);
        }
        for _ in 0..take_len(rest)? {
            let key = whole.slice_ref(take_bytes(rest)?);
            let is_ordered = change.removed.last().is_none_or(|last| *last < key);
            if !is_ordered || find(&change.elements, &key).is_ok() {
                return Err(no_collection("a removed key is out of order"));
            }
            change.removed.push(key);
        }
        Ok(change)
    }
}

fn find(elements: &[Element], key: &Bytes) -> std::result::Result<usize, usize> {
    elements.binary_search_by(|element| element.key.cmp(key))
}
