//! Import of values, types and errors, in one place.

pub(crate) use carnet::{DataType, Error, ErrorKind, Uuid};
