//! Naming of a statement at its end, for the diagnosis.

use carnet::admission::Permit;

use super::prepared::Statements;

/// Names a statement at its end, whatever its outcome, for the diagnosis. A statement that did not
/// wait gets no name, because naming costs too much.
pub(super) struct Naming<'s> {
    pub(super) statements: &'s Statements,
    pub(super) keyspace: Option<&'s str>,
    pub(super) permit: Option<&'s Permit>,
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit
            && permit.waits().is_worth_counting()
        {
            permit.waits().name(|| self.statements.named(self.keyspace));
        }
    }
}
