//! Display forms of values: for tables and CSV, and for JSON.

use carnet::{DataType, Error, Result};
use carnet_cql::result::ResultType;

/// Returns a value's display form.
pub(crate) fn text(result_type: &ResultType, bytes: &[u8]) -> Result<String> {
    match result_type {
        ResultType::Scalar(data_type) => Ok(data_type.deserialize(bytes)?.to_string()),
        _ => nested(result_type, bytes),
    }
}

/// Returns a value as JSON. Numbers that JSON parsers would round or refuse (`decimal`, `varint`,
/// NaN, infinities) become strings, and so do types that JSON lacks.
pub(crate) fn json(result_type: &ResultType, bytes: &[u8]) -> Result<String> {
    let ResultType::Scalar(data_type) = result_type else {
        return json_collection(result_type, bytes);
    };
    let text = data_type.deserialize(bytes)?.to_string();
    Ok(match data_type {
        DataType::Bigint
        | DataType::Counter
        | DataType::Int
        | DataType::Smallint
        | DataType::Tinyint => text,
        DataType::Boolean => text.to_ascii_lowercase(),
        DataType::Double | DataType::Float if text.parse::<f64>().is_ok_and(f64::is_finite) => text,
        _ => quote(&text),
    })
}

/// Returns a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a value inside a collection as a CQL literal.
fn nested(result_type: &ResultType, bytes: &[u8]) -> Result<String> {
    let list = |item: &ResultType, open: char, close: char| {
        let items = Items::count(bytes)?.all(1)?;
        let items = items.iter().map(|bytes| optional(item, *bytes, "null", nested));
        Ok(format!("{open}{}{close}", items.collect::<Result<Vec<_>>>()?.join(", ")))
    };
    match result_type {
        ResultType::Scalar(data_type) => Ok(data_type.deserialize(bytes)?.to_literal()),
        ResultType::Duration => Err(no_durations()),
        ResultType::List(item) => list(item, '[', ']'),
        ResultType::Set(item) => list(item, '{', '}'),
        ResultType::Map(key, value) => {
            let pairs = Items::count(bytes)?.all(2)?;
            let pair = |pair: &[Option<&[u8]>]| {
                let key = optional(key, pair[0], "null", nested)?;
                Ok(format!("{key}: {}", optional(value, pair[1], "null", nested)?))
            };
            let pairs = pairs.chunks_exact(2).map(pair).collect::<Result<Vec<_>>>()?;
            Ok(format!("{{{}}}", pairs.join(", ")))
        }
        ResultType::Tuple(types) => {
            let items = Items { count: types.len(), rest: bytes }.all(1)?;
            let items =
                types.iter().zip(items).map(|(item, bytes)| optional(item, bytes, "null", nested));
            Ok(format!("({})", items.collect::<Result<Vec<_>>>()?.join(", ")))
        }
    }
}

fn json_collection(result_type: &ResultType, bytes: &[u8]) -> Result<String> {
    match result_type {
        ResultType::Scalar(_) => json(result_type, bytes),
        ResultType::Duration => Err(no_durations()),
        ResultType::List(item) | ResultType::Set(item) => {
            let items = Items::count(bytes)?.all(1)?;
            let items = items.iter().map(|bytes| optional(item, *bytes, "null", json));
            Ok(format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(",")))
        }
        ResultType::Map(key, value) => {
            let pairs = Items::count(bytes)?.all(2)?;
            let pair = |pair: &[Option<&[u8]>]| {
                let key = quote(&optional(key, pair[0], "null", text)?);
                Ok(format!("{key}:{}", optional(value, pair[1], "null", json)?))
            };
            let pairs = pairs.chunks_exact(2).map(pair).collect::<Result<Vec<_>>>()?;
            Ok(format!("{{{}}}", pairs.join(",")))
        }
        ResultType::Tuple(types) => {
            let items = Items { count: types.len(), rest: bytes }.all(1)?;
            let items =
                types.iter().zip(items).map(|(item, bytes)| optional(item, bytes, "null", json));
            Ok(format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(",")))
        }
    }
}

/// No column has that type: only markers for timeouts do.
fn no_durations() -> Error {
    Error::unsupported("a column of type duration")
}

fn optional(
    result_type: &ResultType,
    bytes: Option<&[u8]>,
    null: &str,
    show: impl Fn(&ResultType, &[u8]) -> Result<String>,
) -> Result<String> {
    bytes.map_or_else(|| Ok(null.to_owned()), |bytes| show(result_type, bytes))
}

