//! Write times and times to live of values, as a source returns them beside the values. Pure.

use std::cmp::Reverse;

use anyhow::{Context, Result};
use carnet::{Bytes, DataType};

use super::collection::{elements, serialized};
use super::row::Field;

/// Write time and time to live of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Seconds that are left; `None` if the value does not expire.
    pub(super) ttl: Option<i32>,
    /// Microseconds since 1970; `None` if the source does not say.
    pub(super) written: Option<i64>,
}

/// A part of a value whose elements have the same times, with these.
pub(super) type Part = (Times, Bytes);

impl Times {
    /// Returns the rank among the times of a row: values that last longest come first.
    pub(super) fn rank(self) -> (Reverse<i32>, Option<i64>) {
        (Reverse(self.ttl.unwrap_or(i32::MAX)), self.written)
    }

    /// Returns the values of the markers of `USING TTL ?` or `USING TTL ? AND TIMESTAMP ?`.
    pub(super) fn fields(self, records_times: bool) -> Vec<Field> {
        // A TTL of zero would be none: the value expires within the second.
        let ttl = self.ttl.map_or(0, |ttl| ttl.max(1));
        let mut fields = vec![Field::Value(Bytes::copy_from_slice(&ttl.to_be_bytes()))];
        if records_times {
            let written = self.written.map(|at| Bytes::copy_from_slice(&at.to_be_bytes()));
            fields.push(written.map_or(Field::Unset, Field::Value));
        }
        fields
    }
}

/// Divides a value by the times of its elements. `ttl` and `written` are the source's `TTL(c)` and `WRITETIME(c)`: lists
/// for a column of several cells.
///
/// # Errors
///
/// Values of another form.
pub(super) fn parts(
    data_type: &DataType,
    is_multi_cell: bool,
    value: &Bytes,
    ttl: Option<&Bytes>,
    written: Option<&Bytes>,
) -> Result<Vec<Part>> {
    if !is_multi_cell {
        let ttl = ttl.map(|ttl| int(ttl)).transpose()?;
        let written = written.map(|written| long(written)).transpose()?;
        return Ok(vec![(Times { ttl, written }, value.clone())]);
    }
    let ttls = ttl.map_or(Ok(Vec::new()), elements)?;
    let ttls = ttls.iter().map(|ttl| ttl.as_ref().map(|ttl| int(ttl)).transpose());
    let written = written.map_or(Ok(Vec::new()), elements)?;
    let written = written.iter().map(|at| at.as_ref().map(|at| long(at)).transpose());
    let (ttls, written): (Vec<_>, Vec<_>) =
        (ttls.collect::<Result<_>>()?, written.collect::<Result<_>>()?);
    let times = of_elements(&ttls, &written);
    let width = match data_type {
        DataType::Map(_) => 2,
        DataType::List(_) | DataType::Set(_) => 1,
        // The fields of a user-defined type take the times of the one that lasts longest.
        _ => {
            let longest = times.into_iter().min_by_key(|times| times.rank()).unwrap_or_default();
            return Ok(vec![(longest, value.clone())]);
        }
    };
    let elements = elements(value)?;
    let is_ordered = matches!(data_type, DataType::List(_));
    Ok(divided(&elements, width, &times, is_ordered))
}

/// Combines both lists; one of them may be missing.
fn of_elements(ttls: &[Option<i32>], written: &[Option<i64>]) -> Vec<Times> {
    let count = ttls.len().max(written.len());
    let of = |at: usize| Times {
        ttl: ttls.get(at).copied().flatten(),
        written: written.get(at).copied().flatten(),
    };
    (0..count).map(of).collect()
}

