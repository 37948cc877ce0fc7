//! The set of service levels of a database, and their attachments to users.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result};

use super::service_level::{ServiceLevel, Setting};
use crate::{Level, LevelId};

/// Name of the level of users without an attached level.
pub const DEFAULT: &str = "default";
/// Name of the level of statements that drivers need to connect: queries of system tables, and
/// PREPARE.
pub const DRIVER: &str = "driver";
/// Default shares of [`DRIVER`].
const DRIVER_SHARES: u32 = 200;

/// Maximum number of levels, [`DEFAULT`] and [`DRIVER`] included.
pub const LEVELS_MAX: usize = 32;
/// Maximum number of users with an attached level.
pub const ATTACHED_MAX: usize = 10_000;
/// Maximum length of a level's name in bytes.
pub const NAME_BYTES_MAX: usize = 48;
/// Maximum length of a user's name in bytes.
pub const USER_BYTES_MAX: usize = 255;

/// Smallest id of a created level.
const ID_FIRST: u64 = 2;

/// A level as applied to statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Id, name and limits for the admission gate.
    pub level: Level,
    /// Options of the level.
    pub options: ServiceLevel,
}

/// An option of a user's effective level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveOption {
    /// The option with its value.
    pub setting: Setting,
    /// Name of the level that sets it.
    pub level: Arc<str>,
}

/// The service levels of a database, and their attachments to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    levels: BTreeMap<Arc<str>, Arc<Effective>>,
    /// Names of attached levels by user.
    attached: BTreeMap<String, Arc<str>>,
    /// Next id. Ids are never reused, because metrics are kept by id.
    next_id: u64,
}

impl Default for Levels {
    fn default() -> Self {
        let driver = ServiceLevel { shares: DRIVER_SHARES, ..ServiceLevel::default() };
        let mut levels =
            Self { levels: BTreeMap::new(), attached: BTreeMap::new(), next_id: ID_FIRST };
        levels.keep(LevelId(0), DEFAULT, ServiceLevel::default());
        levels.keep(LevelId(1), DRIVER, driver);
        levels
    }
}

impl Levels {
    fn keep(&mut self, id: LevelId, name: &str, options: ServiceLevel) {
        let name: Arc<str> = name.into();
        let level = Level { id, name: Arc::clone(&name), limits: options.limits() };
        self.levels.insert(name, Arc::new(Effective { level, options }));
    }

    /// Restores a level that was stored.
    ///
    /// # Errors
    ///
    /// `Invalid` for an invalid name.
    pub fn restore(&mut self, id: LevelId, name: &str, options: ServiceLevel) -> Result<()> {
        check_name("service level", name, NAME_BYTES_MAX)?;
        // Earlier versions accepted options with which no driver connects.
        let options = if name == DRIVER { of_driver(options) } else { options };
        self.keep(id, name, options);
        Ok(())
    }

    /// Restores the attachment of a level to a user.
    ///
    /// # Errors
    ///
    /// `Invalid` for an invalid name of a user.
    pub fn restore_attached(&mut self, user: String, level: String) -> Result<()> {
        check_name("user", &user, USER_BYTES_MAX)?;
        self.attached.insert(user, level.into());
        Ok(())
    }

    /// Restores the [next id](Self::next_id).
    pub const fn restore_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

