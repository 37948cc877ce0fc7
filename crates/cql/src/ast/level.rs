//! Service levels.

use super::name::Name;
use super::term::Literal;

/// Options behind `WITH`, in the order given, each once; `null` resets one.
pub type LevelOptions = Vec<(Name, Literal)>;

/// A statement about service levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelStatement {
    /// `CREATE SERVICE LEVEL`.
    Create {
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The level.
        name: Name,
        /// `WITH …`.
        options: LevelOptions,
    },
    /// `ALTER SERVICE LEVEL`.
    Alter {
        /// The level.
        name: Name,
        /// `WITH …`, at least one.
        options: LevelOptions,
    },
    /// `DROP SERVICE LEVEL`.
    Drop {
        /// `IF EXISTS`.
        if_exists: bool,
        /// The level.
        name: Name,
    },
    /// `ATTACH SERVICE LEVEL … TO …`.
    Attach {
        /// The level.
        name: Name,
        /// The user.
        user: Name,
    },
    /// `DETACH SERVICE LEVEL FROM …`.
    Detach {
        /// The user.
        user: Name,
    },
    /// `LIST SERVICE LEVEL name` or `LIST ALL SERVICE LEVELS`.
    List(Option<Name>),
    /// `LIST ATTACHED SERVICE LEVEL OF user` or `LIST ALL ATTACHED SERVICE LEVELS`.
    ListAttached(Option<Name>),
    /// `LIST EFFECTIVE SERVICE LEVEL OF user`.
    ListEffective(Name),
}

impl LevelStatement {
    /// Returns the kind of the statement, in words of CQL.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE SERVICE LEVEL",
            Self::Alter { .. } => "ALTER SERVICE LEVEL",
            Self::Drop { .. } => "DROP SERVICE LEVEL",
            Self::Attach { .. } => "ATTACH SERVICE LEVEL",
            Self::Detach { .. } => "DETACH SERVICE LEVEL",
            Self::List(_) | Self::ListAttached(_) | Self::ListEffective(_) => "LIST SERVICE LEVEL",
        }
    }
}
