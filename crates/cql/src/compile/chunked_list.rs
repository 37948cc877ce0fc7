//! Elements of a list in chunks: an element anywhere is removed in the time of one chunk.

use std::collections::{HashSet, VecDeque};

use carnet::DataType;
use carnet_base::Bytes;
use carnet_data::row::Element;

/// Number of elements of a new chunk.
const CHUNK_LEN: usize = 256;

/// Elements of a list.
///
/// Elements that have expired for the statement keep their places, but have no index, and no change
/// concerns them: another client may still see them.
///
/// Values to remove are collected, and removed in one pass before the next change of another kind.
pub(super) struct ChunkedList {
    /// None is empty.
    chunks: VecDeque<Chunk>,
    /// Number of elements that have not expired.
    len: usize,
    /// Second by which elements have expired.
    now: i64,
    /// Type of the values.
    value_type: DataType,
    /// Values to remove, in the form of all equal ones.
    removed: HashSet<Bytes>,
    /// Number of elements that passes have compared since [`ChunkedList::steps`].
    passed: usize,
}

#[derive(Default)]
struct Chunk {
    elements: VecDeque<Element>,
    /// Number of elements that have not expired.
    live: usize,
}

impl Chunk {
    /// Returns the place of an element, given its index in the list of live elements.
    fn place(&self, index: usize, now: i64) -> Option<usize> {
        if self.live == self.elements.len() {
            return Some(index);
        }
        let places = self.elements.iter().enumerate();
        let mut live = places.filter(|(_, element)| !has_expired(element, now));
        live.nth(index).map(|(place, _)| place)
    }
}

fn has_expired(element: &Element, now: i64) -> bool {
    element.expiry.is_some_and(|expiry| expiry <= now)
}

impl ChunkedList {
    /// Makes the list of elements, some of which may have expired at the second `now`.
    pub(super) fn new(
        elements: impl Iterator<Item = Element>,
        now: i64,
        value_type: DataType,
    ) -> Self {
        let (chunks, removed) = (VecDeque::new(), HashSet::new());
        let mut list = Self { chunks, len: 0, now, value_type, removed, passed: 0 };
        list.append(elements);
        list
    }

    /// Returns the number of elements.
    pub(super) fn len(&mut self) -> usize {
        self.remove_collected();
        self.len
    }

    /// Returns the steps of finding an element by its index, and of the passes before it.
    pub(super) fn steps(&mut self) -> u64 {
        self.remove_collected();
        (std::mem::take(&mut self.passed) + self.chunks.len() / 16) as u64
    }

    /// Replaces an element.
    pub(super) fn set(&mut self, index: usize, element: Element) {
        let Some((chunk, place)) = self.find(index) else { return };
        let live = usize::from(!has_expired(&element, self.now));
        let chunk = &mut self.chunks[chunk];
        if let Some(found) = chunk.elements.get_mut(place) {
            *found = element;
            chunk.live = chunk.live - 1 + live;
            self.len = self.len - 1 + live;
        }
    }

    /// Removes an element.
    pub(super) fn remove(&mut self, index: usize) {
        let Some((at, place)) = self.find(index) else { return };
        let chunk = &mut self.chunks[at];
        if chunk.elements.remove(place).is_some() {
            chunk.live -= 1;
            self.len -= 1;
        }
        if self.chunks[at].elements.is_empty() {
            self.chunks.remove(at);
        }
    }

    /// Removes all elements with some values, given in the [form](DataType::key_form) of all equal ones.
    pub(super) fn remove_values(&mut self, values: HashSet<Bytes>) {
        match self.removed.is_empty() {
            true => self.removed = values,
            false => self.removed.extend(values),
        }
    }

    /// Adds elements behind the others.
    pub(super) fn extend(&mut self, added: Vec<Element>) {
        self.remove_collected();
        self.append(added.into_iter());
    }

