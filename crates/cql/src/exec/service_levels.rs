//! Execution of statements about service levels.

use std::time::Duration;

use carnet::levels::{Levels, Setting, no_level};
use carnet::roles::{Permission, Permissions, Resource, Rights, Roles};
use carnet::{DataType, ErrorKind};
use carnet_admission::Workload;
use carnet_base::Bytes;
use carnet_data::CqlDuration;

use super::authorize::check;
use super::executor::Executor;
use super::parameters::Session;
use super::run::Run;
use crate::ast::{LevelStatement, Literal, Name};
use crate::cql_error::CqlError;
use crate::duration::timeout;
use crate::result::{ColumnSpec, Response, Rows};

impl Executor {
    pub(super) async fn level_statement(
        &self,
        session: &Session,
        statement: &LevelStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        authorize(run.rights.as_deref(), statement)?;
        match statement {
            LevelStatement::List(_)
            | LevelStatement::ListAttached(_)
            | LevelStatement::ListEffective(_) => self.list_levels(statement, run).await,
            _ => {
                self.change_levels(statement, run).await?;
                self.follow_level(session, statement).await
            }
        }
    }

    /// Updates the permissions on a level that was created or dropped.
    async fn follow_level(
        &self,
        session: &Session,
        statement: &LevelStatement,
    ) -> Result<Response, CqlError> {
        let db = &self.shared.db;
        let resource = |name: &Name| Resource::Level(name.as_str().to_owned());
        match (statement, session.role()) {
            (LevelStatement::Create { name, .. }, Some(role)) => {
                db.change_roles(|roles| roles.grant(Permissions::ALL, resource(name), role))
                    .await?;
            }
            (LevelStatement::Drop { name, .. }, _) => {
                let dropped = resource(name);
                let is_left = |roles: &mut Roles| {
                    roles.drop_resource(&dropped);
                    Ok(())
                };
                db.change_roles(is_left).await?;
            }
            _ => {}
        }
        Ok(Response::Void)
    }

    async fn change_levels(
        &self,
        statement: &LevelStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        if let LevelStatement::Attach { user, .. } = statement {
            self.check_user(user.as_str())?;
        }
        let settings = match statement {
            LevelStatement::Create { options, .. } | LevelStatement::Alter { options, .. } => {
                options.iter().map(setting).collect::<Result<Vec<_>, _>>()?
            }
            _ => Vec::new(),
        };
        let transaction = run.transaction(&self.shared.db);
        let changed = transaction.change_levels(|levels| change(levels, statement, &settings));
        changed.await.map(|()| Response::Void)
    }

    async fn list_levels(
        &self,
        statement: &LevelStatement,
        run: &Run<'_>,
    ) -> Result<Response, CqlError> {
        let db = &self.shared.db;
        let tx = run.transaction(db).snapshot_async(None).await?;
        db.refresh_levels_by(&tx).await?;
        let levels = db.levels();
        let rows = match statement {
            LevelStatement::ListAttached(user) => attached(&levels, user.as_ref()),
            LevelStatement::ListEffective(user) => {
                self.check_user(user.as_str())?;
                let roles = db.roles().all_of(user.as_str());
                let names: Vec<&str> = roles.iter().map(|role| &**role).collect();
                let own = [user.as_str()];
                effective(&levels, if names.is_empty() { &own } else { &names })
            }
            LevelStatement::List(Some(name)) if levels.get(name.as_str()).is_none() => {
                return Err(no_level(name.as_str()).into());
            }
            LevelStatement::List(name) => listed(&levels, name.as_ref()),
            _ => Rows::default(),
        };
        Ok(Response::Rows(rows))
    }

