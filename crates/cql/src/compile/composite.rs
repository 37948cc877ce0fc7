//! Literals of lists, sets, maps, tuples and vectors.

use std::collections::{HashMap, HashSet};

use carnet::DataType;
use carnet_data::UserType;

use super::compiler::Compiler;
use super::operand::Operand;
use crate::ast::{Literal, Name, Term};
use crate::cql_error::CqlError;
use crate::shown::shown;

impl Compiler<'_> {
    /// Compiles the fields of a value of a user-defined type, in the order of the type. Fields that
    /// are left out are null.
    fn user_type_parts(
        &mut self,
        fields: &[(Name, Term)],
        user_type: &UserType,
        what: &str,
    ) -> Result<Vec<Operand>, CqlError> {
        let known: HashSet<&str> = user_type.fields.iter().map(|(name, _)| name.as_str()).collect();
        let mut given: HashMap<&str, &Term> = HashMap::with_capacity(fields.len());
        for (name, term) in fields {
            // The first of several values of a field counts.
            given.entry(name.text.as_str()).or_insert(term);
        }
        if let Some((name, _)) = fields.iter().find(|(name, _)| !known.contains(name.as_str())) {
            return Err(CqlError::invalid(format!(
                "Unknown field '{}' in value of user defined type {}",
                name.text, user_type.name
            )));
        }
        let null = Term::Literal(Literal::Null);
        let mut parts = Vec::with_capacity(user_type.fields.len());
        for (name, data_type) in &user_type.fields {
            let term = given.get(name.as_str()).copied().unwrap_or(&null);
            parts.push(self.operand(term, data_type, &format!("{what}.{name}"))?);
        }
        Ok(parts)
    }

    /// Compiles the parts of a literal of a composite type: elements, keys and values in turn, or
    /// fields.
    pub(super) fn composite_parts(
        &mut self,
        term: &Term,
        data_type: &DataType,
        what: &str,
    ) -> Result<Vec<Operand>, CqlError> {
        match (data_type, term) {
            (DataType::List(element), Term::List(terms))
            | (DataType::Set(element), Term::Set(terms)) => {
                let what = format!("value({what})");
                terms.iter().map(|term| self.operand(term, element, &what)).collect()
            }
            (DataType::Vector(vector), Term::List(terms)) => {
                let dimensions = usize::from(vector.1);
                if terms.len() != dimensions {
                    return Err(CqlError::invalid(format!(
                        "Invalid vector literal for {what} of type {data_type}; expected \
                         {dimensions} elements, but given {}",
                        terms.len()
                    )));
                }
                let what = format!("value({what})");
                terms.iter().map(|term| self.operand(term, &vector.0, &what)).collect()
            }
            // `{}` is parsed as a set.
            (DataType::Map(_), Term::Set(terms)) if terms.is_empty() => Ok(Vec::new()),
            (DataType::Map(pair), Term::Map(terms)) => {
                let (key_name, value_name) = (format!("key({what})"), format!("value({what})"));
                let mut parts = Vec::with_capacity(2 * terms.len());
                for (key, value) in terms {
                    parts.push(self.operand(key, &pair.0, &key_name)?);
                    parts.push(self.operand(value, &pair.1, &value_name)?);
                }
                Ok(parts)
            }
            (DataType::Tuple(fields), Term::Tuple(terms)) if terms.len() <= fields.len() => {
                let terms = terms.iter().zip(fields.iter()).enumerate();
                let part = |(place, (term, field)): (usize, (&Term, &DataType))| {
                    self.operand(term, field, &format!("{what}[{place}]"))
                };
                terms.map(part).collect()
            }
            (DataType::Udt(user_type), Term::Fields(fields)) => {
                self.user_type_parts(fields, user_type, what)
            }
            // One term in parentheses is parsed as the term.
            (
                DataType::Tuple(fields),
                Term::Literal(_)
                | Term::List(_)
                | Term::Set(_)
                | Term::Map(_)
                | Term::Fields(_)
                | Term::Tuple(_),
            ) if fields.len() == 1 || matches!(term, Term::Literal(_)) => {
                Ok(vec![self.operand(term, &fields[0], &format!("{what}[0]"))?])
            }
            // `{}` is parsed as a set: it is no value of a user-defined type without fields.
            (_, Term::Set(_)) => {
                let message = format!("Invalid set literal for {what} of type {data_type}");
                Err(CqlError::invalid(message))
            }
            _ => {
                let term = shown(term);
                Err(CqlError::invalid(format!("{what}: {term} is not a value of type {data_type}")))
            }
        }
    }
}
