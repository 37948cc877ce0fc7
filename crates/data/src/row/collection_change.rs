//! Changes of a collection's elements by one transaction.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::Result;

use super::bytes::{put_bytes, put_len, take_bytes, take_len, take_u8};
use super::collection::Collection;
use super::element::{CollectionKind, Element, ElementRef, no_collection, sort};

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
    elements: Collection,
    /// Elements of a list before the others.
    front: Collection,
    /// Removed keys, in order, none of `elements`.
    removed: Vec<Bytes>,
    /// Whether the elements in `replaced` are stored ones after changes of some. Not encoded.
    is_edited: bool,
}

impl CollectionChange {
    /// Creates a change that does nothing.
    #[must_use]
    pub fn new(kind: CollectionKind) -> Self {
        let empty = || Collection::empty(kind);
        let (elements, front) = (empty(), empty());
        Self { kind, replaced: None, elements, front, removed: Vec::new(), is_edited: false }
    }

    /// Creates a change that replaces all elements.
    #[must_use]
    pub fn replace(collection: Collection) -> Self {
        let mut change = Self::new(collection.kind());
        change.replaced = Some(collection);
        change
    }

    /// Creates a change that replaces all elements by the stored ones after changes of some.
    #[must_use]
    pub fn edited(collection: Collection) -> Self {
        Self { is_edited: true, ..Self::replace(collection) }
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
    pub fn is_empty(&self) -> bool {
        self.replaced.is_none()
            && self.elements.is_empty()
            && self.front.is_empty()
            && self.removed.is_empty()
    }

    /// Adds elements behind the others of a list, or sets elements of other kinds.
    pub fn add(&mut self, added: Vec<Element>) {
        let elements = match &mut self.replaced {
            Some(all) => all.elements_mut(),
            None => self.elements.elements_mut(),
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
            None => self.front.elements_mut(),
        };
        front.splice(0..0, added);
    }

    /// Removes the elements with some keys.
    pub fn remove(&mut self, mut keys: Vec<Bytes>) {
        keys.sort_unstable();
        keys.dedup();
        let is_kept = |key: &[u8]| keys.binary_search_by(|other| other[..].cmp(key)).is_err();
        if let Some(all) = &mut self.replaced {
            all.elements_mut().retain(|element| is_kept(&element.key));
            return;
        }
        if self.elements.iter().any(|element| !is_kept(element.key)) {
            self.elements.elements_mut().retain(|element| is_kept(&element.key));
        }
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
            self.prepend(later.front.into_elements().collect());
        }
        if !later.removed.is_empty() {
            self.remove(later.removed);
        }
        if !later.elements.is_empty() {
            self.add(later.elements.into_elements().collect());
        }
    }

    /// Returns the change of a collection that was deleted before.
    pub(super) fn on_nothing(self) -> Self {
        if self.is_cleared() {
            return self;
        }
        Self::replace(self.added())
    }

    /// Returns the added elements.
    fn added(&self) -> Collection {
        let mut added = self.elements.clone();
        if !self.front.is_empty() {
            added.join(&self.front, &Collection::empty(self.kind));
        }
        added
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
        // Nothing is left that the removed keys could hide.
        let Some(mut collection) = older else { return Ok(self.added()) };
        if collection.kind() != self.kind {
            return Err(no_collection("a change of another kind of collection"));
        }
        if self.kind == CollectionKind::List {
            collection.join(&self.front, &self.elements);
            return Ok(collection);
        }
        Ok(Collection::of_ordered(self.kind, self.merge(&collection)))
    }

    /// Returns the elements that result from an older collection with keys, by key.
    fn merge<'a>(&'a self, older: &'a Collection) -> impl Iterator<Item = ElementRef<'a>> {
        let mut removed = self.removed.iter().peekable();
        let is_kept = move |element: &ElementRef<'_>| {
            while removed.next_if(|key| key[..] < *element.key).is_some() {}
            removed.peek().is_none_or(|key| key[..] != *element.key)
        };
        let mut older = older.iter().filter(is_kept).peekable();
        let mut set = self.elements.iter().peekable();
        iter::from_fn(move || {
            let Some(next) = set.peek() else { return older.next() };
            match older.peek().map_or(Ordering::Greater, |older| older.key.cmp(next.key)) {
                Ordering::Less => older.next(),
                Ordering::Equal => {
                    older.next();
                    set.next()
                }
                Ordering::Greater => set.next(),
            }
        })
    }

    /// Like [`CollectionChange::apply`], but stored elements with write times after `time` remain. Elements
    /// without a write time have that of the change.
    pub(super) fn apply_by_time(
        &self,
        stored: Option<Collection>,
        time: WallTime,
    ) -> Result<Collection> {
        let Some(stored) = stored.filter(|_| !self.is_edited) else { return self.apply(None) };
        if stored.kind() != self.kind {
            return Err(no_collection("a change of another kind of collection"));
        }
        let written = |element: &Element| element.written.unwrap_or(time);
        // A new value deletes the elements written before it.
        let is_kept = |element: &Element| match &self.replaced {
            Some(_) => written(element) >= time,
            None => written(element) > time || self.removed.binary_search(&element.key).is_err(),
        };
        let kept = stored.into_elements().filter(is_kept);
        let added = self.replaced.as_ref().unwrap_or(&self.elements).elements().iter().cloned();
        if self.kind == CollectionKind::List {
            let front = self.front.elements().iter().cloned();
            return Ok(Collection::list(front.chain(kept).chain(added)));
        }
        let mut elements: BTreeMap<Bytes, Element> =
            kept.map(|element| (element.key.clone(), element)).collect();
        for next in added {
            let weight = |it: &Element| (written(it), it.expiry, it.value.clone());
            let stored = elements.get(&next.key);
            if stored.is_none_or(|stored| weight(&next) >= weight(stored)) {
                elements.insert(next.key.clone(), next);
            }
        }
        Ok(Collection::new(self.kind, elements.into_values().collect()))
    }

    pub(super) fn put(&self, out: &mut BytesMut) {
        out.put_u8(self.kind.to_byte() | if self.is_cleared() { CLEARED } else { 0 });
        if let Some(all) = &self.replaced {
            return all.put_elements(out);
        }
        self.elements.put_elements(out);
        if self.kind == CollectionKind::List {
            self.front.put_elements(out);
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
        change.elements = Collection::take(change.kind, rest, whole)?;
        if change.kind == CollectionKind::List {
            change.front = Collection::take(change.kind, rest, whole)?;
            return Ok(change);
        }
        for _ in 0..take_len(rest)? {
            let key = whole.slice_ref(take_bytes(rest)?);
            let is_ordered = change.removed.last().is_none_or(|last| *last < key);
            if !is_ordered || change.elements.get(&key).is_some() {
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
