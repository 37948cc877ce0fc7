//! Types from their names in CQL.

use std::str::FromStr;

use carnet_base::error::{Error, Result};

use crate::value::{DataType, TYPE_DEPTH_MAX};

/// Parses a type as `Display` writes it, with or without `frozen<…>` around a composite type.
impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut rest = text;
        // Each type may be within `frozen<…>`, which is no type of its own.
        match take(&mut rest, 2 * TYPE_DEPTH_MAX) {
            Some(data_type) if rest.is_empty() && data_type.depth() <= TYPE_DEPTH_MAX => {
                Ok(data_type)
            }
            _ => Err(Error::invalid(format!("{text:?} is no type"))),
        }
    }
}

/// Takes a type off the front of a text, with at most `depth` names within each other.
fn take(rest: &mut &str, depth: usize) -> Option<DataType> {
    let depth = depth.checked_sub(1)?;
    let name = take_word(rest);
    if let Some(scalar) = DataType::from_name(name) {
        return Some(scalar);
    }
    take_symbol(rest, '<')?;
    let data_type = match name {
        "frozen" => take(rest, depth).filter(DataType::is_composite)?,
        "list" => DataType::list(take(rest, depth)?),
        "set" => DataType::set(take(rest, depth)?),
        "map" => {
            let key = take(rest, depth)?;
            take_symbol(rest, ',')?;
            DataType::map(key, take(rest, depth)?)
        }
        "tuple" => {
            let mut fields = vec![take(rest, depth)?];
            while take_symbol(rest, ',').is_some() {
                fields.push(take(rest, depth)?);
            }
            DataType::tuple(fields)
        }
        "vector" => {
            let element = take(rest, depth)?;
            take_symbol(rest, ',')?;
            let dimensions = take_word(rest).parse().ok().filter(|dimensions| *dimensions > 0)?;
            DataType::vector(element, dimensions)
        }
        _ => return None,
    };
    take_symbol(rest, '>')?;
    Some(data_type)
}

fn take_word<'t>(rest: &mut &'t str) -> &'t str {
    let text = rest.trim_ascii_start();
    let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (word, behind) = text.split_at(length);
    *rest = behind;
    word
}

fn take_symbol(rest: &mut &str, symbol: char) -> Option<()> {
    *rest = rest.trim_ascii_start().strip_prefix(symbol)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_round_trip() {
        let nested = DataType::map(
            DataType::Text,
            DataType::tuple([DataType::Int, DataType::set(DataType::Duration)]),
        );
        let text = nested.to_string();
        assert_eq!(text, "map<text, frozen<tuple<int, frozen<set<duration>>>>>");
        assert_eq!(text.parse::<DataType>().unwrap(), nested);
        assert_eq!("map<text,tuple<int,set<duration>>>".parse::<DataType>().unwrap(), nested);
        assert_eq!(format!("frozen<{text}>").parse::<DataType>().unwrap(), nested);
        let vectors = "vector<frozen<list<vector<float, 3>>>, 65535>";
        assert_eq!(vectors.parse::<DataType>().unwrap().to_string(), vectors);
        for scalar in DataType::SCALARS {
            assert_eq!(scalar.to_string().parse::<DataType>().unwrap(), scalar);
        }
    }

    #[test]
    fn malformed_names_are_refused() {
        for text in [
            "vector<int, 0>",
            "vector<int, 65536>",
            "vector<int>",
            "vector<int, -1>",
            "",
            "list",
            "list<int",
            "list<int>>",
            "map<int>",
            "tuple<>",
            "frozen<int>",
            "point",
        ] {
            assert!(text.parse::<DataType>().is_err(), "{text}");
        }
        let deep = |depth: usize| "list<".repeat(depth) + "int" + &">".repeat(depth);
        assert!(deep(TYPE_DEPTH_MAX - 1).parse::<DataType>().is_ok());
        assert!(deep(TYPE_DEPTH_MAX).parse::<DataType>().is_err());
        assert!("frozen<".repeat(100_000).parse::<DataType>().is_err());
    }
}
