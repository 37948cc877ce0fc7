//! Changes that older write times do not replace, as in Cassandra: timestamps decide, not commits.
//!
//! A value replaces one with an earlier write time. With equal times a deletion precedes a value, one
//! that expires precedes one that does not, the later expiry precedes, and then the greater bytes. A
//! deletion removes the values written up to its time, and leaves no trace: an older value that is
//! written after it is visible.

use carnet_base::clock::WallTime;
use carnet_base::error::Result;
use carnet_base::ids::ColumnId;

use super::collection::Collection;
use super::delta::{Change, RowDelta};
use super::image::{Column, RowImage, UNKNOWN};
use super::marker::Marker;

impl RowDelta {
    /// Applies the changes to a stored image, except where the image has later values.
    ///
    /// # Errors
    ///
    /// `Corrupted` if elements change of a column that is no such collection.
    pub fn apply_by_time(&self, image: &mut RowImage) -> Result<()> {
        let Some(time) = self.written else { return self.apply(image) };
        image.schema_version = self.schema_version;
        image.fix_marker_time();
        image.begin_version(Some(time));
        if let Some(marker) = self.marker {
            let weight = |marker: Marker| (marker.written.unwrap_or(time), marker.expiry);
            let next = Marker { written: Some(time), ..marker };
            if image.marker.is_none_or(|stored| weight(next) >= weight(stored)) {
                image.marker = Some(next);
            }
        }
        for (id, change) in self.changes() {
            match change {
                Change::Set { value, expiry } => {
                    let next = Column { value: value.clone(), expiry: *expiry, written: None };
                    let weight =
                        |it: &Column| (it.written.unwrap_or(time), it.expiry, it.value.clone());
                    if image.column(*id).is_none_or(|stored| weight(&next) >= weight(stored)) {
                        image.set(*id, next);
                    }
                }
                Change::Deleted => image.delete_column(*id, time),
                Change::Elements(change) => {
                    let stored = image.take_elements(*id, change.kind())?;
                    image.set_collection(*id, change.apply_by_time(stored, time)?);
                }
                // Additions have no timestamps.
                Change::Added(_) => change.apply(*id, image)?,
            }
        }
        Ok(())
    }
}

impl RowImage {
    /// Deletes the marker, values and elements that were written up to a time.
    pub fn delete_by_time(&mut self, time: WallTime) {
        self.fix_marker_time();
        self.marker.take_if(|marker| marker.written.is_none_or(|written| written <= time));
        let ids = self.columns().iter().map(|(id, _)| *id);
        let ids: Vec<ColumnId> = ids.chain(self.collections().iter().map(|(id, _)| *id)).collect();
        ids.into_iter().for_each(|id| self.delete_column(id, time));
    }

    /// Deletes the value or elements of a column that were written up to a time.
    fn delete_column(&mut self, id: ColumnId, time: WallTime) {
        let version = self.written.unwrap_or(UNKNOWN);
        let is_later = |own: Option<WallTime>| own.unwrap_or(version) > time;
        if let Some(collection) = self.collection(id) {
            let (kind, kept) = (collection.kind(), collection.elements().iter());
            let kept = kept.filter(|element| is_later(element.written)).cloned().collect();
            self.set_collection(id, Collection::new(kind, kept));
        } else if self.column(id).is_some_and(|column| !is_later(column.written)) {
            self.remove(id);
        }
    }

