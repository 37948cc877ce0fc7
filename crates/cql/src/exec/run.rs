//! Parameters of a statement's run.

use std::borrow::Cow;
use std::sync::Arc;

use carnet::levels::Effective;
use carnet::roles::Rights;
use carnet::{Db, Label, TransactionOptions};
use carnet_base::Moment;

use super::parameters::Parameters;
use crate::bound::Bound;
use crate::steps::Steps;

/// Parameters of a statement's run, beside the transaction.
pub(super) struct Run<'a> {
    pub(super) label: Option<Label>,
    pub(super) parameters: &'a Parameters,
    pub(super) bound: Cow<'a, [Bound]>,
    pub(super) keyspace: Option<String>,
    /// Time from which the duration of the statement counts.
    pub(super) began: Moment,
    pub(super) deadline: Option<Moment>,
    pub(super) steps: Steps<'a>,
    pub(super) level: Arc<Effective>,
    /// What the role of the session may do; `None` if the session is not checked.
    pub(super) rights: Option<Arc<Rights>>,
}

impl Run<'_> {
    /// Returns the keyspace and the rights by which the statement is planned.
    pub(super) fn given(&self) -> (Option<&str>, Option<&Rights>) {
        (self.keyspace.as_deref(), self.rights.as_deref())
    }

    /// Returns the options of the statement's transaction.
    pub(super) fn transaction<'d>(&self, db: &'d Db) -> TransactionOptions<'d> {
        let options = db.transaction().label(self.label.clone()).wall_time(self.parameters.now);
        self.parameters.grant.apply(options, self.deadline)
    }
}