    fn check_user(&self, user: &str) -> Result<(), CqlError> {
        match &*self.shared.levels.users.load() {
            Some(users) if !users.contains(user) && self.shared.db.roles().get(user).is_none() => {
                Err(CqlError::invalid(format!("Role {user} doesn't exist.")))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a role may run a statement about levels.
fn authorize(rights: Option<&Rights>, statement: &LevelStatement) -> Result<(), CqlError> {
    let Some(rights) = rights else { return Ok(()) };
    let level = |name: &Name| Resource::Level(name.as_str().to_owned());
    let is_own = |user: &Name| rights.names().iter().any(|name| **name == *user.as_str());
    match statement {
        LevelStatement::Create { .. } => check(rights, &Resource::Levels, Permission::Create),
        LevelStatement::Alter { name, .. } => check(rights, &level(name), Permission::Alter),
        LevelStatement::Drop { name, .. } => check(rights, &level(name), Permission::Drop),
        LevelStatement::Attach { name, .. } => check(rights, &level(name), Permission::Authorize),
        LevelStatement::Detach { .. } => check(rights, &Resource::Levels, Permission::Authorize),
        LevelStatement::List(Some(name)) => check(rights, &level(name), Permission::Describe),
        LevelStatement::ListEffective(user) | LevelStatement::ListAttached(Some(user))
            if is_own(user) =>
        {
            Ok(())
        }
        LevelStatement::List(None)
        | LevelStatement::ListAttached(_)
        | LevelStatement::ListEffective(_) => {
            check(rights, &Resource::Levels, Permission::Describe)
        }
    }
}

fn change(
    levels: &mut Levels,
    statement: &LevelStatement,
    settings: &[Setting],
) -> Result<(), CqlError> {
    match statement {
        LevelStatement::Create { if_not_exists, name, .. } => {
            match levels.create(name.as_str(), settings) {
                Err(error) if *if_not_exists && error.kind() == ErrorKind::AlreadyExists => Ok(()),
                result => Ok(result?),
            }
        }
        LevelStatement::Alter { name, .. } => Ok(levels.alter(name.as_str(), settings)?),
        LevelStatement::Drop { if_exists, name } => {
            if *if_exists && levels.get(name.as_str()).is_none() {
                return Ok(());
            }
            Ok(levels.drop(name.as_str())?)
        }
        LevelStatement::Attach { name, user } => Ok(levels.attach(name.as_str(), user.as_str())?),
        LevelStatement::Detach { user } => {
            levels.detach(user.as_str());
            Ok(())
        }
        _ => Err(CqlError::unsupported(statement)),
    }
}

/// Returns the setting of an option in a statement.
fn setting((name, value): &(Name, Literal)) -> Result<Setting, CqlError> {
    let option = name.as_str();
    Ok(match option {
        "timeout" => Setting::Timeout(given(value, |value| time("Timeout", value))?),
        "workload_type" => Setting::WorkloadType(
            given(value, workload)?.filter(|workload| *workload != Workload::Unspecified),
        ),
        "shares" => Setting::Shares(given(value, |value| number(option, value))?),
        "max_concurrency" => Setting::MaxConcurrency(given(value, |value| number(option, value))?),
        "max_queue" => Setting::MaxQueue(given(value, |value| number(option, value))?),
        "shed_after" => Setting::ShedAfter(given(value, |value| time(option, value))?),
        "memory_soft" => Setting::MemorySoft(given(value, |value| bytes(option, value))?),
        "memory_hard" => Setting::MemoryHard(given(value, |value| bytes(option, value))?),
        _ => {
            return Err(CqlError::invalid(format!(
                "Unknown property '{option}': the options of a service level are timeout, \
                 workload_type, shares, max_concurrency, max_queue, shed_after, memory_soft and memory_hard"
            )));
        }
    })
}

fn given<T>(
    value: &Literal,
    read: impl FnOnce(&Literal) -> Result<T, CqlError>,
) -> Result<Option<T>, CqlError> {
    if *value == Literal::Null { Ok(None) } else { read(value).map(Some) }
}

fn time(what: &str, value: &Literal) -> Result<Duration, CqlError> {
    let duration = match value {
        Literal::Duration(text) | Literal::String(text) => CqlDuration::parse(text),
        _ => None,
    };
    let wrong = || {
        CqlError::invalid(format!(
            "Invalid {what} value {value}: expected 500ms or the like, or null"
        ))
    };
    timeout(duration.ok_or_else(wrong)?, what)
}

fn workload(value: &Literal) -> Result<Workload, CqlError> {
    let named = |workload: &Workload| match value {
        Literal::String(text) => text.eq_ignore_ascii_case(workload.name()),
        _ => false,
    };
    Workload::ALL.into_iter().find(named).ok_or_else(|| {
        CqlError::invalid(format!(
            "Invalid workload_type {value}: expected 'interactive', 'batch', 'unspecified' or null"
        ))
    })
}

fn number<T: std::str::FromStr>(option: &str, value: &Literal) -> Result<T, CqlError> {
    let number = match value {
        Literal::Integer(digits) => digits.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        CqlError::invalid(format!("Invalid {option} value {value}: expected an integer, or null"))
    })
}

/// Parses a number of bytes, such as `1048576` or `'1MiB'`.
fn bytes(option: &str, value: &Literal) -> Result<u64, CqlError> {
    let Literal::String(text) = value else { return number(option, value) };
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];
    let read = units.into_iter().find_map(|(unit, shift)| {
        let digits = text.strip_suffix(unit)?.trim();
        digits.parse::<u64>().ok()?.checked_mul(1 << shift)
    });
    read.ok_or_else(|| {
        CqlError::invalid(format!(
            "Invalid {option} value {value}: expected bytes, '64MiB' or the like, or null"
        ))
    })
}

fn columns(names: &[&str]) -> Vec<ColumnSpec> {
    let column = |name: &&str| ColumnSpec {
        keyspace: "system".to_owned(),
        table: "service_levels".to_owned(),
        name: (*name).to_owned(),
        data_type: match *name {
            "shares" => DataType::Int,
            "max_concurrency" | "max_queue" | "memory_soft" | "memory_hard" => DataType::Bigint,
            _ => DataType::Text,
        },
    };
    names.iter().map(column).collect()
}

fn text(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

fn listed(levels: &Levels, name: Option<&Name>) -> Rows {
    let is_wanted = |level: &str| name.is_none_or(|name| name.as_str() == level);
    let wanted = levels.iter().filter(|level| is_wanted(&level.level.name));
    let row = |level: &std::sync::Arc<carnet::levels::Effective>| {
        let settings = level.options.settings().map(|setting| value(&setting));
        [text(&level.level.name)].into_iter().chain(settings).collect()
    };
    let names = carnet::levels::ServiceLevel::default().settings();
    let names = names.iter().map(Setting::name);
    let names: Vec<&str> = ["service_level"].into_iter().chain(names).collect();
    Rows { columns: columns(&names).into(), rows: wanted.map(row).collect(), paging_state: None }
}

/// Returns the serialized value of an option.
fn value(setting: &Setting) -> Option<Bytes> {
    let int = |bytes: &[u8]| Some(Bytes::copy_from_slice(bytes));
    let long = |number: u64| int(&i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes());
    match *setting {
        Setting::Shares(shares) => int(&shares?.to_be_bytes()),
        Setting::MaxConcurrency(count) | Setting::MaxQueue(count) => {
            long(u64::try_from(count?).unwrap_or(u64::MAX))
        }
        Setting::MemorySoft(bytes) | Setting::MemoryHard(bytes) => long(bytes?),
        Setting::Timeout(_) | Setting::ShedAfter(_) | Setting::WorkloadType(_) => {
            text(&setting.value()?)
        }
    }
}

fn attached(levels: &Levels, user: Option<&Name>) -> Rows {
    let is_wanted = |name: &str| user.is_none_or(|user| user.as_str() == name);
    let wanted = levels.attachments().filter(|(name, _)| is_wanted(name));
    let rows = wanted.map(|(name, level)| vec![text(name), text(level)]).collect();
    Rows { columns: columns(&["role", "service_level"]).into(), rows, paging_state: None }
}

fn effective(levels: &Levels, names: &[&str]) -> Rows {
    let shown = ["service_level_option", "effective_service_level", "value"];
    let options = levels.effective_options(names);
    let rows = options.iter().map(|option| {
        let value = option.setting.value();
        vec![text(option.setting.name()), text(&option.level), value.as_deref().and_then(text)]
    });
    Rows { columns: columns(&shown).into(), rows: rows.collect(), paging_state: None }
}