/// Divides elements, each of `width` values, by their times. Elements of a list stay in order.
fn divided(
    elements: &[Option<Bytes>],
    width: usize,
    times: &[Times],
    is_ordered: bool,
) -> Vec<Part> {
    let mut parts: Vec<(Times, Vec<&Option<Bytes>>)> = Vec::new();
    for (at, element) in elements.chunks(width).enumerate() {
        let times = times.get(at).copied().unwrap_or_default();
        let part = if is_ordered {
            parts.last_mut().filter(|(other, _)| *other == times)
        } else {
            parts.iter_mut().find(|(other, _)| *other == times)
        };
        match part {
            Some((_, values)) => values.extend(element),
            None => parts.push((times, element.iter().collect())),
        }
    }
    parts.into_iter().map(|(times, values)| (times, serialized(&values, width))).collect()
}

fn int(bytes: &[u8]) -> Result<i32> {
    Ok(i32::from_be_bytes(bytes.try_into().context("the source sent a TTL of another length")?))
}

fn long(bytes: &[u8]) -> Result<i64> {
    let bytes = bytes.try_into().context("the source sent a write time of another length")?;
    Ok(i64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(data_type: &str, literal: &[Option<i64>]) -> Bytes {
        let width = if data_type == "int" { 4 } else { 8 };
        let of = |number: &i64| Bytes::copy_from_slice(&number.to_be_bytes()[8 - width..]);
        let values: Vec<Option<Bytes>> = literal.iter().map(|it| it.as_ref().map(of)).collect();
        serialized(&values.iter().collect::<Vec<_>>(), 1)
    }

    fn numbers(part: &Part) -> (Option<i32>, Vec<i32>) {
        let values = elements(&part.1).unwrap();
        (part.0.ttl, values.iter().map(|value| int(value.as_ref().unwrap()).unwrap()).collect())
    }

    fn parts_of(data_type: &str, value: &Bytes, ttls: &Bytes) -> Vec<(Option<i32>, Vec<i32>)> {
        let found = parts(&data_type.parse().unwrap(), true, value, Some(ttls), None).unwrap();
        found.iter().map(numbers).collect()
    }

    #[test]
    fn elements_of_a_set_are_grouped_and_those_of_a_list_stay_in_order() {
        let value = bytes("int", &[Some(1), Some(2), Some(3), Some(4)]);
        let ttls = bytes("int", &[None, Some(60), None, None]);
        let set = parts_of("set<int>", &value, &ttls);
        assert_eq!(set, [(None, vec![1, 3, 4]), (Some(60), vec![2])]);
        let list = parts_of("list<int>", &value, &ttls);
        assert_eq!(list, [(None, vec![1]), (Some(60), vec![2]), (None, vec![3, 4])]);
        let map =
            parts_of("map<int, int>", &serialized_map(&value), &bytes("int", &[Some(9), None]));
        assert_eq!(map, [(Some(9), vec![1, 2]), (None, vec![3, 4])]);
    }

    /// Makes a map of a list's elements.
    fn serialized_map(list: &Bytes) -> Bytes {
        serialized(&elements(list).unwrap().iter().collect::<Vec<_>>(), 2)
    }

    #[test]
    fn times_of_a_plain_value_are_numbers() {
        let (ttl, written) =
            (Bytes::from_static(&[0, 0, 0, 7]), Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 9]));
        let value = Bytes::from_static(b"x");
        let found = parts(&DataType::Text, false, &value, Some(&ttl), Some(&written)).unwrap();
        assert_eq!(found, [(Times { ttl: Some(7), written: Some(9) }, value.clone())]);
        assert!(parts(&DataType::Text, false, &value, Some(&written), None).is_err());
    }

    #[test]
    fn ttl_below_a_second_is_no_infinite_one() {
        let ends = Times { ttl: Some(0), written: None };
        assert_eq!(
            ends.fields(true),
            [Field::Value(Bytes::from_static(&[0, 0, 0, 1])), Field::Unset]
        );
        let stays = Times::default();
        assert_eq!(stays.fields(false), [Field::Value(Bytes::from_static(&[0; 4]))]);
        assert!(stays.rank() < ends.rank());
    }
}
