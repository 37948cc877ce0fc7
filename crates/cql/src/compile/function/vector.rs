//! Similarity of vectors of floats.
//!
//! Each similarity is a number that grows as the vectors come nearer, as in Cassandra:
//!
//! | function | value | of equal vectors |
//! | --- | --- | --- |
//! | `similarity_cosine` | (1 + cosine) / 2 | 1 |
//! | `similarity_euclidean` | 1 / (1 + square of the distance) | 1 |
//! | `similarity_dot_product` | (1 + dot product) / 2; for vectors of length 1 | 1 |

use carnet::{DataType, Value};
use carnet_data::vector::floats;

use crate::cql_error::CqlError;

/// A measure of how near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "similarity_cosine" => Self::Cosine,
            "similarity_euclidean" => Self::Euclidean,
            "similarity_dot_product" => Self::DotProduct,
            _ => return None,
        })
    }

    /// Returns the similarity with the name that an option of an index has.
    pub(crate) fn from_option(name: &str) -> Option<Self> {
        Self::find(&format!("similarity_{}", name.to_ascii_lowercase()))
    }

    /// Returns the similarity of two vectors of the same length; the cosine of a vector of zeros is no
    /// number.
    #[expect(clippy::cast_possible_truncation, reason = "the result is a float in Cassandra, too")]
    pub(crate) fn of(self, a: &[f32], b: &[f32]) -> f32 {
        let dot = || product(a, b);
        (match self {
            Self::Cosine => f64::midpoint(1.0, dot() / (product(a, a) * product(b, b)).sqrt()),
            Self::DotProduct => f64::midpoint(1.0, dot()),
            Self::Euclidean => {
                let pairs = a.iter().zip(b);
                let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
                1.0 / (1.0 + pairs.map(square).sum::<f64>())
            }
        }) as f32
    }

    /// Returns the similarity of two values.
    pub(super) fn of_values(self, a: &Value, b: &Value) -> Result<Value, CqlError> {
        let (a, b) = (floats(&a.serialize()), floats(&b.serialize()));
        if self == Self::Cosine && (is_zero(&a) || is_zero(&b)) {
            return Err(CqlError::invalid(
                "Function system.similarity_cosine doesn't support all-zero vectors.",
            ));
        }
        Ok(Value::Float(self.of(&a, &b)))
    }
}

/// Returns `true` for a vector of zeros, which has no direction.
pub(crate) fn is_zero(vector: &[f32]) -> bool {
    vector.iter().all(|number| *number == 0.0)
}

/// Returns `true` for vectors of floats, which have a similarity.
pub(crate) fn is_float_vector(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Vector(vector) if vector.0 == DataType::Float)
}

fn product(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_vectors_are_more_similar() {
        let (near, far) = ([1.0, 0.1], [-1.0, 3.0]);
        for similarity in [Similarity::Cosine, Similarity::Euclidean, Similarity::DotProduct] {
            let of = |other: &[f32]| similarity.of(&[1.0, 0.0], other);
            assert!(of(&near) > of(&far), "{similarity:?}");
            assert!((of(&[1.0, 0.0]) - 1.0).abs() < 1e-6, "{similarity:?}");
        }
        assert!(Similarity::Cosine.of(&[0.0], &[1.0]).is_nan());
    }
}
