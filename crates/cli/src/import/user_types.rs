//! User-defined types of a keyspace, as `system_schema` describes them. Pure.
//!
//! Values are copied byte for byte, so only the names of types matter here: `frozen<list<address>>` is checked as
//! `frozen<list<tuple<blob>>>`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::collection::elements;
use super::row::{Row, literal, text};
use crate::copy::spelled;

/// Type that stands for a user-defined one.
const STAND_IN: &str = "tuple<blob>";

/// The user-defined types of a keyspace, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserTypes(BTreeMap<String, Fields>);

/// Names and types of fields, in order.
type Fields = Vec<(String, String)>;

/// Returns the query whose rows [`UserTypes::read`] decodes.
pub(super) fn types_query(keyspace: &str) -> String {
    format!(
        "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = {}",
        literal(keyspace)
    )
}

impl UserTypes {
    /// Reads rows of `system_schema.types`.
    ///
    /// # Errors
    ///
    /// Rows of another form.
    pub(super) fn read(rows: &[Row]) -> Result<Self> {
        let mut types = BTreeMap::new();
        for row in rows {
            let [name, Some(names), Some(field_types)] = &row[..] else {
                bail!("a user-defined type of the schema has {} parts", row.len());
            };
            let names = elements(names)?.iter().map(text).collect::<Result<Vec<_>>>()?;
            let field_types =
                elements(field_types)?.iter().map(text).collect::<Result<Vec<_>>>()?;
            types.insert(text(name)?, names.into_iter().zip(field_types).collect());
        }
        Ok(Self(types))
    }

    /// Replaces the names of user-defined types in the name of a type.
    pub(super) fn resolve(&self, type_name: &str) -> String {
        let of = |word: Word<'_>| match word {
            Word::Name(name, _) if self.0.contains_key(&name) => STAND_IN.to_owned(),
            Word::Name(_, spelled) | Word::Other(spelled) => spelled.to_owned(),
        };
        words(type_name).into_iter().map(of).collect()
    }

    /// Returns `true` for the name of a user-defined type that is not frozen.
    pub(super) fn is_one(&self, type_name: &str) -> bool {
        matches!(&words(type_name)[..], [Word::Name(name, _)] if self.0.contains_key(name))
    }

    /// Keeps the types that columns of these types need.
    pub(super) fn needed<'a>(&self, columns: impl Iterator<Item = &'a str>) -> Self {
        let mut needed = BTreeMap::new();
        let mut open: Vec<String> = columns.map(str::to_owned).collect();
        while let Some(type_name) = open.pop() {
            for word in words(&type_name) {
                let Word::Name(name, _) = word else { continue };
                if let Some(fields) = self.0.get(&name)
                    && needed.insert(name, fields.clone()).is_none()
                {
                    open.extend(fields.iter().map(|(_, field)| field.clone()));
                }
            }
        }
        Self(needed)
    }

    /// Returns the statements that create the types which do not exist, those first that others need.
    pub(super) fn create(&self, keyspace: &str) -> Vec<String> {
        let mut created: Vec<&String> = Vec::new();
        // A type never needs itself, so each turn creates at least one.
        for _ in 0..self.0.len() {
            for (name, fields) in &self.0 {
                let needs = |field: &(String, String)| {
                    let needed = self.needed([&*field.1].into_iter());
                    needed.0.keys().all(|needed| created.contains(&needed))
                };
                if !created.contains(&name) && fields.iter().all(needs) {
                    created.push(name);
                }
            }
        }
        let statement = |name: &&String| {
            let fields = self.0[*name].iter();
            let fields = fields.map(|(field, of)| format!("{} {of}", spelled(field)));
            let fields = fields.collect::<Vec<_>>().join(", ");
            let keyspace = spelled(keyspace);
            format!("CREATE TYPE IF NOT EXISTS {keyspace}.{} ({fields})", spelled(name))
        };
        created.iter().map(statement).collect()
    }

    /// Returns the first difference from the types of another keyspace, if there is one.
    pub(super) fn difference(&self, there: &Self) -> Option<String> {
        let fields = |fields: &Fields| {
            let fields = fields.iter().map(|(name, of)| format!("{} {of}", spelled(name)));
            fields.collect::<Vec<_>>().join(", ")
        };
        self.0.iter().find_map(|(name, here)| match there.0.get(name) {
            None => Some(format!("type {name} is missing there")),
            Some(other) if other != here => Some(format!(
                "type {name} is ({}) there, and ({}) here",
                fields(other),
                fields(here)
            )),
            Some(_) => None,
        })
    }
}

