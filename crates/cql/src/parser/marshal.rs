//! Types by the names of Cassandra's Java classes.

use carnet_data::DataType;

use crate::ast::TypeName;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Maximum number of classes within each other.
const DEPTH_MAX: usize = 32;

/// Returns the type of a class, with or without its package; `None` if it is another class.
pub(super) fn type_of(class: &str) -> Option<TypeName> {
    let mut rest = class;
    let found = take(&mut rest, DEPTH_MAX)?;
    rest.trim().is_empty().then_some(found)
}

/// Takes a class off the front of a text.
fn take(rest: &mut &str, depth: usize) -> Option<TypeName> {
    let depth = depth.checked_sub(1)?;
    let text = rest.trim_start();
    let text = text.strip_prefix(PACKAGE).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    *rest = behind.trim_start();
    if let Some(scalar) = scalar(name) {
        return Some(TypeName::Native(scalar));
    }
    *rest = rest.strip_prefix('(')?;
    let mut parts = Vec::new();
    let mut dimensions = None;
    loop {
        let digits = rest.trim_start();
        if name == "VectorType" && digits.starts_with(|c: char| c.is_ascii_digit()) {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            dimensions = digits[..end].parse().ok().filter(|dimensions| *dimensions > 0);
            *rest = digits[end..].trim_start();
        } else {
            parts.push(take(rest, depth)?);
        }
        if let Some(behind) = rest.strip_prefix(')') {
            *rest = behind.trim_start();
            break;
        }
        *rest = rest.strip_prefix(',')?;
    }
    if name == "TupleType" {
        return Some(TypeName::Tuple(parts));
    }
    let mut parts = parts.into_iter().map(Box::new);
    let found = match (name, parts.next()?, parts.next()) {
        ("FrozenType", inner, None) => TypeName::Frozen(inner),
        ("ListType", element, None) => TypeName::List(element),
        ("SetType", element, None) => TypeName::Set(element),
        ("MapType", key, Some(value)) => TypeName::Map(key, value),
        ("VectorType", element, None) => TypeName::Vector(element, dimensions?),
        _ => return None,
    };
    parts.next().is_none().then_some(found)
}

fn scalar(class: &str) -> Option<DataType> {
    Some(match class {
        "AsciiType" => DataType::Ascii,
        "BooleanType" => DataType::Boolean,
        "ByteType" => DataType::Tinyint,
        "BytesType" => DataType::Blob,
        "CounterColumnType" => DataType::Counter,
        "DecimalType" => DataType::Decimal,
        "DoubleType" => DataType::Double,
        "DurationType" => DataType::Duration,
        "FloatType" => DataType::Float,
        "InetAddressType" => DataType::Inet,
        "Int32Type" => DataType::Int,
        "IntegerType" => DataType::Varint,
        "LongType" => DataType::Bigint,
        "ShortType" => DataType::Smallint,
        "SimpleDateType" => DataType::Date,
        "TimeType" => DataType::Time,
        "TimeUUIDType" => DataType::Timeuuid,
        "DateType" | "TimestampType" => DataType::Timestamp,
        "UTF8Type" => DataType::Text,
        "UUIDType" => DataType::Uuid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_types() {
        for (class, expected) in [
            ("Int32Type", "int"),
            ("org.apache.cassandra.db.marshal.UTF8Type", "text"),
            ("MapType(UTF8Type, org.apache.cassandra.db.marshal.LongType)", "map<text, bigint>"),
            ("FrozenType(ListType(Int32Type))", "frozen<list<int>>"),
            ("TupleType(Int32Type,SetType(UUIDType))", "tuple<int, set<uuid>>"),
            ("VectorType(FloatType , 3)", "vector<float, 3>"),
        ] {
            assert_eq!(type_of(class).unwrap().to_string(), expected, "{class}");
        }
    }

    #[test]
    fn other_classes_are_no_types() {
        let deep = "ListType(".repeat(1000) + "Int32Type" + &")".repeat(1000);
        for class in [
            "",
            "int",
            "ListType",
            "ListType()",
            "ListType(Int32Type",
            "ListType(Int32Type,Int32Type)",
            "MapType(Int32Type)",
            "VectorType(FloatType,0)",
            "ReversedType(Int32Type)",
            "Int32Type)",
            "com.example.Int32Type",
            &deep,
        ] {
            assert_eq!(type_of(class), None, "{class}");
        }
    }
}
