//! Types by the names of Cassandra's Java classes.

use carnet_data::DataType;

use crate::ast::{Name, TableName, TypeName};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Maximum number of classes within each other.
const DEPTH_MAX: usize = 32;

/// Returns the type of a class, with or without its package; `None` if it is another class. The type of a
/// reversed class is the one that is reversed.
pub(super) fn type_of(class: &str) -> Option<TypeName> {
    let mut rest = reversed(class).unwrap_or(class);
    let found = take(&mut rest, DEPTH_MAX)?;
    rest.trim().is_empty().then_some(found)
}

/// Returns `true` for the class of a type in descending order.
pub(super) fn is_reversed(class: &str) -> bool {
    reversed(class).is_some() && type_of(class).is_some()
}

/// Returns the class whose order a class reverses.
fn reversed(class: &str) -> Option<&str> {
    let class = class.trim();
    let class = class.strip_prefix(PACKAGE).unwrap_or(class);
    class.strip_prefix("ReversedType")?.trim_start().strip_prefix('(')?.strip_suffix(')')
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
    if name == "UserType" {
        return take_user_type(rest, depth);
    }
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

/// Takes `keyspace,name,field:class,…)` off the front: names in hexadecimal.
fn take_user_type(rest: &mut &str, depth: usize) -> Option<TypeName> {
    let keyspace = take_word(rest)?;
    *rest = rest.strip_prefix(',')?;
    let name = from_hex(take_word(rest)?)?;
    let mut fields = Vec::new();
    while let Some(behind) = rest.strip_prefix(',') {
        *rest = behind;
        let field = from_hex(take_word(rest)?)?;
        *rest = rest.strip_prefix(':')?;
        fields.push((field, take(rest, depth)?));
    }
    *rest = rest.strip_prefix(')')?.trim_start();
    let keyspace = Some(Name::new(keyspace));
    let name = TableName { keyspace, table: Name::new(name) };
    Some(TypeName::UserClass(Box::new(name), fields))
}

/// Takes letters, digits and underscores off the front, at least one.
fn take_word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    *rest = behind.trim_start();
    (!word.is_empty()).then_some(word)
}

fn from_hex(digits: &str) -> Option<String> {
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
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
            ("ReversedType(Int32Type)", "int"),
            (
                "org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.LongType)",
                "bigint",
            ),
            ("UserType(ks,61646472,7a6970:Int32Type,6c:ListType(UTF8Type))", "ks.addr"),
            (
                "FrozenType(UserType(my_ks, 41, 7a:UserType(my_ks,62,7a:Int32Type)))",
                "frozen<my_ks.\"A\">",
            ),
            ("MapType(UserType(ks,61),Int32Type)", "map<ks.a, int>"),
        ] {
            assert_eq!(type_of(class).unwrap().to_string(), expected, "{class}");
        }
    }

    #[test]
    fn reversed_classes_are_known_from_others() {
        assert!(is_reversed(" ReversedType (Int32Type) "));
        assert!(is_reversed("org.apache.cassandra.db.marshal.ReversedType(UTF8Type)"));
        for class in ["Int32Type", "ListType(ReversedType(Int32Type))", "ReversedType(Nope)", ""] {
            assert!(!is_reversed(class), "{class}");
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
            "ReversedType(Int32Type",
            "ReversedType(Int32Type,Int32Type)",
            "ReversedType(ReversedType(Int32Type))",
            "ListType(ReversedType(Int32Type))",
            "UserType()",
            "UserType(ks)",
            "UserType(ks,6)",
            "UserType(ks,zz)",
            "UserType(ks,ff)",
            "UserType(ks,61,7a)",
            "UserType(ks,61,7a:Nope)",
            "UserType(ks,61,7a:Int32Type",
            "Int32Type)",
            "com.example.Int32Type",
            &deep,
        ] {
            assert_eq!(type_of(class), None, "{class}");
        }
    }
}
