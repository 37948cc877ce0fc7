//! Result of a load: text, JSON, and a table of percentiles.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::measured::Measured;
use super::settings::Load;

/// Quantiles that are printed, and their names.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// Prints the result on standard output, and writes the percentiles to the file if one is named.
pub(super) fn print(load: &Load, measured: &Measured) -> Result<()> {
    if let Some(path) = &load.options.hdr {
        write_percentiles(path, &measured.latency).with_context(|| path.display().to_string())?;
    }
    match load.options.json {
        true => println!("{}", json(load, measured)),
        false => print!("{}", text(load, measured)),
    }
    Ok(())
}

fn per_second(count: u64, measured: &Measured) -> f64 {
    (count as f64 / measured.elapsed.as_secs_f64().max(1e-9)).round()
}

fn text(load: &Load, measured: &Measured) -> String {
    let operations = measured.latency.len();
    let loop_kind = match load.rate {
        Some(rate) => format!("open loop, {rate} due per second"),
        None => "closed loop".to_owned(),
    };
    let mut text = format!(
        "{} of {} rows, {} clients, {loop_kind}, {:.1} s: {} operations/s, {} rows/s; {} refused, {} failed\n",
        load.kind.name(),
        load.options.rows,
        load.clients,
        measured.elapsed.as_secs_f64(),
        per_second(operations, measured),
        per_second(measured.rows, measured),
        measured.refused,
        measured.failed,
    );
    let mut line = |name: &str, histogram: &Histogram<u64>| {
        let quantiles = QUANTILES
            .map(|(quantile, part)| format!("{quantile} {} µs", histogram.value_at_quantile(part)));
        let _ = writeln!(text, "{name}: {}", quantiles.join(", "));
    };
    if load.rate.is_some() {
        line("latency from the due time", &measured.latency);
        line("of that in the database", &measured.service);
    } else {
        line("latency", &measured.latency);
    }
    text
}

fn json(load: &Load, measured: &Measured) -> Value {
    let operations = measured.latency.len();
    let latencies = |histogram: &Histogram<u64>| {
        let mut all = serde_json::Map::new();
        for (name, part) in QUANTILES {
            all.insert(name.to_owned(), histogram.value_at_quantile(part).into());
        }
        all.insert("mean".to_owned(), histogram.mean().into());
        Value::Object(all)
    };
    json!({
        "workload": load.kind.name(),
        "clients": load.clients,
        "rate": load.rate,
        "group": load.options.group,
        "table_rows": load.options.rows,
        "value_bytes": load.options.value_bytes,
        "seed": load.seed,
        "seconds": measured.elapsed.as_secs_f64(),
        "operations": operations,
        "operations_per_second": per_second(operations, measured),
        "rows": measured.rows,
        "rows_per_second": per_second(measured.rows, measured),
        "refused": measured.refused,
        "failed": measured.failed,
        "latency_micros": latencies(&measured.latency),
        "service_micros": latencies(&measured.service),
    })
}

/// Writes the table that HdrHistogram's tools print: value, percentile, count, 1/(1-percentile).
fn write_percentiles(path: &Path, histogram: &Histogram<u64>) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the user names the file")]
    let mut file = BufWriter::new(File::create(path)?);
    percentiles(&mut file, histogram)?;
    Ok(file.flush()?)
}

fn percentiles(out: &mut impl Write, histogram: &Histogram<u64>) -> Result<()> {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for step in histogram.iter_quantiles(5) {
        let quantile = step.quantile_iterated_to();
        let count = histogram.count_between(0, step.value_iterated_to());
        let value = step.value_iterated_to();
        if quantile < 1.0 {
            writeln!(
                out,
                "{value:>12.3} {quantile:>14.12} {count:>10} {:>14.2}",
                1.0 / (1.0 - quantile)
            )?;
        } else {
            writeln!(out, "{value:>12.3} {quantile:>14.12} {count:>10}")?;
        }
    }
    let (mean, deviation) = (histogram.mean(), histogram.stdev());
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]")?;
    writeln!(
        out,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        histogram.max() as f64,
        histogram.len()
    )?;
    let buckets = histogram.buckets();
    writeln!(
        out,
        "#[Buckets = {buckets:>12}, SubBuckets     = {:>12}]",
        histogram.distinct_values() / usize::from(buckets.max(1))
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_rise_to_the_maximum() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        let mut out = Vec::new();
        percentiles(&mut out, &histogram).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 20, "{text}");
        assert!(rows.windows(2).all(|two| two[0][0] <= two[1][0] && two[0][2] <= two[1][2]));
        let last = rows.last().unwrap();
        assert_eq!((last[0], last[1], last[2]), (1000.0, 1.0, 1000.0));
        assert!(
            text.contains("#[Max     =     1000.000, Total count    =         1000]"),
            "{text}"
        );
    }
}
