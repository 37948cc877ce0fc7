//! Names of types as Java classes: a type without a number in the protocol is sent by this name.
//!
//! ```text
//! vector<float, 3>    org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)
//! ```

use std::fmt::Write as _;

use carnet_data::DataType;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Returns the name of a type's class with those of its parts.
///
/// No part is marked as frozen. Cassandra marks the parts that a schema declares as frozen, and gocql
/// cannot parse the mark. It has no effect on the encoding of values.
pub(super) fn class_name(data_type: &DataType) -> String {
    let class = match data_type {
        DataType::Ascii => "AsciiType",
        DataType::Bigint => "LongType",
        DataType::Blob => "BytesType",
        DataType::Boolean => "BooleanType",
        DataType::Counter => "CounterColumnType",
        DataType::Date => "SimpleDateType",
        DataType::Decimal => "DecimalType",
        DataType::Double => "DoubleType",
        DataType::Duration => "DurationType",
        DataType::Float => "FloatType",
        DataType::Inet => "InetAddressType",
        DataType::Int => "Int32Type",
        DataType::List(_) => "ListType",
        DataType::Map(_) => "MapType",
        DataType::Set(_) => "SetType",
        DataType::Smallint => "ShortType",
        DataType::Text => "UTF8Type",
        DataType::Time => "TimeType",
        DataType::Timestamp => "TimestampType",
        DataType::Timeuuid => "TimeUUIDType",
        DataType::Tinyint => "ByteType",
        DataType::Tuple(_) => "TupleType",
        DataType::Udt(_) => "UserType",
        DataType::Uuid => "UUIDType",
        DataType::Varint => "IntegerType",
        DataType::Vector(_) => "VectorType",
        other => unreachable!("{other} has a class"),
    };
    let mut named = format!("{PACKAGE}{class}");
    match data_type {
        DataType::Vector(vector) => {
            let _ = write!(named, "({} , {})", class_name(&vector.0), vector.1);
        }
        DataType::Udt(user_type) => {
            let _ = write!(named, "({},{}", user_type.keyspace, hex(&user_type.name));
            for (field, field_type) in &user_type.fields {
                let _ = write!(named, ",{}:{}", hex(field), class_name(field_type));
            }
            named.push(')');
        }
        composite if composite.is_composite() => {
            let parts: Vec<String> = composite.parts().into_iter().map(class_name).collect();
            let _ = write!(named, "({})", parts.join(","));
        }
        _ => {}
    }
    named
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_cassandra() {
        let name = |text: &str| class_name(&text.parse().unwrap()).replace(PACKAGE, "");
        assert_eq!(name("vector<float, 3>"), "VectorType(FloatType , 3)");
        assert_eq!(
            name("vector<frozen<map<int, frozen<list<text>>>>, 2>"),
            "VectorType(MapType(Int32Type,ListType(UTF8Type)) , 2)"
        );
        assert_eq!(
            name("vector<vector<tuple<date, varint>, 1>, 2>"),
            "VectorType(VectorType(TupleType(SimpleDateType,IntegerType) , 1) , 2)"
        );
        let user_type = carnet_data::UserType {
            keyspace: "ks".to_owned(),
            name: "p".to_owned(),
            fields: vec![("x".to_owned(), DataType::Blob)],
            reference: carnet_data::TypeReference::default(),
            keys: carnet_data::FieldKeys::Open,
        };
        let of_users = DataType::vector(DataType::Udt(std::sync::Arc::new(user_type)), 1);
        assert_eq!(
            class_name(&of_users).replace(PACKAGE, ""),
            "VectorType(UserType(ks,70,78:BytesType) , 1)"
        );
        for scalar in DataType::SCALARS {
            assert!(class_name(&scalar).starts_with(PACKAGE));
        }
    }
}
