//! Origin of a statement, for messages and for resolving relative paths.

use std::fmt;
use std::path::{Path, PathBuf};

use carnet_cql::Location;

/// Origin of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A script file.
    File(PathBuf),
    /// The command line's `-e`.
    Argument,
    /// Standard input that is not a terminal.
    StandardInput,
    /// Lines typed at a terminal.
    Terminal,
}

impl Origin {
    /// Resolves a relative path in a script: it is relative to the script's directory.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        match self {
            Self::File(script) => script.parent().unwrap_or(Path::new("")).join(path),
            _ => PathBuf::from(path),
        }
    }

    /// Returns a position in the script, as a prefix of messages.
    pub(crate) fn place(&self, line: usize, column: Option<usize>) -> String {
        let column = column.map_or(String::new(), |column| format!(", column {column}"));
        format!("{self}line {line}{column}")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}, ", path.display()),
            Self::Argument => f.write_str("-e, "),
            Self::StandardInput => f.write_str("standard input, "),
            Self::Terminal => Ok(()),
        }
    }
}

/// Returns the line of a text that contains a position, with a caret under it.
pub(crate) fn caret(text: &str, location: Location) -> String {
    let start = text[..location.offset].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or("");
    // A tab would misplace the caret.
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let indent = text[start..location.offset].chars().count();
    format!("  {line}\n  {:indent$}^", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_lies_beside_its_script() {
        let script = Origin::File(PathBuf::from("examples/bank.cql"));
        assert_eq!(script.resolve("a.csv"), Path::new("examples/a.csv"));
        assert_eq!(script.resolve("/a.csv"), Path::new("/a.csv"));
        assert_eq!(Origin::Argument.resolve("a.csv"), Path::new("a.csv"));
    }

    #[test]
    fn caret_stands_under_the_position() {
        let text = "SELECT\n\té x";
        let location = Location::from_offset(text, text.find('x').unwrap());
        assert_eq!(caret(text, location), "   é x\n     ^");
    }
}
