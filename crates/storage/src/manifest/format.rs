//! Encoding of the manifest; `docs/data-format.md` describes it.

use bytes::{BufMut, Bytes};
use carnet_base::{Error, Result, Timestamp};

use super::edit::Edit;
use super::identity::Identity;
use super::levels::Levels;
use super::line::{Line, PAST_MAX, Past};
use super::range::FlatRange;
use super::root::{Manifest, NOTES_BYTES_MAX};
use super::table::{Contents, TableMeta};
use crate::codec::Decoder;

pub(super) const MAGIC: &[u8; 8] = b"CARNTMAN";
const VERSION: u32 = 10;
/// Version without `unlogged`, of programs for which a database always has a log. Databases with one
/// are still written so, and these programs can open them.
const VERSION_9: u32 = 9;
/// Version without the line.
const VERSION_8: u32 = 8;
/// Version without `bottom_garbage`.
const VERSION_7: u32 = 7;
/// Version with the fields of version 7, of programs that do not know elements of collections in
/// rows.
const VERSION_6: u32 = 6;
/// Version with the fields of version 7, of programs that know no deltas: their compaction would drop
/// the versions below a delta.
const VERSION_5: u32 = 5;
/// Version without `forgotten`.
const VERSION_4: u32 = 4;
/// Version without the last flushed commit and without notes.
const VERSION_3: u32 = 3;
/// Version without identity, `swept` and `lossy`.
const VERSION_2: u32 = 2;

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_slice(MAGIC);
    let version = if manifest.unlogged { VERSION } else { VERSION_9 };
    out.put_u32_le(version);
    out.put_slice(&manifest.identity.0);
    out.put_u64_le(manifest.bound.get());
    out.put_u64_le(manifest.swept.get());
    out.put_u64_le(manifest.forgotten.get());
    out.put_u8(u8::from(manifest.lossy));
    out.put_u64_le(manifest.flushed.get());
    out.put_u32_le(u32::try_from(manifest.notes.len()).expect("an edit has checked their length"));
    out.put_slice(&manifest.notes);
    out.put_u64_le(manifest.next_file);
    out.put_u64_le(manifest.first_segment);
    out.put_u64_le(manifest.first_lsn);
    let count = u32::try_from(manifest.levels.len()).expect("there are fewer than 2^32 tables");
    out.put_u32_le(count);
    for table in manifest.levels.iter() {
        put_table(&mut out, table);
    }
    put_line(&mut out, &manifest.line);
    if manifest.unlogged {
        out.put_u8(1);
    }
    let crc = crc32c::crc32c(&out);
    out.put_u32_le(crc);
    out
}

fn put_line(out: &mut Vec<u8>, line: &Line) {
    out.put_slice(&line.current.0);
    out.put_u8(u8::from(line.is_backed_up));
    out.put_u32_le(u32::try_from(line.past.len()).expect("there are at most PAST_MAX"));
    for Past { id, last } in &line.past {
        out.put_slice(&id.0);
        out.put_u64_le(last.get());
    }
}

fn put_table(out: &mut Vec<u8>, table: &TableMeta) {
    let contents = &table.contents;
    out.put_u64_le(table.number);
    out.put_u8(table.level);
    for number in [
        table.bytes,
        contents.cells,
        contents.overwritten,
        contents.bottom_garbage,
        contents.tombstones,
        contents.range_tombstones,
        contents.expiring,
        contents.expiry_min,
        contents.expiry_max,
        contents.commit_min.get(),
        contents.commit_max.get(),
    ] {
        out.put_u64_le(number);
    }
    for key in [&table.range.lower, &table.range.upper] {
        out.put_u32_le(u32::try_from(key.len()).expect("a key is shorter than 4 GiB"));
        out.put_slice(key);
    }
}

/// Decodes a manifest; errors name `path`.
pub(super) fn decode(bytes: &Bytes, path: &str) -> Result<Manifest> {
    let damaged = |offset: usize, cause: Error| {
        Error::corrupted(format!(
            "{path} is damaged at byte {offset}; keep a copy of the directory and restore a backup"
        ))
        .with_source(cause)
    };
    if !bytes.starts_with(MAGIC) {
        return Err(damaged(0, Error::corrupted("it does not begin as a manifest does")));
    }
    let sealed = bytes.split_last_chunk::<4>();
    let sealed = sealed.filter(|(sealed, crc)| crc32c::crc32c(sealed) == u32::from_le_bytes(**crc));
    let Some((sealed, _)) = sealed.filter(|(sealed, _)| sealed.len() >= MAGIC.len()) else {
        let cause = "the checksum does not match what stands before it";
        return Err(damaged(bytes.len().saturating_sub(4), Error::corrupted(cause)));
    };
    let mut decoder = Decoder::new(bytes.slice(MAGIC.len()..sealed.len()));
    let place = |decoder: &Decoder| sealed.len() - decoder.len();
    let version = decoder.u32().map_err(|error| damaged(place(&decoder), error))?;
    let advice = match version {
        VERSION | VERSION_9 | VERSION_8 | VERSION_7 | VERSION_6 | VERSION_5 | VERSION_4
        | VERSION_3 | VERSION_2 => {
            return fields(&mut decoder, version).map_err(|error| damaged(place(&decoder), error));
        }
        0..VERSION_2 => "it was never released, make the database anew",
        _ => "open the database with a newer one",
    };
    Err(Error::unsupported(format_args!(
        "version {version} of the manifest's format in {path}; this program reads version \
         {VERSION}, {advice}"
    )))
}

