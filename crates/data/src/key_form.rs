//! The one form that equal values have as elements of sets and keys of maps.
//!
//! Elements are stored and merged by the bytes of their keys, without their types. Values may be equal
//! and have other bytes:
//!
//! | type | values that are equal | form of the key |
//! | --- | --- | --- |
//! | `decimal` | 1.5 and 1.50 | the least scale, from 0 for a whole number of up to 38 digits |
//! | `float`, `double` | NaN with other bits | one NaN |
//! | user-defined type | without fields that were added later, and with null in them | no null behind the last field |
//!
//! Earlier versions stored decimals and user-defined types in any form. So readers compare the forms, and
//! a change removes the other forms of a key.

use bytes::Bytes;
use carnet_base::error::Result;

use crate::key::least_scale;
use crate::value::{Composite, DataType, FieldKeys, UserType, Value};

impl DataType {
    /// Returns `true` if two stored elements of the type may be equal, although their bytes differ.
    #[must_use]
    pub fn has_many_forms(&self) -> bool {
        matches!(self, Self::Decimal | Self::Udt(_))
            || self.parts().into_iter().any(Self::has_many_forms)
    }

    /// Returns `true` if a value may have another form than its serialization.
    fn has_key_form(&self) -> bool {
        matches!(self, Self::Float | Self::Double | Self::Decimal | Self::Udt(_))
            || self.parts().into_iter().any(Self::has_key_form)
    }

    /// Returns the form of a serialized value as an element of a set or a key of a map.
    ///
    /// # Errors
    ///
    /// See [`DataType::deserialize`].
    pub fn key_form(&self, bytes: &Bytes) -> Result<Bytes> {
        if self.has_key_form() {
            Ok(self.deserialize(bytes)?.key_form())
        } else {
            Ok(bytes.clone())
        }
    }
}

impl Value {
    /// Returns the bytes of the value as an element of a set or a key of a map: the same for equal values.
    #[must_use]
    pub fn key_form(&self) -> Bytes {
        in_form(self.clone(), Form::Element).serialize()
    }

    /// Returns the bytes of the value as a part of a partition key: its serialization, without the fields that
    /// [open](FieldKeys::Open) keys leave out.
    pub(crate) fn partition_form(&self) -> Bytes {
        match self {
            Self::Composite(composite) if composite.data_type().has_many_forms() => {
                in_form(self.clone(), Form::Partition).serialize()
            }
            scalar => scalar.serialize(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Element,
    Partition,
}

/// Changes a value so that its serialization is that of all equal ones.
fn in_form(value: Value, form: Form) -> Value {
    let is_element = form == Form::Element;
    match value {
        Value::Decimal { unscaled, scale } if is_element => {
            let (unscaled, scale) = least_scale(&unscaled, scale).unwrap_or((unscaled, scale));
            Value::Decimal { unscaled, scale }
        }
        Value::Float(number) if is_element && number.is_nan() => Value::Float(f32::NAN),
        Value::Double(number) if is_element && number.is_nan() => Value::Double(f64::NAN),
        Value::Composite(Composite { data_type, parts }) => {
            let parts = parts.into_iter().map(|part| part.map(|part| in_form(part, form)));
            let mut parts: Vec<Option<Value>> = parts.collect();
            let is_open = |user_type: &UserType| is_element || user_type.keys == FieldKeys::Open;
            if matches!(&data_type, DataType::Udt(user_type) if is_open(user_type)) {
                let fields = parts.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                // A partition key has no empty value.
                parts.truncate(if is_element { fields } else { fields.max(1) });
            }
            Value::Composite(Composite { data_type, parts })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::TypeReference;

    fn udt(fields: usize) -> DataType {
        let names = ["x", "y", "z"].into_iter().take(fields);
        DataType::Udt(Arc::new(UserType {
            keyspace: "ks".to_owned(),
            name: "u".to_owned(),
            fields: names.map(|name| (name.to_owned(), DataType::Int)).collect(),
            reference: TypeReference::default(),
            keys: FieldKeys::Open,
        }))
    }

    fn form(data_type: &DataType, text: &str) -> Bytes {
        data_type.key_form(&data_type.parse_text(text).unwrap().serialize()).unwrap()
    }

    #[test]
    fn equal_decimals_have_one_key_form() {
        for equal in [
            &["1.5", "1.50", "15e-1", "1.500000"][..],
            &["0", "0.00", "0e9", "-0.0"],
            &["100", "1e2", "1.0e2"],
            &["-7e-300", "-70e-301"],
            &["1e2000000000", "10e1999999999"],
        ] {
            for text in equal {
                let decimal = DataType::Decimal;
                assert_eq!(form(&decimal, text), form(&decimal, equal[0]), "{text}");
                let value = decimal.parse_text(text).unwrap();
                let again = decimal.deserialize(&value.key_form()).unwrap();
                assert!(again.compare(&value).is_eq(), "{text} is {again}");
                let list = DataType::tuple([DataType::set(decimal), DataType::Int]);
                let within = |text: &str| form(&list, &format!("({{{text}}}, null)"));
                assert_eq!(within(text), within(equal[0]));
            }
        }
        assert_ne!(form(&DataType::Decimal, "1.5"), form(&DataType::Decimal, "1.51"));
    }

    #[test]
    fn added_fields_leave_key_form() {
        for of in [
            (|udt| udt) as fn(DataType) -> DataType,
            DataType::list,
            DataType::set,
            |udt| DataType::map(udt, DataType::Int),
            |udt| DataType::tuple([udt, DataType::Int]),
            |udt| DataType::vector(udt, 1),
        ] {
            let [before, after] = [1, 3].map(|fields| of(udt(fields)));
            let one = |data_type: &DataType, fields: &[Option<Value>]| {
                let inner = match data_type {
                    DataType::Udt(_) => data_type.clone(),
                    data_type => data_type.parts()[0].clone(),
                };
                let value = Value::Composite(Composite::new(inner, fields.to_vec()).unwrap());
                if matches!(data_type, DataType::Udt(_)) {
                    return value;
                }
                let parts = match data_type {
                    DataType::Map(_) | DataType::Tuple(_) => vec![Some(value), Some(Value::Int(1))],
                    _ => vec![Some(value)],
                };
                Value::Composite(Composite::new(data_type.clone(), parts).unwrap())
            };
            let [seven, eight] = [7, 8].map(|n| Some(Value::Int(n)));
            let old = one(&before, std::slice::from_ref(&seven));
            let new = one(&after, &[seven.clone(), None, None]);
            assert_eq!(old.key_form(), new.key_form(), "{before}");
            assert_eq!(after.key_form(&old.serialize()).unwrap(), new.key_form());
            assert!(after.deserialize(&new.key_form()).unwrap().compare(&new).is_eq());
            let other = one(&after, &[seven, None, eight]);
            assert_ne!(other.key_form(), new.key_form());
        }
    }

    #[test]
    fn every_nan_has_one_key_form() {
        let odd = Value::Double(f64::from_bits(0xfff8_0000_0000_0001));
        assert_eq!(odd.key_form(), Value::Double(f64::NAN).key_form());
        assert_ne!(Value::Float(0.0).key_form(), Value::Float(-0.0).key_form());
    }
}
