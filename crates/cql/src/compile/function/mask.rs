//! Functions that hide values: `mask_default`, `mask_null`, `mask_replace`, `mask_inner`, `mask_outer` and
//! `mask_hash`. Columns that are masked for users without a permission are not built.

use carnet::{DataType, Value};
use carnet_base::{Bytes, Uuid};
use carnet_data::{BigInt, Composite, CqlDuration};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::cql_error::CqlError;
use crate::lexer::shorten;
use crate::shown::shown;

/// A masking function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskFunction {
    /// A fixed value of the type of the argument.
    Default,
    Null,
    /// The second argument.
    Replace,
    /// A text whose characters between two margins are replaced.
    Inner,
    /// A text whose margins are replaced.
    Outer,
    /// Hash of the serialized value.
    Hash,
}

/// First day of the Unix calendar as a `date`.
const EPOCH_DATE: u32 = 1 << 31;
/// What texts are masked with.
const PADDING: char = '*';

impl MaskFunction {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "mask_default" => Self::Default,
            "mask_null" => Self::Null,
            "mask_replace" => Self::Replace,
            "mask_inner" => Self::Inner,
            "mask_outer" => Self::Outer,
            "mask_hash" => Self::Hash,
            _ => return None,
        })
    }

    /// Returns the signature in Cassandra's messages.
    const fn signature(self) -> &'static str {
        match self {
            Self::Default => "system.mask_default(any)",
            Self::Null => "system.mask_null(any)",
            Self::Replace => "system.mask_replace(any, any)",
            Self::Inner => "system.mask_inner([text|varchar|ascii], int, int, [text])",
            Self::Outer => "system.mask_outer([text|varchar|ascii], int, int, [text])",
            Self::Hash => "system.mask_hash(any, [text])",
        }
    }

    pub(super) fn returns(self, argument: &DataType) -> DataType {
        if self == Self::Hash { DataType::Blob } else { argument.clone() }
    }

    /// Returns the types of the arguments behind the first one, or why they are wrong.
    pub(in super::super) fn other_types(
        self,
        first: &DataType,
        count: usize,
    ) -> Result<Vec<DataType>, CqlError> {
        let (least, others) = match self {
            Self::Default | Self::Null => (0, vec![]),
            Self::Replace => (1, vec![first.clone()]),
            Self::Inner | Self::Outer => (2, vec![DataType::Int, DataType::Int, DataType::Text]),
            Self::Hash => (0, vec![DataType::Text]),
        };
        if count < least + 1 || count > others.len() + 1 {
            return Err(self.wrong_count());
        }
        let takes_text = matches!(self, Self::Inner | Self::Outer);
        if takes_text && !matches!(first, DataType::Text | DataType::Ascii) {
            return Err(CqlError::invalid(format!(
                "Function {} requires an argument of type [text|varchar|ascii], but found an \
                 argument of type {first}",
                self.name()
            )));
        }
        Ok(others)
    }

    pub(in super::super) fn wrong_count(self) -> CqlError {
        let signature = self.signature();
        CqlError::invalid(format!("Invalid number of arguments for function {signature}"))
    }

    fn name(self) -> &'static str {
        let signature = self.signature();
        signature.split_once('(').map_or(signature, |(name, _)| name)
    }

    /// Calculates the function of a value of a type.
    pub(super) fn of(
        self,
        data_type: &DataType,
        arguments: &[Option<Value>],
    ) -> Result<Option<Value>, CqlError> {
        let value = arguments.first().and_then(Option::as_ref);
        let other = |place: usize| arguments.get(place).and_then(Option::as_ref);
        Ok(match (self, value) {
            (Self::Default, _) => Some(default(data_type)?),
            (Self::Null, _) => None,
            (Self::Replace, _) => other(1).cloned(),
            (_, None) => None,
            (Self::Hash, Some(value)) => Some(Value::Blob(hash(value, other(1))?)),
            (Self::Inner | Self::Outer, Some(value)) => {
                let masked = self.masked(&value.to_string(), other(1), other(2), other(3))?;
                let is_ascii = *data_type == DataType::Ascii;
                Some(if is_ascii { Value::Ascii(masked) } else { Value::Text(masked) })
            }
        })
    }

    /// Masks the characters of a text within or outside of its margins; a margin that is null or
    /// negative is none.
    fn masked(
        self,
        text: &str,
        begin: Option<&Value>,
        end: Option<&Value>,
        padding: Option<&Value>,
    ) -> Result<String, CqlError> {
        let margin = |value: Option<&Value>| match value {
            Some(Value::Int(margin)) => usize::try_from(*margin).unwrap_or(0),
            _ => 0,
        };
        let padding = match padding.map(ToString::to_string) {
            None => PADDING,
            Some(given) => one_character(&given).ok_or_else(|| {
                CqlError::invalid(format!(
                    "The padding argument for function {} should be single-character, but \
                     '{}' has {} characters.",
                    self.name(),
                    shown(&given),
                    given.chars().count()
                ))
            })?,
        };
        let count = text.chars().count();
        let (begin, end) = (margin(begin), count.saturating_sub(margin(end)));
        let is_masked = |place: usize| (begin..end).contains(&place) == (self == Self::Inner);
        let characters = text.chars().enumerate();
        Ok(characters
            .map(|(place, found)| if is_masked(place) { padding } else { found })
            .collect())
    }
}

