//! Statements about service levels.

use super::name::Name;
use super::term::Literal;

/// Options after `WITH`, in the order of the text, each once; `null` resets one.
pub type LevelOptions = Vec<(Name, Literal)>;

/// A statement about service levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelStatement {
    /// `CREATE SERVICE LEVEL`.
    Create {
        /// Whether it has `IF NOT EXISTS`.
        if_not_exists: bool,
        /// Name of the level.
        name: Name,
        /// Options after `WITH`.
        options: LevelOptions,
    },
    /// `ALTER SERVICE LEVEL`.
    Alter {
        /// Name of the level.
        name: Name,
        /// Options after `WITH`, at least one.
        options: LevelOptions,
    },
    /// `DROP SERVICE LEVEL`.
    Drop {
        /// Whether it has `IF EXISTS`.
        if_exists: bool,
        /// Name of the level.
        name: Name,
    },
    /// `ATTACH SERVICE LEVEL … TO …`.
    Attach {
        /// Name of the level.
        name: Name,
        /// Name of the user.
        user: Name,
    },
    /// `DETACH SERVICE LEVEL FROM …`.
    Detach {
        /// Name of the user.
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
