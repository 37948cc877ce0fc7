//! Stock clients, fetched once through pip, npm, Maven and Go, in the versions that `tests/e2e` pins.
//!
//! They are stored under the target directory, or in `$CARNET_E2E_CACHE`. If they are unavailable,
//! a test reports this in one line and is skipped; with `CI=true` it fails.

use std::env;
use std::fs::{self, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::{Guard, e2e, pause};

/// Location of a client; `None` if the test is to be skipped.
pub(crate) type Client = Option<PathBuf>;

/// Returns a Python that has the driver and cqlsh installed.
pub(crate) fn python() -> Client {
    let pins = ["requirements.txt", "data.txt"].map(e2e);
    let home = installed("python", &read(&pins), |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        let pip = || {
            let mut pip = Command::new(home.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]);
            pip
        };
        run(pip().arg("-r").arg(&pins[0]))?;
        run(pip().arg("--no-deps").arg("-r").arg(&pins[1]))
    });
    skip_without("the Python driver", home.map(|home| home.join("bin/python")))
}

/// Returns a Python with a driver and what its tests import, in the folder `python`, beside the
/// source of the tests in the folder `source`. Debian has the only package with the tests.
///
/// The first line of `pins` has Debian's package and release, and the checksum of the source.
pub(crate) fn python_suite(pins: &Path) -> Client {
    let list = fs::read_to_string(pins).unwrap();
    let pin = list.lines().next().unwrap_or_default();
    let words: Vec<&str> = pin.split(' ').collect();
    let [package, release, checksum] = words[..] else { panic!("{}: {words:?}", pins.display()) };
    let packages = e2e("suite.txt");
    let home = installed(
        "python-suite",
        &format!("{pin}\n{}", read(std::slice::from_ref(&packages))),
        |home| {
            let archive = debian_source(home, package, release)?;
            let sum = output(Command::new("sha256sum").arg(&archive))?;
            if !sum.starts_with(checksum) {
                return Err(format!("{} has the checksum {sum}", archive.display()));
            }
            let source = home.join("source");
            fs::create_dir_all(&source).map_err(|error| error.to_string())?;
            // The tests would import the driver beside them, whose extensions are not compiled.
            // The folder must stand before the pattern, or tar ignores it.
            let mut tar = Command::new("tar");
            tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&source);
            run(tar.args(["--strip-components=1", "--wildcards", "*/tests"]))?;
            let python = home.join("python");
            run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
            let mut pip = Command::new(python.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
            run(pip.arg(&packages))
        },
    );
    skip_without("the source of the Python driver's tests", home)
}

/// Fetches the source of a package of a Debian release, with settings of its own: the machine may
/// be of another release. The caller verifies its checksum.
fn debian_source(home: &Path, package: &str, release: &str) -> Result<PathBuf, String> {
    let mut apt = Command::new("apt-get");
    let targets = output(apt.args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let is_archive = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    let archive = targets.lines().find(is_archive).ok_or("apt-get knows no archive of Debian")?;
    let source = format!("deb-src [trusted=yes] {archive} {release} main\n");
    let list = home.join("sources.list");
    fs::write(&list, source).map_err(|error| error.to_string())?;
    for folder in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(home.join(folder)).map_err(|error| error.to_string())?;
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet").current_dir(home);
        for (option, value) in [
            ("Dir::State", home),
            ("Dir::State::lists", &home.join("lists")),
            ("Dir::Cache", home),
            ("Dir::Etc::sourcelist", &list),
            ("Dir::Etc::sourceparts", Path::new("/dev/null")),
        ] {
            apt.arg("-o").arg(format!("{option}={}", value.display()));
        }
        apt
    };
    run(apt().arg("update"))?;
    run(apt().args(["source", "--download-only", "--tar-only", package]))?;
    let files = fs::read_dir(home).map_err(|error| error.to_string())?;
    let names = files.filter_map(|file| Some(file.ok()?.path()));
    let is_source = |path: &PathBuf| path.to_string_lossy().contains(".orig.tar.");
    names.into_iter().find(is_source).ok_or_else(|| format!("{package} has no source"))
}

