//! `Display` of statements about transactions that stay open.

use std::fmt::{self, Display, Formatter};

use super::{clause, when};
use crate::ast::{IsolationLevel, OpenStatement, StartTransaction};

impl Display for OpenStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(start) => start.fmt(f),
            Self::Commit(id) => {
                f.write_str("COMMIT")?;
                clause(f, "TRANSACTION", id.as_ref())
            }
            Self::Rollback(id) => {
                f.write_str("ROLLBACK")?;
                clause(f, "TRANSACTION", id.as_ref())
            }
            Self::Kill(id) => write!(f, "KILL TRANSACTION {id}"),
            Self::Outcome(id) => write!(f, "SELECT outcome({id})"),
            Self::Outcomes(ids) => {
                f.write_str("SELECT outcome(")?;
                for (at, id) in ids.iter().enumerate() {
                    write!(f, "{}{id}", when(at > 0, ", "))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Display for StartTransaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "START {}TRANSACTION", when(self.detached, "DETACHED "))?;
        let isolation = self.isolation.map(IsolationLevel::keywords);
        clause(f, "ISOLATION LEVEL", isolation.as_ref())?;
        f.write_str(when(self.read_only == Some(true), " READ ONLY"))?;
        f.write_str(when(self.read_only == Some(false), " READ WRITE"))?;
        clause(f, "AS OF", self.as_of.as_ref())
    }
}
