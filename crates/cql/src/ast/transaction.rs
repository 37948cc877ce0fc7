//! `BEGIN TRANSACTION … COMMIT TRANSACTION`, in Accord's spelling and with extensions of it.

use super::name::Name;
use super::relation::{CompareOp, InValues};
use super::select::{Select, SelectItem};
use super::term::Term;
use super::write::{Assignment, Write};

/// Several statements that happen at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// What is read first, each under a name of its own.
    pub lets: Vec<Let>,
    /// What the client gets; without it, whether the writes were applied.
    pub result: Option<TransactionResult>,
    /// What is written.
    pub body: Body,
}

/// `LET name = (SELECT …)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Let {
    /// The name.
    pub name: Name,
    /// What it stands for.
    pub select: Select,
}

/// What a transaction returns: values from before its writes.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionResult {
    /// `SELECT … FROM …`.
    Select(Box<Select>),
    /// `SELECT name.column, …`: of what `LET` read. At least one.
    Items(Vec<SelectItem>),
}

/// What a transaction writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Writes without a condition, perhaps none.
    Plain(Vec<Write>),
    /// `IF … THEN … [ELSE …] END IF`.
    If {
        /// The condition.
        condition: Box<Condition>,
        /// What is written if it holds.
        then: Vec<Write>,
        /// What is written if not.
        otherwise: Option<Vec<Write>>,
    },
}

/// A transaction's condition. A comparison with null is false.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `… AND …`, at least two.
    And(Vec<Condition>),
    /// `… OR …`, at least two.
    Or(Vec<Condition>),
    /// `term op term`.
    Compare(Term, CompareOp, Term),
    /// `term IN …`.
    In(Term, InValues),
    /// `term IS NULL` or `term IS NOT NULL`.
    IsNull {
        /// What: a `LET`'s name (there is no such row) or a column of it.
        term: Term,
        /// `NOT`.
        negated: bool,
    },
}

/// Something that Carnet reads and Accord, as documented, does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extension {
    /// `OR` in the condition.
    Or,
    /// `IN` in the condition.
    In,
    /// `ELSE`.
    Else,
    /// A comparison of two references.
    ReferenceToReference,
    /// A calculation in the condition, as `a.balance + b.balance > 0`.
    ConditionArithmetic,
    /// A reference to a `LET` in `VALUES`, `SET` or `WHERE`.
    ReferenceAsValue,
}

impl Extension {
    /// Returns a short name for documents and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Or => "OR in IF",
            Self::In => "IN in IF",
            Self::Else => "ELSE",
            Self::ReferenceToReference => "a comparison of two references",
            Self::ConditionArithmetic => "arithmetic in IF",
            Self::ReferenceAsValue => "a reference as a value",
        }
    }
}

impl Transaction {
    /// Returns all writes, those of `ELSE` last.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let (first, second) = match &self.body {
            Body::Plain(writes) => (writes.as_slice(), [].as_slice()),
            Body::If { then, otherwise, .. } => {
                (then.as_slice(), otherwise.as_deref().unwrap_or(&[]))
            }
        };
        first.iter().chain(second)
    }

    /// Finds what a name stands for.
    #[must_use]
    pub fn find_let(&self, name: &str) -> Option<&Let> {
        self.lets.iter().find(|found| found.name.text == name)
    }

    /// Returns the extensions of Accord that it uses, each once, in their order.
    #[must_use]
    pub fn extensions(&self) -> Vec<Extension> {
        let mut found = Vec::new();
        if let Body::If { condition, otherwise, .. } = &self.body {
            condition.collect_extensions(&mut found);
            found.extend(otherwise.is_some().then_some(Extension::Else));
        }
        let is_let = |term: &Term| self.reads_let(term);
        let in_writes = self.writes().any(|write| write_values(write).into_iter().any(is_let));
        let mut selects = self.lets.iter().map(|read| &read.select).chain(match &self.result {
            Some(TransactionResult::Select(select)) => Some(&**select),
            _ => None,
        });
        let in_selects = selects.any(|select| {
            select.filter.iter().flat_map(super::markers::relation_terms).any(is_let)
        });
        found.extend((in_writes || in_selects).then_some(Extension::ReferenceAsValue));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Tells whether a term depends on what a `LET` read. A name alone is a column of the table
    /// that is written, even where a `LET` has the same name.
    fn reads_let(&self, term: &Term) -> bool {
        match term {
            Term::Reference(reference) => {
                reference.field.is_some() && self.find_let(&reference.name.text).is_some()
            }
            term => term.children().into_iter().any(|child| self.reads_let(child)),
        }
    }
}

impl Condition {
    fn collect_extensions(&self, found: &mut Vec<Extension>) {
        let mut in_terms = |terms: &[&Term]| {
            let is_calculated =
                |term: &&&Term| matches!(term, Term::Arithmetic { .. } | Term::Negate(_));
            found.extend(terms.iter().find(is_calculated).map(|_| Extension::ConditionArithmetic));
        };
        match self {
            Self::And(parts) => parts.iter().for_each(|part| part.collect_extensions(found)),
            Self::Or(parts) => {
                found.push(Extension::Or);
                parts.iter().for_each(|part| part.collect_extensions(found));
            }
            Self::Compare(left, _, right) => {
                in_terms(&[left, right]);
                if left.first_reference().is_some() && right.first_reference().is_some() {
                    found.push(Extension::ReferenceToReference);
                }
            }
            Self::In(term, _) => {
                in_terms(&[term]);
                found.push(Extension::In);
            }
            Self::IsNull { term, .. } => in_terms(&[term]),
        }
    }
}

/// Returns the terms that a write takes its values from.
fn write_values(write: &Write) -> Vec<&Term> {
    let (mut terms, filter) = match write {
        Write::Insert(insert) => (insert.values.iter().collect(), &[][..]),
        Write::Update(update) => {
            let values = update.assignments.iter().flat_map(|assignment| match assignment {
                Assignment::Column(_, value) | Assignment::Field(_, _, value) => vec![value],
                Assignment::Element(_, element, value) => vec![element, value],
            });
            (values.collect::<Vec<_>>(), &update.filter[..])
        }
        Write::Delete(delete) => (Vec::new(), &delete.filter[..]),
    };
    terms.extend(filter.iter().flat_map(super::markers::relation_terms));
    terms
}