fn fields(decoder: &mut Decoder, version: u32) -> Result<Manifest> {
    let has_identity = version >= VERSION_3;
    let identity = if has_identity { Identity(decoder.array()?) } else { Identity::UNKNOWN };
    let bound = timestamp(decoder)?;
    // Earlier versions do not record the GC watermark: assume the greatest possible one.
    let swept = if has_identity { timestamp(decoder)? } else { bound };
    let forgotten = if version >= VERSION_5 { Some(timestamp(decoder)?) } else { None };
    if forgotten.is_some_and(|forgotten| forgotten > swept) {
        return Err(Error::corrupted("the `forgotten` watermark is above the `swept` one"));
    }
    let lossy = has_identity && flag(decoder)?;
    let (flushed, notes) = if version >= VERSION_4 {
        (Some(timestamp(decoder)?), notes(decoder)?)
    } else {
        (None, Bytes::new())
    };
    let next_file = decoder.u64()?;
    let first_segment = decoder.u64()?;
    let first_lsn = decoder.u64()?;
    let count = decoder.u32()?;
    let mut add = Vec::new();
    for _ in 0..count {
        let table = table(decoder, version)?;
        if table.number >= next_file {
            return Err(Error::corrupted("a table's number is not below the next file's"));
        }
        add.push(table);
    }
    let line = if version > VERSION_8 { line(decoder)? } else { Line::default() };
    let unlogged = version > VERSION_9 && flag(decoder)?;
    if !decoder.is_empty() {
        return Err(Error::corrupted("there are bytes after the last field"));
    }
    let mut levels = Levels::default();
    levels.edit(&Edit { add, ..Edit::default() })?;
    let commits = levels.iter().map(|table| table.contents.commit_max);
    let flushed = flushed.or_else(|| commits.max()).unwrap_or_default();
    // Compaction has dropped nothing above the last flushed commit.
    let forgotten = forgotten.unwrap_or_else(|| swept.min(flushed));
    Ok(Manifest {
        identity,
        bound,
        swept,
        forgotten,
        lossy,
        flushed,
        notes,
        next_file,
        first_segment,
        first_lsn,
        unlogged,
        line,
        levels,
    })
}

fn line(decoder: &mut Decoder) -> Result<Line> {
    let current = Identity(decoder.array()?);
    let is_backed_up = flag(decoder)?;
    let count = decoder.u32()?;
    if count as usize > PAST_MAX {
        return Err(Error::corrupted("there are too many incarnations"));
    }
    let mut past = Vec::new();
    for _ in 0..count {
        past.push(Past { id: Identity(decoder.array()?), last: timestamp(decoder)? });
    }
    Ok(Line { current, is_backed_up, past })
}

fn notes(decoder: &mut Decoder) -> Result<Bytes> {
    let len = usize::try_from(decoder.u32()?).unwrap_or(usize::MAX);
    if len > NOTES_BYTES_MAX {
        return Err(Error::corrupted("the notes beside the bound are too long"));
    }
    decoder.take(len).map(|notes| Bytes::copy_from_slice(&notes))
}

fn flag(decoder: &mut Decoder) -> Result<bool> {
    match decoder.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::corrupted(format!("{other} is neither yes nor no"))),
    }
}

fn table(decoder: &mut Decoder, version: u32) -> Result<TableMeta> {
    Ok(TableMeta {
        number: decoder.u64()?,
        level: decoder.u8()?,
        bytes: decoder.u64()?,
        contents: contents(decoder, version)?,
        range: FlatRange { lower: key(decoder)?, upper: key(decoder)? },
    })
}

fn contents(decoder: &mut Decoder, version: u32) -> Result<Contents> {
    let (cells, overwritten) = (decoder.u64()?, decoder.u64()?);
    let has_bottom = version > VERSION_7;
    let bottom_garbage = if has_bottom { Some(decoder.u64()?) } else { None };
    let tombstones = decoder.u64()?;
    Ok(Contents {
        cells,
        overwritten,
        // Earlier versions count deltas as overwritten; the next rewrite of the table corrects it.
        bottom_garbage: bottom_garbage.unwrap_or(tombstones),
        tombstones,
        range_tombstones: decoder.u64()?,
        expiring: decoder.u64()?,
        expiry_min: decoder.u64()?,
        expiry_max: decoder.u64()?,
        commit_min: timestamp(decoder)?,
        commit_max: timestamp(decoder)?,
    })
}

fn timestamp(decoder: &mut Decoder) -> Result<Timestamp> {
    let number = decoder.u64()?;
    Timestamp::new(number).ok_or_else(|| Error::corrupted(format!("{number} is not a timestamp")))
}

/// Reads a key; copies it, so that a table does not keep the bytes of the whole manifest.
fn key(decoder: &mut Decoder) -> Result<Bytes> {
    let len = decoder.u32()?;
    let len = usize::try_from(len).map_err(|_| Error::corrupted("a key is too long"))?;
    decoder.take(len).map(|key| Bytes::copy_from_slice(&key))
}
