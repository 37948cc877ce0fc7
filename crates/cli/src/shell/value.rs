//! Display forms of values: for tables and CSV, and for JSON.

use carnet::{DataType, Result, Value};
use carnet_data::Composite;

/// Returns a value's display form.
pub(crate) fn text(data_type: &DataType, bytes: &[u8]) -> Result<String> {
    Ok(data_type.deserialize_result(bytes)?.to_string())
}

/// Returns a value as JSON. Numbers that JSON parsers would round or refuse (`decimal`, `varint`,
/// NaN, infinities) become strings, and so do types that JSON lacks.
pub(crate) fn json(data_type: &DataType, bytes: &[u8]) -> Result<String> {
    Ok(json_value(&data_type.deserialize_result(bytes)?))
}

fn json_value(value: &Value) -> String {
    match value {
        Value::Bigint(_)
        | Value::Counter(_)
        | Value::Int(_)
        | Value::Smallint(_)
        | Value::Tinyint(_) => value.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Double(number) if number.is_finite() => value.to_string(),
        Value::Float(number) if number.is_finite() => value.to_string(),
        Value::Composite(composite) => json_composite(composite),
        value => quote(&value.to_string()),
    }
}

fn json_composite(composite: &Composite) -> String {
    let part = |part: &Option<Value>| part.as_ref().map_or_else(|| "null".to_owned(), json_value);
    let item = |item: &[Option<Value>]| match item {
        [Some(key), value] => format!("{}:{}", quote(&key.to_string()), part(value)),
        item => item.iter().map(part).collect(),
    };
    if let DataType::Udt(user_type) = composite.data_type() {
        let field = |((name, _), value): (&(String, DataType), &Option<Value>)| {
            format!("{}:{}", quote(name), part(value))
        };
        let fields: Vec<String> =
            user_type.fields.iter().zip(composite.parts()).map(field).collect();
        return format!("{{{}}}", fields.join(","));
    }
    let items = composite.parts().chunks(composite.parts_per_item()).map(item);
    let items = items.collect::<Vec<_>>().join(",");
    let is_map = matches!(composite.data_type(), DataType::Map(_));
    if is_map { format!("{{{items}}}") } else { format!("[{items}]") }
}

/// Returns a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

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
            let data_type = value.data_type();
            let bytes = value.serialize();
            (text(&data_type, &bytes).unwrap(), json(&data_type, &bytes).unwrap())
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
            let json = json(&DataType::Double, &bytes).unwrap();
            let read: f64 = serde_json::from_str(&json).unwrap();
            assert_eq!(read.to_bits(), number.to_bits(), "{json}");
        }
    }

    #[test]
    fn collections() {
        let list = DataType::list(DataType::Text);
        let bytes = collection(&[Some(Value::Text("a'b".into())), Some(Value::Text("".into()))], 2);
        assert_eq!(text(&list, &bytes).unwrap(), "['a''b', '']");
        assert_eq!(json(&list, &bytes).unwrap(), r#"["a'b",""]"#);
        let map = DataType::map(DataType::Int, DataType::Text);
        let bytes = collection(&[Some(Value::Int(1)), Some(Value::Text("x".into()))], 1);
        assert_eq!(text(&map, &bytes).unwrap(), "{1: 'x'}");
        assert_eq!(json(&map, &bytes).unwrap(), r#"{"1":"x"}"#);
        let tuple = DataType::tuple([DataType::Int, DataType::Text]);
        assert_eq!(text(&tuple, &bytes[4..]).unwrap(), "(1, 'x')");
        assert_eq!(json(&tuple, &bytes[4..12]).unwrap(), "[1,null]");
    }

    #[test]
    fn invalid_bytes_are_refused_without_panic() {
        let list = DataType::list(DataType::Text);
        for seed in 0..5_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = collection(&[Some(Value::Text("abc".into()))], 1);
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= rng.next_u64().to_be_bytes()[0] | 1;
            let shown = text(&list, &bytes).unwrap_or_default();
            assert!(shown.len() < 64, "seed {seed}");
        }
    }
}