    /// Adds elements before the others.
    pub(super) fn prepend(&mut self, added: Vec<Element>) {
        self.remove_collected();
        for element in added.into_iter().rev() {
            let live = usize::from(!has_expired(&element, self.now));
            if self.chunks.front().is_none_or(|chunk| chunk.elements.len() >= CHUNK_LEN) {
                self.chunks.push_front(Chunk::default());
            }
            let chunk = &mut self.chunks[0];
            chunk.elements.push_front(element);
            chunk.live += live;
            self.len += live;
        }
    }

    pub(super) fn into_elements(mut self) -> impl Iterator<Item = Element> {
        self.remove_collected();
        self.chunks.into_iter().flat_map(|chunk| chunk.elements)
    }

    fn append(&mut self, added: impl Iterator<Item = Element>) {
        for element in added {
            let live = usize::from(!has_expired(&element, self.now));
            if self.chunks.back().is_none_or(|chunk| chunk.elements.len() >= CHUNK_LEN) {
                self.chunks.push_back(Chunk::default());
            }
            let last = self.chunks.len() - 1;
            let chunk = &mut self.chunks[last];
            chunk.elements.push_back(element);
            chunk.live += live;
            self.len += live;
        }
    }

    fn remove_collected(&mut self) {
        if self.removed.is_empty() {
            return;
        }
        let (removed, now) = (std::mem::take(&mut self.removed), self.now);
        self.passed += self.len;
        let value_type = &self.value_type;
        // A value that cannot be read equals none.
        let is_removed =
            |value: &Bytes| value_type.key_form(value).is_ok_and(|form| removed.contains(&form));
        for chunk in &mut self.chunks {
            let before = chunk.elements.len();
            chunk
                .elements
                .retain(|element| has_expired(element, now) || !is_removed(&element.value));
            chunk.live -= before - chunk.elements.len();
        }
        self.chunks.retain(|chunk| !chunk.elements.is_empty());
        self.len = self.chunks.iter().map(|chunk| chunk.live).sum();
    }

    /// Returns the chunk of an element, and its place there.
    fn find(&mut self, index: usize) -> Option<(usize, usize)> {
        self.remove_collected();
        let mut index = index;
        for (at, chunk) in self.chunks.iter().enumerate() {
            if index < chunk.live {
                return Some((at, chunk.place(index, self.now)?));
            }
            index -= chunk.live;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    fn element(number: u64) -> Element {
        Element { value: Bytes::copy_from_slice(&number.to_be_bytes()), ..Element::default() }
    }

    /// Compares random changes with those of a vector; every seventh element has expired.
    #[test]
    fn changes_are_those_of_a_vector() {
        const NOW: i64 = 10;
        let aged = |number: u64| Element {
            expiry: number.is_multiple_of(7).then_some(NOW),
            ..element(number)
        };
        let mut rng = SeededRng::new(7);
        let mut vector: Vec<Element> = (0..1_000).map(aged).collect();
        let mut list = ChunkedList::new(vector.iter().cloned(), NOW, DataType::Blob);
        for number in 1_000..5_000 {
            let live: Vec<usize> =
                (0..vector.len()).filter(|at| !has_expired(&vector[*at], NOW)).collect();
            let index = usize::try_from(rng.below(live.len() as u64 + 1)).unwrap();
            match rng.below(5) {
                0 | 1 if index < live.len() => {
                    drop(vector.remove(live[index]));
                    list.remove(index);
                }
                2 if index < live.len() => {
                    vector[live[index]] = aged(number);
                    list.set(index, aged(number));
                }
                3 => {
                    let added = vec![aged(number), aged(number % 50)];
                    vector.splice(0..0, added.clone());
                    list.prepend(added);
                }
                4 if number % 20 == 0 => {
                    let gone = [number % 50, 1_000 + number % 500].map(|it| element(it).value);
                    vector.retain(|it| has_expired(it, NOW) || !gone.contains(&it.value));
                    list.remove_values(gone.into());
                }
                _ => {
                    vector.push(aged(number));
                    list.extend(vec![aged(number)]);
                }
            }
            if number % 7 == 0 {
                let live = vector.iter().filter(|element| !has_expired(element, NOW)).count();
                assert_eq!(list.len(), live);
            }
        }
        assert!(vector.len() > 100);
        assert_eq!(list.into_elements().collect::<Vec<_>>(), vector);
    }
}
