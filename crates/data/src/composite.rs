//! Lists, sets, maps, tuples and vectors: their construction and serialization.
//!
//! Equal composite values have equal bytes, because a partition key may have them. So each has one
//! form: the elements of a set and the keys of a map are in the order of their type, without
//! duplicates, and a tuple has all its fields.
//!
//! ```text
//! {2, 1} of set<int>              00000002  00000004 00000001  00000004 00000002
//! ('a', null) of tuple<text, int>           00000001 61        ffffffff
//! ```
//!
//! Vectors have bytes of their own: see [`crate::vector`].
//!
//! The same bytes travel in the native protocol. A client may send other forms: they are read, and
//! written in the one form.

use bytes::{Buf, BufMut, BytesMut};
use carnet_base::error::{Error, Result};

use crate::value::{Composite, DataType, Value};
use crate::vector;

/// Length of a part that is null.
const NULL: i32 = -1;

impl Composite {
    /// Makes a value of its parts: the elements of a list, set or vector, the keys and values of a map in
    /// turn, or the fields of a tuple, whose last ones may be missing.
    ///
    /// Elements and keys are sorted where the type is. Of equal keys the value of the last remains.
    ///
    /// # Errors
    ///
    /// `Invalid` if the type is a scalar, if a part has another type than the type says, if a part
    /// other than a tuple's is null, if a map has a key without a value, if a tuple has more values
    /// than fields, or if a vector has another number of values than dimensions.
    pub fn new(data_type: DataType, mut parts: Vec<Option<Value>>) -> Result<Self> {
        let types = data_type.parts();
        match &data_type {
            record if record.is_record() && parts.len() > types.len() => {
                return Err(Error::invalid(format!(
                    "{} values for the {} fields of {data_type}",
                    parts.len(),
                    types.len()
                )));
            }
            record if record.is_record() => parts.resize(types.len(), None),
            DataType::Vector(vector) if parts.len() != usize::from(vector.1) => {
                return Err(Error::invalid(format!(
                    "a value of {data_type} has {} elements, not {}",
                    vector.1,
                    parts.len()
                )));
            }
            _ if types.is_empty() => {
                return Err(Error::invalid(format!("{data_type} is no composite type")));
            }
            _ if !parts.len().is_multiple_of(types.len()) => {
                return Err(Error::invalid(format!("a key of {data_type} has no value")));
            }
            _ => {}
        }
        for (part, expected) in parts.iter().zip(types.iter().cycle()) {
            check_part(&data_type, expected, part.as_ref())?;
        }
        match data_type {
            DataType::Set(_) => sort_set(&mut parts),
            DataType::Map(_) => parts = sorted_map(&parts),
            _ => {}
        }
        Ok(Self { data_type, parts })
    }

    /// Returns the type.
    #[must_use]
    pub const fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the elements of a list, set or vector, the keys and values of a map in turn, or the
    /// fields of a tuple. Only fields may be null.
    #[must_use]
    pub fn parts(&self) -> &[Option<Value>] {
        &self.parts
    }

    /// Returns the parts, like [`Composite::parts`].
    #[must_use]
    pub fn into_parts(self) -> Vec<Option<Value>> {
        self.parts
    }

    /// Returns the element of a list at an index, from 0, the value of a map for a key, or an element
    /// of a set itself; `None` if there is none.
    #[must_use]
    pub fn get(&self, at: &Value) -> Option<&Value> {
        match (&self.data_type, at) {
            (DataType::List(_), Value::Int(index)) => {
                self.parts.get(usize::try_from(*index).ok()?)?.as_ref()
            }
            (DataType::Map(_), key) => {
                let pairs = self.parts.as_chunks::<2>().0;
                let order = |pair: &[Option<Value>; 2]| {
                    Value::compare_nullable(pair[0].as_ref(), Some(key))
                };
                pairs.binary_search_by(order).ok().and_then(|place| pairs[place][1].as_ref())
            }
            (DataType::Set(_), element) => {
                let order =
                    |part: &Option<Value>| Value::compare_nullable(part.as_ref(), Some(element));
                self.parts.binary_search_by(order).ok().and_then(|place| self.parts[place].as_ref())
            }
            _ => None,
        }
    }