/// Items of a collection: each has a 32-bit length, negative for null, and that number of bytes.
struct Items<'a> {
    count: usize,
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// Reads a collection's number of items.
    fn count(bytes: &'a [u8]) -> Result<Self> {
        let (count, rest) = bytes.split_first_chunk().ok_or_else(cut_off)?;
        let count = usize::try_from(i32::from_be_bytes(*count)).map_err(|_| cut_off())?;
        Ok(Self { count, rest })
    }

    fn all(mut self, per_entry: usize) -> Result<Vec<Option<&'a [u8]>>> {
        let count = self.count.checked_mul(per_entry).ok_or_else(cut_off)?;
        // Each item takes at least its length field: a larger count is invalid, and allocates
        // nothing.
        if count > self.rest.len() / 4 {
            return Err(cut_off());
        }
        (0..count).map(|_| self.take()).collect()
    }

    fn take(&mut self) -> Result<Option<&'a [u8]>> {
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.rest = rest;
            return Ok(None);
        };
        let (item, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(Some(item))
    }
}

fn cut_off() -> Error {
    Error::corrupted("a collection's bytes are cut off")
}

#[cfg(test)]
mod tests {
    use carnet::Value;
    use carnet::base::{Rng, SeededRng};

    use super::*;

    const TEXT: ResultType = ResultType::Scalar(DataType::Text);
    const INT: ResultType = ResultType::Scalar(DataType::Int);

    fn collection(items: &[Option<Value>], entries: i32) -> Vec<u8> {
        let mut bytes = entries.to_be_bytes().to_vec();
        for item in items {
            match item.as_ref().map(Value::serialize) {
                Some(item) => {
                    bytes.extend(i32::try_from(item.len()).unwrap().to_be_bytes());
                    bytes.extend(item);
                }
                None => bytes.extend((-1_i32).to_be_bytes()),
            }
        }
        bytes
    }

    #[test]
    fn scalars() {
        let show = |value: Value| {
            let result_type = ResultType::Scalar(value.data_type());
            let bytes = value.serialize();
            (text(&result_type, &bytes).unwrap(), json(&result_type, &bytes).unwrap())
        };
        assert_eq!(show(Value::Int(-1)), ("-1".into(), "-1".into()));
        assert_eq!(show(Value::Boolean(true)), ("True".into(), "true".into()));
        assert_eq!(show(Value::Double(0.5)), ("0.5".into(), "0.5".into()));
        assert_eq!(show(Value::Double(f64::NAN)), ("NaN".into(), "\"NaN\"".into()));
        assert_eq!(show(Value::Text("a\"\n".into())), ("a\"\n".into(), "\"a\\\"\\n\"".into()));
    }

    #[test]
    fn floats_are_numbers_of_json() {
        for number in [1e300, -1e-7, 0.1, 1e20, 5.0, -0.0, f64::MAX] {
            let bytes = Value::Double(number).serialize();
            let json = json(&ResultType::Scalar(DataType::Double), &bytes).unwrap();
            let read: f64 = serde_json::from_str(&json).unwrap();
            assert_eq!(read.to_bits(), number.to_bits(), "{json}");
        }
    }

    #[test]
    fn collections() {
        let list = ResultType::List(Box::new(TEXT));
        let bytes = collection(&[Some(Value::Text("a'b".into())), None], 2);
        assert_eq!(text(&list, &bytes).unwrap(), "['a''b', null]");
        assert_eq!(json(&list, &bytes).unwrap(), r#"["a'b",null]"#);
        let map = ResultType::Map(Box::new(INT), Box::new(TEXT));
        let bytes = collection(&[Some(Value::Int(1)), Some(Value::Text("x".into()))], 1);
        assert_eq!(text(&map, &bytes).unwrap(), "{1: 'x'}");
        assert_eq!(json(&map, &bytes).unwrap(), r#"{"1":"x"}"#);
        let tuple = ResultType::Tuple(vec![INT, TEXT]);
        assert_eq!(text(&tuple, &bytes[4..]).unwrap(), "(1, 'x')");
    }

    #[test]
    fn invalid_bytes_are_refused_without_panic() {
        let list = ResultType::List(Box::new(TEXT));
        for seed in 0..5_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = collection(&[Some(Value::Text("abc".into())), None], 2);
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= rng.next_u64().to_be_bytes()[0] | 1;
            let shown = text(&list, &bytes).unwrap_or_default();
            assert!(shown.len() < 64, "seed {seed}");
        }
    }
}
