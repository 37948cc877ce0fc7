//! Elements of a list in chunks: an element anywhere is removed in the time of one chunk.

use std::collections::{HashSet, VecDeque};

use carnet::base::Bytes;
use carnet::base::row::Element;

/// Number of elements of a new chunk.
const CHUNK_LEN: usize = 256;

/// Elements of a list.
///
/// Values to remove are collected, and removed in one pass before the next change of another kind.
#[derive(Default)]
pub(super) struct ChunkedList {
    /// None is empty.
    chunks: VecDeque<VecDeque<Element>>,
    len: usize,
    removed: HashSet<Bytes>,
    /// Number of elements that passes have compared since [`ChunkedList::steps`].
    passed: usize,
}

impl FromIterator<Element> for ChunkedList {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        let mut list = Self::default();
        list.append(elements.into_iter());
        list
    }
}

impl ChunkedList {
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
        if let Some((chunk, at)) = self.find(index)
            && let Some(found) = self.chunks[chunk].get_mut(at)
        {
            *found = element;
        }
    }

    /// Removes an element.
    pub(super) fn remove(&mut self, index: usize) {
        let Some((chunk, at)) = self.find(index) else { return };
        if self.chunks[chunk].remove(at).is_some() {
            self.len -= 1;
        }
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
    }

    /// Removes all elements with some values.
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
            self.len += 1;
            match self.chunks.front_mut().filter(|chunk| chunk.len() < CHUNK_LEN) {
                Some(chunk) => chunk.push_front(element),
                None => self.chunks.push_front(VecDeque::from([element])),
            }
        }
    }

    pub(super) fn into_elements(mut self) -> Vec<Element> {
        self.remove_collected();
        self.chunks.into_iter().flatten().collect()
    }

    fn append(&mut self, added: impl Iterator<Item = Element>) {
        for element in added {
            self.len += 1;
            match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK_LEN) {
                Some(chunk) => chunk.push_back(element),
                None => self.chunks.push_back(VecDeque::from([element])),
            }
        }
    }

    fn remove_collected(&mut self) {
        if self.removed.is_empty() {
            return;
        }
        let removed = std::mem::take(&mut self.removed);
        self.passed += self.len;
        for chunk in &mut self.chunks {
            chunk.retain(|element| !removed.contains(&element.value));
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(VecDeque::len).sum();
    }

    /// Returns the chunk of an element, and its place there.
    fn find(&mut self, index: usize) -> Option<(usize, usize)> {
        self.remove_collected();
        let mut at = index;
        for (place, chunk) in self.chunks.iter().enumerate() {
            if at < chunk.len() {
                return Some((place, at));
            }
            at -= chunk.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use carnet::base::{Rng, SeededRng};

    use super::*;

    fn element(number: u64) -> Element {
        Element { value: Bytes::copy_from_slice(&number.to_be_bytes()), ..Element::default() }
    }

    /// Compares random changes with those of a vector.
    #[test]
    fn changes_are_those_of_a_vector() {
        let mut rng = SeededRng::new(7);
        let mut vector: Vec<Element> = (0..1_000).map(element).collect();
        let mut list: ChunkedList = vector.iter().cloned().collect();
        for number in 1_000..5_000 {
            let index = usize::try_from(rng.below(vector.len() as u64 + 1)).unwrap();
            match rng.below(5) {
                0 | 1 if index < vector.len() => {
                    drop(vector.remove(index));
                    list.remove(index);
                }
                2 if index < vector.len() => {
                    vector[index] = element(number);
                    list.set(index, element(number));
                }
                3 => {
                    let added = vec![element(number), element(number % 50)];
                    vector.splice(0..0, added.clone());
                    list.prepend(added);
                }
                4 if number % 20 == 0 => {
                    let gone = [number % 50, 1_000 + number % 500].map(|it| element(it).value);
                    vector.retain(|element| !gone.contains(&element.value));
                    list.remove_values(gone.into());
                }
                _ => {
                    vector.push(element(number));
                    list.extend(vec![element(number)]);
                }
            }
            if number % 7 == 0 {
                assert_eq!(list.len(), vector.len());
            }
        }
        assert!(vector.len() > 100);
        assert_eq!(list.into_elements(), vector);
    }
}