    /// Returns the elements of a set, or the pairs of a map, from one element or key to another, both
    /// included.
    #[must_use]
    pub fn slice(&self, from: Option<&Value>, to: Option<&Value>) -> Self {
        let width = self.data_type.parts().len().max(1);
        let is_within = |part: &&[Option<Value>]| {
            let order = |bound| Value::compare_nullable(part[0].as_ref(), Some(bound));
            from.is_none_or(|from| order(from).is_ge()) && to.is_none_or(|to| order(to).is_le())
        };
        let kept = self.parts.chunks(width).filter(is_within).flatten();
        Self { data_type: self.data_type.clone(), parts: kept.cloned().collect() }
    }

    /// Returns the field of a user-defined type; `None` if there is none or if it is null.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        let DataType::Udt(user_type) = &self.data_type else { return None };
        let place = user_type.fields.iter().position(|(field, _)| field == name)?;
        self.parts[place].as_ref()
    }

    /// Returns the number of parts that make one item: two for a map.
    #[must_use]
    pub const fn parts_per_item(&self) -> usize {
        if matches!(self.data_type, DataType::Map(_)) { 2 } else { 1 }
    }

    pub(crate) fn serialize_into(&self, out: &mut BytesMut) {
        if let DataType::Vector(vector) = &self.data_type {
            return vector::put_elements(out, &vector.0, &self.parts);
        }
        if !self.data_type.is_record() {
            out.put_i32(length(self.parts.len() / self.parts_per_item()));
        }
        for part in &self.parts {
            let Some(value) = part else {
                out.put_i32(NULL);
                continue;
            };
            let at = out.len();
            out.put_i32(0);
            value.serialize_into(out);
            let bytes = length(out.len() - at - 4);
            out[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
        }
    }

    /// Decodes a value that takes all of `bytes`.
    pub(crate) fn deserialize(data_type: &DataType, bytes: &[u8]) -> Result<Self> {
        if let DataType::Vector(vector) = data_type {
            let elements = vector::split(data_type, &vector.0, vector.1, bytes)?;
            let parts = elements.into_iter().map(|bytes| vector.0.deserialize(bytes).map(Some));
            let parts = parts.collect::<Result<Vec<_>>>();
            return Self::new(
                data_type.clone(),
                parts.map_err(|error| in_part(data_type, &error))?,
            );
        }
        Self::new(data_type.clone(), Self::deserialize_parts(data_type, bytes)?)
    }

    /// Decodes a list that takes all of `bytes` and may have nulls.
    pub(crate) fn deserialize_list(list: &DataType, bytes: &[u8]) -> Result<Self> {
        Ok(Self { data_type: list.clone(), parts: Self::deserialize_parts(list, bytes)? })
    }

    fn deserialize_parts(data_type: &DataType, bytes: &[u8]) -> Result<Vec<Option<Value>>> {
        let mut rest = Rest { data_type, bytes };
        let types = data_type.parts();
        let count = match data_type {
            record if record.is_record() => types.len(),
            _ => rest.count()?.saturating_mul(types.len()),
        };
        let mut parts = Vec::new();
        for part_type in types.iter().cycle().take(count) {
            // Fields that were added to a tuple later are missing.
            if data_type.is_record() && rest.bytes.is_empty() {
                break;
            }
            let part = rest.part()?.map(|bytes| part_type.deserialize(bytes)).transpose();
            parts.push(part.map_err(|error| in_part(data_type, &error))?);
        }
        if !rest.bytes.is_empty() {
            return Err(rest.wrong("has bytes after its last part"));
        }
        Ok(parts)
    }
}

fn check_part(whole: &DataType, expected: &DataType, part: Option<&Value>) -> Result<()> {
    match part {
        None if whole.is_record() => Ok(()),
        None => Err(Error::invalid(format!("null is not supported inside a value of {whole}"))),
        Some(Value::Empty(_)) if matches!(whole, DataType::Vector(_)) => Err(Error::invalid(
            format!("the empty value is not supported inside a value of {whole}"),
        )),
        Some(value) if value.data_type() != *expected => Err(Error::invalid(format!(
            "a value of {} inside a value of {whole}, which has values of {expected}",
            value.data_type()
        ))),
        Some(value) => value.validate().map_err(|error| in_part(whole, &error)),
    }
}

fn in_part(whole: &DataType, error: &Error) -> Error {
    Error::invalid(format!("within a value of {whole}: {}", error.message()))
}