    /// Returns the id of the next level that is created. Ids are never reused, because metrics are kept by id.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Creates a level.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `Invalid` for an invalid name or value, or above [`LEVELS_MAX`] levels.
    pub fn create(&mut self, name: &str, settings: &[Setting]) -> Result<()> {
        check_name("service level", name, NAME_BYTES_MAX)?;
        if self.get(name).is_some() {
            let message = format!("Service level '{name}' already exists");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        if self.levels.len() >= LEVELS_MAX {
            return Err(Error::invalid(format!(
                "Can't create service level '{name}': no more than {LEVELS_MAX} service levels can exist, \
                 {DEFAULT} and {DRIVER} included"
            )));
        }
        let options = with(ServiceLevel::default(), settings)?;
        self.keep(LevelId(self.next_id), name, options);
        self.next_id += 1;
        Ok(())
    }

    /// Sets and resets options of a level; other options keep their values.
    ///
    /// # Errors
    ///
    /// `Invalid` if the level does not exist, or for an invalid value.
    pub fn alter(&mut self, name: &str, settings: &[Setting]) -> Result<()> {
        let old = self.get(name).ok_or_else(|| no_level(name))?;
        let (id, options) = (old.level.id, with(old.options, settings)?);
        if name == DRIVER && options != of_driver(options) {
            // They would also apply to the statement that resets them, and to the log-in before it.
            return Err(Error::invalid(format!(
                "The {DRIVER} service level takes shares, max_concurrency and max_queue only: drivers connect by it"
            )));
        }
        self.keep(id, name, options);
        Ok(())
    }

    /// Drops a level, and detaches it from all users.
    ///
    /// # Errors
    ///
    /// `Invalid` if the level does not exist or is built in.
    pub fn drop(&mut self, name: &str) -> Result<()> {
        if matches!(name, DEFAULT | DRIVER) {
            return Err(Error::invalid(format!("The {name} service level cannot be dropped")));
        }
        self.levels.remove(name).ok_or_else(|| no_level(name))?;
        self.attached.retain(|_, level| &**level != name);
        Ok(())
    }

    /// Attaches a level to a user, replacing an attached one.
    ///
    /// # Errors
    ///
    /// `Invalid` if the level does not exist or is [`DRIVER`], or above [`ATTACHED_MAX`] users.
    pub fn attach(&mut self, name: &str, user: &str) -> Result<()> {
        check_name("user", user, USER_BYTES_MAX)?;
        if name == DRIVER {
            return Err(Error::invalid(format!("The {DRIVER} service level cannot be attached")));
        }
        let level = self.get(name).ok_or_else(|| no_level(name))?;
        let level = Arc::clone(&level.level.name);
        if self.attached.len() >= ATTACHED_MAX && !self.attached.contains_key(user) {
            return Err(Error::invalid(format!(
                "service levels are attached to {ATTACHED_MAX} users already, the maximum: \
                 detach some"
            )));
        }
        self.attached.insert(user.to_owned(), level);
        Ok(())
    }

    /// Detaches the level of a user, if there is one.
    pub fn detach(&mut self, user: &str) {
        self.attached.remove(user);
    }

    /// Returns the level with a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Effective>> {
        self.levels.get(name)
    }

    /// Returns all levels in ascending order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Effective>> {
        self.levels.values()
    }

    /// Returns the name of a user's attached level.
    #[must_use]
    pub fn attached(&self, user: &str) -> Option<&Arc<str>> {
        self.attached.get(user)
    }

    /// Returns all users with an attached level, with the level's name.
    pub fn attachments(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        self.attached.iter().map(|(user, level)| (user.as_str(), level))
    }

    /// Returns the [`DRIVER`] level.
    #[must_use]
    pub fn driver(&self) -> Arc<Effective> {
        self.built_in(DRIVER)
    }

    /// Returns the merged level of a user, given the user's name (and, in future, role names);
    /// [`DEFAULT`] if none of them has an attached level.
    #[must_use]
    pub fn effective(&self, names: &[&str]) -> Arc<Effective> {
        let mut levels = self.levels_of(names);
        let Some(first) = levels.next() else { return self.built_in(DEFAULT) };
        let mut merged = Arc::clone(first);
        for next in levels {
            // The merged level counts under the id of the level with the fewest shares.
            let options = merged.options.merge(&next.options);
            let fewer = if next.options.shares < merged.options.shares { next } else { &merged };
            let level = Level { limits: options.limits(), ..fewer.level.clone() };
            merged = Arc::new(Effective { level, options });
        }
        merged
    }

    /// Returns the set options of the [effective](Self::effective) level, each with the level that
    /// sets it.
    #[must_use]
    pub fn effective_options(&self, names: &[&str]) -> Vec<EffectiveOption> {
        let effective = self.effective(names);
        let default = self.built_in(DEFAULT);
        let levels: Vec<_> = self.levels_of(names).collect();
        let levels = if levels.is_empty() { vec![&default] } else { levels };
        let set = effective.options.settings().into_iter().filter(|set| set.value().is_some());
        let source = |setting: Setting| {
            let has = |level: &&&Arc<Effective>| level.options.settings().contains(&setting);
            let level = levels.iter().find(has)?;
            Some(EffectiveOption { setting, level: Arc::clone(&level.level.name) })
        };
        set.filter_map(source).collect()
    }

    fn levels_of(&self, names: &[&str]) -> impl Iterator<Item = &Arc<Effective>> {
        names.iter().filter_map(|name| self.get(self.attached(name)?))
    }

    fn built_in(&self, name: &str) -> Arc<Effective> {
        Arc::clone(self.get(name).expect("default and driver are never dropped"))
    }
}

