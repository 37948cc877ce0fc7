//! Places of numbers in the output of a command.

use carnet_base::{Error, Result};
use serde_json::Value;

/// Place of a number in an output.
#[derive(Clone, Debug)]
pub(super) enum Take {
    /// A number of a line with these words: from 0 on, or from the last one on back if it is negative.
    /// Of several such lines the `nth` counts, from 0 on. A `^` begins words at a line's begin.
    Text { line: String, nth: usize, number: i32 },
    /// A field of each JSON object whose other fields have these values.
    Json { fields: Vec<(String, String)>, number: String },
    /// Number of lines with these words.
    Lines(String),
}

/// Returns the place of a number in the first line with these words.
pub(super) fn text(line: &str, number: i32) -> Take {
    Take::Text { line: line.to_owned(), nth: 0, number }
}

/// Returns the place of a number in a later line with these words.
pub(super) fn text_of(line: &str, nth: usize, number: i32) -> Take {
    Take::Text { line: line.to_owned(), nth, number }
}

/// Returns the place of a field in the objects with these fields. Fields within others are named with
/// points between.
pub(super) fn json(fields: &[(&str, &str)], number: &str) -> Take {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Take::Json { fields: fields.iter().map(owned).collect(), number: number.to_owned() }
}

impl Take {
    /// Returns the numbers at this place: several if the output has several rounds.
    pub(super) fn samples(&self, output: &str) -> Result<Vec<f64>> {
        let found = match self {
            Self::Text { line, nth, number } => {
                find(output, line, *nth, *number).into_iter().collect()
            }
            Self::Json { fields, number } => find_in_objects(output, fields, number),
            Self::Lines(words) => vec![lines(output, words)],
        };
        if found.is_empty() {
            return Err(Error::invalid(format!("no number at {self:?} of this output:\n{output}")));
        }
        Ok(found)
    }
}

fn find(output: &str, words: &str, nth: usize, at: i32) -> Option<f64> {
    let has_words = |line: &&str| match words.strip_prefix('^') {
        Some(begin) => line.starts_with(begin),
        None => line.contains(words),
    };
    let line = output.lines().filter(has_words).nth(nth)?;
    let number = |word: &str| {
        let word = word.trim_matches(|letter: char| !letter.is_ascii_digit() && letter != '-');
        word.replace(',', "").parse::<f64>().ok()
    };
    let is_name = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let words = line.split_whitespace().filter(|word| !is_name(word));
    let numbers: Vec<f64> = words.filter_map(number).collect();
    let from_end = usize::try_from(at.unsigned_abs()).ok()?;
    let at = if at < 0 { numbers.len().checked_sub(from_end)? } else { from_end };
    numbers.get(at).copied()
}

fn find_in_objects(output: &str, fields: &[(String, String)], number: &str) -> Vec<f64> {
    let objects = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let matches =
        |object: &Value| fields.iter().all(|(name, value)| is(field(object, name), value));
    objects.filter(matches).filter_map(|object| field(&object, number)?.as_f64()).collect()
}

fn field<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    name.split('.').try_fold(object, |object, part| object.get(part))
}

fn is(found: Option<&Value>, wanted: &str) -> bool {
    match found {
        Some(Value::String(text)) => text == wanted,
        Some(Value::Number(number)) => {
            number.as_f64().zip(wanted.parse().ok()).is_some_and(|(a, b): (f64, f64)| a == b)
        }
        Some(Value::Bool(found)) => found.to_string() == wanted,
        _ => false,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an output has fewer lines")]
fn lines(output: &str, words: &str) -> f64 {
    output.lines().filter(|line| line.contains(words)).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines() {
        let output = "V1 begins\n  reads by p50: 1 in 3,000 gets, 2 in 99 gets\nalone: 4.0 µs, 7\n";
        assert_eq!(text("reads", -2).samples(output).unwrap(), [2.0]);
        assert_eq!(text("reads", 1).samples(output).unwrap(), [3_000.0]);
        assert_eq!(text("^alone", 0).samples(output).unwrap(), [4.0]);
        assert_eq!(Take::Lines("gets".to_owned()).samples(output).unwrap(), [1.0]);
        let again = format!("{output}alone: 5 µs\n");
        assert_eq!(text_of("alone", 1, 0).samples(&again).unwrap(), [5.0]);
        for none in [text("^reads", 0), text("alone", 9), text_of("alone", 1, 0)] {
            let error = none.samples(output).unwrap_err().to_string();
            assert!(error.contains("no number at Text"), "{error}");
        }
    }

    #[test]
    fn fields_of_each_round_are_found() {
        let output = "a line\n\
            {\"round\":0,\"gate\":true,\"factor\":2.0,\"held\":{\"mib\":7}}\n\
            {\"round\":0,\"gate\":false,\"factor\":2.0,\"held\":{\"mib\":8}}\n\
            {\"round\":1,\"gate\":true,\"factor\":2.0,\"held\":{\"mib\":9}}\n";
        let wanted = json(&[("gate", "true"), ("factor", "2")], "held.mib");
        assert_eq!(wanted.samples(output).unwrap(), [7.0, 9.0]);
        assert!(json(&[("gate", "maybe")], "held.mib").samples(output).is_err());
        assert!(json(&[], "held.kib").samples(output).is_err());
    }
}
