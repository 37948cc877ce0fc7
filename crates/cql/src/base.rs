//! The one place that says where values, types and errors come from.

pub(crate) use carnet::{DataType, Error, ErrorKind, Uuid};
