//! Elements of a collection as rows have them.

use std::collections::VecDeque;
use std::iter;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::Result;

use super::element::{CollectionKind, Element, ElementRef, no_collection, take_count};

/// Number of pieces from which the next one makes one piece of all.
const PIECES_MAX: usize = 64;

/// Encoded elements, which were checked.
///
/// A list that was made of several appends consists of as many pieces: joining them costs the same for
/// long and for short ones.
#[derive(Clone, Debug)]
pub(super) struct Encoded {
    first: Piece,
    more: VecDeque<Piece>,
}

/// Elements that one version has brought.
#[derive(Clone, Debug)]
struct Piece {
    count: usize,
    bytes: Bytes,
    /// The write times of the version that the bytes are of, and of the one that they are part of
    /// now, if they differ.
    moved: Option<(WallTime, WallTime)>,
}

impl Piece {
    const EMPTY: Self = Self { count: 0, bytes: Bytes::new(), moved: None };

    fn next<'a>(&self, kind: CollectionKind, rest: &mut &'a [u8]) -> Option<ElementRef<'a>> {
        // The elements were checked: none is missing.
        let mut element = ElementRef::take(kind, rest).ok()?;
        if let Some((older, newer)) = self.moved {
            move_time(&mut element.written, older, newer);
        }
        Some(element)
    }

    fn iter(&self, kind: CollectionKind) -> impl Iterator<Item = ElementRef<'_>> {
        let mut rest = &self.bytes[..];
        iter::from_fn(move || self.next(kind, &mut rest)).take(self.count)
    }

    fn into_elements(self, kind: CollectionKind) -> impl Iterator<Item = Element> {
        let (mut at, count) = (0, self.count);
        let next = move || {
            let mut rest = &self.bytes[at..];
            let element = self.next(kind, &mut rest)?.to_element(&self.bytes);
            at = self.bytes.len() - rest.len();
            Some(element)
        };
        iter::from_fn(next).take(count)
    }
}

impl Encoded {
    pub(super) const EMPTY: Self = Self { first: Piece::EMPTY, more: VecDeque::new() };

    /// Creates one piece of elements.
    pub(super) fn new<'a>(
        kind: CollectionKind,
        elements: impl Iterator<Item = ElementRef<'a>>,
    ) -> Self {
        let (mut count, mut out) = (0, BytesMut::new());
        for element in elements {
            element.put(kind, &mut out);
            count += 1;
        }
        Self::of_bytes(count, out.freeze())
    }

    /// Returns elements that are encoded one after the other.
    pub(super) const fn of_bytes(count: usize, bytes: Bytes) -> Self {
        Self { first: Piece { count, bytes, moved: None }, more: VecDeque::new() }
    }

    /// Takes elements from the front of `rest`, a slice of `whole`, and checks them.
    pub(super) fn take(kind: CollectionKind, rest: &mut &[u8], whole: &Bytes) -> Result<Self> {
        let count = take_count(rest)?;
        let (elements, mut last) = (*rest, None::<&[u8]>);
        for _ in 0..count {
            let ElementRef { key, .. } = ElementRef::take(kind, rest)?;
            if kind.has_keys() && last.replace(key).is_some_and(|last| last >= key) {
                return Err(no_collection("an element is out of order"));
            }
        }
        let bytes = whole.slice_ref(&elements[..elements.len() - rest.len()]);
        Ok(Self::of_bytes(count, bytes))
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        iter::once(&self.first).chain(&self.more)
    }

    pub(super) fn len(&self) -> usize {
        self.pieces().map(|piece| piece.count).sum()
    }

    /// Returns the size of the elements in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pieces().map(|piece| piece.bytes.len()).sum()
    }

    pub(super) fn iter(&self, kind: CollectionKind) -> impl Iterator<Item = ElementRef<'_>> {
        self.pieces().flat_map(move |piece| piece.iter(kind))
    }

    pub(super) fn elements(&self, kind: CollectionKind) -> Vec<Element> {
        let mut elements = Vec::with_capacity(self.len());
        for piece in self.pieces() {
            elements.extend(piece.iter(kind).map(|element| element.to_element(&piece.bytes)));
        }
        elements
    }

    pub(super) fn into_elements(self, kind: CollectionKind) -> impl Iterator<Item = Element> {
        let Self { first, more } = self;
        iter::once(first).chain(more).flat_map(move |piece| piece.into_elements(kind))
    }

    /// Makes the elements part of a version with another write time; they keep theirs. `older` is the
    /// time of the version that they are part of now.
    pub(super) fn begin_version(&mut self, older: WallTime, newer: WallTime) {
        for piece in iter::once(&mut self.first).chain(&mut self.more) {
            let first = piece.moved.map_or(older, |(first, _)| first);
            piece.moved = Some((first, newer));
        }
    }

    /// Adds the elements of a list before and behind others of a list.
    pub(super) fn join(&mut self, front: &Self, back: &Self) {
        for piece in front.pieces().collect::<Vec<_>>().into_iter().rev() {
            if piece.count > 0 {
                let second = std::mem::replace(&mut self.first, piece.clone());
                self.more.push_front(second);
            }
        }
        self.more.extend(back.pieces().filter(|piece| piece.count > 0).cloned());
        if self.more.len() >= PIECES_MAX {
            let kind = CollectionKind::List;
            *self = Self::new(kind, self.iter(kind));
        }
    }

    /// Writes the elements.
    pub(super) fn put(&self, kind: CollectionKind, out: &mut BytesMut) {
        for piece in self.pieces() {
            match piece {
                Piece { bytes, moved: None, .. } => out.put_slice(bytes),
                moved => moved.iter(kind).for_each(|element| element.put(kind, out)),
            }
        }
    }
}

/// Keeps the write time of a column or an element that becomes part of another version, which has the
/// time `newer` instead of `older`. `None` is the time of the version.
pub(super) fn move_time(own: &mut Option<WallTime>, older: WallTime, newer: WallTime) {
    let known = own.unwrap_or(older);
    *own = (known != newer).then_some(known);
}
