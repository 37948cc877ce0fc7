//! Pages of ranges in both directions, in Carnet's order of cells.
//!
//! # The problem
//!
//! A cluster scans partitions in the order of tokens, forward only. Two partitions with the same
//! token are ordered differently than in Carnet: byte by byte, while Carnet puts the shorter key
//! first. A partition can be scanned in both directions, but backward the *oldest* version of each
//! cell comes first.
//!
//! ```text
//!   forward    partition by partition: the token in which the range begins
//!              one request: the whole tokens that follow, up to a number of rows
//!                └ the last token of a full answer, and one with two partitions: as the first
//!              partition by partition: the token in which the range ends
//!   backward   halve the tokens until few partitions are left at the upper end, list them,
//!              and go through them from the last: the last keys, then their newest versions
//! ```
//!
//! # Invariants
//!
//! * The rest of a range lies behind every cell of the page, and in front of every other.
//! * A cell is taken from an answer only if the answer has all requested versions of it.

use carnet_base::{Bytes, CellKey, KeyRange, PartitionKey, TableId, Timestamp, Token, Version};
use carnet_store::PageLimit;
use carnet_store::cluster::Faulty;
use scylla::response::query_result::QueryRowsResult;

use crate::cluster::CqlCluster;
use crate::fault::{Access, misunderstood};
use crate::partition::{LOWEST, key_of, sought};
use crate::request_settings::RequestSettings;
use crate::session::Bind;
use crate::span::{Span, after, behind, middle};
use crate::statement::{Cells, Statement, Upper, Versions};

/// Maximum number of rows in the first answer of a page, before their size is known.
const ROWS_FIRST: usize = 32;

/// Maximum number of rows in an answer.
const ROWS_MAX: usize = 4096;

/// Number of partitions that a backward scan lists at once.
const PARTITIONS: i32 = 128;

/// A cell with its requested versions, newest first.
pub(crate) type Cell = (CellKey, Vec<Version>);

/// Requested versions of each cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// The newest version whose start is at most this.
    Newest(Timestamp),
    All,
}

/// A row of a table of cells.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: CellKey,
    pub(crate) start: Timestamp,
    /// `None` for a stamp without its version.
    pub(crate) version: Option<Version>,
}

/// A page being filled.
pub(crate) struct Filling {
    limit: PageLimit,
    pub(crate) cells: Vec<Cell>,
    bytes: usize,
}

/// A scan of a range.
pub(crate) struct Scan<'a> {
    pub(crate) cluster: &'a CqlCluster,
    pub(crate) how: RequestSettings,
    pub(crate) table: TableId,
    pub(crate) wanted: Wanted,
}

impl Filling {
    pub(crate) const fn new(limit: PageLimit) -> Self {
        Self { limit, cells: Vec::new(), bytes: 0 }
    }

    /// Returns `true` if no further cell fits.
    pub(crate) fn is_full(&self) -> bool {
        self.cells.len() >= self.limit.cells.max(1)
            || (!self.cells.is_empty() && self.bytes >= self.limit.bytes)
    }

    fn push(&mut self, (key, versions): Cell) {
        let payloads = versions.iter().filter_map(|version| version.payload.as_ref());
        self.bytes += key.as_bytes().len() + payloads.map(Bytes::len).sum::<usize>();
        self.cells.push((key, versions));
    }

    /// Returns the number of rows to request next, by the size of the rows so far.
    fn rows(&self) -> usize {
        let cells = self.limit.cells.saturating_sub(self.cells.len());
        if self.cells.is_empty() {
            return cells.clamp(1, ROWS_FIRST);
        }
        let bytes_each = (self.bytes / self.cells.len()).max(1);
        let fitting = self.limit.bytes.saturating_sub(self.bytes) / bytes_each;
        cells.min(fitting + 1).clamp(1, ROWS_MAX)
    }
}

impl Wanted {
    const fn versions(self) -> Versions {
        match self {
            Self::Newest(_) => Versions::Newest,
            Self::All => Versions::All,
        }
    }

    fn bind(self) -> Option<Bind<'static>> {
        match self {
            Self::Newest(through) => Some(bind_time(through)),
            Self::All => None,
        }
    }
}