/// Part of a type's name.
enum Word<'a> {
    /// A name, and its text.
    Name(String, &'a str),
    Other(&'a str),
}

/// Divides the name of a type into names and what stands between them.
fn words(type_name: &str) -> Vec<Word<'_>> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut words, mut rest) = (Vec::new(), type_name);
    while let Some(first) = rest.chars().next() {
        let end = if first == '"' {
            let quoted = rest.char_indices().skip(1).find(|(_, letter)| *letter == '"');
            quoted.map_or(rest.len(), |(at, _)| at + 1)
        } else if is_name(first) {
            rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        words.push(match first {
            '"' => Word::Name(word.trim_matches('"').to_owned(), word),
            _ if is_name(first) => Word::Name(word.to_owned(), word),
            _ => Word::Other(word),
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::collection::serialized;
    use super::*;
    use carnet::Bytes;

    fn bytes(text: &str) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn types(of: &[(&str, &[(&str, &str)])]) -> UserTypes {
        let list = |texts: Vec<&str>| {
            let texts: Vec<Option<Bytes>> = texts.into_iter().map(bytes).collect();
            Some(serialized(&texts.iter().collect::<Vec<_>>(), 1))
        };
        let rows: Vec<Row> = of
            .iter()
            .map(|(name, fields)| {
                let names = fields.iter().map(|(name, _)| *name).collect();
                let types = fields.iter().map(|(_, of)| *of).collect();
                vec![bytes(name), list(names), list(types)]
            })
            .collect();
        UserTypes::read(&rows).unwrap()
    }

    fn shop() -> UserTypes {
        types(&[
            ("address", &[("town", "text"), ("geo", "frozen<\"Point\">")]),
            ("Point", &[("x", "double"), ("y", "double")]),
            ("other", &[("n", "int")]),
        ])
    }

    #[test]
    fn names_of_types_are_replaced() {
        let shop = shop();
        assert_eq!(
            shop.resolve("map<text, frozen<list<address>>>"),
            "map<text, frozen<list<tuple<blob>>>>"
        );
        assert_eq!(shop.resolve("frozen<\"Point\">"), "frozen<tuple<blob>>");
        assert_eq!(shop.resolve("frozen<point>"), "frozen<point>", "names differ in their case");
        assert!(shop.is_one("address") && !shop.is_one("frozen<address>") && !shop.is_one("text"));
        assert_eq!(shop.resolve("\"cut off"), "\"cut off");
    }

    #[test]
    fn needed_types_are_created_in_order() {
        let needed = shop().needed(["list<frozen<address>>", "int"].into_iter());
        assert_eq!(
            needed.create("Ks"),
            [
                "CREATE TYPE IF NOT EXISTS \"Ks\".\"Point\" (x double, y double)",
                "CREATE TYPE IF NOT EXISTS \"Ks\".address (town text, geo frozen<\"Point\">)",
            ]
        );
    }

    #[test]
    fn differences_are_named() {
        let (shop, address) = (shop(), types(&[("address", &[("town", "text")])]));
        assert_eq!(shop.difference(&shop), None);
        assert_eq!(address.difference(&types(&[])).unwrap(), "type address is missing there");
        assert_eq!(
            address.difference(&shop).unwrap(),
            "type address is (town text, geo frozen<\"Point\">) there, and (town text) here"
        );
        assert!(UserTypes::read(&[vec![bytes("a")]]).is_err());
    }
}