fn with(mut options: ServiceLevel, settings: &[Setting]) -> Result<ServiceLevel> {
    settings.iter().for_each(|setting| options.set(*setting));
    options.check()?;
    // Options that were set before are not checked: earlier versions have stored such levels.
    if settings.contains(&Setting::ShedAfter(Some(Duration::ZERO))) {
        return Err(Error::invalid("shed_after has to be at least 1ms"));
    }
    Ok(options)
}

/// Returns the options that can be set for [`DRIVER`]; the others have their defaults.
const fn of_driver(options: ServiceLevel) -> ServiceLevel {
    ServiceLevel {
        timeout: None,
        workload_type: None,
        shed_after: None,
        memory_soft: None,
        memory_hard: None,
        ..options
    }
}

/// Makes the error for a level that does not exist.
#[must_use]
pub fn no_level(name: &str) -> Error {
    Error::invalid(format!("Service Level {name} doesn't exist."))
}

/// Checks the name of a level or a user.
///
/// # Errors
///
/// `Invalid` for an empty or too long name.
pub fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the name of a {what} cannot be empty")));
    }
    if name.len() > bytes_max {
        let message = format!(
            "the name of a {what} has {} bytes, at most {bytes_max} are allowed",
            name.len()
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn levels_that_always_exist_cannot_be_dropped() {
        let mut levels = Levels::default();
        assert!(levels.drop(DEFAULT).is_err());
        assert!(levels.drop(DRIVER).is_err());
        assert!(levels.attach(DRIVER, "ann").is_err());
        levels.alter(DRIVER, &[Setting::MaxQueue(Some(9)), Setting::Shares(Some(200))]).unwrap();
        levels.alter(DEFAULT, &[Setting::Shares(Some(5))]).unwrap();
        assert_eq!(levels.effective(&["ann"]).level.limits.shares, 5);
        assert_eq!(levels.driver().options.shares, 200);
    }

    /// These options would refuse log-ins, and the statement that resets them.
    #[test]
    fn level_of_drivers_has_no_option_that_refuses() {
        let millis = Duration::from_millis;
        let refusing = [
            Setting::Timeout(Some(millis(1))),
            Setting::WorkloadType(Some(Workload::Interactive)),
            Setting::ShedAfter(Some(millis(1))),
            Setting::MemorySoft(Some(1)),
            Setting::MemoryHard(Some(1)),
        ];
        let mut levels = Levels::default();
        for setting in refusing {
            let error = levels.alter(DRIVER, &[setting]).unwrap_err();
            assert!(error.to_string().contains("takes shares"), "{setting:?}: {error}");
            let mut stored = ServiceLevel { shares: 7, ..ServiceLevel::default() };
            stored.set(setting);
            levels.restore(LevelId(1), DRIVER, stored).unwrap();
            let expected = ServiceLevel { shares: 7, ..ServiceLevel::default() };
            assert_eq!(levels.driver().options, expected, "{setting:?}");
        }
    }

    #[test]
    fn level_that_refuses_all_statements_is_not_made() {
        let zero = Setting::ShedAfter(Some(Duration::ZERO));
        let mut levels = Levels::default();
        assert!(levels.create("gold", &[zero]).is_err());
        levels.create("gold", &[Setting::ShedAfter(Some(Duration::from_millis(1)))]).unwrap();
        assert!(levels.alter("gold", &[zero]).is_err());
    }

    #[test]
    fn dropped_level_is_detached_and_id_not_reused() {
        let mut levels = Levels::default();
        levels.create("gold", &[]).unwrap();
        levels.attach("gold", "ann").unwrap();
        let id = levels.effective(&["ann"]).level.id;
        levels.drop("gold").unwrap();
        assert_eq!(levels.attached("ann"), None);
        assert_eq!(&*levels.effective(&["ann"]).level.name, DEFAULT);
        levels.create("gold", &[]).unwrap();
        assert_ne!(levels.get("gold").unwrap().level.id, id);
        assert!(levels.drop("silver").is_err());
    }

    #[test]
    fn alter_keeps_the_other_options() {
        let mut levels = Levels::default();
        let timeout = Setting::Timeout(Some(Duration::from_millis(5)));
        levels.create("gold", &[timeout, Setting::MaxQueue(Some(3))]).unwrap();
        levels.alter("gold", &[Setting::Timeout(None), Setting::Shares(Some(9))]).unwrap();
        let options = levels.get("gold").unwrap().options;
        assert_eq!((options.timeout, options.max_queue, options.shares), (None, Some(3), 9));
        assert!(levels.alter("gold", &[Setting::Shares(Some(0))]).is_err());
        assert_eq!(levels.get("gold").unwrap().options, options, "a refused change does nothing");
    }

    #[test]
    fn numbers_of_levels_and_attachments_are_bounded() {
        let mut levels = Levels::default();
        let mut number = 0;
        while levels.create(&format!("l{number}"), &[]).is_ok() {
            number += 1;
        }
        assert_eq!(number + 2, LEVELS_MAX);
        for user in 0..ATTACHED_MAX {
            levels.attach("l0", &user.to_string()).unwrap();
        }
        assert!(levels.attach("l0", "one more").is_err());
        levels.attach("l1", "7").unwrap();
        levels.detach("7");
        levels.attach("l0", "one more").unwrap();
        assert!(levels.create(&"x".repeat(NAME_BYTES_MAX + 1), &[]).is_err());
        assert!(levels.attach("l0", "").is_err());
    }

    #[test]
    fn effective_options_name_their_levels() {
        let mut levels = Levels::default();
        let timeout = |millis| Setting::Timeout(Some(Duration::from_millis(millis)));
        let workload = Setting::WorkloadType(Some(Workload::Batch));
        levels.create("one", &[timeout(100), Setting::Shares(Some(500))]).unwrap();
        levels.create("two", &[timeout(200), workload, Setting::Shares(Some(50))]).unwrap();
        levels.attach("one", "ann").unwrap();
        levels.attach("two", "staff").unwrap();
        let effective = levels.effective(&["ann", "staff"]);
        assert_eq!(&*effective.level.name, "two", "the level of the fewest shares is counted");
        assert_eq!(effective.level.limits.shares, 50);
        let options = levels.effective_options(&["ann", "staff"]);
        let shown: Vec<_> =
            options.iter().map(|option| (option.setting.name(), &*option.level)).collect();
        assert_eq!(shown, [("timeout", "one"), ("workload_type", "two"), ("shares", "two")]);
    }
}
