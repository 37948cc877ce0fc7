//! `Display` of statements about service levels.

use std::fmt::{self, Display, Formatter};

use super::{join, when};
use crate::ast::{LevelStatement, Literal, Name};

/// `name = value` of an option.
struct Property<'a>(&'a (Name, Literal));

impl Display for Property<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.0.0, self.0.1)
    }
}

/// `WITH …`, unless it is empty.
struct With<'a>(&'a [(Name, Literal)]);

impl Display for With<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str(" WITH ")?;
        join(f, self.0.iter().map(Property), " AND ")
    }
}

impl Display for LevelStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { if_not_exists, name, options } => {
                let condition = when(*if_not_exists, " IF NOT EXISTS");
                write!(f, "CREATE SERVICE LEVEL{condition} {name}{}", With(options))
            }
            Self::Alter { name, options } => {
                write!(f, "ALTER SERVICE LEVEL {name}{}", With(options))
            }
            Self::Drop { if_exists, name } => {
                write!(f, "DROP SERVICE LEVEL{} {name}", when(*if_exists, " IF EXISTS"))
            }
            Self::Attach { name, user } => write!(f, "ATTACH SERVICE LEVEL {name} TO {user}"),
            Self::Detach { user } => write!(f, "DETACH SERVICE LEVEL FROM {user}"),
            Self::List(None) => f.write_str("LIST ALL SERVICE LEVELS"),
            Self::List(Some(name)) => write!(f, "LIST SERVICE LEVEL {name}"),
            Self::ListAttached(None) => f.write_str("LIST ALL ATTACHED SERVICE LEVELS"),
            Self::ListAttached(Some(user)) => write!(f, "LIST ATTACHED SERVICE LEVEL OF {user}"),
            Self::ListEffective(user) => write!(f, "LIST EFFECTIVE SERVICE LEVEL OF {user}"),
        }
    }
}
