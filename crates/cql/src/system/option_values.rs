//! Valid values of table options, according to Cassandra 5.0's checks.
//!
//! [`check_option`](super::options::check_option) checks an option's name and type before. Source:
//! `TableParams`, `CachingParams`, `CompactionParams`, `CompressionParams` and
//! `SpeculativeRetryPolicy` of Cassandra.

use std::collections::BTreeMap;

use super::setting::Setting;

type Pairs = BTreeMap<String, String>;

/// Exclusive minimum of `bloom_filter_fp_chance` for which Cassandra can build a filter.
const FP_CHANCE_MIN: f64 = 6.71e-5;
/// Maximum time to live in seconds: 20 years.
pub(crate) const TTL_MAX: i32 = 20 * 365 * 24 * 3600;
/// Memtable configurations of Cassandra's default settings file.
const MEMTABLES: [&str; 3] = ["default", "skiplist", "trie"];

pub(super) const STRATEGY_PACKAGE: &str = "org.apache.cassandra.db.compaction.";
pub(super) const COMPRESSOR_PACKAGE: &str = "org.apache.cassandra.io.compress.";

/// Options of all compaction strategies.
const COMPACTION: &[&str] = &[
    "class",
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];

/// Compaction strategies with their additional options.
const STRATEGIES: [(&str, &[&str]); 4] = [
    (
        "SizeTieredCompactionStrategy",
        &["bucket_high", "bucket_low", "max_threshold", "min_sstable_size", "min_threshold"],
    ),
    (
        "LeveledCompactionStrategy",
        &[
            "bucket_high",
            "bucket_low",
            "fanout_size",
            "max_threshold",
            "min_sstable_size",
            "min_threshold",
            "single_sstable_uplevel",
            "sstable_size_in_mb",
        ],
    ),
    (
        "TimeWindowCompactionStrategy",
        &[
            "bucket_high",
            "bucket_low",
            "compaction_window_size",
            "compaction_window_unit",
            "expired_sstable_check_frequency_seconds",
            "max_threshold",
            "min_sstable_size",
            "min_threshold",
            "timestamp_resolution",
            "unsafe_aggressive_sstable_expiration",
        ],
    ),
    (
        "UnifiedCompactionStrategy",
        &[
            "base_shard_count",
            "expired_sstable_check_frequency_seconds",
            "flush_size_override",
            "max_sstables_to_compact",
            "min_sstable_size",
            "overlap_inclusion_method",
            "scaling_parameters",
            "sstable_growth",
            "target_sstable_size",
            "unsafe_aggressive_sstable_expiration",
        ],
    ),
];

/// Compressors with their additional options.
const COMPRESSORS: [(&str, &[&str]); 5] = [
    ("LZ4Compressor", &["lz4_compressor_type", "lz4_high_compressor_level"]),
    ("SnappyCompressor", &[]),
    ("DeflateCompressor", &[]),
    ("ZstdCompressor", &["compression_level"]),
    ("NoopCompressor", &[]),
];
const COMPRESSION: &[&str] = &["chunk_length_in_kb", "class", "enabled", "min_compress_ratio"];

/// Checks a value of an option. `given` has the entries of a map as written.
///
/// # Errors
///
/// A message that names the valid values.
pub(super) fn check(name: &str, setting: &Setting, given: &Pairs) -> Result<(), String> {
    match (name, setting) {
        ("additional_write_policy" | "speculative_retry", Setting::Text(text)) => {
            check_policy(name, text)
        }
        ("bloom_filter_fp_chance", Setting::Double(chance)) => {
            ensure(*chance > FP_CHANCE_MIN && *chance <= 1.0, || {
                format!(
                    "{name} must be larger than {FP_CHANCE_MIN} and less than or equal to 1.0 \
                     (got {chance})"
                )
            })
        }
        ("crc_check_chance", Setting::Double(chance)) => {
            ensure((0.0..=1.0).contains(chance), || {
                format!(
                    "{name} must be larger than or equal to 0 and smaller than or equal to 1.0 \
                     (got {chance})"
                )
            })
        }
        ("caching", Setting::Map(_)) => check_caching(given),
        ("compaction", Setting::Map(_)) => check_compaction(given),
        ("compression", Setting::Map(_)) => check_compression(given),
        ("default_time_to_live", Setting::Int(seconds)) => {
            at_least(name, *seconds, 0)?;
            ensure(*seconds <= TTL_MAX, || {
                format!("{name} must be less than or equal to {TTL_MAX} (got {seconds})")
            })
        }
        ("gc_grace_seconds" | "memtable_flush_period_in_ms", Setting::Int(number)) => {
            at_least(name, *number, 0)
        }
        ("max_index_interval" | "min_index_interval", Setting::Int(number)) => {
            at_least(name, *number, 1)
        }
        ("memtable", Setting::Text(text)) => ensure(MEMTABLES.contains(&text.as_str()), || {
            format!(
                "Memtable configuration \"{text}\" not found; there are {}",
                MEMTABLES.join(", ")
            )
        }),
        ("read_repair", Setting::Text(text)) => one_of(name, text, &["BLOCKING", "NONE"]),
        _ => Ok(()),
    }
}

