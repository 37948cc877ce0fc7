//! `BEGIN TRANSACTION … COMMIT TRANSACTION`, in Accord's syntax with extensions.

use super::name::Name;
use super::relation::{CompareOp, InValues, Relation};
use super::select::{Select, SelectItem};
use super::term::Term;
use super::write::{Assignment, Deletion, Write};

/// Several statements that run as one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// Reads that come first, each with a name.
    pub lets: Vec<Let>,
    /// Whether the result begins with `[applied]`, as `SELECT applied(), …` requests.
    pub shows_applied: bool,
    /// Result for the client; if `None`, whether the writes were applied.
    pub result: Option<TransactionResult>,
    /// Writes of the transaction.
    pub body: Body,
}

/// `LET name = (SELECT …)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Let {
    /// Name of the read.
    pub name: Name,
    /// Query of the read.
    pub select: Select,
}

/// Result of a transaction: values from before its writes.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionResult {
    /// `SELECT … FROM …`.
    Select(Box<Select>),
    /// `SELECT name.column, …`: columns that `LET`s read. At least one.
    Items(Vec<SelectItem>),
}

/// Writes of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Writes without a condition, possibly none.
    Plain(Vec<Write>),
    /// `IF … THEN … [ELSE …] END IF`.
    If {
        /// Condition of the branches.
        condition: Box<Condition>,
        /// Branch if the condition holds.
        then: Branch,
        /// Branch if it does not hold.
        otherwise: Option<Branch>,
    },
}

/// Branch of an `IF`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    /// Writes of the branch, possibly none.
    pub writes: Vec<Write>,
    /// `RAISE text`: ends the transaction without effect, with this error.
    pub raise: Option<Box<Term>>,
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
        /// A `LET`'s name (`IS NULL` if it found no row) or a column of it.
        term: Term,
        /// Whether it has `NOT`.
        negated: bool,
    },
}

/// Syntax that Carnet supports and that Accord does not, according to its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extension {
    /// `OR` in the condition.
    Or,
    /// `IN` in the condition.
    In,
    /// An `ELSE` branch.
    Else,
    /// A comparison of two references.
    ReferenceToReference,
    /// Arithmetic in the condition, such as `a.balance + b.balance > 0`.
    ConditionArithmetic,
    /// A reference to a `LET` in `VALUES`, `SET` or `WHERE`.
    ReferenceAsValue,
    /// `RAISE` in a branch.
    Raise,
    /// `applied()` in the result.
    Applied,
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
            Self::Raise => "RAISE",
            Self::Applied => "applied()",
        }
    }
}

impl Transaction {
    /// Lists its queries.
    pub(crate) fn selects(&self) -> impl Iterator<Item = &Select> {
        let lets = self.lets.iter().map(|read| &read.select);
        let result = match &self.result {
            Some(TransactionResult::Select(select)) => Some(&**select),
            _ => None,
        };
        lets.chain(result)
    }

    /// Returns all writes, those of `ELSE` last.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let (first, second) = match &self.body {
            Body::Plain(writes) => (writes.as_slice(), [].as_slice()),
            Body::If { then, otherwise, .. } => {
                let otherwise = otherwise.as_ref().map_or(&[][..], |branch| &branch.writes);
                (then.writes.as_slice(), otherwise)
            }
        };
        first.iter().chain(second)
    }

    /// Returns `true` if a branch raises an error.
    #[must_use]
    pub fn raises(&self) -> bool {
        let Body::If { then, otherwise, .. } = &self.body else { return false };
        [Some(then), otherwise.as_ref()].into_iter().flatten().any(|branch| branch.raise.is_some())
    }

    /// Returns the `LET` with a name.
    #[must_use]
    pub fn find_let(&self, name: &str) -> Option<&Let> {
        self.lets.iter().find(|found| found.name.text == name)
    }

    /// Returns the extensions of Accord that it uses, each once, in declaration order.
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
        let in_selects =
            selects.any(|select| select.filter.iter().flat_map(Relation::terms).any(is_let));
        found.extend((in_writes || in_selects).then_some(Extension::ReferenceAsValue));
        found.extend(self.raises().then_some(Extension::Raise));
        found.extend(self.shows_applied.then_some(Extension::Applied));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns `true` if a term depends on a value that a `LET` read. A bare name is a column of
    /// the written table, even if a `LET` has the same name.
    fn reads_let(&self, term: &Term) -> bool {
        match term {
            Term::Reference(reference) | Term::Element(reference, _)
                if reference.field.is_some() && self.find_let(&reference.name.text).is_some() =>
            {
                true
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

/// Returns the terms whose values a write uses.
fn write_values(write: &Write) -> Vec<&Term> {
    let (mut terms, filter) = match write {
        Write::Insert(insert) => {
            let json = insert.json.iter().map(|json| &json.value);
            (insert.values.iter().chain(json).collect(), &[][..])
        }
        Write::Update(update) => {
            let values = update.assignments.iter().flat_map(|assignment| match assignment {
                Assignment::Column(_, value) | Assignment::Field(_, _, value) => vec![value],
                Assignment::Element(_, element, value) => vec![element, value],
            });
            (values.collect::<Vec<_>>(), &update.filter[..])
        }
        Write::Delete(delete) => {
            let elements = delete.deletions.iter().filter_map(|deletion| match deletion {
                Deletion::Column(_) | Deletion::Field(..) => None,
                Deletion::Element(_, element) => Some(element),
            });
            (elements.collect(), &delete.filter[..])
        }
    };
    terms.extend(filter.iter().flat_map(Relation::terms));
    terms
}