    /// Gives the marker its write time, which it keeps in later versions.
    fn fix_marker_time(&mut self) {
        let version = self.written.unwrap_or(UNKNOWN);
        if let Some(marker) = &mut self.marker {
            marker.written.get_or_insert(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::row::{CollectionChange, CollectionKind, Element};

    const A: ColumnId = ColumnId(1);
    const M: ColumnId = ColumnId(2);

    fn set(value: &'static str, expiry: Option<i64>) -> Change {
        Change::Set { value: Bytes::from_static(value.as_bytes()), expiry }
    }

    fn apply(image: &mut RowImage, time: i64, id: ColumnId, change: Change) {
        let mut delta = RowDelta::new(1);
        delta.written = Some(WallTime(time));
        delta.change(id, change);
        delta.apply_by_time(image).unwrap();
    }

    fn value(image: &RowImage) -> Option<&[u8]> {
        image.value(A).map(|value| &value[..])
    }

    #[test]
    fn later_time_wins_in_any_order() {
        for order in [[5, 9, 7], [9, 7, 5], [7, 5, 9]] {
            let mut image = RowImage::new(1);
            for time in order {
                let text = ["five", "seven", "nine"][usize::try_from((time - 5) / 2).unwrap()];
                apply(&mut image, time, A, set(text, None));
            }
            assert_eq!(value(&image), Some(&b"nine"[..]), "{order:?}");
            assert_eq!(image.write_time(image.column(A).unwrap().written), Some(WallTime(9)));
        }
    }

    #[test]
    fn equal_times_are_decided_by_expiry_then_bytes() {
        let ascending = [
            set("a", None),
            set("b", None),
            set("a", Some(7)),
            set("a", Some(8)),
            set("b", Some(8)),
        ];
        for (n, one) in ascending.iter().enumerate() {
            for (m, other) in ascending.iter().enumerate() {
                let mut image = RowImage::new(1);
                apply(&mut image, 5, A, one.clone());
                apply(&mut image, 5, A, other.clone());
                let Change::Set { value: greater, expiry } = &ascending[n.max(m)] else { panic!() };
                assert_eq!(value(&image), Some(&greater[..]));
                assert_eq!(image.column(A).unwrap().expiry, *expiry);
            }
        }
        let mut image = RowImage::new(1);
        apply(&mut image, 5, A, set("z", Some(9)));
        apply(&mut image, 5, A, Change::Deleted);
        assert_eq!(value(&image), None, "a deletion precedes a value of its time");
    }

    #[test]
    fn deletions_remove_only_what_is_older() {
        let mut image = RowImage::new(1);
        let mut delta = RowDelta::new(1);
        (delta.written, delta.marker) = (Some(WallTime(5)), Some(Marker::default()));
        delta.apply_by_time(&mut image).unwrap();
        apply(&mut image, 9, A, set("nine", None));
        apply(&mut image, 8, A, Change::Deleted);
        assert!(value(&image).is_some());
        image.delete_by_time(WallTime(4));
        assert!(image.marker.is_some(), "the marker has the time of its INSERT");
        image.delete_by_time(WallTime(5));
        assert!(image.marker.is_none() && value(&image).is_some());
        image.delete_by_time(WallTime(9));
        assert!(!image.is_live());
    }

    /// A marker without a write time has that of its version.
    #[test]
    fn marker_of_a_later_version_remains() {
        let mut image = RowImage::new(1);
        (image.marker, image.written) = (Some(Marker::default()), Some(WallTime(9)));
        image.delete_by_time(WallTime(8));
        assert!(image.marker.is_some());
        image.delete_by_time(WallTime(9));
        assert!(image.marker.is_none());
    }

    #[test]
    fn elements_are_decided_one_by_one() {
        let element = |key: &'static str, value: &'static str| Element {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            ..Element::default()
        };
        let map = CollectionKind::Map;
        let add = |elements: &[Element]| {
            let mut change = CollectionChange::new(map);
            change.add(elements.to_vec());
            Change::from(change)
        };
        let shown = |image: &RowImage| {
            let elements = image.collection(M).map_or(&[][..], Collection::elements);
            let pair = |it: &Element| [&it.key, &it.value].map(|bytes| bytes.to_vec()).concat();
            String::from_utf8(elements.iter().map(pair).collect::<Vec<_>>().join(&b' ')).unwrap()
        };
        let mut image = RowImage::new(1);
        apply(&mut image, 5, M, add(&[element("a", "5"), element("b", "5")]));
        apply(&mut image, 9, M, add(&[element("b", "9")]));
        apply(&mut image, 7, M, add(&[element("a", "7"), element("b", "7")]));
        assert_eq!(shown(&image), "a7 b9");
        let replaced = Collection::new(map, vec![element("c", "8")]);
        apply(&mut image, 8, M, CollectionChange::replace(replaced).into());
        assert_eq!(shown(&image), "b9 c8");
        let mut removal = CollectionChange::new(map);
        removal.remove(vec![Bytes::from_static(b"b"), Bytes::from_static(b"c")]);
        apply(&mut image, 8, M, removal.into());
        assert_eq!(shown(&image), "b9");
        apply(&mut image, 8, M, Change::Deleted);
        assert_eq!(shown(&image), "b9");
        apply(&mut image, 9, M, Change::Deleted);
        assert_eq!(shown(&image), "");
    }

    #[test]
    fn list_keeps_later_elements_before_a_new_value() {
        let list = CollectionKind::List;
        let elements = |values: &[&'static str]| -> Vec<Element> {
            let element = |value: &&'static str| Element {
                value: Bytes::from_static(value.as_bytes()),
                ..Element::default()
            };
            values.iter().map(element).collect()
        };
        let mut image = RowImage::new(1);
        let replace = |values: &[&'static str]| {
            Change::from(CollectionChange::replace(Collection::new(list, elements(values))))
        };
        let shown = |image: &RowImage| {
            let list = image.collection(M).unwrap().elements().iter();
            list.map(|it| String::from_utf8(it.value.to_vec()).unwrap()).collect::<Vec<_>>()
        };
        apply(&mut image, 5, M, replace(&["a", "b"]));
        let mut append = CollectionChange::new(list);
        append.add(elements(&["c"]));
        append.prepend(elements(&["d"]));
        apply(&mut image, 9, M, append.into());
        assert_eq!(shown(&image), ["d", "a", "b", "c"]);
        apply(&mut image, 7, M, replace(&["e"]));
        assert_eq!(shown(&image), ["d", "c", "e"]);
        let edited = Collection::new(list, elements(&["f"]));
        apply(&mut image, 6, M, CollectionChange::edited(edited).into());
        assert_eq!(shown(&image), ["f"]);
    }
}
