//! Sizes of types with all the user-defined types that they use.
//!
//! A type shares the user-defined types that it uses, so that four types of 100 fields, each of the
//! one before, take little memory and have 100 million parts. Each user-defined type is measured
//! once.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use carnet_data::{DataType, UserType};

/// Upper bound of the length of a class name of one type, without its parts.
const CLASS_BYTES: usize = 50;

/// Sizes of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeSize {
    /// Depth: 1 for a scalar, 3 for a list of sets.
    pub(crate) depth: usize,
    /// Bytes of its description in the native protocol.
    pub(crate) bytes: usize,
    /// Largest number of fields of a tuple or user-defined type in it.
    pub(crate) fields: usize,
    /// Bytes of the longest class name of a vector in it. The protocol describes vectors so.
    pub(crate) vector: usize,
    /// Upper bound of the bytes of its class name.
    class: usize,
}

/// Measures types, each user-defined type once.
#[derive(Default)]
pub(crate) struct Measure<'a> {
    /// Sizes by the address of a type, which is borrowed and does not move meanwhile.
    known: HashMap<*const UserType, TypeSize>,
    types: PhantomData<&'a UserType>,
}

impl<'a> Measure<'a> {
    pub(crate) fn size(&mut self, data_type: &'a DataType) -> TypeSize {
        if let DataType::Udt(user_type) = data_type {
            return self.user_type(user_type);
        }
        let mut size = TypeSize { depth: 1, bytes: 2, class: CLASS_BYTES, ..TypeSize::default() };
        for part in data_type.parts() {
            size.add(self.size(part));
        }
        match data_type {
            DataType::Tuple(fields) => {
                size.bytes = size.bytes.saturating_add(2);
                size.fields = size.fields.max(fields.len());
            }
            DataType::Vector(_) => {
                size.vector = size.vector.max(size.class);
                size.bytes = size.class.saturating_add(4);
            }
            _ => {}
        }
        size
    }

    pub(crate) fn user_type(&mut self, user_type: &'a Arc<UserType>) -> TypeSize {
        if let Some(known) = self.known.get(&Arc::as_ptr(user_type)) {
            return *known;
        }
        let names = user_type.keyspace.len() + 2 * user_type.name.len();
        let mut size = TypeSize {
            depth: 1,
            bytes: 8 + names,
            fields: user_type.fields.len(),
            vector: 0,
            class: CLASS_BYTES + names,
        };
        for (name, field) in &user_type.fields {
            let mut part = self.size(field);
            part.bytes = part.bytes.saturating_add(2 + name.len());
            part.class = part.class.saturating_add(2 * name.len());
            size.add(part);
        }
        self.known.insert(Arc::as_ptr(user_type), size);
        size
    }
}

impl TypeSize {
    /// Adds the size of a part.
    fn add(&mut self, part: Self) {
        self.depth = self.depth.max(1 + part.depth);
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.fields = self.fields.max(part.fields);
        self.vector = self.vector.max(part.vector);
        self.class = self.class.saturating_add(part.class).saturating_add(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_type(name: &str, fields: usize, field: &DataType) -> DataType {
        DataType::Udt(Arc::new(UserType {
            keyspace: "ks".to_owned(),
            name: name.to_owned(),
            fields: (0..fields).map(|n| (format!("f{n}"), field.clone())).collect(),
            reference: carnet_data::TypeReference::default(),
            keys: carnet_data::FieldKeys::Open,
        }))
    }

    #[test]
    fn shared_types_are_measured_once() {
        let wide = (0..25).fold(DataType::Int, |of, n| user_type(&format!("t{n}"), 100, &of));
        let size = Measure::default().size(&wide);
        assert_eq!((size.depth, size.bytes, size.fields), (26, usize::MAX, 100));
    }

    #[test]
    fn description_has_all_parts() {
        let pair = user_type("p", 2, &DataType::Int);
        let size = Measure::default().size(&DataType::list(pair.clone()));
        // The list; the type, its keyspace, name and count; two fields with names and types.
        assert_eq!(size.bytes, 2 + (2 + 4 + 3 + 2) + 2 * (4 + 2) + 1);
        assert_eq!((size.depth, size.fields, size.vector), (3, 2, 0));
        let vector = Measure::default().size(&DataType::vector(pair, 3));
        assert!(vector.vector > 4 * 40, "{vector:?}");
    }
}