fn sort_set(parts: &mut Vec<Option<Value>>) {
    parts.sort_by(|a, b| Value::compare_nullable(a.as_ref(), b.as_ref()));
    parts.dedup_by(|a, b| Value::compare_nullable(a.as_ref(), b.as_ref()).is_eq());
}

fn sorted_map(parts: &[Option<Value>]) -> Vec<Option<Value>> {
    let (pairs, _) = parts.as_chunks::<2>();
    let mut pairs = pairs.to_vec();
    let compare = |a: &[Option<Value>; 2], b: &[Option<Value>; 2]| {
        Value::compare_nullable(a[0].as_ref(), b[0].as_ref())
    };
    pairs.sort_by(compare);
    pairs.dedup_by(|later, earlier| {
        let is_same = compare(later, earlier).is_eq();
        if is_same {
            earlier[1] = later[1].take();
        }
        is_same
    });
    pairs.into_iter().flatten().collect()
}

fn length(of: usize) -> i32 {
    i32::try_from(of).expect("a frame, and so a value, is shorter than 2 GiB")
}

/// Bytes that are still to be decoded.
struct Rest<'t, 'b> {
    data_type: &'t DataType,
    bytes: &'b [u8],
}

impl<'b> Rest<'_, 'b> {
    fn wrong(&self, why: &str) -> Error {
        Error::invalid(format!("a value of {} {why}", self.data_type))
    }

    fn number(&mut self) -> Result<i32> {
        self.bytes.try_get_i32().map_err(|_| self.wrong("ends too early"))
    }

    fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| self.wrong("has a negative number of parts"))
    }

    fn part(&mut self) -> Result<Option<&'b [u8]>> {
        // Like Cassandra: some drivers send −2, which is "not set" elsewhere, for a field without value.
        let Ok(length) = usize::try_from(self.number()?) else { return Ok(None) };
        let (part, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| self.wrong("ends too early"))?;
        self.bytes = rest;
        Ok(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, unhex};

    fn ints(numbers: &[i32]) -> Vec<Option<Value>> {
        numbers.iter().map(|number| Some(Value::Int(*number))).collect()
    }

    fn text(text: &str) -> Option<Value> {
        Some(Value::Text(text.to_owned()))
    }

    #[test]
    fn sets_and_maps_have_one_form() {
        let set = DataType::set(DataType::Int);
        let sorted = Composite::new(set.clone(), ints(&[-1, 1, 2])).unwrap();
        assert_eq!(Composite::new(set.clone(), ints(&[2, -1, 1, 2])).unwrap(), sorted);
        let sent = unhex("000000030000000400000002000000040000000100000004ffffffff");
        assert_eq!(set.deserialize(&sent).unwrap(), Value::Composite(sorted));
        let map = DataType::map(DataType::Text, DataType::Int);
        let parts = vec![text("b"), Some(Value::Int(1)), text("a"), None];
        assert!(Composite::new(map.clone(), parts.clone()).is_err(), "null in a map");
        assert!(Composite::new(map.clone(), parts[..1].to_vec()).is_err(), "a key alone");
        let pairs = |pairs: &[(&str, i32)]| {
            let parts = pairs.iter().flat_map(|(k, v)| [text(k), Some(Value::Int(*v))]);
            Composite::new(map.clone(), parts.collect()).unwrap()
        };
        assert_eq!(pairs(&[("b", 1), ("a", 2), ("b", 3)]), pairs(&[("a", 2), ("b", 3)]));
    }

    #[test]
    fn tuples_have_all_their_fields() {
        let tuple = DataType::tuple([DataType::Int, DataType::Text]);
        let short = tuple.deserialize(&unhex("0000000400000007")).unwrap();
        assert_eq!(short.serialize(), unhex("0000000400000007ffffffff"));
        assert_eq!(tuple.deserialize(&short.serialize()).unwrap(), short);
        assert!(Composite::new(tuple.clone(), ints(&[1])).is_ok());
        assert!(Composite::new(tuple.clone(), ints(&[1, 2])).is_err(), "text expected");
        assert!(Composite::new(tuple, vec![None, None, None]).is_err(), "three fields");
        assert!(Composite::new(DataType::Int, vec![]).is_err());
    }

    #[test]
    fn fields_of_negative_length_are_null() {
        let tuple = DataType::tuple([DataType::Int, DataType::Text]);
        let null = tuple.deserialize(&unhex("0000000400000007ffffffff")).unwrap();
        for sent in ["0000000400000007fffffffe", "000000040000000780000000"] {
            assert_eq!(tuple.deserialize(&unhex(sent)).unwrap(), null, "{sent}");
        }
        let list = DataType::list(DataType::Int);
        assert!(list.deserialize(&unhex("00000001fffffffe")).is_err(), "null in a list");
    }

    #[test]
    fn elements_are_found_by_index_and_key() {
        let list = Composite::new(DataType::list(DataType::Int), ints(&[5, 6])).unwrap();
        assert_eq!(list.get(&Value::Int(1)), Some(&Value::Int(6)));
        assert_eq!(list.get(&Value::Int(2)), None);
        assert_eq!(list.get(&Value::Int(-1)), None);
        let map = DataType::map(DataType::Int, DataType::Text);
        let pairs = [9, -3, 4].map(|key| [Some(Value::Int(key)), text(&key.to_string())]);
        let map = Composite::new(map, pairs.into_iter().flatten().collect()).unwrap();
        assert_eq!(map.get(&Value::Int(-3)), text("-3").as_ref());
        assert_eq!(map.get(&Value::Int(0)), None);
        let set = Composite::new(DataType::set(DataType::Int), ints(&[5])).unwrap();
        assert_eq!(set.get(&Value::Int(5)), Some(&Value::Int(5)));
        assert_eq!(set.get(&Value::Int(6)), None);
    }

    #[test]
    fn only_lists_of_results_have_nulls() {
        let list = DataType::list(DataType::Int);
        let bytes = unhex("000000020000000400000007ffffffff");
        assert!(list.deserialize(&bytes).is_err());
        assert_eq!(list.deserialize_result(&bytes).unwrap().to_literal(), "[7, null]");
        assert!(DataType::set(DataType::Int).deserialize_result(&bytes).is_err());
        assert!(list.deserialize_result(&bytes[..9]).is_err());
    }

    #[test]
    fn hostile_bytes_do_not_panic() {
        let data_type = "map<text, tuple<int, set<varint>>>".parse::<DataType>().unwrap();
        let texts = ["{}", "{'a': (1, {2, 3}), 'b': null}", "{'': (null, {})}"];
        let value = |text: &&str| data_type.parse_text(text).ok();
        let samples: Vec<_> =
            texts.iter().filter_map(value).map(|value| value.serialize()).collect();
        assert_eq!(samples.len(), 2, "null in a map is refused");
        testing::fuzz(&samples, |bytes| {
            if let Ok(value) = data_type.deserialize(bytes) {
                let bytes = value.serialize();
                assert_eq!(data_type.deserialize(&bytes).unwrap().serialize(), bytes);
            }
        });
    }

    #[test]
    fn vectors_have_all_their_elements() {
        let vector = DataType::vector(DataType::Int, 2);
        let value = vector.deserialize(&unhex("0000000100000002")).unwrap();
        assert_eq!(value, Value::Composite(Composite::new(vector.clone(), ints(&[1, 2])).unwrap()));
        assert_eq!(value.serialize(), unhex("0000000100000002"));
        for parts in [ints(&[1]), ints(&[1, 2, 3]), vec![None, None], vec![text("a"), text("b")]] {
            assert!(Composite::new(vector.clone(), parts).is_err());
        }
    }

    #[test]
    fn truncated_composites_are_refused() {
        let inner = DataType::list(DataType::Int);
        let outer = DataType::map(DataType::Text, inner.clone());
        let list = Value::Composite(Composite::new(inner, ints(&[1, 2])).unwrap());
        let map = Composite::new(outer.clone(), vec![text("a"), Some(list)]).unwrap();
        let bytes = Value::Composite(map.clone()).serialize();
        assert_eq!(outer.deserialize(&bytes).unwrap(), Value::Composite(map));
        for end in 0..bytes.len() {
            assert!(outer.deserialize(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(outer.deserialize(&[&bytes[..], &[0]].concat()).is_err());
        // A false count allocates nothing.
        assert!(outer.deserialize(&[0x7f, 0xff, 0xff, 0xff]).is_err());
        assert!(outer.deserialize(&[0xff; 4]).is_err());
    }
}