impl Scan<'_> {
    /// Fills a page from the front of a range.
    pub(crate) async fn forward(&self, range: &KeyRange, page: &mut Filling) -> Faulty<()> {
        let Some(span) = Span::from_range(range) else { return Ok(()) };
        if let Some(partition) = range.single_partition() {
            return self.partition(&span, &partition, page).await;
        }
        let (first, last) = span.tokens();
        // A token that cannot be read together with others.
        let mut alone = (!span.covers(first)).then_some(first);
        let mut next = Some(first);
        if first <= LOWEST {
            for partition in self.partitions((first, LOWEST.min(last)), i32::MAX).await?.0 {
                self.partition(&span, &partition, page).await?;
            }
            next = after(LOWEST).filter(|_| !page.is_full());
        }
        while let Some(token) = next.filter(|token| *token <= last) {
            if alone == Some(token) || !span.covers(token) {
                self.token(&span, token, page).await?;
                next = after(token);
            } else {
                let through =
                    if span.covers(last) { last } else { Token(last.0.saturating_sub(1)) };
                alone = self.tokens((token, through), page).await?;
                next = alone.or_else(|| after(through));
            }
            if page.is_full() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fills a page from the end of a range.
    pub(crate) async fn backward(&self, range: &KeyRange, page: &mut Filling) -> Faulty<()> {
        let Some(span) = Span::from_range(range) else { return Ok(()) };
        if let Some(partition) = range.single_partition() {
            return self.partition_backward(&span, &partition, page).await;
        }
        let (first, mut last) = span.tokens();
        while first <= last {
            let (from, partitions) = self.last_partitions(first, last).await?;
            for partition in partitions.iter().rev() {
                self.partition_backward(&span, partition, page).await?;
                if page.is_full() {
                    return Ok(());
                }
            }
            let Some(before) = from.0.checked_sub(1) else { break };
            last = Token(before);
        }
        Ok(())
    }

    /// Reads the cells of one token that lie in the span.
    async fn token(&self, span: &Span, token: Token, page: &mut Filling) -> Faulty<()> {
        for partition in self.partitions((token, token), i32::MAX).await?.0 {
            self.partition(span, &partition, page).await?;
            if page.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Reads cells of whole tokens. Returns the token that must be read alone; all cells before it
    /// have been read.
    async fn tokens(
        &self,
        (from, through): (Token, Token),
        page: &mut Filling,
    ) -> Faulty<Option<Token>> {
        let asked = page.rows();
        let (from, through) = (bind_token(from), bind_token(through));
        let values = [Some(from), Some(through), self.wanted.bind(), Some(limit(asked))];
        let values: Vec<Bind<'_>> = values.into_iter().flatten().collect();
        let rows = self.rows(Cells::Tokens(self.wanted.versions()), &values).await?;
        // The last token of a full answer may have more cells.
        let mut alone = (rows.len() >= asked).then(|| rows.last().map(|row| row.key.token()));
        if let Some(token) = first_shared_token(&rows) {
            alone = Some(Some(token));
        }
        let alone = alone.flatten();
        let is_taken = |row: &Row| alone.is_none_or(|alone| row.key.token() < alone);
        let taken = rows.into_iter().take_while(is_taken).collect();
        self.take(cells_of(taken), page).await?;
        Ok(alone)
    }

    /// Reads the cells of a partition that lie in the span.
    async fn partition(
        &self,
        span: &Span,
        partition: &PartitionKey,
        page: &mut Filling,
    ) -> Faulty<()> {
        let Some((mut lower, upper)) = span.slice(partition) else { return Ok(()) };
        let mut rows_min = 1;
        while !page.is_full() {
            let asked = page.rows().max(rows_min);
            let rows = self.slice(partition, (&lower, upper.as_ref()), asked).await?;
            let is_cut = rows.len() >= asked;
            let mut cells = cells_of(rows);
            if is_cut && matches!(self.wanted, Wanted::All) {
                // The last cell may have more versions.
                if cells.len() == 1 {
                    rows_min = asked.saturating_mul(2);
                    continue;
                }
                cells.pop();
            }
            let last = cells.last().map(|(key, _)| behind(key.clustering()));
            self.take(cells, page).await?;
            match last {
                Some(last) if is_cut => lower = last,
                _ => break,
            }
        }
        Ok(())
    }

    /// Reads the cells of a partition that lie in the span, from the last to the first.
    async fn partition_backward(
        &self,
        span: &Span,
        partition: &PartitionKey,
        page: &mut Filling,
    ) -> Faulty<()> {
        let Some((lower, mut upper)) = span.slice(partition) else { return Ok(()) };
        while !page.is_full() {
            let asked = page.rows();
            let keys = self.last_keys(partition, (&lower, upper.as_ref()), asked).await?;
            let (Some(last), Some(first)) = (keys.first(), keys.last()) else { break };
            // Without a limit: a cell written meanwhile must not displace another one.
            let rows = self.slice(partition, (first, Some(&behind(last))), usize::MAX).await?;
            let mut cells = cells_of(rows);
            cells.reverse();
            self.take(cells, page).await?;
            if keys.len() < asked {
                break;
            }
            upper = Some(first.clone());
        }
        Ok(())
    }

    /// Adds cells that have a version to the page.
    async fn take(&self, cells: Vec<(CellKey, Vec<Row>)>, page: &mut Filling) -> Faulty<()> {
        for (key, rows) in cells {
            if page.is_full() {
                break;
            }
            let oldest = rows.last().map(|row| row.start);
            let mut versions: Vec<Version> =
                rows.into_iter().filter_map(|row| row.version).collect();
            if let (true, Wanted::Newest(_), Some(start)) =
                (versions.is_empty(), self.wanted, oldest)
            {
                // A stamp without its version hides the versions below it.
                if let Some(through) = start.previous() {
                    versions.extend(self.newest(&key, through).await?);
                }
            }
            if !versions.is_empty() {
                page.push((key, versions));
            }
        }
        Ok(())
    }

    /// Returns a cell's newest version whose start is at most `through`.
    pub(crate) async fn newest(
        &self,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        let mut next = Some(through);
        while let Some(through) = next {
            let partition = key.partition();
            let values =
                [Bind::Blob(sought(&partition)), Bind::Blob(key.clustering()), bind_time(through)];
            let Some(row) = self.rows(Cells::Newest, &values).await?.into_iter().next() else {
                break;
            };
            if row.version.is_some() {
                return Ok(row.version);
            }
            next = row.start.previous();
        }
        Ok(None)
    }

    /// Returns a cell's newest versions whose starts are at most `through`, up to a number.
    pub(crate) async fn chain(
        &self,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> Faulty<Vec<Version>> {
        let (mut chain, mut next) = (Vec::new(), Some(through));
        while chain.len() < max
            && let Some(through) = next
        {
            let asked = max - chain.len();
            let partition = key.partition();
            let values = [
                Bind::Blob(sought(&partition)),
                Bind::Blob(key.clustering()),
                bind_time(through),
                limit(asked),
            ];
            let rows = self.rows(Cells::Chain, &values).await?;
            // A stamp without its version counts as a row of the answer.
            let oldest = rows.last().filter(|_| rows.len() >= asked);
            next = oldest.and_then(|row| row.start.previous());
            chain.extend(rows.into_iter().filter_map(|row| row.version));
        }
        Ok(chain)
    }

    async fn slice(
        &self,
        partition: &PartitionKey,
        (lower, upper): (&Bytes, Option<&Bytes>),
        asked: usize,
    ) -> Faulty<Vec<Row>> {
        let values = [
            Some(Bind::Blob(sought(partition))),
            Some(Bind::Blob(lower)),
            upper.map(|upper| Bind::Blob(upper)),
            self.wanted.bind(),
            Some(limit(asked)),
        ];
        let values: Vec<Bind<'_>> = values.into_iter().flatten().collect();
        self.rows(Cells::Slice(self.wanted.versions(), bounded(upper)), &values).await
    }

    async fn last_keys(
        &self,
        partition: &PartitionKey,
        (lower, upper): (&Bytes, Option<&Bytes>),
        asked: usize,
    ) -> Faulty<Vec<Bytes>> {
        let through = match self.wanted {
            Wanted::Newest(through) => through,
            Wanted::All => Timestamp::MAX,
        };
        let values = [
            Some(Bind::Blob(sought(partition))),
            Some(Bind::Blob(lower)),
            upper.map(|upper| Bind::Blob(upper)),
            Some(bind_time(through)),
            Some(limit(asked)),
        ];
        let values: Vec<Bind<'_>> = values.into_iter().flatten().collect();
        blobs(&self.answer(Cells::LastKeys(bounded(upper)), &values).await?)
    }

    /// Returns the partitions at the upper end of a range of tokens, in their order, and the first
    /// token that was read.
    async fn last_partitions(
        &self,
        first: Token,
        last: Token,
    ) -> Faulty<(Token, Vec<PartitionKey>)> {
        let mut from = first;
        loop {
            let max = if from == last { i32::MAX } else { PARTITIONS };
            let (partitions, is_cut) = self.partitions((from, last), max).await?;
            if from == last || !is_cut {
                return Ok((from, partitions));
            }
            from = middle(from, last);
        }
    }

    /// Returns the partitions with tokens in the given range, in Carnet's order, and whether there
    /// may be more.
    async fn partitions(
        &self,
        (from, through): (Token, Token),
        max: i32,
    ) -> Faulty<(Vec<PartitionKey>, bool)> {
        let values = [bind_token(from), bind_token(through), Bind::Int(max)];
        let keys = blobs(&self.answer(Cells::Partitions, &values).await?)?;
        let is_cut = keys.len() >= max.cast_unsigned() as usize;
        let keys = keys.iter().map(|key| key_of(key));
        // One stored token stands for two: see `bind_token`.
        let mut partitions: Vec<PartitionKey> =
            keys.filter(|key| (from..=through).contains(&key.token())).collect();
        partitions.sort_unstable();
        Ok((partitions, is_cut))
    }

    pub(crate) async fn rows(&self, of: Cells, values: &[Bind<'_>]) -> Faulty<Vec<Row>> {
        let answer = self.answer(of, values).await?;
        let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Read, error);
        let rows = answer.rows::<Columns>().map_err(|error| unclear(&error))?;
        let rows = rows.map(|row| {
            let row = row.map_err(|error| unclear(&error))?;
            row_of(self.table, row).map_err(|what| unclear(&what))
        });
        rows.collect()
    }

    async fn answer(&self, of: Cells, values: &[Bind<'_>]) -> Faulty<QueryRowsResult> {
        self.cluster.session.rows(self.how, Statement::Cells(self.table, of), values).await
    }
}

/// Partition key, clustering key, start, tombstone flag, payload, stamp.
type Columns = (Vec<u8>, Vec<u8>, i64, Option<bool>, Option<Vec<u8>>, Option<i64>);

fn row_of(
    table: TableId,
    (partition, clustering, start, tombstone, payload, stamp): Columns,
) -> Result<Row, String> {
    let time = |number: i64| {
        let time = u64::try_from(number).ok().and_then(Timestamp::new);
        time.ok_or_else(|| format!("{number} is not a timestamp"))
    };
    if partition.len() > carnet_base::limits::PARTITION_KEY_BYTES_MAX {
        return Err(format!("a partition key of {} bytes", partition.len()));
    }
    let start = time(start)?;
    let commit = stamp.map(time).transpose()?;
    let version = match (tombstone, payload) {
        (None, _) => None,
        (Some(true), _) => Some(Version { start, commit, payload: None }),
        (Some(false), Some(bytes)) => {
            Some(Version { start, commit, payload: Some(Bytes::from(bytes)) })
        }
        (Some(false), None) => return Err(format!("version {start} has lost its payload")),
    };
    let key = CellKey::new(table, &key_of(&partition), clustering);
    Ok(Row { key, start, version })
}

/// Groups adjacent rows of the same cell.
fn cells_of(rows: Vec<Row>) -> Vec<(CellKey, Vec<Row>)> {
    let mut cells: Vec<(CellKey, Vec<Row>)> = Vec::new();
    for row in rows {
        match cells.last_mut() {
            Some((key, versions)) if *key == row.key => versions.push(row),
            _ => cells.push((row.key.clone(), vec![row])),
        }
    }
    cells
}

/// Returns the first token that two partitions share.
fn first_shared_token(rows: &[Row]) -> Option<Token> {
    let shares = |pair: &&[Row]| {
        pair[0].key.token() == pair[1].key.token() && !pair[0].key.same_partition(&pair[1].key)
    };
    rows.windows(2).find(shares).map(|pair| pair[0].key.token())
}

fn blobs(answer: &QueryRowsResult) -> Faulty<Vec<Bytes>> {
    let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Read, error);
    let rows = answer.rows::<(Vec<u8>,)>().map_err(|error| unclear(&error))?;
    rows.map(|row| row.map(|(bytes,)| bytes.into()).map_err(|error| unclear(&error))).collect()
}

const fn bounded(upper: Option<&Bytes>) -> Upper {
    match upper {
        Some(_) => Upper::Before,
        None => Upper::Open,
    }
}

fn limit(rows: usize) -> Bind<'static> {
    Bind::Int(i32::try_from(rows).unwrap_or(i32::MAX))
}

/// Binds a token; that of the empty key becomes the one under which the key is stored.
fn bind_token(token: Token) -> Bind<'static> {
    Bind::Long(token.max(LOWEST).0)
}

/// Binds a timestamp, which has 63 bits.
pub(crate) fn bind_time(time: Timestamp) -> Bind<'static> {
    Bind::Long(time.get().cast_signed())
}
