//! Roles of bind markers.
//!
//! When a driver prepares a statement, the server returns the type of every marker. The syntax tree
//! determines a marker's role ("compared with column `id` of table `accounts`"); the executor,
//! which knows the tables, derives the type.

use super::name::{Name, TableName};
use super::open::OpenStatement;
use super::relation::{InValues, Relation};
use super::select::{Select, SelectItem, Selection};
use super::statement::{Batch, Statement};
use super::term::{Arguments, BindMarker, FunctionName, Reference, Term};
use super::transaction::{Body, Branch, Condition, Transaction, TransactionResult};
use super::types::TypeName;
use super::write::{Assignment, Attribute, Delete, Deletion, Guard, Insert, Update, Using, Write};

/// A bind marker and its role.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BindSite<'a> {
    /// The marker itself.
    pub marker: &'a BindMarker,
    /// Table of the enclosing statement; `None` in a transaction's own condition.
    pub table: Option<&'a TableName>,
    /// Role of the marker.
    pub role: BindRole<'a>,
}

/// Role of a bind marker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BindRole<'a> {
    /// A value of the column.
    Column(&'a Name),
    /// A list of values of the column: `IN ?`.
    ColumnList(&'a Name),
    /// A tuple of values of the columns: `(a, b) > ?`.
    Tuple(&'a [Name]),
    /// A list of such tuples: `(a, b) IN ?`.
    TupleList(&'a [Name]),
    /// A token of the partition key, a bigint.
    Token,
    /// An element's key or index in the column, a collection.
    ElementKey(&'a Name),
    /// An element of the column, a collection.
    Element(&'a Name),
    /// A field of the column, of a user-defined type.
    Field(&'a Name, &'a Name),
    /// A value that a transaction compares with a `LET`'s.
    Reference(&'a Reference),
    /// A list of such values.
    ReferenceList(&'a Reference),
    /// The argument of a function, counted from 0.
    Argument(&'a FunctionName, usize),
    /// A value of the type hint in front of it.
    Hint(&'a TypeName),
    /// A number of rows, an int.
    Limit,
    /// Microseconds since 1970, a bigint.
    Timestamp,
    /// Seconds, an int.
    Ttl,
    /// A wall-clock time.
    AsOf,
    /// A duration for a timeout.
    Timeout,
    /// The id of a transaction, a uuid.
    Transaction,
    /// The id of a running statement, a bigint.
    Statement,
    /// The text of an error.
    Raise,
    /// No type can be inferred: it needs a hint.
    Unknown,
}

impl Statement {
    /// Lists the bind markers in the order of the text, which is also their index.
    #[must_use]
    pub fn bind_sites(&self) -> Vec<BindSite<'_>> {
        let mut sites = Sites { found: Vec::new(), table: None };
        match self.planned() {
            Self::Select(select) => sites.select(select),
            Self::Write(write) => sites.write(write),
            Self::Batch(batch) => sites.batch(batch),
            Self::Transaction(transaction) => sites.transaction(transaction),
            Self::Open(open) => sites.open(open),
            Self::KillStatement(id) => sites.term(id, BindRole::Statement),
            Self::Truncate(_, using) => sites.using(using),
            _ => {}
        }
        sites.found
    }
}

/// Walks a statement in the order of its text.
struct Sites<'a> {
    found: Vec<BindSite<'a>>,
    table: Option<&'a TableName>,
}

impl<'a> Sites<'a> {
    fn marker(&mut self, marker: &'a BindMarker, role: BindRole<'a>) {
        self.found.push(BindSite { marker, table: self.table, role });
    }

    fn term(&mut self, term: &'a Term, role: BindRole<'a>) {
        match term {
            Term::Marker(marker) => self.marker(marker, role),
            Term::Literal(_) | Term::Reference(_) => {}
            Term::Hint(type_name, inner) => self.term(inner, BindRole::Hint(type_name)),
            Term::Call(call) => {
                let Arguments::Terms(terms) = &call.arguments else { return };
                for (position, argument) in terms.iter().enumerate() {
                    self.term(argument, BindRole::Argument(&call.function, position));
                }
            }
            Term::Arithmetic { .. } | Term::Negate(_) => {
                term.children().into_iter().for_each(|child| self.term(child, role));
            }
            Term::Element(reference, element) => {
                self.term(element, BindRole::ElementKey(&reference.name));
            }
            Term::Slice(reference, _) => {
                let bounds = term.children().into_iter();
                bounds.for_each(|bound| self.term(bound, BindRole::ElementKey(&reference.name)));
            }
            Term::Part(whole, _) => {
                let role = whole.first_reference().map(|reference| &reference.name);
                let role = role.map_or(BindRole::Unknown, BindRole::ElementKey);
                term.children().into_iter().for_each(|child| self.term(child, role));
            }
            Term::Cast(..)
            | Term::List(_)
            | Term::Set(_)
            | Term::Map(_)
            | Term::Fields(_)
            | Term::Tuple(_) => {
                let children = term.children().into_iter();
                children.for_each(|child| self.term(child, BindRole::Unknown));
            }
        }
    }

    fn option(&mut self, term: Option<&'a Term>, role: BindRole<'a>) {
        if let Some(term) = term {
            self.term(term, role);
        }
    }

    fn values(&mut self, values: &'a InValues, each: BindRole<'a>, all: BindRole<'a>) {
        match values {
            InValues::List(terms) => terms.iter().for_each(|term| self.term(term, each)),
            InValues::Marker(marker) => self.marker(marker, all),
        }
    }

    fn tuple(&mut self, columns: &'a [Name], value: &'a Term) {
        match value {
            Term::Tuple(terms) if terms.len() == columns.len() => {
                for (column, term) in columns.iter().zip(terms) {
                    self.term(term, BindRole::Column(column));
                }
            }
            term => self.term(term, BindRole::Tuple(columns)),
        }
    }

    fn relation(&mut self, relation: &'a Relation) {
        match relation {
            Relation::Compare { column, value, .. } | Relation::Like { column, pattern: value } => {
                self.term(value, BindRole::Column(column));
            }
            Relation::In { column, values } => {
                self.values(values, BindRole::Column(column), BindRole::ColumnList(column));
            }
            Relation::CompareTuple { columns, value, .. } => self.tuple(columns, value),
            Relation::InTuple { columns, values: InValues::List(tuples) } => {
                tuples.iter().for_each(|tuple| self.tuple(columns, tuple));
            }
            Relation::InTuple { columns, values: InValues::Marker(marker) } => {
                self.marker(marker, BindRole::TupleList(columns));
            }
            Relation::Token { value, .. } => self.term(value, BindRole::Token),
            Relation::IsNotNull(_) => {}
            Relation::Contains { column, key, value } => {
                let role =
                    if *key { BindRole::ElementKey(column) } else { BindRole::Element(column) };
                self.term(value, role);
            }
            Relation::Element { column, element, value, .. } => {
                self.term(element, BindRole::ElementKey(column));
                self.term(value, BindRole::Element(column));
            }
            Relation::ElementIn { column, element, values } => {
                self.term(element, BindRole::ElementKey(column));
                self.values(values, BindRole::Element(column), BindRole::ColumnList(column));
            }
            Relation::Field { column, field, value, .. } => {
                self.term(value, BindRole::Field(column, field));
            }
            Relation::FieldIn { column, field, values } => {
                self.values(values, BindRole::Field(column, field), BindRole::ColumnList(column));
            }
        }
    }

    fn filter(&mut self, filter: &'a [Relation]) {
        filter.iter().for_each(|relation| self.relation(relation));
    }

    fn using(&mut self, using: &'a Using) {
        for (attribute, term) in &using.attributes {
            let role = match attribute {
                Attribute::Timestamp => BindRole::Timestamp,
                Attribute::Ttl => BindRole::Ttl,
                Attribute::Timeout => BindRole::Timeout,
                Attribute::Transaction => BindRole::Transaction,
            };
            self.term(term, role);
        }
    }

    fn items(&mut self, items: &'a [SelectItem]) {
        items.iter().for_each(|item| self.term(&item.term, BindRole::Unknown));
    }

    fn select(&mut self, select: &'a Select) {
        self.table = Some(&select.from);
        if let Selection::Items(items) = &select.selection {
            self.items(items);
        }
        self.filter(&select.filter);
        select.group_by.iter().for_each(|term| self.term(term, BindRole::Unknown));
        if let Some(near) = &select.near {
            self.term(&near.vector, BindRole::Column(&near.column));
        }
        self.option(select.per_partition_limit.as_ref(), BindRole::Limit);
        self.option(select.limit.as_ref(), BindRole::Limit);
        self.option(select.as_of.as_ref(), BindRole::AsOf);
        self.using(&select.using);
    }

    fn guard(&mut self, guard: &'a Guard) {
        if let Guard::Columns(relations) = guard {
            self.filter(relations);
        }
    }

    fn insert(&mut self, insert: &'a Insert) {
        if let Some(json) = &insert.json {
            self.term(&json.value, BindRole::Unknown);
        }
        for (column, value) in insert.columns.iter().zip(&insert.values) {
            self.term(value, BindRole::Column(column));
        }
        self.using(&insert.using);
    }

    fn update(&mut self, update: &'a Update) {
        self.using(&update.using);
        for assignment in &update.assignments {
            match assignment {
                Assignment::Column(column, value) => self.term(value, BindRole::Column(column)),
                Assignment::Element(column, element, value) => {
                    self.term(element, BindRole::ElementKey(column));
                    self.term(value, BindRole::Element(column));
                }
                Assignment::Field(column, field, value) => {
                    self.term(value, BindRole::Field(column, field));
                }
            }
        }
        self.filter(&update.filter);
        self.guard(&update.guard);
    }

    fn delete(&mut self, delete: &'a Delete) {
        for deletion in &delete.deletions {
            if let Deletion::Element(column, element) = deletion {
                self.term(element, BindRole::ElementKey(column));
            }
        }
        self.using(&delete.using);
        self.filter(&delete.filter);
        self.guard(&delete.guard);
    }

    fn write(&mut self, write: &'a Write) {
        self.table = Some(write.table());
        match write {
            Write::Insert(insert) => self.insert(insert),
            Write::Update(update) => self.update(update),
            Write::Delete(delete) => self.delete(delete),
        }
    }

    fn batch(&mut self, batch: &'a Batch) {
        self.using(&batch.using);
        batch.writes.iter().for_each(|write| self.write(write));
    }

    fn transaction(&mut self, transaction: &'a Transaction) {
        transaction.lets.iter().for_each(|read| self.select(&read.select));
        self.table = None;
        match &transaction.result {
            Some(TransactionResult::Select(select)) => self.select(select),
            Some(TransactionResult::Items(items)) => self.items(items),
            None => {}
        }
        self.table = None;
        match &transaction.body {
            Body::Plain(writes) => writes.iter().for_each(|write| self.write(write)),
            Body::If { condition, then, otherwise } => {
                self.condition(condition);
                self.branch(then);
                otherwise.iter().for_each(|branch| self.branch(branch));
            }
        }
    }

    fn branch(&mut self, branch: &'a Branch) {
        branch.writes.iter().for_each(|write| self.write(write));
        self.table = None;
        self.option(branch.raise.as_deref(), BindRole::Raise);
    }

    fn open(&mut self, open: &'a OpenStatement) {
        if let OpenStatement::Start(start) = open {
            self.option(start.as_of.as_ref(), BindRole::AsOf);
        }
        self.option(open.id(), BindRole::Transaction);
        if let OpenStatement::Outcomes(ids) = open {
            ids.iter().for_each(|id| self.option(Some(id), BindRole::Transaction));
        }
    }

    fn condition(&mut self, condition: &'a Condition) {
        let role = |reference: Option<&'a Reference>| {
            reference.map_or(BindRole::Unknown, BindRole::Reference)
        };
        match condition {
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().for_each(|part| self.condition(part));
            }
            // `a.balance + ? > 0` has the type of `a.balance` as much as `a.balance > ?`.
            Condition::Compare(left, _, right) => {
                let reference = left.first_reference().or_else(|| right.first_reference());
                self.term(left, role(reference));
                self.term(right, role(reference));
            }
            Condition::In(term, values) => {
                let reference = term.first_reference();
                self.term(term, role(reference));
                let all = reference.map_or(BindRole::Unknown, BindRole::ReferenceList);
                self.values(values, role(reference), all);
            }
            Condition::IsNull { term, .. } => self.term(term, BindRole::Unknown),
        }
    }
}