fn one_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Returns the value that stands for all values of a type.
fn default(data_type: &DataType) -> Result<Value, CqlError> {
    Ok(match data_type {
        DataType::Ascii => Value::Ascii("****".to_owned()),
        DataType::Text => Value::Text("****".to_owned()),
        DataType::Blob => Value::Blob(Bytes::new()),
        DataType::Boolean => Value::Boolean(false),
        DataType::Date => Value::Date(EPOCH_DATE),
        DataType::Decimal => Value::Decimal { unscaled: BigInt::ZERO, scale: 0 },
        DataType::Duration => Value::Duration(CqlDuration::default()),
        DataType::Inet => Value::Inet([0, 0, 0, 0].into()),
        DataType::Timeuuid => Value::Timeuuid(Uuid::from_u64_pair(0x1000, 0)),
        DataType::Uuid => Value::Uuid(Uuid::nil()),
        composite if composite.is_composite() => {
            let has_parts = composite.is_record() || matches!(composite, DataType::Vector(_));
            let parts = match composite {
                DataType::Vector(vector) => vec![Some(default(&vector.0)?); vector.1.into()],
                record if has_parts => {
                    let fields = record.parts().into_iter();
                    fields.map(|field| default(field).map(Some)).collect::<Result<_, _>>()?
                }
                _ => Vec::new(),
            };
            Value::Composite(Composite::new(composite.clone(), parts)?)
        }
        number => number.parse_text("0")?,
    })
}

/// Hashes the serialized value by an algorithm of Java's names, SHA-256 if none is given.
fn hash(value: &Value, algorithm: Option<&Value>) -> Result<Bytes, CqlError> {
    let bytes = value.serialize();
    let name = algorithm.map_or_else(|| "SHA-256".to_owned(), ToString::to_string);
    Ok(Bytes::from(match name.to_ascii_uppercase().as_str() {
        "MD5" => Md5::digest(&bytes).to_vec(),
        "SHA" | "SHA1" | "SHA-1" => Sha1::digest(&bytes).to_vec(),
        "SHA-224" | "SHA224" => Sha224::digest(&bytes).to_vec(),
        "SHA-256" | "SHA256" => Sha256::digest(&bytes).to_vec(),
        "SHA-384" | "SHA384" => Sha384::digest(&bytes).to_vec(),
        "SHA-512" | "SHA512" => Sha512::digest(&bytes).to_vec(),
        _ => {
            let name = shorten(&name);
            return Err(CqlError::invalid(format!("Hash algorithm not found: {name}")));
        }
    }))
}