/// Checks the two index intervals of a table against each other.
///
/// # Errors
///
/// A message, if the minimum is larger.
pub(super) fn check_intervals(min: &Setting, max: &Setting) -> Result<(), String> {
    let (Setting::Int(min), Setting::Int(max)) = (min, max) else { return Ok(()) };
    ensure(max >= min, || {
        format!(
            "max_index_interval must be greater than or equal to min_index_interval ({min}) (got \
             {max})"
        )
    })
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn at_least(name: &str, number: i32, min: i32) -> Result<(), String> {
    ensure(number >= min, || {
        format!("{name} must be greater than or equal to {min} (got {number})")
    })
}

fn one_of(name: &str, text: &str, known: &[&str]) -> Result<(), String> {
    ensure(known.iter().any(|word| word.eq_ignore_ascii_case(text)), || {
        format!("Invalid value '{text}' for {name}: it takes {}", known.join(" or "))
    })
}

fn check_policy(name: &str, text: &str) -> Result<(), String> {
    ensure(canonical_policy(text).is_some(), || {
        format!(
            "{name}: Specified Speculative Retry Policy [{text}] is not supported; it takes 99p, \
             50ms, MIN(99p,50ms), MAX(99p,50ms), ALWAYS or NEVER"
        )
    })
}

/// Returns the form of a speculative retry policy that Cassandra stores: `NEVER`, `ALWAYS`, `50ms`,
/// `99p`, `MIN(99p,50ms)` or `MAX(99p,50ms)`.
fn canonical_policy(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let (function, both) = match upper.split_once('(') {
        Some((function @ ("MIN" | "MAX"), rest)) => (function, rest.strip_suffix(')')?),
        _ => {
            return match upper.as_str() {
                "NONE" | "NEVER" => Some("NEVER".to_owned()),
                "ALWAYS" => Some(upper),
                _ => percentile(&upper).or_else(|| fixed(&upper)),
            };
        }
    };
    let (first, second) = both.split_once(',')?;
    let (first, second) = (first.trim(), second.trim());
    let percentile = percentile(first).or_else(|| percentile(second))?;
    let fixed = fixed(first).or_else(|| fixed(second))?;
    Some(format!("{function}({percentile},{fixed})"))
}

fn percentile(upper: &str) -> Option<String> {
    let percentile = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P'))?;
    let percentile = number(percentile).filter(|number| *number > 0.0 && *number < 100.0)?;
    Some(format!("{percentile}p"))
}

fn fixed(upper: &str) -> Option<String> {
    let millis = number(upper.strip_suffix("MS")?)?;
    Some(format!("{}ms", millis.trunc()))
}

/// Returns the text of an option in the form that Cassandra stores.
pub(super) fn canonical_text(name: &str, text: String) -> String {
    match name {
        "additional_write_policy" | "speculative_retry" => canonical_policy(&text).unwrap_or(text),
        "read_repair" => text.to_ascii_uppercase(),
        _ => text,
    }
}

/// Returns the entries of an option in the form that Cassandra stores: classes with their package,
/// and defaults for entries that the statement leaves out.
pub(super) fn canonical_map(name: &str, mut given: Pairs) -> Pairs {
    match name {
        "caching" => {
            given.remove("enabled");
            let none =
                ["keys", "rows_per_partition"].map(|key| (key.to_owned(), "NONE".to_owned()));
            let given = given.into_iter().map(|(key, value)| (key, value.to_ascii_uppercase()));
            return none.into_iter().chain(given).collect();
        }
        "compaction" => {
            qualify(&mut given, STRATEGY_PACKAGE);
            if class(&given).is_none_or(|class| !class.ends_with(".UnifiedCompactionStrategy")) {
                for (key, value) in [("max_threshold", "32"), ("min_threshold", "4")] {
                    given.entry(key.to_owned()).or_insert_with(|| value.to_owned());
                }
            }
        }
        "compression" if given.is_empty() || is_off(&given) => {
            return [("enabled".to_owned(), "false".to_owned())].into();
        }
        "compression" => {
            given.remove("enabled");
            qualify(&mut given, COMPRESSOR_PACKAGE);
            given.entry("chunk_length_in_kb".to_owned()).or_insert_with(|| "16".to_owned());
        }
        _ => {}
    }
    given
}

fn qualify(given: &mut Pairs, package: &str) {
    if let Some(class) = given.get_mut("class") {
        *class = full(class, package);
    }
}

fn is_off(given: &Pairs) -> bool {
    given.get("enabled").is_some_and(|text| text.eq_ignore_ascii_case("false"))
}

/// Parses digits with an optional point; `f64` would also accept signs, exponents and words.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

fn check_caching(given: &Pairs) -> Result<(), String> {
    for (key, value) in given {
        let is_known = ["ALL", "NONE"].iter().any(|word| word.eq_ignore_ascii_case(value));
        let is_valid = match key.as_str() {
            "keys" => is_known,
            // ScyllaDB's switch of its cache.
            "enabled" => ["true", "false"].iter().any(|word| word.eq_ignore_ascii_case(value)),
            "rows_per_partition" => is_known || value.parse::<i32>().is_ok_and(|rows| rows >= 0),
            _ => {
                return Err(format!(
                    "Invalid caching sub-options [{key}]: only 'keys' and 'rows_per_partition' \
                     are allowed"
                ));
            }
        };
        ensure(is_valid, || {
            let numbers = if key == "keys" { "" } else { " or an integer" };
            format!(
                "Invalid value '{value}' for caching sub-option '{key}': use ALL, NONE{numbers}"
            )
        })?;
    }
    Ok(())
}

fn check_compaction(given: &Pairs) -> Result<(), String> {
    let class = class(given).ok_or("Missing sub-option 'class' for the 'compaction' option.")?;
    let (class, own) = find_class(class, STRATEGY_PACKAGE, &STRATEGIES).ok_or_else(|| {
        format!("Unable to find compaction strategy class '{}'", full(class, STRATEGY_PACKAGE))
    })?;
    if let Some(unknown) = unknown(given, COMPACTION, own) {
        return Err(format!("Properties specified [{unknown}] are not understood by {class}"));
    }
    check_switch("compaction", given)?;
    let threshold = |name: &str, default: i32| match given.get(name) {
        None => Ok(default),
        Some(text) => text
            .parse::<i32>()
            .map_err(|_| format!("compaction: {name} must be an integer, not {text}")),
    };
    let (min, max) = (threshold("min_threshold", 4)?, threshold("max_threshold", 32)?);
    ensure(min >= 2, || format!("Min compaction threshold cannot be less than 2 (got {min})"))?;
    ensure(max != 0, || {
        "Disabling compaction by setting compaction thresholds to 0 has been removed, set the \
         compaction option 'enabled' to false instead."
            .to_owned()
    })?;
    ensure(max > min, || {
        format!("Max compaction threshold must be larger than the min ({min}) (got {max})")
    })
}

fn check_compression(given: &Pairs) -> Result<(), String> {
    check_switch("compression", given)?;
    if is_off(given) {
        return ensure(given.len() == 1, || {
            "If the 'enabled' option is set to false no other options must be specified".to_owned()
        });
    }
    // An empty map also disables compression.
    if given.is_empty() {
        return Ok(());
    }
    let class = class(given).ok_or("Missing sub-option 'class' for the 'compression' option.")?;
    ensure(!class.is_empty(), || {
        "The 'class' option must not be empty. To disable compression use 'enabled': false"
            .to_owned()
    })?;
    let (_, own) = find_class(class, COMPRESSOR_PACKAGE, &COMPRESSORS).ok_or_else(|| {
        format!("Could not create Compression for type {}", full(class, COMPRESSOR_PACKAGE))
    })?;
    if let Some(unknown) = unknown(given, COMPRESSION, own) {
        return Err(format!("Unknown compression options {unknown}"));
    }
    if let Some(text) = given.get("chunk_length_in_kb") {
        let length = text.parse::<u32>().map_err(|_| {
            format!(
                "Invalid value for chunk_length_in_kb: a positive integer is expected, not {text}"
            )
        })?;
        ensure(length.is_power_of_two() && length <= 1 << 20, || {
            "chunk_length_in_kb must be a power of 2".to_owned()
        })?;
    }
    let ratio = given.get("min_compress_ratio").map(|text| (text, text.parse::<f64>()));
    match ratio {
        Some((text, ratio))
            if !ratio.as_ref().is_ok_and(|ratio| *ratio == 0.0 || *ratio >= 1.0) =>
        {
            Err(format!(
                "min_compress_ratio can either be 0 or greater than or equal to 1, not {text}"
            ))
        }
        _ => Ok(()),
    }
}

fn check_switch(option: &str, given: &Pairs) -> Result<(), String> {
    let is_boolean =
        |text: &String| ["true", "false"].iter().any(|word| word.eq_ignore_ascii_case(text));
    match given.get("enabled") {
        Some(text) if !is_boolean(text) => {
            Err(format!("{option}: 'enabled' is true or false, not {text}"))
        }
        _ => Ok(()),
    }
}

fn class(given: &Pairs) -> Option<&str> {
    given.get("class").map(String::as_str)
}

fn full(class: &str, package: &str) -> String {
    if class.contains('.') { class.to_owned() } else { format!("{package}{class}") }
}

/// Finds a class by its name with or without package.
fn find_class(
    class: &str,
    package: &str,
    known: &'static [(&str, &[&str])],
) -> Option<(&'static str, &'static [&'static str])> {
    let name = class.strip_prefix(package).unwrap_or(class);
    known.iter().find(|(known, _)| *known == name).copied()
}

fn unknown<'a>(given: &'a Pairs, common: &[&str], own: &[&str]) -> Option<&'a str> {
    let names = given.keys().map(String::as_str);
    names.into_iter().find(|name| !common.contains(name) && !own.contains(name))
}