/// Returns the folder that holds `node_modules`.
pub(crate) fn node() -> Client {
    let pins = [e2e("package.json")];
    let home = installed("node", &read(&pins), |home| {
        fs::copy(&pins[0], home.join("package.json")).map_err(|error| error.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(npm.current_dir(home))
    });
    skip_without("the Node driver", home)
}

/// Returns the program that runs JavaScript.
pub(crate) fn javascript() -> Client {
    let answers = output(Command::new("node").arg("--version")).map(|_| PathBuf::from("node"));
    skip_without("Node.js", answers)
}

/// Chromium, and the folder of the module that drives it.
pub(crate) struct Browser {
    pub(crate) chromium: PathBuf,
    pub(crate) modules: PathBuf,
}

/// Returns the machine's Chromium, with Playwright. `CHROMIUM` names a browser at another place.
pub(crate) fn browser() -> Option<Browser> {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let names = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let found = named.into_iter().chain(names.map(PathBuf::from)).find(|path| path.exists());
    let found =
        found.ok_or_else(|| "no browser is installed (apt-get install chromium)".to_owned());
    let chromium = skip_without("Chromium", found)?;
    let pins = [e2e("dashboard/package.json")];
    let home = installed("browser", &read(&pins), |home| {
        fs::copy(&pins[0], home.join("package.json")).map_err(|error| error.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(npm.current_dir(home))
    });
    let home = skip_without("Playwright", home)?;
    Some(Browser { chromium, modules: home.join("node_modules") })
}

/// Returns the folder that holds the jars of the Java driver.
pub(crate) fn java() -> Client {
    jars("java", "the Java driver", "pom.xml")
}

/// Returns the folder that holds the jars of Spring Data Cassandra.
pub(crate) fn spring() -> Client {
    jars("spring", "Spring Data Cassandra", "spring/pom.xml")
}

fn jars(name: &str, what: &str, pom: &str) -> Client {
    let pins = [e2e(pom)];
    let home = installed(name, &read(&pins), |home| {
        let mut mvn = Command::new("mvn");
        mvn.args(["--batch-mode", "--quiet", "--file"]).arg(&pins[0]);
        mvn.arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies");
        mvn.arg("-DincludeScope=runtime");
        run(mvn.arg(format!("-DoutputDirectory={}", home.join("jars").display())))
    });
    skip_without(what, home.map(|home| home.join("jars")))
}

/// Returns the folder of a Go module with its tests, compiled as `suite.test`. The first line of
/// `pins` is the module, its version and the build tags.
pub(crate) fn go_suite(pins: &Path) -> Client {
    let pin = fs::read_to_string(pins).unwrap();
    let words: Vec<&str> = pin.lines().next().unwrap_or_default().split(' ').collect();
    let [module, version, tags] = words[..] else { panic!("{}: {words:?}", pins.display()) };
    let home = installed("go", &format!("{module} {version} {tags}"), |home| {
        let module = format!("{module}@{version}");
        let mut go = Command::new("go");
        let found = output(go.args(["mod", "download", "-json", &module]).current_dir(home))?;
        let found: serde_json::Value =
            serde_json::from_str(&found).map_err(|error| error.to_string())?;
        // The tests write files, and the module cache is read-only.
        let (source, copy) = (found["Dir"].as_str().unwrap_or_default(), home.join("module"));
        run(Command::new("cp").args(["-r", source]).arg(&copy))?;
        run(Command::new("chmod").args(["-R", "u+w"]).arg(&copy))?;
        let mut go = Command::new("go");
        run(go.args(["test", "-c", "-tags", tags, "-o", "suite.test", "."]).current_dir(&copy))
    });
    skip_without(module, home.map(|home| home.join("module")))
}

/// Builds a Go program of one file with a module that it uses; returns the executable.
pub(crate) fn go_program(source: &Path, module: &str) -> Client {
    let text = fs::read_to_string(source).unwrap();
    let home = installed("go-program", &format!("{module}\n{text}"), |home| {
        let manifest = format!("module program\n\ngo 1.21\n\nrequire {module}\n");
        fs::write(home.join("go.mod"), manifest).map_err(|error| error.to_string())?;
        fs::write(home.join("main.go"), &text).map_err(|error| error.to_string())?;
        run(Command::new("go").args(["mod", "tidy"]).current_dir(home))?;
        run(Command::new("go").args(["build", "-o", "program", "."]).current_dir(home))
    });
    skip_without(module, home.map(|home| home.join("program")))
}

/// Builds the program of `cdrs-tokio`, a crate of its own; returns the executable.
pub(crate) fn cdrs() -> Client {
    let files = ["Cargo.toml", "Cargo.lock", "main.rs"].map(|name| e2e("cdrs").join(name));
    let home = installed("cdrs", &read(&files), |home| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(&files[0]);
        run(cargo.arg("--target-dir").arg(home))
    });
    skip_without("cdrs-tokio", home.map(|home| home.join("debug/cdrs")))
}

fn skip_without(what: &str, found: Result<PathBuf, String>) -> Client {
    match found {
        Ok(path) => Some(path),
        Err(error) if env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("{what} cannot be had: {error}")
        }
        Err(error) => {
            // `eprintln` would be captured in a passing test.
            let _ = writeln!(io::stderr(), "skipped: {what} cannot be had: {error}");
            None
        }
    }
}

/// Installs the pinned versions unless they are installed. Concurrent tests wait for each other.
fn installed(
    name: &str,
    pins: &str,
    install: impl Fn(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let cache = env::var_os("CARNET_E2E_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e"), PathBuf::from);
    let mut hasher = DefaultHasher::new();
    pins.hash(&mut hasher);
    let home = cache.join(format!("{name}-{:016x}", hasher.finish()));
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let _lock = lock(&home.join(".lock"));
    let complete = home.join(".complete");
    if !complete.exists() {
        install(&home)?;
        fs::write(&complete, "").map_err(|error| error.to_string())?;
    }
    Ok(home)
}

#[expect(clippy::disallowed_methods, reason = "not a database's file")]
fn lock(path: &Path) -> fs::File {
    let file = fs::File::create(path).unwrap();
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        pause(Duration::from_millis(50));
    }
    file
}

fn read(pins: &[PathBuf]) -> String {
    pins.iter().map(|pin| fs::read_to_string(pin).unwrap()).collect()
}

fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("it said nothing").to_owned();
    Err(format!("{command:?}: {last}"))
}

/// Clients that transfer money, in a process that outlives the servers: `crash.py`.
pub(crate) struct Bank {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _process: Guard,
}

impl Bank {
    pub(crate) fn start(python: &Path, port: &str, seed: u64, accounts: u32) -> Self {
        let mut command = Command::new(python);
        command.arg(e2e("crash.py")).args([port, &seed.to_string(), &accounts.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut process = Guard::new(child);
        Self { stdin: process.stdin(), stdout: process.stdout(), _process: process }
    }

    /// Sends a command and returns the answer; the clients print violations themselves.
    pub(crate) fn ask(&mut self, command: &str, replay: &str) -> String {
        writeln!(self.stdin, "{command}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "`{command}` failed, see above; {replay}");
        answer.trim_end().to_owned()
    }
}
