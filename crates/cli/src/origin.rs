//! Where a statement comes from, for messages and for the files that it names.

use std::fmt;
use std::path::{Path, PathBuf};

use carnet_cql::Location;

/// Where a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File(PathBuf),
    /// The command line's `-e`.
    Argument,
    /// Standard input that is no terminal.
    StandardInput,
    /// A person.
    Terminal,
}

impl Origin {
    /// Returns the place of a relative path that the script names: beside the script.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        match self {
            Self::File(script) => script.parent().unwrap_or(Path::new("")).join(path),
            _ => PathBuf::from(path),
        }
    }

    /// Names a place in the script, in front of a message.
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

/// Returns the line of a text that a place is on, with a caret under the place.
pub(crate) fn caret(text: &str, location: Location) -> String {
    let start = text[..location.offset].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or("");
    // A tab would move the caret off its place.
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let indent = text[start..location.offset].chars().count();
    format!("  {line}\n  {:indent$}^", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_lies_beside_its_script() {
        let script = Origin::File(PathBuf::from("examples/bank.cql"));
        assert_eq!(script.resolve("a.csv"), Path::new("examples/a.csv"));
        assert_eq!(script.resolve("/a.csv"), Path::new("/a.csv"));
        assert_eq!(Origin::Argument.resolve("a.csv"), Path::new("a.csv"));
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        let text = "SELECT\n\té x";
        let location = Location::of(text, text.find('x').unwrap());
        assert_eq!(caret(text, location), "   é x\n     ^");
    }
}
